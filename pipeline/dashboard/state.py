"""What is known of a run: its messages folded, one after another, into a state of bounded size. No Dask here.

Whoever drives a run tells what happens (`pipeline.watching.telling`); the state lives with the scheduler, so it is
there for a page that is opened late. Messages are taken with care: what is not understood is passed over.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pipeline.dashboard.facts import count, items, mapping, number, text
from pipeline.dashboard.series import Series

MOST_STEPS = 500
MOST_MODELS = 60  # of which iterations, rounds or a tree are kept
MOST_DEPTHS = 64
MOST_NEWS = 40

TO_DO, RUNNING, DONE, REUSED, STOPPED = "to do", "running", "done", "reused", "stopped"
STEP_STATES = (TO_DO, RUNNING, DONE, REUSED, STOPPED)
RUN_STATES = ("running", "finished", "failed", "interrupted", "driver gone")
ITERATION = ("number", "pair", "iteration", "objective", "gap", "rank")
ROUND = ("round", "loss", "step")
PAIR = ("pair", "lambda1", "lambda2", "objective", "gap", "rank", "top1")


@dataclass
class Call:
    """The call in hand: one wave of tasks of a step."""

    name: str = ""
    done: int = 0
    total: int = 0
    rate: float | None = None  # rows per second
    eta: float | None = None  # seconds

    @property
    def share(self) -> float:
        return min(1.0, self.done / self.total) if self.total else 0.0


@dataclass
class StepState:
    """One step of a run; times are seconds of the scheduler's clock."""

    name: str
    state: str = TO_DO
    reason: str = ""
    started: float | None = None
    seconds: float | None = None
    tasks: int = 0  # ended so far, of all calls
    expected: int = 0  # of the calls so far
    rows: int = 0
    call: Call = field(default_factory=Call)
    part: tuple[int, int] = (0, 0)  # rounds (or pairs) that are behind, and how many there are
    part_name: str = ""
    parts_began: float | None = None

    def share(self) -> float:
        """How much of the step is behind, as far as is known: of its rounds and of the call in hand."""
        if self.state in (DONE, REUSED):
            return 1.0
        behind, of = self.part
        return min(1.0, (behind + self.call.share) / of) if of and behind < of else self.call.share

    def eta(self, now: float) -> float | None:
        """Seconds that are left, as far as is known: from its rounds so far, or of the call in hand."""
        behind, of = self.part
        if self.state != RUNNING:
            return None
        if self.part_name == "round" and behind and self.parts_began is not None:
            return max(0.0, now - self.parts_began) * (of - behind - self.call.share) / (behind + self.call.share)
        return self.call.eta

    def as_json(self, now: float) -> dict[str, Any]:
        running = self.state == RUNNING and self.started is not None
        return {
            "step": self.name,
            "state": self.state,
            "reason": self.reason,
            "seconds": max(0.0, now - (self.started or 0.0)) if running else self.seconds,
            "share": self.share(),
            "eta": self.eta(now),
            "tasks": self.tasks,
            "tasks_expected": self.expected,
            "rows": self.rows,
            "rows_per_second": self.call.rate if running else None,
            "call": {"name": self.call.name, "done": self.call.done, "total": self.call.total} if running else None,
            "part": {"name": self.part_name, "done": self.part[0], "of": self.part[1]} if self.part[1] else None,
        }


@dataclass
class TreeDepth:
    """Nodes of a growing tree at one depth; accuracy and measure are means over their rows, None when not known."""

    depth: int
    nodes: int = 0
    rows: int = 0
    accuracy: float | None = None
    measure: float | None = None

    def as_json(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in ("depth", "nodes", "rows", "accuracy", "measure")}


@dataclass
class TreeState:
    """A tree as it grows.

    measure  what the splits are measured by: ambiguity, or the classes that go both ways
    waiting  nodes that are known and not grown yet
    """

    measure: str = ""
    waiting: int = 0
    depths: list[TreeDepth] = field(default_factory=list)

    @property
    def nodes(self) -> int:
        return sum(depth.nodes for depth in self.depths)

    def as_json(self) -> dict[str, Any]:
        depths = [depth.as_json() for depth in self.depths]
        return {"nodes": self.nodes, "waiting": self.waiting, "measure": self.measure, "depths": depths}


