"""A step size that needs no tuning: short complete fits on a sample of rows, the best of a geometric grid."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import ceil, isfinite

import numpy as np

from tasks.errors import Diverged
from tasks.fit.linear import LinearScorer
from tasks.fit.local_pass import Chunk, centred, local_passes
from tasks.fit.problem import BIAS_SHARES, SgdProblem, StepTrial
from tasks.fit.scorer import Parameters
from tasks.fit.sgd import AUTO, MOST_PASSES, Fused, SgdParams
from tasks.hashing.heshing import HashedScorer
from tasks.rows import Dense
from tasks.rows.base import Array, Rows

GRID = 2.0  # ratio of two steps tried
SMOOTH, START, SMOOTH_START = 0.5, 0.5, 8.0  # by the curvature: where the search begins, for each row of a batch
# Steps of brief fits, in units of 1 / |x|^2: by the curvature of the loss at most, for each row of a batch, and at most
BRIEF = ((0.0, 1 / 4, 16.0), (SMOOTH, 2.0, 128.0), (float("inf"), 1 / 16, 4.0))
QUARTER, FAR_LESS = 0.25, 1.5
FARTHEST = 12  # steps tried in one direction
TRIAL_PASSES = 2
CAUTION = 0.5  # a short fit likes longer steps than a long one, and the sample may lack the wildest rows
MOST_LOOKUPS = 2**27  # of one scoring of the sample, in a hashed table: a fraction of a second
LEAST_ROWS = 512  # of a sample, however long their fits take
FLAT = 1e-6  # share of the squared norm that centred rows keep at least, against rounding


def try_steps(chunks: Sequence[Chunk], problem: SgdProblem, n_rows: int) -> StepTrial:
    """A step that suits the rows: of a brief fit a guess that is seen to be steady, else what is best on a sample.

    chunks   the sample
    n_rows   training rows of the whole fit, nearly: regularization and passes depend on it
    Else: half the step with the least objective on the sample after a short fit that runs its whole falling schedule.
    The search walks up or down a geometric grid of steps in units of 1 / (mean squared norm of a row, as scores see it)
    while that helps.
    """
    blank = _before_trial(chunks, problem, n_rows)
    if problem.constant_step or blank.rows == 0:
        return blank
    if blank.brief:
        return _steady(chunks, problem, blank)
    tried = _climb(chunks, problem, blank)
    best = min(tried, key=lambda value: (tried[value], value))
    return replace(blank, step=CAUTION * best, tried=tuple(sorted(tried.items())))


def _steady(chunks: Sequence[Chunk], problem: SgdProblem, blank: StepTrial) -> StepTrial:
    """The guess for a brief fit, shortened while a step QUARTER as long loses far less on the way through the sample.

    How good a step is for many rows a sample cannot tell before it has learnt its few rows by heart; that a step is too
    long shows at once.
    """
    least, most = next(guess for curvature, *guess in BRIEF if problem.loss.curvature <= curvature)
    step = blank.step / _first_guess(problem) * min(least * problem.params.batch, most)
    tried = {step: _loss_on_the_way(chunks, problem, replace(blank, step=step))}
    for _ in range(FARTHEST):
        shorter = QUARTER * step
        tried[shorter] = _loss_on_the_way(chunks, problem, replace(blank, step=shorter))
        if isfinite(tried[step]) and tried[step] <= FAR_LESS * tried[shorter]:
            break
        step = shorter
    return replace(blank, step=step, tried=tuple(sorted(tried.items())))


def affordable_rows(rows: Rows, problem: SgdProblem) -> int:
    """The most rows like these in a sample: a function of the data and the config alone.

    Only look-ups in a hashed table bound it: products cost so little that `trial_rows` does.
    """
    if not isinstance(problem.scorer, HashedScorer):
        return problem.params.trial_rows
    lookups = problem.scorer.lookups_per_row(rows, problem.params.batch)
    return max(LEAST_ROWS, int(MOST_LOOKUPS / max(lookups, 1.0)))


def _before_trial(chunks: Sequence[Chunk], problem: SgdProblem, n_rows: int) -> StepTrial:
    params, rows = problem.params, sum(chunk.index.size for chunk in chunks)
    norm, centre = _norm_and_centre(chunks, problem)
    seen = norm * problem.scorer.squared_scale
    blank_loss = _blank_loss(chunks, problem) / max(rows, 1)
    passes = _passes(params, n_rows)
    return StepTrial(
        step=_first_guess(problem) / seen if params.step == AUTO else float(params.step),
        regularization=_regularization(problem, seen, n_rows),
        squared_norm=norm,
        passes=passes,
        blank_loss=blank_loss,
        tried=(),
        rows=rows,
        brief=params.step == AUTO and params.rounds * passes in BIAS_SHARES and n_rows > rows,
        centre=centre,
    )


def _first_guess(problem: SgdProblem) -> float:
    """Near the best steps of most data; damping by the curvature lets steps of smooth losses be long."""
    return problem.params.batch * (SMOOTH_START if 0 < problem.loss.curvature <= SMOOTH else START)


def _norm_and_centre(chunks: Sequence[Chunk], problem: SgdProblem) -> tuple[float, Array | None]:
    """Mean squared norm of the sample's rows (1 if that is 0), and what is to be taken away from each beforehand.

    Sparse rows stay sparse, a model without a bias cannot make up for a centre, and a given step is the plain method.
    """
    rows = sum(chunk.index.size for chunk in chunks)
    taken = [chunk.rows.take(chunk.index) for chunk in chunks]
    norm = sum(float(part.squared_norms().sum()) for part in taken) / max(rows, 1)
    if not norm > 0:
        return 1.0, None
    linear = isinstance(problem.scorer, LinearScorer) and problem.scorer.bias
    if problem.constant_step or not linear or not isinstance(taken[0].take(np.arange(1)).decoded(), Dense):
        return norm, None
    sums = [part.gradient(np.ones((part.n_rows, 1), np.float32))[:, 0].astype(np.float64) for part in taken]
    centre = sum(sums[1:], sums[0]) / rows
    return max(norm - float(centre @ centre), FLAT * norm), centre.astype(np.float32)


def _regularization(problem: SgdProblem, norm: float, n_rows: int) -> float:
    """The one asked for; "auto" has the same effect whether the convention is (lam / 2) |w|^2 or lam |w|^2."""
    asked = problem.params.regularization
    if asked != AUTO:
        return float(asked)
    return problem.loss.penalty_weight * norm / max(n_rows, 1) / (2.0 if problem.params.doubled else 1.0)


def _passes(params: SgdParams, n_rows: int) -> int:
    """More passes over few rows; as many as asked for when the step was given, too."""
    if params.step != AUTO:
        return params.passes
    rows = max(n_rows, 1) / params.partitions * params.rounds
    return max(params.passes, min(MOST_PASSES, ceil(params.least_rows / rows)))


def _climb(chunks: Sequence[Chunk], problem: SgdProblem, blank: StepTrial) -> dict[float, float]:
    tried = {blank.step: _objective_after(chunks, problem, blank)}
    for ratio in (GRID, 1.0 / GRID):
        step = blank.step
        for _ in range(FARTHEST):
            before, step = tried[step], step * ratio
            tried[step] = _objective_after(chunks, problem, replace(blank, step=step))
            if not tried[step] < before and np.isfinite(before):
                break
        if min(tried, key=lambda value: tried[value]) != blank.step:
            break
    return tried


def _loss_on_the_way(chunks: Sequence[Chunk], problem: SgdProblem, trial: StepTrial) -> float:
    """Mean loss of a pass over the sample, each row's before its own step."""
    short = replace(problem.with_trial(trial), params=replace(problem.params, rounds=1), name=f"{problem.name}/trial")
    short = replace(short, trial=replace(trial, passes=1))
    try:
        with np.errstate(over="ignore", invalid="ignore"):
            return local_passes(chunks, short.scorer.initial(np.float32), short, 0, 0).mean_loss()
    except Diverged:
        return float("inf")


