"""Linear binary support vector machines on the rows of a node, by dual coordinate ascent with a free bias.

min 1/2 |w|^2 + sum of c_i max(0, 1 - y_i (w . x_i + b)). The dual has a number 0 <= alpha_i <= c_i a row, w = sum of
alpha_i y_i x_i, and, since b costs nothing, the constraint sum of alpha_i y_i = 0. It is held by the method of
multipliers: a constant feature adds unit / 2 (sum of alpha_i y_i)^2 to what is minimised, and after each sweep the
multiplier, which is the bias, takes over what that feature has gathered. Sweeps are those of Hsieh et al. 2008.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tasks.errors import Diverged, ParamError
from tasks.rows import Csr, Dense
from tasks.rows.base import Array
from tasks.seeds import stream
from tasks.svm.bias import best_bias
from tasks.svm.classifier import LinearClassifier
from tasks.svm.dual_ascent import GAP, HIGHEST, LOSS, LOWEST, OFFSET, SURPLUS, products, sweep, weights_of
from tasks.svm.solver import Halfspace

TOLERANCE = 0.01
SWEEPS = 100
NO_INDICES = np.zeros(0, np.int32)


@dataclass(frozen=True, eq=False)
class LinearHalfspace(Halfspace):
    """What one solve gives, and the next may start from.

    weights  (d,) float32: w; sides (n,) int8, of the rows that were learned from
    sweeps   done over the rows still active
    gap      certified: the objective is at most this share above the least one
    """

    weights: Array
    sides: Array
    sweeps: int
    gap: float


class LinearSolver:
    """Solves for any sides of the same rows; a pure function of the rows, costs, seed, sides and start.

    rows       Dense or Csr; copied to float32 where they are not
    costs      (n,) float32 > 0: c_i
    rng        one number is drawn from it, the seed of the order in which rows are visited
    tolerance  relative duality gap at which it ends, after at most `sweeps` sweeps
    Raises ParamError for costs, a tolerance or sweeps that are not positive.
    """

    def __init__(
        self,
        rows: Dense | Csr,
        costs: Array,
        rng: np.random.Generator,
        tolerance: float = TOLERANCE,
        sweeps: int = SWEEPS,
    ) -> None:
        costs = np.ascontiguousarray(costs, np.float32)
        if costs.shape != (rows.n_rows,) or not (costs > 0).all():
            raise ParamError("costs", costs.shape, f"{rows.n_rows} numbers above 0", "each row has one")
        if not tolerance > 0:
            raise ParamError("tolerance", tolerance, "a number above 0", "rounding keeps the gap open")
        if sweeps < 1:
            raise ParamError("sweeps", sweeps, "at least 1", "without one nothing is learnt")
        self.rows, self.costs, self.tolerance, self.sweeps = rows, costs, tolerance, sweeps
        self.norms = rows.squared_norms()
        self._arrays = entries(rows)
        self._seed = int(rng.integers(2**63))

    @property
    def n_rows(self) -> int:
        return self.rows.n_rows

    def solve(self, sides: Array, start: Halfspace | None = None) -> LinearHalfspace:
        """See BinarySolver. A row keeps the dual it has in `start` if it had the same side there.

        Raises ValueError if a side is missing, Diverged for rows that are not finite or overflow float32.
        """
        ascent = _Ascent(self, sides, start)
        rng = stream(self._seed, "sweeps")
        for _ in range(self.sweeps):
            ascent.sweep(rng)
            if ascent.seems_done():
                fit = ascent.result()
                if fit.gap <= self.tolerance:
                    return fit
        return ascent.result()

    def classifier(self, fit: Halfspace, sides: Array) -> LinearClassifier:
        """Of a fit of this solver the weights that gave its margins; of another, the sum over its support vectors."""
        if isinstance(fit, LinearHalfspace):
            return LinearClassifier(fit.weights, fit.bias)
        return LinearClassifier(self.weights(fit.duals * sides), fit.bias)

    def weights(self, factors: Array) -> Array:
        """(d,) float32: sum of factor_i x_i, added up in float64."""
        total = np.zeros(self.rows.n_features)
        weights_of(*self._arrays, np.asarray(factors, np.float64), total)
        with np.errstate(over="ignore", invalid="ignore"):
            return total.astype(np.float32)

    def scores(self, weights: Array) -> Array:
        """(n,) float64: x_i . w of every row."""
        out = np.empty(self.n_rows)
        products(*self._arrays, weights, out)
        return out


class _Ascent:
    """The state of one solve."""

    def __init__(self, solver: LinearSolver, sides: Array, start: Halfspace | None) -> None:
        self.solver, self.sides = solver, np.asarray(sides, np.int8)
        self.signs = self.sides.astype(np.float32)
        active = np.flatnonzero(self.sides)
        if not (sides > 0).any() or not (sides < 0).any():
            raise ValueError("a hyperplane needs rows on both of its sides")
        self.order, self.n_active, self.done = active, active.size, 0
        costs = solver.costs[active].astype(np.float64)
        mean = float(solver.norms[active].mean())
        self.unit = np.float32(max(mean, 1.0 / costs.sum(), 1e-30))
        self.steps = (1.0 / (solver.norms + self.unit)).astype(np.float32)
        self.duals, self.state = np.zeros(solver.n_rows, np.float32), np.zeros(6)
        if isinstance(start, LinearHalfspace):
            kept = (self.sides != 0) & (start.sides == self.sides)
            self.duals[kept] = np.minimum(start.duals, solver.costs)[kept]
            self.state[OFFSET] = start.bias
        else:
            self.state[OFFSET] = best_bias(np.zeros(active.size), self.signs[active], costs)
        self._rebuild()

    def _rebuild(self) -> None:
        """The weights and the surplus from the duals: roundings of the way do not stay."""
        factors = self.duals.astype(np.float64) * self.signs
        self.weights, self.state[SURPLUS] = self.solver.weights(factors), factors.sum()

    def sweep(self, rng: np.random.Generator) -> None:
        """Over the active rows, in a new order; then the multiplier takes what the constant feature has gathered."""
        solver, state = self.solver, self.state
        rng.shuffle(self.order[: self.n_active])
        ends = self.order, self.n_active, self.signs, solver.costs, self.steps, self.unit
        self.n_active = sweep(*solver._arrays, *ends, self.duals, self.weights, state)
        state[OFFSET] += float(self.unit) * state[SURPLUS]
        self.done += 1

    def seems_done(self) -> bool:
        """By what the rows showed on the way, which is more than what is left."""
        size = 0.5 * float(self.weights.astype(np.float64) @ self.weights) + self.state[LOSS]
        return bool(self.n_active == 0 or self.state[GAP] <= self.solver.tolerance * size or not np.isfinite(size))

    def result(self) -> LinearHalfspace:
        """What the duals stand for; all rows are active again."""
        solver, rows = self.solver, self.order
        self._rebuild()
        self.n_active, self.state[HIGHEST], self.state[LOWEST] = rows.size, 0.0, 0.0
        margins = solver.scores(self.weights)
        norm = float(self.weights.astype(np.float64) @ self.weights)
        if not (np.isfinite(margins).all() and np.isfinite(norm)):
            raise Diverged(
                "scores of a support vector machine are not finite", "linear solver", "scale the rows, or lower C"
            )
        bias = best_bias(margins[rows], self.signs[rows], solver.costs[rows])
        margins += bias
        fit = LinearHalfspace(margins, bias, norm, self.duals.copy(), self.weights.copy(), self.sides, self.done, 0.0)
        object.__setattr__(fit, "gap", self._gap(fit))
        return fit

    def _gap(self, fit: LinearHalfspace) -> float:
        """(P - D) / P: a lower bound of P is sum of alpha_i - 1/2 |w|^2 - b s, s the surplus, at the best bias b.

        That bias is not known; it is taken to be within 1 of the fit's, the distance of a margin.
        """
        primal, surplus = fit.objective(self.sides, self.solver.costs), self.state[SURPLUS]
        dual = float(self.duals.sum(dtype=np.float64)) - 0.5 * fit.squared_norm
        return (primal - dual + fit.bias * surplus + abs(surplus)) / primal


def entries(rows: Dense | Csr) -> tuple[Array, Array, Array]:
    """(data float32, indices int32, indptr int64) as the kernels take them; of dense rows without indices."""
    if isinstance(rows, Csr):
        return rows.data.astype(np.float32, copy=False), rows.indices, rows.indptr.astype(np.int64, copy=False)
    values = np.ascontiguousarray(rows.values, np.float32)
    return values.reshape(-1), NO_INDICES, np.arange(rows.n_rows + 1, dtype=np.int64) * rows.n_features