@dataclass
class RunState:
    """One attempt at a run, from its messages.

    token    names the attempt
    client   the Dask client that drives it
    planned  bytes that the plan allows a worker to hold; limit: what a worker may hold, 0 when not known
    """

    token: str
    name: str = ""
    folder: str = ""
    client: str = ""
    state: str = "running"
    error: str = ""
    started: float = 0.0
    ended: float | None = None
    planned: int = 0
    limit: int = 0
    steps: dict[str, StepState] = field(default_factory=dict)
    current: str = ""
    before: Call = field(default_factory=Call)  # what is looked at before the first step
    iterations: dict[str, Series] = field(default_factory=dict)
    rounds: dict[str, Series] = field(default_factory=dict)
    pairs: dict[str, Series] = field(default_factory=dict)
    trees: dict[str, TreeState] = field(default_factory=dict)
    faults: dict[str, int] = field(default_factory=dict)
    news: deque[tuple[float, str]] = field(default_factory=lambda: deque(maxlen=MOST_NEWS))

    @property
    def live(self) -> bool:
        return self.ended is None

    def seconds(self, now: float) -> float:
        return max(0.0, (now if self.ended is None else self.ended) - self.started)

    def fold(self, event: Mapping[str, Any], now: float) -> None:
        """One message more; `now` is when it happened, by the scheduler's clock."""
        folding = FOLDS.get(text(event.get("event")))
        if folding is not None:
            folding(self, event, now)

    def end(self, state: str, now: float, error: str = "") -> None:
        """The attempt is over."""
        if not self.live:
            return
        self.state, self.ended, self.error = state, now, error
        for step in self.steps.values():
            if step.state == RUNNING:
                step.state, step.seconds = STOPPED, max(0.0, now - (step.started or now))
        if error:
            self.news.append((now, f"{state}: {error}"))

    def fault(self, kind: str, number_of: int, now: float, said: str = "") -> None:
        """Something that went wrong and was mended, or not."""
        if number_of and (kind in self.faults or len(self.faults) < MOST_NEWS):
            self.faults[kind] = self.faults.get(kind, 0) + number_of
            self.news.append((now, said or kind))

    def step(self, name: str) -> StepState | None:
        """A step by its name, made when it is new; None when there are too many."""
        if name not in self.steps and name and len(self.steps) < MOST_STEPS:
            self.steps[name] = StepState(name)
        return self.steps.get(name)

    def as_json(self, now: float) -> dict[str, Any]:
        """Plain finite values."""
        return {
            "run": self.name,
            "token": self.token,
            "folder": self.folder,
            "state": self.state,
            "error": self.error,
            "started": self.started,
            "seconds": self.seconds(now),
            "planned_worker_bytes": self.planned,
            "worker_limit_bytes": self.limit,
            "current": self.current,
            "steps": [step.as_json(now) for step in self.steps.values()],
            "iterations": {name: series.as_json() for name, series in self.iterations.items()},
            "rounds": {name: series.as_json() for name, series in self.rounds.items()},
            "pairs": {name: series.as_json() for name, series in self.pairs.items()},
            "trees": {name: tree.as_json() for name, tree in self.trees.items()},
            "faults": dict(self.faults),
            "news": [[when, said] for when, said in self.news],
        }


def _run(run: RunState, event: Mapping[str, Any], now: float) -> None:
    if run.steps or run.name:
        return  # said twice: the first time, no answer came back
    run.name, run.folder, run.client = (text(event.get(key)) for key in ("name", "folder", "client"))
    run.started = now
    run.planned, run.limit = count(event.get("planned_bytes")), count(event.get("limit_bytes"))
    for one in items(event.get("steps"), MOST_STEPS):
        said = mapping(one)
        step = run.step(text(said.get("step")))
        if step is not None:
            step.state = REUSED if said.get("reused") is True else TO_DO
            step.reason = text(said.get("reason"))


def _step(run: RunState, event: Mapping[str, Any], now: float) -> None:
    step = run.step(text(event.get("step")))
    if step is not None:
        run.current = step.name
        step.state, step.started, step.reason = RUNNING, now, text(event.get("reason"))


def _done(run: RunState, event: Mapping[str, Any], now: float) -> None:
    step = run.step(text(event.get("step")))
    if step is not None:
        taken = max(0.0, now - (now if step.started is None else step.started))
        step.state, step.seconds = DONE, number(event.get("seconds")) or taken


def _progress(run: RunState, event: Mapping[str, Any], now: float) -> None:
    step = run.step(text(event.get("step")))
    done, total = (count(event.get(key)) for key in ("done", "total"))
    call = Call(text(event.get("call")), done, total, number(event.get("rate")), number(event.get("eta")))
    if step is None:
        run.before = call
    if step is None or step.state in (DONE, REUSED):
        return
    if step.state == TO_DO:
        step.state, step.started, run.current = RUNNING, now, step.name
    step.call = call
    step.tasks, step.expected, step.rows = (count(event.get(key)) for key in ("tasks", "expected", "rows"))
    if step.part_name == "round" and step.parts_began is None:
        step.parts_began = now


