"""The outer loop of parallel SGD: broadcast a model, train it apart on every partition, average, repeat."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from tasks.errors import Diverged, InputError
from tasks.fit.average import ModelSum
from tasks.fit.local_pass import diverged
from tasks.fit.problem import SgdProblem, StepTrial
from tasks.fit.scorer import Parameters

Record = dict[str, float]


class Oracle(Protocol):
    """Whoever can reach the rows: in memory (`LocalOracle`), or over a pool of workers."""

    def trial(self, problem: SgdProblem) -> StepTrial:
        """What `choose_step` finds; the problem has no trial yet."""
        ...

    def round(self, problem: SgdProblem, parameters: Parameters, round_index: int) -> ModelSum:
        """The sum of `sgd_partition` over all partitions, in partition order; the problem has its trial."""
        ...


class Checkpoint(Protocol):
    """Where a fit keeps its progress: (rounds done, parameters, history)."""

    def load(self) -> tuple[int, Parameters, list[Record]] | None: ...

    def save(self, round_index: int, parameters: Parameters, history: list[Record]) -> None: ...


@dataclass(frozen=True, eq=False)
class FitResult:
    """A fitted model.

    parameters  float32 (or the dtype of the start)
    history     one record per round: round, rows, loss (mean, met on the way), step, operations
    trial       step and regularization as used, and the steps tried
    operations  vector operations of all rounds
    """

    parameters: Parameters
    history: list[Record]
    trial: StepTrial
    operations: float

    @property
    def step(self) -> float:
        return self.trial.step


class NoTrainingRows(InputError):
    """No row takes part in a fit."""


RESTARTS = 3  # times that a step chosen on the sample is shortened when the whole of the rows shows it too long
SHORTER = 0.25
BLOWN_UP = 2.0  # a round whose mean loss is above this many times that of scores of 0 went uphill


def fit(
    problem: SgdProblem, oracle: Oracle, start: Parameters | None = None, checkpoint: Checkpoint | None = None
) -> FitResult:
    """Train `problem` in `params.rounds` rounds; a checkpoint left by an earlier, interrupted call is continued.

    A step that was chosen on a sample and proves too long is shortened, and the fit begins anew.
    start    initial parameters (read only), zeros in float32 when None
    Raises Diverged; NoTrainingRows when no row takes part.
    """
    if problem.trial is None:
        problem = problem.with_trial(oracle.trial(problem))
    chosen, begin = problem.settled(), start if start is not None else problem.scorer.initial(np.float32)
    saved = checkpoint.load() if checkpoint is not None else None
    done, parameters, history = saved if saved is not None else (0, begin, [])
    step = history[-1]["step"] if history else chosen.step
    while True:
        problem = problem.with_trial(replace(chosen, step=step))
        try:
            return _rounds(problem, oracle, done, parameters, history, checkpoint)
        except Diverged:
            step *= SHORTER
            if problem.constant_step or step < chosen.step * SHORTER**RESTARTS:
                raise
            done, parameters, history = 0, begin, []


def _rounds(
    problem: SgdProblem,
    oracle: Oracle,
    done: int,
    parameters: Parameters,
    history: list[Record],
    checkpoint: Checkpoint | None,
) -> FitResult:
    """The rounds from `done` on; see `fit`."""
    history, trial = list(history), problem.settled()
    for round_index in range(done, problem.params.rounds):
        total = oracle.round(problem, parameters, round_index)
        if total.weight == 0:
            raise NoTrainingRows(f"no training row takes part in {problem.name}", where=problem.name)
        if not total.mean_loss() <= BLOWN_UP * trial.blank_loss and not problem.constant_step:
            raise diverged(problem, round_index)
        parameters = total.mean()
        history.append(_record(round_index, total, trial.step))
        if checkpoint is not None:
            checkpoint.save(round_index + 1, parameters, history)
    return FitResult(parameters, history, trial, sum(record["operations"] for record in history))


def _record(round_index: int, total: ModelSum, step: float) -> Record:
    return {
        "round": round_index,
        "rows": total.rows,
        "loss": total.mean_loss(),
        "step": step,
        "operations": total.operations,
    }
