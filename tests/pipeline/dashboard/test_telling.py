"""A run tells of itself in batches, in order, and is neither held up nor ended by whoever does not listen."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest

from pipeline.dashboard.board import Board
from pipeline.watching.fit_watch import ToldRounds
from pipeline.watching.telling import FAILURES, MOST_BATCH, MOST_WAITING, Audience, Teller
from pipeline.watching.tree_watch import TreeWatch

Batches = list[dict[str, Any]]


class Heard:
    """Takes batches, as the scheduler does."""

    def __init__(self) -> None:
        self.batches: Batches = []
        self.board = Board()

    def __call__(self, batch: dict[str, Any]) -> None:
        self.batches.append(batch)
        self.board.take(batch, time.time())

    def events(self) -> list[dict[str, Any]]:
        return [event for batch in self.batches for event in batch["events"]]


def told(heard: Any, every: float = 60.0) -> Teller:
    """A teller that has begun; what it is told leaves when it is closed."""
    teller = Teller(heard, every)
    teller.start(name="flowers", steps=[{"step": "a"}, {"step": "b"}], client="c")
    return teller


def test_order_is_kept_and_of_progress_only_the_newest_is_sent() -> None:
    heard = Heard()
    teller = told(heard)
    teller.tell("step", step="a")
    for done in range(50):
        teller.progress("call", done, 50, 10 * done, 500)
    teller.tell("done", step="a", seconds=1.5)
    teller.tell("step", step="b")
    teller.progress("call", 0, 7, 0, 70)
    teller.close()
    kinds = [event["event"] for event in heard.events()]
    assert kinds == ["run", "step", "progress", "done", "step", "progress"]
    first, second = (event for event in heard.events() if event["event"] == "progress")
    assert (first["step"], first["done"], first["tasks"], first["rows"]) == ("a", 49, 49, 490)
    assert (second["step"], second["done"], second["tasks"], second["expected"]) == ("b", 0, 0, 7)


def test_tasks_add_up_over_the_calls_of_a_step() -> None:
    heard = Heard()
    teller = told(heard)
    teller.tell("step", step="a")
    for _ in range(3):  # rounds of one name
        for done in range(5):
            teller.progress("sgd", done, 4, done, 4)
    teller.progress("grow", 0, 1, 0, 5)  # a call that grows
    teller.progress("grow", 1, 1, 5, 5)
    teller.progress("grow", 1, 3, 5, 9)
    teller.progress("grow", 2, 3, 7, 9)
    teller.close()
    last = heard.events()[-1]
    assert (last["tasks"], last["expected"], last["rows"]) == (3 * 4 + 2, 3 * 4 + 3, 3 * 4 + 7)


def test_it_sends_of_itself_while_it_works() -> None:
    came = threading.Event()
    teller = Teller(lambda batch: came.set() if len(batch["events"]) > 1 else None, every=0.01)
    teller.start(name="flowers")
    teller.tell("step", step="a")
    assert came.wait(30)
    teller.close()


def test_nobody_listens() -> None:
    tried: list[int] = []

    def refuses(batch: dict[str, Any]) -> None:  # noqa: ARG001
        tried.append(1)
        raise OSError("gone")

    teller = Teller(refuses, every=0.001)
    teller.start(name="flowers")
    limit = time.monotonic() + 30
    while len(tried) < FAILURES and time.monotonic() < limit:
        teller.tell("round", model="m")
        time.sleep(0.002)
    for _ in range(50):
        teller.tell("round", model="m")
        time.sleep(0.002)
    teller.close()
    assert len(tried) == FAILURES


def test_a_scheduler_that_never_answers_holds_nobody_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pipeline.watching.telling.LAST_SECONDS", 0.2)
    release = threading.Event()
    teller = Teller(lambda batch: release.wait(60) and None, every=0.001)  # noqa: ARG005
    teller.start(name="flowers")
    for i in range(20 * MOST_WAITING):
        teller.tell("round", model="m", round=i)
        teller.tell_latest("nodes", f"m{i}", x=1)
    assert len(teller._waiting) <= MOST_WAITING
    assert len(teller._latest) <= MOST_BATCH
    teller.close()
    assert teller._thread.is_alive()  # it still waits, and nobody for it
    release.set()


def test_the_beginning_is_sent_again_until_it_was_heard() -> None:
    heard, refused = Heard(), [1, 1]

    def late(batch: dict[str, Any]) -> None:
        if refused:
            refused.pop()
            raise TimeoutError
        heard(batch)

    teller = Teller(late, every=0.005)
    teller.start(name="flowers", steps=[{"step": "a"}])
    limit = time.monotonic() + 30
    while not heard.batches and time.monotonic() < limit:
        teller.tell("step", step="a")
        time.sleep(0.005)
    teller.tell("step", step="a")  # those before may all have been in a batch that was refused
    teller.close()
    (run,) = heard.board.newest_first()
    assert (run.name, run.steps["a"].state) == ("flowers", "running")
    assert [event["event"] for event in heard.events()].count("run") == 1


class Kept:
    """A checkpoint in memory."""

    def __init__(self) -> None:
        self.saved: list[int] = []

    def load(self) -> None:
        return None

    def save(self, round_index: int, parameters: Any, history: list[dict[str, float]]) -> None:  # noqa: ARG002
        self.saved.append(round_index)


def test_rounds_are_told_when_they_are_kept() -> None:
    said: list[tuple[str, dict[str, Any]]] = []
    kept = Kept()
    rounds = ToldRounds(kept, "ovr", 5, lambda kind, **fields: said.append((kind, fields)), lambda *_, **__: None)
    history = [{"round": 0, "loss": 2.0, "step": 0.1, "rows": 10, "operations": 7.0}]
    rounds.save(1, {}, history)
    assert kept.saved == [1]
    assert said == [("round", {"model": "ovr", "rounds": 5, "round": 0, "loss": 2.0, "step": 0.1, "rows": 10})]


def test_a_tree_of_many_nodes_writes_few_lines() -> None:
    lines: list[dict[str, Any]] = []
    shown: list[dict[str, Any]] = []
    watch = TreeWatch(
        "t", "ambiguity", lambda _, **fields: lines.append(fields), lambda _, **fields: shown.append(fields)
    )
    watch.ended(0, 1000, 20_000, 100, 0.5, 0.25)
    for i in range(20_000):
        watch.ended(1, 10, 0, 1 if i % 2 else 3, 1.0 if i % 2 else 0.0, 0.5)
    watch.close()
    assert len(lines) < 60
    assert len(lines) + len(shown) == 20_001 + (lines[-1]["waiting"] == 0)
    root, below = lines[-1]["depths"]
    assert (root["nodes"], root["rows"], root["accuracy"], root["measure"]) == (1, 1000, 0.5, 0.25)
    assert (below["nodes"], below["rows"], below["accuracy"], below["measure"]) == (20_000, 200_000, 0.25, 0.5)


def test_what_is_written_is_told_too() -> None:
    written: list[str] = []
    told_too: list[str] = []
    event = Audience(lambda kind, **_: told_too.append(kind)).beside(lambda kind, **_: written.append(kind))
    event("pair", model="m")
    assert written == told_too == ["pair"]
