"""Logistic loss of a tree node whose children share no class: of which child a row is, or of none of them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tasks.errors import ParamError
from tasks.exponential import LANES, largest
from tasks.exponential import total as total_of
from tasks.later import numba
from tasks.losses.powers import raise_row
from tasks.rows.base import Array

NONE = -1  # a row of a class that no child holds


@numba.njit(cache=True, nogil=True)
def child_softmax_rows(scores: Array, children: Array, reference: bool, out: Array) -> float:
    """Fill `out` with d(loss)/d(scores) = p - e_child and return the sum of losses, -log p_child each.

    scores, out  (n_rows, Q) float, may be the same; children (n_rows,) int: in [0, Q), or NONE
    reference    whether there is one more output, "none of them", of score 0; without it rows of NONE pull no weights
                 and cost log Q, as those of scores that tell nothing
    """
    total, zero = 0.0, scores.dtype.type(0)
    room = np.empty((2, scores.shape[1]), scores.dtype)
    lowered, turns = room[0], room[1]
    few, lanes = np.empty(LANES, scores.dtype), np.empty(LANES)
    for i in range(scores.shape[0]):
        row, child = out[i], children[i]
        if child < 0 and not reference:
            total += np.log(scores.shape[1])
            for q in range(row.size):
                row[q] = zero
            continue
        for q in range(row.size):
            row[q] = scores[i, q]
        highest = largest(row, few)
        if reference and highest < zero:
            highest = zero
        own = np.float64(row[child] - highest) if child >= 0 else -np.float64(highest)
        raise_row(row, highest, lowered, turns)
        mass = total_of(row, lanes) + (np.exp(-np.float64(highest)) if reference else 0.0)
        share = scores.dtype.type(1.0 / mass)
        for q in range(row.size):
            row[q] *= share
        if child >= 0:
            row[child] -= scores.dtype.type(1)
        total += np.log(mass) - own
    return total


@dataclass(frozen=True, eq=False)
class ChildSoftmax:
    """-log of the probability of the child that holds the row's class.

    children   (Q, K) bool: which child holds which class; no class is held by two
    reference  one more output of score 0 for rows of other classes, which have the label -1: "none of these"
    """

    children: Array
    reference: bool = False

    def __post_init__(self) -> None:
        children = np.ascontiguousarray(self.children, dtype=np.bool_)
        if children.ndim != 2 or children.shape[0] < 1 or (children.sum(axis=0) > 1).any():
            raise ParamError(
                "children", children.shape, "(children, classes), no class in two", "a row has one right child"
            )
        object.__setattr__(self, "children", children)

    def residuals(self, scores: Array, labels: Array) -> tuple[float, Array]:
        """See `Loss.residuals`; labels (n_rows,) int32 are columns of `children`, or -1."""
        out = np.empty_like(scores)
        return child_softmax_rows(scores, child_of(self.children, labels), self.reference, out), out

    @property
    def curvature(self) -> float:
        return 0.5

    @property
    def penalty_weight(self) -> float:
        return 0.2


def child_of(children: Array, columns: Array) -> Array:
    """(n_rows,) int32: the child that holds the class of each row, NONE for column -1 and for classes without a child.

    children (Q, K) bool, no class in two; columns (n_rows,) int
    """
    held = np.where(children.any(axis=0), children.argmax(axis=0), NONE)
    return np.where(columns >= 0, held[columns], NONE).astype(np.int32)
