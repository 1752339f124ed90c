"""The outer loop of parallel SGD: broadcast a model, train it apart on every partition, average, repeat."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from tasks.errors import InputError
from tasks.fit.average import ModelSum
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
    history     one record per round: round, rows, loss (mean, met on the way), operations
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


def fit(
    problem: SgdProblem, oracle: Oracle, start: Parameters | None = None, checkpoint: Checkpoint | None = None
) -> FitResult:
    """Train `problem` in `params.rounds` rounds; a checkpoint left by an earlier, interrupted call is continued.

    start    initial parameters (read only), zeros in float32 when None
    Raises Diverged; NoTrainingRows when no row takes part.
    """
    if problem.trial is None:
        problem = problem.with_trial(oracle.trial(problem))
    saved = checkpoint.load() if checkpoint is not None else None
    first, parameters, history = saved if saved is not None else (0, start or problem.scorer.initial(np.float32), [])
    history = list(history)
    for round_index in range(first, problem.params.rounds):
        total = oracle.round(problem, parameters, round_index)
        if total.weight == 0:
            raise NoTrainingRows(f"no training row takes part in {problem.name}", where=problem.name)
        parameters = total.mean()
        history.append(
            {"round": round_index, "rows": total.rows, "loss": total.mean_loss(), "operations": total.operations}
        )
        if checkpoint is not None:
            checkpoint.save(round_index + 1, parameters, history)
    return FitResult(parameters, history, problem.settled(), sum(record["operations"] for record in history))
