"""Binary support vector machines on the rows of one node: what a solver is given, and what it gives."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from tasks.rows.base import Array
from tasks.svm.classifier import Classifier


@dataclass(frozen=True, eq=False)
class Halfspace:
    """A hyperplane f(x) = w . x + b, w in the space of the kernel, solved for some sides of the rows.

    margins       (n,) float64: f of every row of the node, also of those that it did not learn from
    bias          b, already in the margins
    squared_norm  |w|^2
    duals         (n,) float32 >= 0; above 0: a support vector
    """

    margins: Array
    bias: float
    squared_norm: float
    duals: Array

    @property
    def n_support(self) -> int:
        """Support vectors."""
        return int(np.count_nonzero(self.duals))

    def objective(self, sides: Array, costs: Array) -> float:
        """1/2 |w|^2 + sum of c_i max(0, 1 - side_i f_i) over the rows with a side (equation 1 without the reward)."""
        hinges = np.maximum(0.0, 1.0 - sides * self.margins)[sides != 0]
        return 0.5 * self.squared_norm + float(costs[sides != 0].astype(np.float64) @ hinges)


class BinarySolver(Protocol):
    """min 1/2 |w|^2 + sum of c_i max(0, 1 - side_i f(x_i)) over the rows that have a side, b free of penalty."""

    @property
    def costs(self) -> Array:
        """(n,) float32: c_i of every row of the node."""
        ...

    def solve(self, sides: Array, start: Halfspace | None = None) -> Halfspace:
        """Sides (n,) int8: -1, +1, or 0 for a row that does not count; there must be rows of both signs.

        start  where to begin, of other sides of the same rows
        """
        ...

    def classifier(self, fit: Halfspace, sides: Array) -> Classifier:
        """What a model keeps of it."""
        ...
