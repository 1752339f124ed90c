"""One linear support vector machine being solved: its duals, its weights, and what is known of the gap between them.

min 1/2 |w|^2 + sum of c_i max(0, 1 - y_i (w . x_i + b)). The dual has a number 0 <= alpha_i <= c_i a row, w = sum of
alpha_i y_i x_i, and, since b costs nothing, the constraint sum of alpha_i y_i = 0. It is held by the method of
multipliers: a constant feature adds unit / 2 (sum of alpha_i y_i)^2 to what is minimised, and after each sweep the
multiplier, which is the bias, takes over what that feature has gathered. Sweeps are those of Hsieh et al. 2008.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tasks.errors import Diverged
from tasks.rows import Csr, Dense
from tasks.rows.base import Array
from tasks.svm.bias import best_bias, best_stretch
from tasks.svm.dual_ascent import (
    GAP,
    HIGHEST,
    LOSS,
    LOST,
    LOWEST,
    OFFSET,
    SURPLUS,
    entries,
    products,
    sweep,
    weights_of,
)

UNIT = 0.1  # squared value of the constant feature, in mean squared norms of rows
LOW = 1.0  # cost times squared norm up to which duals reach it in a sweep or two
HARD = 1e4  # the same, beyond which hinges are as good as forbidden: what is higher is solved as if it were this
RISE = 4.0  # of the costs from stage to stage
LEAST, MOST, CLOSE = 3, 20, 0.1  # sweeps of a stage, and the relative gap at which it ends
LEAST_EFFORT = 0.05  # what a sweep over next to no rows counts, in sweeps over all
ALL_AFTER = 10  # sweeps, of which the last is over all rows
LOOK_AFTER = 1.5  # times the sweeps done at the last look
LARGEST = 1e30  # squared norm of a row: its products still fit float32


class Problem:
    """Rows and what a hinge of each costs: costs (n,) float32, norms (n,) float64, entries as the kernels take them."""

    def __init__(self, rows: Dense | Csr, costs: Array) -> None:
        """Raises Diverged for rows that are not finite, or too large for float32."""
        self.costs, self.norms, self.n_features = costs, rows.squared_norms(), rows.n_features
        if not (self.norms < LARGEST).all():
            raise Diverged("rows are not finite, or too large for float32", "linear solver", "scale the features")
        self.entries = entries(rows)

    def weights(self, factors: Array) -> Array:
        """(d,) float32: sum of factor_i x_i over the rows, factors (n,) float64, added up in float64."""
        total = np.zeros(self.n_features)
        weights_of(*self.entries, factors, total)
        with np.errstate(over="ignore"):  # `look` tells
            return total.astype(np.float32)

    def add_scores(self, which: Array, weights: Array, scores: Array) -> None:
        """scores (n,) float64 of the rows `which` (m,) int64: x_i . w."""
        products(*self.entries, which, weights, scores)


class Look(NamedTuple):
    """The hyperplane of some duals, and the objective, of which `dual` is a lower bound.

    weights (d,) float32; scores (n,) float64: w . x of rows with a side; duals (n,) float32
    """

    weights: Array
    squared_norm: float
    scores: Array
    bias: float
    primal: float
    dual: float
    duals: Array

    @property
    def gap(self) -> float:
        """The objective is at most this share of it above the least one."""
        return (self.primal - self.dual) / self.primal if self.primal > 0 else 0.0

    def better(self, other: Look | None) -> Look:
        """The lower objective with the higher bound."""
        if other is None:
            return self
        best = self if self.primal <= other.primal else other
        return best._replace(dual=max(self.dual, other.dual))


class Ascent:
    """One solve under way, of sides (n,) int8 among which both signs are; duals (n,) float32 and bias are the start."""

    def __init__(self, problem: Problem, sides: Array, duals: Array | None = None, bias: float = 0.0) -> None:
        self.problem, self.signs, self.order = problem, sides.astype(np.float32), np.flatnonzero(sides)
        costs, mean = problem.costs[self.order].astype(np.float64), float(problem.norms[self.order].mean())
        level = float(costs.mean()) * mean
        self.share = min(1.0, HARD / level) if level > 0 else 1.0  # of the costs that are solved
        self.level = level * self.share
        self.unit = np.float32(max(UNIT * mean, 1.0 / costs.sum()))  # so that the multiplier can move by 1 in a sweep
        self.steps = (1.0 / (problem.norms + self.unit)).astype(np.float32)
        self.state, self.count, self.done, self.looked = np.zeros(7), 0, 0.0, 0.0
        self.state[OFFSET] = bias
        if duals is None:
            self.state[OFFSET] = best_bias(np.zeros(costs.size), self.signs[self.order], costs)
        self._begin(np.zeros_like(problem.costs) if duals is None else duals, self.share)

    def _begin(self, duals: Array, share: float) -> None:
        """All rows are active; weights and surplus are those of the duals, without the roundings of the way."""
        self.costs = self.problem.costs * np.float32(share)
        self.duals = np.minimum(duals, self.costs)
        factors = self.duals.astype(np.float64) * self.signs
        self.weights, self.state[SURPLUS] = self.problem.weights(factors), factors.sum()
        self.averaged, self.n_active, self.state[LOST] = self.duals.copy(), self.order.size, 0.0

    def climb(self, rng: np.random.Generator, sweeps: float) -> None:
        """Stages of rising costs: where they are high, duals that end at them would need many sweeps to get there.

        sweeps  after so many the last stage is reached in one step
        """
        n_stages = int(np.ceil(np.log(max(self.level / LOW, 1.0)) / np.log(RISE)))
        self._begin(self.duals, self.share * RISE**-n_stages)
        for stage in range(n_stages, 0, -1):
            for count in range(MOST):
                self.sweep(rng)
                if count + 1 >= LEAST and self.state[GAP] <= CLOSE * self.primal():
                    break
            late = self.done >= sweeps
            self._raise(self.share * (1.0 if late else RISE ** (1 - stage)), RISE**stage if late else RISE)
            if late:
                break

    def _raise(self, share: float, rise: float) -> None:
        """Go on with costs that are `rise` times higher, and duals that are stretched as far as it pays.

        sum of alpha_i - 1/2 |w|^2 has its maximum along the duals at (sum of alpha_i) / |w|^2 times them.
        """
        norm = squared(self.problem.weights(self.averaged.astype(np.float64) * self.signs))
        stretch = float(self.averaged.sum(dtype=np.float64)) / norm if norm > 0 else rise
        self.state[HIGHEST], self.state[LOWEST] = 0.0, 0.0
        self._begin(self.averaged * np.float32(min(max(stretch, 1.0), rise)), share)

    def sweep(self, rng: np.random.Generator) -> None:
        """Over the active rows, in a new order; then the multiplier takes what the constant feature has gathered.

        Rows that are left out may have become wrong by the bias, which then runs away: so all have a look-in at times.
        """
        self.count += 1
        if self.count % ALL_AFTER == 0:
            self.n_active, self.state[LOST] = self.order.size, 0.0
        rng.shuffle(self.order[: self.n_active])
        self.done += max(self.n_active / self.order.size, LEAST_EFFORT)
        given = self.signs, self.costs, self.steps, self.unit
        changed = self.duals, self.averaged, self.weights, self.state
        self.n_active = sweep(*self.problem.entries, self.order, self.n_active, *given, *changed)
        self.state[OFFSET] += float(self.unit) * self.state[SURPLUS]

    def primal(self) -> float:
        """The objective, with hinges as they were when their rows had their turn."""
        return 0.5 * squared(self.weights) + float(self.state[LOSS] + self.state[LOST])

    def is_time_to_look(self, tolerance: float, sweeps: float) -> bool:
        """When the gap seems to be small by what rows showed on the way, or some time has passed."""
        seen = self.state[GAP] + abs(self.state[SURPLUS])
        small = not seen > tolerance * self.primal()  # also where they are not numbers
        return small or self.n_active == 0 or self.done >= min(LOOK_AFTER * self.looked, sweeps)

    def look(self) -> Look:
        """What the averaged duals stand for; then all rows are active. Raises Diverged where it is not finite.

        First those of the side that has more are lowered until both have the same: then sum of alpha_i - 1/2 |w|^2 is
        a lower bound of the objective.
        """
        duals, scores = balanced(self.averaged, self.signs), np.zeros(self.signs.size)
        weights = self.problem.weights(duals.astype(np.float64) * self.signs)
        self.problem.add_scores(self.order, weights, scores)
        norm = squared(weights)
        if not (np.isfinite(norm) and np.isfinite(scores).all()):
            raise Diverged("scores of a classifier are not finite", "linear solver", "scale the rows, or lower C")
        bias, primal = self.objective(self.costs, norm, scores)
        dual = float(duals.sum(dtype=np.float64)) - 0.5 * norm
        found = Look(weights, norm, scores, bias, primal, dual, duals)
        self.looked = self.done
        self._begin(self.duals, self.share)
        return found

    def hardened(self, found: Look) -> Look:
        """For the costs themselves where lower ones were solved: stretched, until fewer hinges no longer pay."""
        rows, costs = self.order, self.problem.costs
        margins = self.signs[rows] * (found.scores[rows] + found.bias)
        stretch = best_stretch(margins, costs[rows].astype(np.float64), found.squared_norm)
        weights = (found.weights * stretch).astype(np.float32)
        norm, scores = squared(weights), found.scores * stretch
        bias, primal = self.objective(costs, norm, scores)
        return Look(weights, norm, scores, bias, primal, found.dual, found.duals)

    def objective(self, costs: Array, squared_norm: float, scores: Array) -> tuple[float, float]:
        """(best bias, objective with it) of a direction with scores (n,) float64."""
        own, signs, wide = scores[self.order], self.signs[self.order], costs[self.order].astype(np.float64)
        bias = best_bias(own, signs, wide)
        return bias, 0.5 * squared_norm + float(wide @ np.maximum(0.0, 1.0 - signs * (own + bias)))


def balanced(duals: Array, signs: Array) -> Array:
    """Duals (n,) float32 of which the heavier side is scaled down to the weight of the other."""
    up, down = (float(duals[signs * sign > 0].sum(dtype=np.float64)) for sign in (1, -1))
    ups, downs = min(1.0, down / up) if up > 0 else 1.0, min(1.0, up / down) if down > 0 else 1.0
    lowered: Array = duals * np.where(signs > 0, np.float32(ups), np.float32(downs))
    return lowered


def squared(weights: Array) -> float:
    """|w|^2 in float64."""
    wide = weights.astype(np.float64)
    return float(wide @ wide)
