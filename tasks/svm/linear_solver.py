"""Linear binary support vector machines for any sides of the rows of a node, by dual coordinate ascent."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tasks.errors import ParamError
from tasks.rows import Csr, Dense
from tasks.rows.base import Array
from tasks.seeds import stream
from tasks.svm.classifier import LinearClassifier
from tasks.svm.linear_ascent import LOW, RISE, Ascent, Look, Problem
from tasks.svm.solver import Halfspace

TOLERANCE = 0.03  # the objective is then mostly within a third of it: the lower bound lags behind
SWEEPS = 300
WARM = 0.05  # gap at which a start is worth going on from whatever the costs


@dataclass(frozen=True, eq=False)
class LinearHalfspace(Halfspace):
    """What one solve gives, and the next may start from.

    weights  (d,) float32: w; sides (n,) int8: what was learned from
    gap      the objective is at most this share of it above the least one
    sweeps   done; one over fewer rows counts less
    Where the hyperplane is that of the start, the duals are not its own, but those that bound the objective from below.
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
        self.n_rows, self.tolerance, self.sweeps = rows.n_rows, tolerance, sweeps
        self.problem = Problem(rows, self.costs)
        self._seed = int(rng.integers(2**63))

    def solve(self, sides: Array, start: Halfspace | None = None) -> LinearHalfspace:
        """See BinarySolver. The objective is not above that which the hyperplane `start` has for these sides.

        A row keeps the dual it has in `start` if it had the same side there. Where costs are high and sides have
        changed, too many of the others are then far from the best, and it begins anew.
        Raises ValueError if a side has no rows, Diverged if scores overflow.
        """
        sides, rng = np.asarray(sides, np.int8), stream(self._seed, "sweeps")
        if not (sides > 0).any() or not (sides < 0).any():
            raise ValueError("a hyperplane needs rows on both of its sides")
        before = start if isinstance(start, LinearHalfspace) else None
        ascent, found = Ascent(self.problem, sides), None
        if before is not None:
            kept = np.where((sides != 0) & (before.sides == sides), before.duals, np.float32(0.0))
            warm = Ascent(self.problem, sides, kept, before.bias)
            look = warm.look()
            if look.gap <= max(WARM, self.tolerance) or warm.level <= LOW * RISE:
                ascent, found = warm, look
        if found is None:
            ascent.climb(rng, 0.5 * self.sweeps)
        while found is None or (found.gap > self.tolerance and ascent.done < self.sweeps):
            ascent.sweep(rng)
            if ascent.is_time_to_look(self.tolerance, self.sweeps):
                found = ascent.look().better(found)
        return self._halfspace(ascent, sides, found, before)

    def _halfspace(self, ascent: Ascent, sides: Array, found: Look, before: LinearHalfspace | None) -> LinearHalfspace:
        """What was found, with the margins of all rows; or the hyperplane from before, if that one is better."""
        self.problem.add_scores(np.flatnonzero(sides == 0), found.weights, found.scores)
        best = ascent.hardened(found) if ascent.share < 1.0 else found
        if before is not None:
            scores = before.margins - before.bias
            bias, primal = ascent.objective(self.costs, before.squared_norm, scores)
            if primal <= best.primal:
                hyperplane = before.weights, before.squared_norm, scores, bias, primal
                best = Look(*hyperplane, best.dual, best.duals)
        parts = best.scores + best.bias, best.bias, best.squared_norm, best.duals
        return LinearHalfspace(*parts, best.weights, sides, best.gap, ascent.done)

    def classifier(self, fit: Halfspace, sides: Array) -> LinearClassifier:
        """Of a fit of this solver the weights that gave its margins; of another, the sum over its support vectors."""
        if isinstance(fit, LinearHalfspace):
            return LinearClassifier(fit.weights, fit.bias)
        return LinearClassifier(self.problem.weights(fit.duals.astype(np.float64) * sides), fit.bias)
