"""Binary kernel machines of a node: scikit-learn's SVC (libsvm: Fan, Chen & Lin, JMLR 2005) on a Gram matrix.

libsvm leaves the order of rows alone and draws nothing, so the same matrix gives the same bits. scikit-learn is
imported at the first fit: every worker loads this module, few of them need it.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import numpy as np

from tasks.errors import Diverged, ParamError
from tasks.rows.base import Array
from tasks.svm.bias import best_bias
from tasks.svm.classifier import KernelClassifier
from tasks.svm.solver import Halfspace

STEPS_AT_LEAST, STEPS_A_ROW = 1_000_000, 1_000  # of pairs of duals; a fit that takes more stops where it is
ROWS_AT_ONCE = 256
TOLERANCE = 1e-4  # libsvm's own, 1e-3, leaves 0.3 % of the objective where costs are large; this takes 15 % longer


@dataclass(frozen=True, eq=False)
class KernelSolver:
    """A `BinarySolver` of the rows of one node, all kernel values of which are in memory.

    gram             (n, n) float64, C order: k(row i, row j)
    costs            (n,) float32 >= 0: c_i; a row of cost 0 counts as one without a side
    row_numbers      (n,) int64, ascending: what the rows are called in classifiers
    tolerance        on the violation of the optimality conditions (Fan et al. 2005, eq. 6)
    cache_megabytes  of libsvm, for float32 copies of rows of the matrix
    Raises ParamError.
    """

    gram: Array
    costs: Array
    row_numbers: Array
    tolerance: float = TOLERANCE
    cache_megabytes: float = 200.0

    def __post_init__(self) -> None:
        if not 0 < self.tolerance < 1:
            raise ParamError("tolerance", self.tolerance, "between 0 and 1", "a fit stops when it is reached")
        if not 0 < self.cache_megabytes < np.inf:
            raise ParamError("cache_megabytes", self.cache_megabytes, "above 0", "rows of the matrix are kept there")

    @property
    def n_rows(self) -> int:
        """Rows of the node."""
        return len(self.gram)

    def solve(self, sides: Array, start: Halfspace | None = None) -> Halfspace:
        """As `BinarySolver.solve`; `start` is of no use to libsvm.

        Raises ValueError when the rows that count are not of both signs, Diverged for kernel values that are not
        finite.
        """
        del start
        active = np.flatnonzero((sides != 0) & (self.costs > 0))
        signs = sides[active].astype(np.int8)
        if not (np.any(signs > 0) and np.any(signs < 0)):
            raise ValueError("a binary problem needs rows of both signs")
        duals = np.zeros(self.n_rows, np.float32)
        duals[active] = self._duals(active, signs)
        return self._halfspace(duals, active, signs)

    def classifier(self, fit: Halfspace, sides: Array) -> KernelClassifier:
        """Support vectors by their row numbers, with side_i alpha_i."""
        support = np.flatnonzero(fit.duals)
        coefficients = fit.duals[support] * sides[support].astype(np.float32)
        return KernelClassifier(self.row_numbers[support].astype(np.int64), coefficients, fit.bias)

    def _duals(self, active: Array, signs: Array) -> Array:
        """(len(active),) float64: alpha of the rows that count, which have these signs."""
        from sklearn import config_context
        from sklearn.exceptions import ConvergenceWarning
        from sklearn.svm import SVC

        matrix = self.gram if len(active) == self.n_rows else square_part(self.gram, active)
        limit = max(STEPS_AT_LEAST, STEPS_A_ROW * len(active))
        machine = SVC(C=1.0, kernel="precomputed", tol=self.tolerance, cache_size=self.cache_megabytes, max_iter=limit)
        with config_context(assume_finite=True), warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # the duals are feasible wherever it stops
            machine.fit(matrix, signs, sample_weight=self.costs[active].astype(np.float64))
        duals = np.zeros(len(active))
        duals[machine.support_] = np.abs(machine.dual_coef_[0])
        return duals

    def _halfspace(self, duals: Array, active: Array, signs: Array) -> Halfspace:
        """The hyperplane of these duals, as a model computes it, with the best bias that there is for it."""
        coefficients = np.zeros(self.n_rows)
        coefficients[active] = duals[active] * signs
        with np.errstate(invalid="ignore", over="ignore"):
            products = self.gram @ coefficients  # w . x of every row
        if not np.isfinite(products).all():
            what, hint = "kernel values that are not finite", "look for values that are not finite in the rows"
            raise Diverged(what, "kernel machine", hint)
        bias = best_bias(products[active], signs, self.costs[active])
        squared_norm = max(0.0, float(products @ coefficients))  # rounding may make a Gram matrix indefinite
        return Halfspace(products + bias, bias, squared_norm, duals)


def one_vs_all_kernel(solver: KernelSolver, labels: Array, start: int, stop: int) -> list[KernelClassifier]:
    """Classifiers of the labels start..stop-1: the rows of each against all other rows of the node.

    labels  (n,) integers; each label asked for has rows, and is not the only one
    A class's classifier has the same bits in whatever range it is asked for: ranges can be tasks.
    """
    classifiers = []
    for label in range(start, stop):
        sides = np.where(labels == label, 1, -1).astype(np.int8)
        classifiers.append(solver.classifier(solver.solve(sides), sides))
    return classifiers


def square_part(gram: Array, index: Array) -> Array:
    """gram[index][:, index] as C-order float64, without a copy of whole rows."""
    out = np.empty((len(index), len(index)))
    for start in range(0, len(index), ROWS_AT_ONCE):
        some = index[start : start + ROWS_AT_ONCE]
        out[start : start + ROWS_AT_ONCE] = gram[np.ix_(some, index)]
    return out