def _objective_after(chunks: Sequence[Chunk], problem: SgdProblem, trial: StepTrial) -> float:
    trial = replace(trial, passes=TRIAL_PASSES)
    params = replace(problem.params, rounds=1)
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
        loss += _sum_of_losses(problem, parameters, chunk.rows.take(chunk.index), chunk.labels)
        rows += chunk.index.size
    return loss / max(rows, 1) + penalty(parameters, problem)


def _sum_of_losses(problem: SgdProblem, parameters: Parameters, rows: Rows, labels: Array) -> float:
    if isinstance(problem.scorer, Fused):
        return problem.scorer.sum_of_losses(problem.loss, parameters, rows, labels)
    return problem.loss.residuals(problem.scorer.scores(parameters, rows), labels)[0]


def _blank_loss(chunks: Sequence[Chunk], problem: SgdProblem) -> float:
    """Sum of the losses of scores that are all 0."""
    if isinstance(problem.scorer, Fused):
        return sum(problem.scorer.blank_loss(chunk.labels) for chunk in chunks)
    zeros = ((np.zeros((chunk.index.size, problem.scorer.n_outputs), np.float32), chunk.labels) for chunk in chunks)
    return sum(problem.loss.residuals(scores, labels)[0] for scores, labels in zeros)


def penalty(parameters: Parameters, problem: SgdProblem) -> float:
    """(decay / 2) times the sum of squares; a bias counts as the weight of its feature, beside rows as centred."""
    total = 0.0
    for name, values in centred(problem, parameters).items():
        rate = problem.scorer.bias_rate if name == "bias" and isinstance(problem.scorer, LinearScorer) else 1.0
        total += float(np.vdot(values, values)) / rate
    return 0.5 * problem.decay * total
