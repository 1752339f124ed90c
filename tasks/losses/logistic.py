"""One-vs-rest logistic loss: every output is a binary logistic regression, its class against all others."""

from __future__ import annotations

from dataclasses import dataclass

import numba
import numpy as np

from tasks.losses.weights import check_positive_weight, checked_class_weight, row_weights
from tasks.rows.base import Array


@numba.njit(cache=True, nogil=True)
def logistic_rows(scores: Array, labels: Array, weights: Array, positive: float, out: Array) -> float:
    """Fill `out` with d(loss)/d(scores) and return the sum of losses; arguments as in `hinge_rows`."""
    total = 0.0
    for i in range(scores.shape[0]):
        for c in range(scores.shape[1]):
            sign = 1.0 if c == labels[i] else -1.0
            weight = weights[i] * positive if sign > 0.0 else weights[i]
            margin = sign * scores[i, c]
            small = np.exp(-abs(margin))  # in (0, 1]: neither branch overflows
            total += weight * (np.log1p(small) + max(0.0, -margin))
            out[i, c] = -sign * weight * (small if margin >= 0.0 else 1.0) / (1.0 + small)
    return total


@dataclass(frozen=True, eq=False)
class OneVsRestLogistic:
    """Sum over outputs of log(1 + exp(-y s)); y and the weights as in `OneVsRestHinge`."""

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
        return logistic_rows(scores, labels, weights, float(self.positive_weight), out), out

    @property
    def curvature(self) -> float:
        return 0.25 * max(1.0, self.positive_weight)

    @property
    def penalty_weight(self) -> float:
        return 0.05
