"""What a watch does with a cluster that is gone; clusters of real processes are in tests/systems."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest

from pipeline.connection.cluster import GONE, NO_WORKER, ClusterWatch
from pipeline.connection.timeouts import Timeouts
from pipeline.errors import ClusterLost


@dataclass
class Client:
    """A client whose scheduler never answers, and what it was asked."""

    status: str
    asked: list[str] = field(default_factory=list)

    def cancel(self, futures: list[Any], force: bool) -> None:
        del futures, force
        self.asked.append("cancel")

    def sync(self, function: Any, **arguments: Any) -> Any:
        del function, arguments
        self.asked.append("sync")
        raise TimeoutError


@pytest.mark.parametrize(("status", "asked"), [("connecting", []), ("running", ["cancel"])])
def test_a_scheduler_that_is_gone_is_not_asked_to_cancel(status: str, asked: list[str]) -> None:
    """A client that tries to connect anew would wait for it, and the command with it."""
    client = Client(status)
    raised = pytest.raises(ZeroDivisionError if asked else ClusterLost)
    with raised, ClusterWatch(client, Timeouts(poll=60)).guard("sums"):
        _ = 1 // 0
    assert client.asked == asked


@dataclass
class Answering:
    """A client whose scheduler tells one after another of these workers, address -> name."""

    answers: list[dict[str, str]]
    status: str = "running"
    scheduler: Any = field(default_factory=lambda: SimpleNamespace(identity=None))

    def sync(self, function: Any, **arguments: Any) -> Any:
        del function, arguments
        return {"workers": {address: {"name": name} for address, name in self.answers.pop(0).items()}}


def test_a_worker_that_has_left_is_told_by_its_name_once() -> None:
    first, again = {"tcp://a:1": "w1", "tcp://b:1": "w2"}, {"tcp://a:2": "w1", "tcp://b:1": "w2"}
    told: list[str] = []
    news = lambda kind, worker: told.append(worker if kind == GONE else kind)  # noqa: E731
    watch = ClusterWatch(Answering([first, first, again, again, {}, {}]), Timeouts(), news)
    troubles = [watch._trouble() for _ in range(6)]
    assert troubles == ["", "", "", "", NO_WORKER, NO_WORKER]
    assert told[0] == "w1"  # started again, at another address
    assert sorted(told[1:]) == ["w1", "w2"]


def test_whoever_cannot_tell_does_not_end_the_watch() -> None:
    def full(kind: str, worker: str) -> None:
        raise OSError(28, f"No space left on device: {kind}", worker)

    watch = ClusterWatch(Answering([{"tcp://a:1": "w1"}, {}, {}]), Timeouts(), full)
    assert [watch._trouble() for _ in range(3)] == ["", NO_WORKER, NO_WORKER]
