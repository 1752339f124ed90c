"""The overlap hinge (Deng et al. 2011, OP2) with its corners rounded, for methods that want a gradient everywhere."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tasks.errors import ParamError
from tasks.exponential import lower_and_raise32
from tasks.later import numba
from tasks.rows.base import Array

SATISFIED = -16.0  # margins kept by so many widths cost nothing that float32 would tell


@numba.njit(cache=True, nogil=True)
def smooth_overlap_rows(scores: Array, labels: Array, holders: Array, width: float, out: Array) -> float:
    """Fill `out` with d(loss)/d(scores) and return the sum of losses, width * log(1 + sum of exp(violation / width)).

    scores, out  (n_rows, Q) float32; labels (n_rows,) int32; holders (K, Q) bool: the children that hold each class
    The violations of a row are 1 + s_out - s_in, of every pair of a child outside and one inside: their exponentials
    are products of one sum over the children outside and one over those inside.
    """
    n_rows, n_children = scores.shape
    powers, lowered = np.empty(n_children, np.float32), np.empty(n_children, np.float32)
    turns = np.empty(n_children, np.float32)
    bits, turn_bits = powers.view(np.int32), turns.view(np.int32)
    inverse, total = np.float32(1.0 / width), 0.0
    for i in range(n_rows):
        held = holders[labels[i]]
        lowest, highest, summed = np.float32(np.inf), np.float32(-np.inf), 0.0
        for q in range(n_children):
            score = scores[i, q]
            summed += score
            if held[q]:
                lowest = min(lowest, score)
            else:
                highest = max(highest, score)
        if summed - summed != 0.0:  # scores that have diverged are not to look like a class given up
            total, out[i] = np.nan, np.nan
            continue
        worst = (np.float32(1.0) + highest - lowest) * inverse
        if lowest == np.inf:
            total += 1.0  # a class given up: it counts as lost, and pulls no weights
        if lowest == np.inf or highest == -np.inf or worst < SATISFIED:
            out[i] = 0.0
            continue
        for q in range(n_children):
            powers[q] = (lowest - scores[i, q] if held[q] else scores[i, q] - highest) * inverse
        lower_and_raise32(powers, np.float32(0.0), lowered, turns, turn_bits, bits)
        inside, outside = 0.0, 0.0
        for q in range(n_children):
            if held[q]:
                inside += powers[q]
            else:
                outside += powers[q]
        log_sum = np.float64(worst) + np.log(inside) + np.log(outside)
        lost = np.log1p(np.exp(-abs(log_sum))) + max(log_sum, 0.0)
        share = np.exp(log_sum - lost)  # of the violations in 1 + their sum
        down, up = np.float32(-share / inside), np.float32(share / outside)
        for q in range(n_children):
            out[i, q] = powers[q] * (down if held[q] else up)
        total += width * lost
    return total


@dataclass(frozen=True, eq=False)
class SmoothOverlap:
    """`OverlapHinge` with rounded corners: at least its loss, and at most width * log(1 + pairs) more.

    pairs = children outside times children inside; the nearer to 0 the width, the nearer to the hinge.
    partition  (Q, K) bool
    width      > 0: of the corners, in margins
    """

    partition: Array
    width: float

    def __post_init__(self) -> None:
        partition = np.ascontiguousarray(self.partition, dtype=np.bool_)
        if partition.ndim != 2 or partition.shape[0] < 1:
            raise ParamError("partition", partition.shape, "(children, classes)", "each child holds a set of classes")
        if not self.width > 0:
            raise ParamError("width", self.width, "a number > 0", "without a width the corners are those of the hinge")
        object.__setattr__(self, "partition", partition)

    def residuals(self, scores: Array, labels: Array) -> tuple[float, Array]:
        """See `Loss.residuals`, in float32; labels (n_rows,) int32 are columns of the partition."""
        out, scores = np.empty(scores.shape, np.float32), np.ascontiguousarray(scores, np.float32)
        holders = np.ascontiguousarray(self.partition.T)
        return smooth_overlap_rows(scores, labels, holders, float(self.width), out), out

    @property
    def curvature(self) -> float:
        """0: not for single steps."""
        return 0.0

    @property
    def penalty_weight(self) -> float:
        """As of the hinge."""
        return 1.0
