"""Crammer and Singer's multi-class hinge (Zhao & Xing, problem (2))."""

from __future__ import annotations

from dataclasses import dataclass

import numba
import numpy as np

from tasks.losses.weights import checked_class_weight, row_weights
from tasks.rows.base import Array


@numba.njit(cache=True, nogil=True)
def crammer_singer_rows(scores: Array, labels: Array, weights: Array, out: Array) -> float:
    """Fill `out` with d(loss)/d(scores) and return the sum of losses.

    scores, out (n_rows, n_outputs) float; labels (n_rows,) int32 in [0, n_outputs); weights (n_rows,) float64
    A row's loss is max_r {[r != y] + s_r} - s_y; the maximum is taken at the smallest such r.
    """
    total = 0.0
    for i in range(scores.shape[0]):
        label = labels[i]
        worst, highest = 0, -np.inf
        for c in range(scores.shape[1]):
            out[i, c] = 0.0
            value = scores[i, c] + (0.0 if c == label else 1.0)
            if value > highest:
                worst, highest = c, value
        total += weights[i] * (highest - scores[i, label])
        out[i, worst] += weights[i]
        out[i, label] -= weights[i]
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
