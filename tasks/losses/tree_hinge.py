"""One hinge for a whole tree (Bengio et al. 2010): a row's worst sibling over all splits on the way to its class."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

from tasks.later import numba
from tasks.losses.path_loss import PathLoss
from tasks.rows.base import Array


@numba.njit(cache=True, nogil=True)
def tree_hinge_rows(
    scores: Array, labels: Array, starts: Array, first: Array, count: Array, own: Array, out: Array
) -> float:
    """Fill `out` with d(loss)/d(scores) and return the sum of losses.

    scores, out        (n_rows, n_columns) float; labels (n_rows,) int32, classes
    starts             (n_classes + 1,) int64 into the other three: the splits on the path of each class
    first, count, own  (n_steps,) int32: a split's first column, its columns, and which of them leads to the class
    A row's loss is max(0, max over splits and columns r other than own of 1 + s_r - s_own); ties go to the upper split,
    then to the lower column.
    """
    total = 0.0
    for i in range(scores.shape[0]):
        for c in range(scores.shape[1]):
            out[i, c] = 0.0
        highest, right, wrong = 0.0, -1, -1
        for step in range(starts[labels[i]], starts[labels[i] + 1]):
            for c in range(first[step], first[step] + count[step]):
                value = 1.0 + scores[i, c] - scores[i, own[step]]
                if c != own[step] and value > highest:
                    highest, right, wrong = value, own[step], c
        if right >= 0:
            total += highest
            out[i, wrong] += 1.0
            out[i, right] -= 1.0
    return total


@dataclass(frozen=True, eq=False)
class TreeHinge(PathLoss):
    """max(0, max over the splits on a class's path and their other columns r of 1 + s_r - s_own): one slack a row."""

    kernel: ClassVar[Callable[..., float]] = staticmethod(tree_hinge_rows)
