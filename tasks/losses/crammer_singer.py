"""Crammer and Singer's multi-class hinge (Zhao & Xing, problem (2))."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tasks.exponential import LANES, largest
from tasks.later import numba
from tasks.losses.weights import checked_class_weight, row_weights
from tasks.rows.base import Array


@numba.njit(cache=True, nogil=True)
def crammer_singer_rows(scores: Array, labels: Array, weights: Array, out: Array) -> float:
    """Fill `out` with d(loss)/d(scores) and return the sum of losses.

    scores, out (n_rows, n_outputs) float; labels (n_rows,) int32 in [0, n_outputs); weights (n_rows,) float64
    A row's loss is max_r {[r != y] + s_r} - s_y; the maximum is taken at the smallest such r.
    """
    total, one, few = 0.0, scores.dtype.type(1), np.empty(LANES, scores.dtype)
    for i in range(scores.shape[0]):
        row, target, label = scores[i], out[i], labels[i]
        for c in range(row.size):
            target[c] = row[c] + one
        target[label] = row[label]
        highest = largest(target, few)
        worst = 0
        while worst < row.size - 1 and target[worst] < highest:
            worst += 1
        total += weights[i] * np.float64(highest - row[label])
        for c in range(row.size):
            target[c] = 0.0
        target[worst] += weights[i]
        target[label] -= weights[i]
    return total


@dataclass(frozen=True, eq=False)
class CrammerSinger:
    """max over classes r of {[r != y] + s_r - s_y}; class_weight (n_classes,) or None multiplies a class's rows."""

    class_weight: Array | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "class_weight", checked_class_weight(self.class_weight))

    def residuals(self, scores: Array, labels: Array) -> tuple[float, Array]:
        """See `Loss.residuals`; labels (n_rows,) int32 are outputs."""
        out = np.empty_like(scores)
        return crammer_singer_rows(scores, labels, row_weights(labels, self.class_weight), out), out

    @property
    def curvature(self) -> float:
        return 0.0

    @property
    def penalty_weight(self) -> float:
        return 1.0
