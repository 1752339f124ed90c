"""What a watch does with a cluster that is gone; clusters of real processes are in tests/systems."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest

from pipeline.connection.cluster import ClusterWatch
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