def _series(kept: dict[str, Series], model: str, columns: tuple[str, ...]) -> Series | None:
    if model and model not in kept and len(kept) < MOST_MODELS:
        kept[model] = Series(columns)
    return kept.get(model)


def _fitting(run: RunState, event: Mapping[str, Any], now: float) -> None:
    """A fit of so many rounds begins, or goes on after some of them."""
    step = run.steps.get(run.current)
    if step is not None:
        step.part_name, step.parts_began = "round", now
        step.part = (0, count(event.get("rounds")))


def _round(run: RunState, event: Mapping[str, Any], now: float) -> None:  # noqa: ARG001
    series = _series(run.rounds, text(event.get("model")), ROUND)
    if series is None:
        return
    behind = count(event.get("round")) + 1
    if series.rows and behind <= (series.last("round") or 0):
        series.clear()  # the fit began anew with a shorter step, or another fit of this model has begun
    series.add(round=behind, loss=number(event.get("loss")), step=number(event.get("step")))
    step = run.steps.get(run.current)
    if step is not None:
        step.part, step.part_name = (behind, count(event.get("rounds"))), "round"
        step.call = Call()


def _solving(run: RunState, event: Mapping[str, Any], now: float) -> None:  # noqa: ARG001
    step = run.steps.get(run.current)
    if step is not None:
        step.part, step.part_name = (max(0, count(event.get("pair"), 1) - 1), count(event.get("pairs"))), "pair"


def _iteration(run: RunState, event: Mapping[str, Any], now: float) -> None:  # noqa: ARG001
    series = _series(run.iterations, text(event.get("model")), ITERATION)
    objective, gap = number(event.get("objective")), number(event.get("gap"))
    if series is None or objective is None:
        return
    series.add(
        number=series.seen + 1,
        pair=number(event.get("pair")),
        iteration=number(event.get("iteration")),
        objective=objective,
        gap=None if gap is None else gap / max(abs(objective), 1e-300),
        rank=number(event.get("rank")),
    )


def _pair(run: RunState, event: Mapping[str, Any], now: float) -> None:  # noqa: ARG001
    series = _series(run.pairs, text(event.get("model")), PAIR)
    if series is not None:
        series.add(**{name: number(event.get(name)) for name in PAIR})
    step = run.steps.get(run.current)
    if step is not None and step.part_name == "pair":
        step.part = (min(step.part[1], count(event.get("pair"))), step.part[1])


def _nodes(run: RunState, event: Mapping[str, Any], now: float) -> None:  # noqa: ARG001
    model = text(event.get("model"))
    if not model or (model not in run.trees and len(run.trees) >= MOST_MODELS):
        return
    found = [mapping(one) for one in items(event.get("depths"), MOST_DEPTHS)]
    depths = [
        TreeDepth(
            count(one.get("depth")),
            count(one.get("nodes")),
            count(one.get("rows")),
            number(one.get("accuracy")),
            number(one.get("measure")),
        )
        for one in found
    ]
    run.trees[model] = TreeState(text(event.get("measure")), count(event.get("waiting")), depths)


def _damaged(run: RunState, event: Mapping[str, Any], now: float) -> None:
    found = items(event.get("found"), MOST_STEPS)
    said = f"{text(event.get('step'))}: {text(found[0]) if found else 'damaged'}; it is made again"
    run.fault("damaged", max(1, len(found)), now, said)


def _fault(run: RunState, event: Mapping[str, Any], now: float) -> None:
    run.fault(text(event.get("kind"), "fault"), count(event.get("count"), 1), now, text(event.get("said")))


def _end(run: RunState, event: Mapping[str, Any], now: float) -> None:
    kind = text(event.get("event"))
    error = ": ".join(filter(None, (text(event.get("error")), text(event.get("message")))))
    run.end(kind, now, error)


FOLDS = {
    "run": _run,
    "step": _step,
    "done": _done,
    "progress": _progress,
    "fitting": _fitting,
    "round": _round,
    "solving": _solving,
    "iteration": _iteration,
    "pair": _pair,
    "nodes": _nodes,
    "damaged": _damaged,
    "fault": _fault,
    "finished": _end,
    "failed": _end,
    "interrupted": _end,
}
