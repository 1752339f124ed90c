"""Rows that are no matrix of numbers yet: they can be counted, cut and encoded, not multiplied."""

from __future__ import annotations

from typing import Any, NoReturn

import numpy as np

from tasks.rows.base import Array, Rows


class UnscoredRows(Rows):
    """Items of different lengths, one after the other. offsets (n_rows + 1,) int64 from 0."""

    offsets: Array

    def _refuse(self) -> NoReturn:
        raise TypeError(f"rows of body {self.body} are no matrix of numbers: encode them first")

    def scores(self, weights: Array) -> Array:  # noqa: ARG002
        """Raises TypeError, as do all verbs of matrices."""
        self._refuse()

    def gradient(self, residuals: Array) -> Array:  # noqa: ARG002
        """Raises TypeError."""
        self._refuse()

    def subtract_gradient(self, residuals: Array, step: float, weights: Array) -> None:  # noqa: ARG002
        """Raises TypeError."""
        self._refuse()

    def decoded(self) -> Rows:
        """Raises TypeError."""
        self._refuse()

    def to_array(self, dtype: type[np.floating[Any]] = np.float32) -> Array:  # noqa: ARG002
        """Raises TypeError."""
        self._refuse()

    def squared_norms(self) -> Array:
        """Raises TypeError."""
        self._refuse()


def places_of(offsets: Array, index: Array) -> tuple[Array, Array]:
    """Where the items `index` (n,) lie: (places (total,) int64, their own offsets (n + 1,) int64)."""
    index = np.asarray(index, np.int64)
    lengths = offsets[index + 1] - offsets[index]
    ends = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    places = np.repeat(offsets[index] - ends[:-1], lengths) + np.arange(ends[-1], dtype=np.int64)
    return places, ends
