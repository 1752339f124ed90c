"""Crammer and Singer's hinge at every split on the way to a row's class: the problems of a top-down tree, added up.

A tree's splits share no weights, so training them at once is training each on the rows below it. With a common
regularization lam, split u with n_u of the n rows minimises (lam n / n_u) / 2 |W_u|^2 + its own mean loss: the constant
C of a support vector machine, 1 / (lam n), is the same at all splits.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from tasks.later import numba
from tasks.losses.path_loss import PathLoss
from tasks.rows.base import Array


@numba.njit(cache=True, nogil=True)
def path_crammer_singer_rows(
    scores: Array, labels: Array, starts: Array, first: Array, count: Array, own: Array, out: Array
) -> float:
    """Fill `out` with d(loss)/d(scores) and return the sum of losses.

    scores, out        (n_rows, n_columns) float; labels (n_rows,) int32, classes
    starts             (n_classes + 1,) int64 into the other three: the splits on the path of each class
    first, count, own  (n_steps,) int32: a split's first column, its columns, and which of them leads to the class
    At a split the loss is max_r {[r != own] + s_r} - s_own over its columns r; the maximum is taken at the smallest r.
    """
    total = 0.0
    for i in range(scores.shape[0]):
        for c in range(scores.shape[1]):
            out[i, c] = 0.0
        for step in range(starts[labels[i]], starts[labels[i] + 1]):
            right = own[step]
            worst, highest = right, -np.inf
            for c in range(first[step], first[step] + count[step]):
                value = scores[i, c] + (0.0 if c == right else 1.0)
                if value > highest:
                    worst, highest = c, value
            total += highest - scores[i, right]
            out[i, worst] += 1.0
            out[i, right] -= 1.0
    return total


@dataclass(frozen=True, eq=False)
class PathCrammerSinger(PathLoss):
    """Sum over the splits on a class's path of max over its children r of {[r != y_u] + s_r - s_{y_u}}."""

    kernel: ClassVar[Callable[..., float]] = staticmethod(path_crammer_singer_rows)
