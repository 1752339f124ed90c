"""A step size that needs no tuning: short complete fits on a sample of rows, the best of a geometric grid."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from tasks.errors import Diverged
from tasks.fit.linear import LinearScorer
from tasks.fit.local_pass import Chunk, local_passes
from tasks.fit.problem import SgdProblem, StepTrial
from tasks.fit.scorer import Parameters
from tasks.fit.sgd import AUTO

AUTO_REGULARIZATION = 1e-5  # times the mean squared norm of a row
GRID = 4.0  # ratio of two steps tried


def try_steps(chunks: Sequence[Chunk], problem: SgdProblem) -> StepTrial:
    """The step with the least objective on the sample after a short fit that runs its whole falling schedule.

    chunks   the sample
    The search starts from 1 / (mean squared norm of a row) and walks up or down a geometric grid while that helps.
    """
    rows = sum(chunk.index.size for chunk in chunks)
    norm = sum(float(chunk.rows.squared_norms()[chunk.index].sum()) for chunk in chunks) / max(rows, 1)
    norm = norm if norm > 0 else 1.0
    asked, step = problem.params.regularization, problem.params.step
    regularization = AUTO_REGULARIZATION * norm if asked == AUTO else float(asked)
    blank = StepTrial(1.0 / norm if step == AUTO else float(step), regularization, norm, (), rows)
    if step != AUTO or rows == 0:
        return blank
    tried = _climb(chunks, problem, blank)
    best = min(tried, key=lambda value: (tried[value], value))
    return replace(blank, step=best, tried=tuple(sorted(tried.items())))


def _climb(chunks: Sequence[Chunk], problem: SgdProblem, blank: StepTrial) -> dict[float, float]:
    tried = {blank.step: _objective_after(chunks, problem, blank)}
    for ratio in (GRID, 1.0 / GRID):
        step = blank.step
        for _ in range(8):
            before, step = tried[step], step * ratio
            tried[step] = _objective_after(chunks, problem, replace(blank, step=step))
            if not tried[step] < before and np.isfinite(before):
                break
        if min(tried, key=lambda value: tried[value]) != blank.step:
            break
    return tried


def _objective_after(chunks: Sequence[Chunk], problem: SgdProblem, trial: StepTrial) -> float:
    params = replace(problem.params, rounds=1, passes=2)
    short = replace(problem.with_trial(trial), params=params, name=f"{problem.name}/trial")
    try:
        with np.errstate(over="ignore", invalid="ignore"):
            model = local_passes(chunks, short.scorer.initial(np.float32), short, 0, 0).mean()
            value = objective(chunks, model, short)
    except Diverged:
        return float("inf")
    return value if np.isfinite(value) else float("inf")


def objective(chunks: Sequence[Chunk], parameters: Parameters, problem: SgdProblem) -> float:
    """Mean loss + penalty of a model on rows in memory."""
    loss, rows = 0.0, 0
    for chunk in chunks:
        scores = problem.scorer.scores(parameters, chunk.rows.take(chunk.index))
        loss += problem.loss.residuals(scores, chunk.labels)[0]
        rows += chunk.index.size
    return loss / max(rows, 1) + penalty(parameters, problem)


def penalty(parameters: Parameters, problem: SgdProblem) -> float:
    """(decay / 2) times the sum of squares; a bias counts as the weight of its constant feature (`LinearScorer`)."""
    total = 0.0
    for name, values in parameters.items():
        rate = problem.scorer.bias_rate if name == "bias" and isinstance(problem.scorer, LinearScorer) else 1.0
        total += float(np.vdot(values, values)) / rate
    return 0.5 * problem.decay * total
