"""Logistic loss of a tree node whose children share no class: of which child a row is, or of none of them."""

from __future__ import annotations

from dataclasses import dataclass

import numba
import numpy as np

from tasks.errors import ParamError
from tasks.rows.base import Array

NONE = -1  # a row of a class that no child holds


@numba.njit(cache=True, nogil=True)
def child_softmax_rows(scores: Array, children: Array, reference: bool, out: Array) -> float:
    """Fill `out` with d(loss)/d(scores) = p - e_child and return the sum of losses, -log p_child each.

    scores, out  (n_rows, Q) float, may be the same; children (n_rows,) int: in [0, Q), or NONE
    reference    whether there is one more output, "none of them", of score 0; without it rows of NONE pull no weights
                 and cost log Q, as those of scores that tell nothing
    """
    total = 0.0
    for i in range(scores.shape[0]):
        child = children[i]
        if child < 0 and not reference:
            total += np.log(scores.shape[1])
            out[i] = 0.0
            continue
        highest = scores[i, 0]
        for q in range(1, scores.shape[1]):
            highest = max(highest, scores[i, q])
        if reference:
            highest = max(highest, scores.dtype.type(0.0))
        own = scores[i, child] - highest if child >= 0 else -highest
        mass = np.exp(-np.float64(highest)) if reference else 0.0
        for q in range(scores.shape[1]):
            out[i, q] = np.exp(scores[i, q] - highest)
            mass += out[i, q]
        for q in range(scores.shape[1]):
            out[i, q] /= mass
        if child >= 0:
            out[i, child] -= 1.0
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
