"""One-vs-rest logistic loss: every output is a binary logistic regression, its class against all others."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tasks.exponential import LANES
from tasks.exponential import total as total_of
from tasks.later import numba
from tasks.losses.powers import raise_row, sum_log1p
from tasks.losses.weights import check_positive_weight, checked_class_weight, row_weights
from tasks.rows.base import Array


@numba.njit(cache=True, nogil=True, error_model="numpy")  # a check for divisors of 0 would not vectorise
def logistic_rows(scores: Array, labels: Array, weights: Array, positive: float, out: Array) -> float:
    """Fill `out` with d(loss)/d(scores) and return the sum of losses; arguments as in `hinge_rows`."""
    total, lanes = 0.0, np.empty(LANES)
    one, zero = scores.dtype.type(1), scores.dtype.type(0)
    room = np.empty((3, scores.shape[1]), scores.dtype)
    powers, lowered, turns = room[0], room[1], room[2]
    for i in range(scores.shape[0]):
        row, target, label = scores[i], out[i], labels[i]
        for c in range(row.size):
            powers[c] = -abs(row[c])  # e^x is in (0, 1]: neither sign overflows
            target[c] = row[c] if row[c] > zero else zero
        raise_row(powers, zero, lowered, turns)
        loss = sum_log1p(powers, lanes) + total_of(target, lanes)
        weight = scores.dtype.type(weights[i])
        for c in range(row.size):
            target[c] = weight * (powers[c] if row[c] < zero else one) / (one + powers[c])
        if label >= 0:
            lost = np.log1p(np.float64(powers[label])) + max(0.0, -row[label])
            loss += positive * lost - (lost + row[label])
            share = (one if row[label] < zero else powers[label]) / (one + powers[label])
            target[label] = -weights[i] * positive * share
        total += weights[i] * loss
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
