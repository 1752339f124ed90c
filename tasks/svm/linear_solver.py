"""Linear binary support vector machines on the rows of a node, by dual coordinate ascent with a free bias.

min 1/2 |w|^2 + sum of c_i max(0, 1 - y_i (w . x_i + b)). The dual has a number 0 <= alpha_i <= c_i a row, w = sum of
alpha_i y_i x_i, and, since b costs nothing, the constraint sum of alpha_i y_i = 0. It is held by the method of
multipliers: a constant feature adds unit / 2 (sum of alpha_i y_i)^2 to what is minimised, and after each sweep the
multiplier, which is the bias, takes over what that feature has gathered. Sweeps are those of Hsieh et al. 2008.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from tasks.errors import Diverged, ParamError
from tasks.rows import Csr, Dense
from tasks.rows.base import Array
from tasks.seeds import stream
from tasks.svm.bias import best_bias
from tasks.svm.classifier import LinearClassifier
from tasks.svm.dual_ascent import GAP, HIGHEST, LOSS, LOST, LOWEST, OFFSET, SURPLUS, products, sweep, weights_of
from tasks.svm.solver import Halfspace

TOLERANCE = 0.03  # the objective is then mostly within a third of it: the lower bound lags behind
SWEEPS = 300
UNIT = 0.1  # squared value of the constant feature, in mean squared norms of rows
LOW = 1.0  # cost times squared norm up to which duals reach it in a sweep or two
RISE = 4.0  # of the costs from stage to stage, where they begin low
LEAST, MOST, CLOSE = 3, 20, 0.1  # sweeps of a stage, and the relative gap at which it ends
LEAST_EFFORT = 0.05  # what a sweep over next to no rows counts, in sweeps over all
LOOK_AFTER = 1.5  # times the sweeps done at the last look
LARGEST = 1e30  # squared norm of a row: its products still fit float32
NO_INDICES = np.zeros(0, np.int32)


@dataclass(frozen=True, eq=False)
class LinearHalfspace(Halfspace):
    """What one solve gives, and the next may start from.

    weights  (d,) float32: w; sides (n,) int8: what was learned from
    gap      the objective is at most this share of it above the least one
    sweeps   done; one over fewer rows counts less
    """

    weights: Array
    sides: Array
    gap: float
    sweeps: float


class LinearSolver:
    """Solves for any sides of the same rows: a pure function of the rows, costs, seed, sides and start.

    rows       Dense or Csr; copied to float32 where they are not
    costs      (n,) float32 > 0: c_i
    rng        one number is drawn from it, the seed of the orders in which rows are visited
    tolerance  relative duality gap at which it ends, after at most about `sweeps` sweeps
    Raises ParamError for costs, a tolerance or sweeps that are not positive; Diverged for rows that are not finite, or
    too large for float32.
    """

    def __init__(
        self,
        rows: Dense | Csr,
        costs: Array,
        rng: np.random.Generator,
        tolerance: float = TOLERANCE,
        sweeps: int = SWEEPS,
    ) -> None:
        self.costs = np.ascontiguousarray(costs, np.float32)
        if self.costs.shape != (rows.n_rows,) or not ((self.costs > 0) & (self.costs < np.inf)).all():
            raise ParamError("costs", costs, f"{rows.n_rows} finite numbers above 0", "every row has one")
        if not tolerance > 0:
            raise ParamError("tolerance", tolerance, "a number above 0", "rounding keeps the gap open")
        if sweeps < 1:
            raise ParamError("sweeps", sweeps, "at least 1", "without one nothing is learnt")
        self.rows, self.tolerance, self.sweeps = rows, tolerance, sweeps
        self.norms = rows.squared_norms()
        if not (self.norms < LARGEST).all():
            raise Diverged("rows are not finite, or too large for float32", "linear solver", "scale the features")
        self.entries = entries(rows)
        self._seed = int(rng.integers(2**63))

    @property
    def n_rows(self) -> int:
        return self.rows.n_rows

    def solve(self, sides: Array, start: Halfspace | None = None) -> LinearHalfspace:
        """See BinarySolver. A row keeps the dual it has in `start` if it had the same side there.

        Raises ValueError if a side has no rows, Diverged if scores overflow.
        """
        ascent = Ascent(self, np.asarray(sides, np.int8), start if isinstance(start, LinearHalfspace) else None)
        rng = stream(self._seed, "sweeps")
        if not isinstance(start, LinearHalfspace):
            ascent.climb(rng)
        while True:
            ascent.sweep(rng)
            if ascent.is_time_to_look():
                found = ascent.look()
                if found.gap <= self.tolerance or ascent.done >= self.sweeps:
                    return ascent.halfspace(found)
                ascent.restart()

    def classifier(self, fit: Halfspace, sides: Array) -> LinearClassifier:
        """Of a fit of this solver the weights that gave its margins; of another, the sum over its support vectors."""
        if isinstance(fit, LinearHalfspace):
            return LinearClassifier(fit.weights, fit.bias)
        return LinearClassifier(self.weights(fit.duals.astype(np.float64) * sides), fit.bias)

    def weights(self, factors: Array) -> Array:
        """(d,) float32: sum of factor_i x_i over the rows, factors (n,) float64, added up in float64."""
        total = np.zeros(self.rows.n_features)
        weights_of(*self.entries, factors, total)
        with np.errstate(over="ignore"):  # `look` tells
            return total.astype(np.float32)


class Look(NamedTuple):
    """The hyperplane of the averaged duals: weights (d,) float32, |w|^2, the scores w . x (n,) of rows with a side."""

    weights: Array
    squared_norm: float
    scores: Array
    bias: float
    gap: float


class Ascent:
    """One solve under way: duals, weights and what is known of the gap."""

    def __init__(self, solver: LinearSolver, sides: Array, start: LinearHalfspace | None) -> None:
        if not (sides > 0).any() or not (sides < 0).any():
            raise ValueError("a hyperplane needs rows on both of its sides")
        self.solver, self.sides, self.signs = solver, sides, sides.astype(np.float32)
        self.order = np.flatnonzero(sides)
        costs, mean = solver.costs[self.order].astype(np.float64), float(solver.norms[self.order].mean())
        self.level = float(costs.mean()) * mean
        self.unit = np.float32(max(UNIT * mean, 1.0 / costs.sum()))  # so that the multiplier can move by 1 in a sweep
        self.steps = (1.0 / (solver.norms + self.unit)).astype(np.float32)
        self.duals, self.costs = np.zeros(solver.n_rows, np.float32), solver.costs
        self.state, self.done, self.looked = np.zeros(7), 0.0, 0.0
        if start is None:
            self.state[OFFSET] = best_bias(np.zeros(costs.size), self.signs[self.order], costs)
        else:
            kept = (sides != 0) & (start.sides == sides)
            self.duals[kept] = np.minimum(start.duals, solver.costs)[kept]
            self.state[OFFSET] = start.bias
        self.restart()

    def restart(self) -> None:
        """All rows are active; weights and surplus are those of the duals, without the roundings of the way."""
        factors = self.duals.astype(np.float64) * self.signs
        self.weights, self.state[SURPLUS] = self.solver.weights(factors), factors.sum()
        self.averaged, self.n_active, self.state[LOST] = self.duals.copy(), self.order.size, 0.0

    def climb(self, rng: np.random.Generator) -> None:
        """Stages of rising costs: where they are high, duals that end at them would need many sweeps to get there.

        From stage to stage all duals are stretched, by what is best for the dual objective and the costs allow:
        sum of alpha_i - 1/2 |w|^2 has its maximum along the duals at (sum of alpha_i) / |w|^2.
        """
        n_stages = int(np.ceil(np.log(max(self.level / LOW, 1.0)) / np.log(RISE)))
        for stage in range(n_stages, 0, -1):
            self.costs = self.solver.costs * np.float32(RISE**-stage)
            for count in range(MOST):
                self.sweep(rng)
                if count + 1 >= LEAST and self.state[GAP] <= CLOSE * self.primal():
                    break
            late = self.done >= 0.5 * self.solver.sweeps
            rise = RISE**stage if late else RISE
            self.duals, self.costs = self.averaged, self.solver.costs * np.float32(rise * RISE**-stage)
            norm = squared(self.solver.weights(self.duals.astype(np.float64) * self.signs))
            stretch = float(self.duals.sum(dtype=np.float64)) / norm if norm > 0 else rise
            self.duals = np.minimum(self.duals * np.float32(min(max(stretch, 1.0), rise)), self.costs)
            self.state[HIGHEST], self.state[LOWEST] = 0.0, 0.0
            self.restart()
            if late:
                break
        self.costs = self.solver.costs

    def sweep(self, rng: np.random.Generator) -> None:
        """Over the active rows, in a new order; then the multiplier takes what the constant feature has gathered."""
        rng.shuffle(self.order[: self.n_active])
        self.done += max(self.n_active / self.order.size, LEAST_EFFORT)
        problem = self.signs, self.costs, self.steps, self.unit
        changed = self.duals, self.averaged, self.weights, self.state
        self.n_active = sweep(*self.solver.entries, self.order, self.n_active, *problem, *changed)
        self.state[OFFSET] += float(self.unit) * self.state[SURPLUS]

    def primal(self) -> float:
        """The objective, with hinges as they were when their rows had their turn."""
        return 0.5 * squared(self.weights) + float(self.state[LOSS] + self.state[LOST])

    def is_time_to_look(self) -> bool:
        """When the gap seems to be small by what rows showed on the way, or some time has passed."""
        small = not self.state[GAP] > self.solver.tolerance * self.primal()  # also where they are not numbers
        due = self.done >= min(LOOK_AFTER * self.looked, self.solver.sweeps)
        return small or due or self.n_active == 0

    def look(self) -> Look:
        """What the averaged duals stand for. Raises Diverged where it is not finite.

        P is at least sum of alpha_i - 1/2 |w|^2 - b s, s the surplus, at its best bias b. That one is not known; it is
        taken to be within 1, the distance of a margin, of the best bias for w.
        """
        rows, solver, self.looked = self.order, self.solver, self.done
        factors = self.averaged.astype(np.float64) * self.signs
        weights, scores = solver.weights(factors), np.zeros(solver.n_rows)
        products(*solver.entries, rows, weights, scores)
        norm, own, signs = squared(weights), scores[rows], self.signs[rows]
        if not (np.isfinite(norm) and np.isfinite(own).all()):
            raise Diverged("scores of a classifier are not finite", "linear solver", "scale the rows, or lower C")
        costs = solver.costs[rows].astype(np.float64)
        bias = best_bias(own, signs, costs)
        primal = 0.5 * norm + float(costs @ np.maximum(0.0, 1.0 - signs * (own + bias)))
        surplus = float(factors.sum())
        dual = float(self.averaged.sum(dtype=np.float64)) - 0.5 * norm - bias * surplus - abs(surplus)
        return Look(weights, norm, scores, bias, (primal - dual) / primal if primal > 0 else 0.0)

    def halfspace(self, found: Look) -> LinearHalfspace:
        """With the margins of the rows without a side."""
        products(*self.solver.entries, np.flatnonzero(self.sides == 0), found.weights, found.scores)
        margins = found.scores + found.bias
        fit = found.bias, found.squared_norm, self.averaged
        return LinearHalfspace(margins, *fit, found.weights, self.sides, found.gap, self.done)


def squared(weights: Array) -> float:
    """|w|^2 in float64."""
    wide = weights.astype(np.float64)
    return float(wide @ wide)


def entries(rows: Dense | Csr) -> tuple[Array, Array, Array]:
    """(data float32, indices int32, indptr int64) as the kernels take them; dense rows have no indices."""
    if isinstance(rows, Csr):
        return rows.data.astype(np.float32, copy=False), rows.indices, rows.indptr.astype(np.int64, copy=False)
    values = np.ascontiguousarray(rows.values, np.float32)
    return values.reshape(-1), NO_INDICES, np.arange(rows.n_rows + 1, dtype=np.int64) * rows.n_features
