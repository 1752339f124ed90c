"""One-vs-rest hinge: every output is a binary problem, its class against all others."""

from __future__ import annotations

from dataclasses import dataclass

import numba
import numpy as np

from tasks.losses.weights import check_positive_weight, checked_class_weight, row_weights
from tasks.rows.base import Array


@numba.njit(cache=True, nogil=True)
def hinge_rows(scores: Array, labels: Array, weights: Array, positive: float, squared: bool, out: Array) -> float:
    """Fill `out` with d(loss)/d(scores) and return the sum of losses.

    scores, out (n_rows, n_outputs) float; labels (n_rows,) int32, < 0 for a row that is negative everywhere
    weights (n_rows,) float64 multiplies a row's loss; `positive` multiplies the loss of the row's own output
    """
    total = 0.0
    for i in range(scores.shape[0]):
        for c in range(scores.shape[1]):
            sign = 1.0 if c == labels[i] else -1.0
            margin = 1.0 - sign * scores[i, c]
            out[i, c] = 0.0
            if margin > 0.0:
                weight = weights[i] * positive if sign > 0.0 else weights[i]
                total += weight * (margin * margin if squared else margin)
                out[i, c] = -sign * weight * (2.0 * margin if squared else 1.0)
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
