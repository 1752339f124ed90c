"""Least, median, mean and most of numbers that come a block at a time, in bounded memory."""

from __future__ import annotations

import numpy as np

from tasks.rows.base import Array

KEPT_BITS = 20  # of a float32 without its sign: 8 of the exponent, 12 of the fraction
DROPPED_BITS = 31 - KEPT_BITS


class Spread:
    """Of numbers from 0: exact but for the median, which is off by at most 1 part in 8,192 of itself."""

    def __init__(self) -> None:
        self.count, self.total = 0, 0.0
        self.least, self.most = np.inf, -np.inf
        self._bins = np.zeros(1 << KEPT_BITS, np.int64)  # as float32 are ordered, their bits are

    def add(self, values: Array) -> None:
        """values (n,) >= 0, finite."""
        if not values.size:
            return
        self.count += values.size
        self.total += float(values.sum(dtype=np.float64))
        self.least, self.most = min(self.least, float(values.min())), max(self.most, float(values.max()))
        bits = np.ascontiguousarray(values, np.float32).view(np.uint32) >> DROPPED_BITS
        found, counts = np.unique(bits, return_counts=True)
        self._bins[found] += counts

    @property
    def median(self) -> float:
        """The number in the middle, of two the lower one."""
        place = int(np.searchsorted(np.cumsum(self._bins), (self.count - 1) // 2, side="right"))
        middle = np.array([(place << DROPPED_BITS) | (1 << (DROPPED_BITS - 1))], np.uint32).view(np.float32)
        return min(max(float(middle[0]), self.least), self.most)

    def facts(self) -> dict[str, float] | None:
        """None of no numbers."""
        if not self.count:
            return None
        return {"least": self.least, "median": self.median, "mean": self.total / self.count, "most": self.most}


class WholeSpread:
    """Of whole numbers from 0, exact: memory is that of the largest."""

    def __init__(self) -> None:
        self._counts = np.zeros(1, np.int64)

    def add(self, values: Array) -> None:
        """values (n,) whole numbers >= 0."""
        found = np.bincount(values.astype(np.int64), minlength=self._counts.size)
        found[: self._counts.size] += self._counts
        self._counts = found

    def facts(self) -> dict[str, float] | None:
        """None of no numbers."""
        count, there = int(self._counts.sum()), np.flatnonzero(self._counts)
        if not count:
            return None
        median = int(np.searchsorted(np.cumsum(self._counts), (count - 1) // 2, side="right"))
        mean = float(self._counts @ np.arange(self._counts.size)) / count
        return {"least": int(there[0]), "median": median, "mean": mean, "most": int(there[-1])}
