"""The board as Prometheus metrics. Names are stable; labels are bounded, as the board is."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from pipeline.dashboard.board import CLUSTER_FAULTS, RUN_FAULTS, Board
from pipeline.dashboard.state import RUN_STATES, STEP_STATES, RunState

PREFIX = "labelgrove_"
MOST_STEPS = 200  # of a run that have metrics of their own
Sample = tuple[tuple[str, ...], float | None]


@dataclass(frozen=True)
class Described:
    """One metric: its name without the prefix, labels, meaning; a counter ends in _total."""

    name: str
    labels: tuple[str, ...]
    meaning: str
    samples: Callable[[Board], Iterator[Sample]]

    @property
    def full_name(self) -> str:
        return PREFIX + self.name

    def family(self, board: Board) -> Metric:
        counter = self.name.endswith("_total")
        made = (CounterMetricFamily if counter else GaugeMetricFamily)(
            self.full_name.removesuffix("_total"), self.meaning, labels=self.labels
        )
        for labels, value in self.samples(board):
            if value is not None:
                made.add_metric(labels, value)
        return made


def run_label(run: RunState) -> str:
    """Name and token: a run that is begun again is another one."""
    return f"{run.name}/{run.token[:6]}"


def _runs(value: Callable[[RunState], float | None]) -> Callable[[Board], Iterator[Sample]]:
    def samples(board: Board) -> Iterator[Sample]:
        for run in board.runs.values():
            yield (run_label(run),), value(run)

    return samples


def _run_states(board: Board) -> Iterator[Sample]:
    for run in board.runs.values():
        for state in RUN_STATES:
            yield (run_label(run), state), float(run.state == state)


def _step_counts(board: Board) -> Iterator[Sample]:
    for run in board.runs.values():
        for state in STEP_STATES:
            yield (run_label(run), state), sum(step.state == state for step in run.steps.values())


def _steps(name: str) -> Callable[[Board], Iterator[Sample]]:
    def samples(board: Board) -> Iterator[Sample]:
        for run in board.runs.values():
            for step in list(run.steps.values())[:MOST_STEPS]:
                yield (run_label(run), step.name), float(getattr(step, name))

    return samples


def _step_states(board: Board) -> Iterator[Sample]:
    for run in board.runs.values():
        for step in list(run.steps.values())[:MOST_STEPS]:
            yield (run_label(run), step.name), float(STEP_STATES.index(step.state))


def _rate(run: RunState) -> float | None:
    step = run.steps.get(run.current)
    return step.call.rate if step is not None and run.live else 0.0


def _last(kind: str, column: str) -> Callable[[Board], Iterator[Sample]]:
    def samples(board: Board) -> Iterator[Sample]:
        for run in board.runs.values():
            for model, series in getattr(run, kind).items():
                yield (run_label(run), model), series.last(column)

    return samples


def _depths(name: str) -> Callable[[Board], Iterator[Sample]]:
    def samples(board: Board) -> Iterator[Sample]:
        for run in board.runs.values():
            for model, tree in run.trees.items():
                for depth in tree.depths:
                    yield (run_label(run), model, str(depth.depth)), getattr(depth, name)

    return samples


def _workers(name: str) -> Callable[[Board], Iterator[Sample]]:
    def samples(board: Board) -> Iterator[Sample]:
        seen = dict[str, float]()
        for worker in board.workers.values():
            seen[worker.name] = float(getattr(worker, name))
        for worker_name, value in seen.items():
            yield (worker_name,), value

    return samples


def _cluster_faults(board: Board) -> Iterator[Sample]:
    for kind in CLUSTER_FAULTS:
        yield (kind,), float(board.faults.get(kind, 0))


def _run_faults(board: Board) -> Iterator[Sample]:
    for run in board.runs.values():
        for kind in RUN_FAULTS:
            yield (run_label(run), kind), float(run.faults.get(kind, 0))


RUN, STEP, MODEL = ("run",), ("run", "step"), ("run", "model")
DEPTH, WORKER = ("run", "model", "depth"), ("worker",)
METRICS = (
    Described("run_state", ("run", "state"), "1 for the state that a run is in, 0 for the others", _run_states),
    Described("run_started_seconds", RUN, "when it began: seconds since 1970", _runs(lambda run: run.started)),
    Described("run_steps", ("run", "state"), "steps of a run in each state", _step_counts),
    Described(
        "step_state",
        STEP,
        f"state of a step: {', '.join(f'{i} {state}' for i, state in enumerate(STEP_STATES))}",
        _step_states,
    ),
    Described("step_tasks_done", STEP, "tasks of a step that have ended", _steps("tasks")),
    Described("step_tasks_known", STEP, "tasks of a step so far, ended or not", _steps("expected")),
    Described("step_rows_done", STEP, "rows that its tasks have worked on", _steps("rows")),
    Described("rows_per_second", RUN, "rows a second of the call in hand", _runs(_rate)),
    Described("round", MODEL, "rounds of parallel SGD that are behind", _last("rounds", "round")),
    Described("round_loss", MODEL, "mean loss met in the last round", _last("rounds", "loss")),
    Described("iteration", MODEL, "iteration of the pair of penalties in hand", _last("iterations", "iteration")),
    Described("pair", MODEL, "number of that pair on the path", _last("iterations", "pair")),
    Described("objective", MODEL, "objective at the last iteration", _last("iterations", "objective")),
    Described("relative_gap", MODEL, "duality gap over the objective", _last("iterations", "gap")),
    Described("rank", MODEL, "rank of the weights", _last("iterations", "rank")),
    Described("tree_nodes", DEPTH, "nodes of a growing tree that are done", _depths("nodes")),
    Described("tree_rows", DEPTH, "training rows at these nodes", _depths("rows")),
    Described("tree_accuracy", DEPTH, "share of held-out rows that they send to their class", _depths("accuracy")),
    Described("worker_planned_bytes", RUN, "memory that the plan allows a worker", _runs(lambda run: run.planned)),
    Described("worker_used_bytes", WORKER, "resident memory of a worker", _workers("used")),
    Described("worker_peak_bytes", WORKER, "the most that was seen of it", _workers("peak")),
    Described("worker_limit_bytes", WORKER, "its limit, 0 for none", _workers("limit")),
    Described("cluster_faults_total", ("kind",), f"{', '.join(CLUSTER_FAULTS)}", _cluster_faults),
    Described("run_faults_total", ("run", "kind"), f"{', '.join(RUN_FAULTS)}", _run_faults),
)


def families(board: Board) -> Iterator[Metric]:
    """All metrics of a board."""
    for described in METRICS:
        yield described.family(board)
