"""A loss of the splits on the way to a row's class, in a tree whose splits share no weights."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from tasks.rows.base import Array


@dataclass(frozen=True, eq=False)
class PathLoss:
    """Which splits are on the path of each class; labels are classes, outputs the columns of all splits.

    kernel             (scores, labels, starts, first, count, own, out): fills out with gradients, gives the losses' sum
    starts             (n_classes + 1,) int64 into the other three: the splits on the path of each class
    first, count, own  (n_steps,) int32: a split's first column, its columns, and which of them leads to the class
    """

    kernel: ClassVar[Callable[..., float]]

    starts: Array
    first: Array
    count: Array
    own: Array

    def residuals(self, scores: Array, labels: Array) -> tuple[float, Array]:
        """See `Loss.residuals`; labels (n_rows,) int32."""
        out = np.empty_like(scores)
        return self.kernel(scores, labels, self.starts, self.first, self.count, self.own, out), out

    @property
    def curvature(self) -> float:
        return 0.0

    @property
    def penalty_weight(self) -> float:
        return 1.0
