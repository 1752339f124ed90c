"""The risk of centred rows, x - mean, asked of the risk of the rows as they are.

With a free bias nothing changes but what the bias is: W'(x - mean) + c is W'x + (c - W'mean). A search is another
matter: far from the centre, the bias and the weights can only move together, and floats end a search long before.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tasks.rows.base import Array
from tasks.trace.point import Direction, Group, Point
from tasks.trace.risk import LocalRisk, Risk, RiskSums


class CentredRisk:
    """`tasks.trace.risk.Risk` of rows whose mean is zero; every point has a bias. mean (n_features,) float64"""

    def __init__(self, risk: Risk, mean: Array) -> None:
        self.risk, self.offset = risk, mean

    @property
    def n_rows(self) -> int:
        return self.risk.n_rows

    @property
    def n_features(self) -> int:
        return self.risk.n_features

    @property
    def n_classes(self) -> int:
        return self.risk.n_classes

    @property
    def counts(self) -> Array:
        return self.risk.counts

    def group(self, columns: Array) -> Group:
        return self.risk.group(columns)

    def to_centred(self, point: Point) -> Point:
        """The same scores by centred rows."""
        return Point(point.basis, point.core, None if point.bias is None else point.bias + self._shift(point))

    def to_rows(self, point: Point) -> Point:
        """The inverse of `to_centred`."""
        return Point(point.basis, point.core, None if point.bias is None else point.bias - self._shift(point))

    def evaluate(self, point: Point) -> RiskSums:
        sums = self.risk.evaluate(self.to_rows(point))
        return self._turned(sums, self._projected(point))

    def losses(self, point: Point, direction: Direction, steps: Sequence[float]) -> Array:
        shift = self._projected(point) @ direction.core
        moved = Direction(direction.core, (0.0 if direction.bias is None else direction.bias) - shift)
        return self.risk.losses(self.to_rows(point), moved, steps)

    def gradient(self, point: Point, scale: Array | None = None) -> RiskSums:
        return self._turned(self.risk.gradient(self.to_rows(point), scale), self.offset)

    def confusion(self, point: Point) -> Array:
        return self.risk.confusion(self.to_rows(point))

    def mean(self) -> Array:
        return np.zeros(self.n_features)

    def sample(self, n: int) -> LocalRisk:
        raise TypeError(f"a sample of {n} rows is of the rows as they are")

    def whole(self) -> LocalRisk | None:
        return None

    def _projected(self, point: Point) -> Array:
        """(rank,) the mean on the basis."""
        projected: Array = np.asarray(point.basis.columns, np.float64).T @ self.offset
        return projected

    def _shift(self, point: Point) -> Array:
        shift: Array = self._projected(point) @ point.core
        return shift

    @staticmethod
    def _turned(sums: RiskSums, offset: Array) -> RiskSums:
        """With the gradient of centred rows: each row less its offset, whose sum is that of the bias."""
        return RiskSums(sums.rows, sums.loss, sums.gradient - np.outer(offset, sums.bias), sums.bias, sums.entropies)
