"""The convex loss of a label-tree node whose children may share classes (Deng et al. 2011, problem OP2)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tasks.errors import ParamError
from tasks.later import numba
from tasks.losses.weights import checked_class_weight, row_weights
from tasks.rows.base import Array


@numba.njit(cache=True, nogil=True)
def overlap_hinge_rows(scores: Array, labels: Array, weights: Array, partition: Array, out: Array) -> float:
    """Fill `out` with d(loss)/d(scores) and return the sum of losses.

    scores, out (n_rows, Q) float; labels (n_rows,) int32: columns of `partition`; weights (n_rows,) float64
    partition (Q, K) bool: child q holds class k (P in the paper)
    Both the worst inside and the best outside child are the smallest index among equals.
    """
    total = 0.0
    for i in range(scores.shape[0]):
        inside, lowest = -1, np.inf
        outside, highest = -1, -np.inf
        for q in range(scores.shape[1]):
            out[i, q] = 0.0
            if partition[q, labels[i]]:
                if inside < 0 or scores[i, q] < lowest:
                    inside, lowest = q, scores[i, q]
            elif outside < 0 or scores[i, q] > highest:
                outside, highest = q, scores[i, q]
        if inside < 0:
            total += weights[i]  # a class given up: it counts as lost, and pulls no weights
        elif outside >= 0 and 1.0 + highest - lowest > 0.0:
            total += weights[i] * (1.0 + highest - lowest)
            out[i, inside] = -weights[i]
            out[i, outside] = weights[i]
    return total


@dataclass(frozen=True, eq=False)
class OverlapHinge:
    """max{0, 1 + best score outside - WORST score inside}, inside = the children that hold the row's class.

    No child outside: loss 0. No child inside: the constant 1 without gradient, so that the loss still bounds the
    routing loss (the literal maximum over an empty set would give 0).
    partition     (Q, K) bool
    class_weight  (K,) or None: multiplies the loss of a class's rows
    """

    partition: Array
    class_weight: Array | None = None

    def __post_init__(self) -> None:
        partition = np.ascontiguousarray(self.partition, dtype=np.bool_)
        if partition.ndim != 2 or partition.shape[0] < 1:
            raise ParamError(
                "partition", partition.shape, "shape (children, classes)", "each child holds a set of classes"
            )
        object.__setattr__(self, "partition", partition)
        object.__setattr__(self, "class_weight", checked_class_weight(self.class_weight))

    def residuals(self, scores: Array, labels: Array) -> tuple[float, Array]:
        """See `Loss.residuals`; labels (n_rows,) int32 are columns of the partition."""
        out = np.empty_like(scores)
        weights = row_weights(labels, self.class_weight)
        return overlap_hinge_rows(scores, labels, weights, self.partition, out), out

    @property
    def curvature(self) -> float:
        return 0.0

    @property
    def penalty_weight(self) -> float:
        return 1.0
