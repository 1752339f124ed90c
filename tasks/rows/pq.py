"""Rows held as product-quantiser codes (Harchaoui et al. 2012, section 4); X always means the reconstruction."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

import numpy as np

from tasks.quantize.products import (
    decode,
    scores,
    scores16,
    squared_norms,
    subtract_products,
    tables_pay,
)
from tasks.rows.base import Array, Rows
from tasks.rows.dense import Dense

ROWS_AT_ONCE = 1024  # rows decoded at a time


class PqCodes(Rows):
    """codes (n_rows, n_subquantizers) uint8; codebooks (n_subquantizers, n_centroids, width) float32."""

    body: ClassVar[str] = "pq"

    def __init__(self, codes: Array, codebooks: Array) -> None:
        self.codes, self.codebooks = codes, codebooks
        self.shape = (codes.shape[0], codebooks.shape[0] * codebooks.shape[2])

    @property
    def nbytes(self) -> int:
        return int(self.codes.nbytes)

    def _slices(self, dtype: Any) -> Iterator[tuple[slice, Array]]:
        for start in range(0, self.n_rows, ROWS_AT_ONCE):
            where = slice(start, start + ROWS_AT_ONCE)
            yield where, decode(self.codes[where], self.codebooks, dtype)

    def scores(self, weights: Array) -> Array:
        """By tables of codebook products (Algorithm 1) for many rows, by decoding slices for few."""
        if tables_pay(self.n_rows, self.codebooks, weights.shape[1], weights.dtype):
            return scores(self.codes, self.codebooks, weights)
        out = np.empty((self.n_rows, weights.shape[1]), weights.dtype)
        for where, values in self._slices(weights.dtype):
            np.matmul(values, weights, out=out[where])
        return out

    def scores16(self, weights: Array) -> Array:
        """As `scores` in float32 by 16-bit tables: faster, and at most `tables16.error_bound` away."""
        return scores16(self.codes, self.codebooks, weights)

    def gradient(self, residuals: Array) -> Array:
        """By sums of residuals per code (Algorithm 2) for many rows, by decoding slices for few."""
        out = np.zeros((self.n_features, residuals.shape[1]), residuals.dtype)
        self.subtract_gradient(residuals, -1.0, out)
        return out

    def subtract_gradient(self, residuals: Array, step: float, weights: Array) -> None:
        factor = weights.dtype.type(step)
        if tables_pay(self.n_rows, self.codebooks, weights.shape[1], weights.dtype):
            subtract_products(self.codes, self.codebooks, residuals, factor, weights)
            return
        for where, values in self._slices(weights.dtype):
            weights -= values.T @ (residuals[where] * factor)

    def take(self, index: Array) -> PqCodes:
        return PqCodes(self.codes[index], self.codebooks)

    def part(self, start: int, stop: int) -> PqCodes:
        return PqCodes(self.codes[start:stop], self.codebooks)

    def decoded(self) -> Dense:
        return Dense(self.to_array())

    def to_array(self, dtype: type[np.floating[Any]] = np.float32) -> Array:
        return decode(self.codes, self.codebooks, dtype)

    def squared_norms(self) -> Array:
        return squared_norms(self.codes, self.codebooks)
