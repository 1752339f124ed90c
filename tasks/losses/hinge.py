"""One-vs-rest hinge: every output is a binary problem, its class against all others."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tasks.exponential import LANES, dot
from tasks.exponential import total as total_of
from tasks.later import numba
from tasks.losses.weights import check_positive_weight, checked_class_weight, row_weights
from tasks.rows.base import Array


@numba.njit(cache=True, nogil=True)
def hinge_rows(scores: Array, labels: Array, weights: Array, positive: float, squared: bool, out: Array) -> float:
    """Fill `out` with d(loss)/d(scores) and return the sum of losses.

    scores, out (n_rows, n_outputs) float; labels (n_rows,) int32, < 0 for a row that is negative everywhere
    weights (n_rows,) float64 multiplies a row's loss; `positive` multiplies the loss of the row's own output
    """
    total, lanes = 0.0, np.empty(LANES)
    one, zero = scores.dtype.type(1), scores.dtype.type(0)
    for i in range(scores.shape[0]):
        row, target, label = scores[i], out[i], labels[i]
        for c in range(row.size):
            margin = one + row[c]
            target[c] = margin if margin > zero else zero
        if label >= 0:
            target[label] = zero
        weight = scores.dtype.type(2 * weights[i] if squared else weights[i])
        if squared:
            total += weights[i] * dot(target, target, lanes)
            for c in range(row.size):
                target[c] *= weight
        else:
            total += weights[i] * total_of(target, lanes)
            for c in range(row.size):
                target[c] = weight if target[c] > zero else zero
        if label >= 0 and row[label] < one:
            margin = one - row[label]
            total += weights[i] * positive * (margin * margin if squared else margin)
            target[label] = -weights[i] * positive * (2.0 * margin if squared else 1.0)
    return total


@dataclass(frozen=True, eq=False)
class OneVsRestHinge:
    """Sum over outputs of max(0, 1 - y s), or of its square; y = +1 for the row's class, -1 for the others.

    squared          square the hinge (scikit-learn's LinearSVC, no factor 1/2)
    positive_weight  multiplies the loss of the one positive output of a row
    class_weight     (n_outputs,) or None: multiplies the loss of the rows of a class
    """

    squared: bool = True
    positive_weight: float = 1.0
    class_weight: Array | None = None

    def __post_init__(self) -> None:
        check_positive_weight(self.positive_weight)
        object.__setattr__(self, "class_weight", checked_class_weight(self.class_weight))

    def residuals(self, scores: Array, labels: Array) -> tuple[float, Array]:
        """See `Loss.residuals`; labels (n_rows,) int32 are outputs, or < 0 for a row of no class."""
        return self.weighted(scores, labels, row_weights(labels, self.class_weight))

    def weighted(self, scores: Array, labels: Array, weights: Array) -> tuple[float, Array]:
        """See `SeparableLoss.weighted`."""
        out = np.empty_like(scores)
        return hinge_rows(scores, labels, weights, float(self.positive_weight), self.squared, out), out

    @property
    def curvature(self) -> float:
        return 2.0 * max(1.0, self.positive_weight) if self.squared else 0.0

    @property
    def penalty_weight(self) -> float:
        return 1.0
