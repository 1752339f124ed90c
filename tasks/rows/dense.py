"""Dense rows: float32, float64, or float16 at rest (widened when used)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

import numpy as np

from tasks.later import later
from tasks.rows.base import Array, Rows

blas = later("scipy.linalg.blas")

ROWS_AT_ONCE = 1024  # rows widened to another dtype at a time


class Dense(Rows):
    """values (n_rows, n_features) float16, float32 or float64, C order."""

    body: ClassVar[str] = "dense"

    def __init__(self, values: Array) -> None:
        self.values = values
        self.shape = (values.shape[0], values.shape[1])

    @property
    def nbytes(self) -> int:
        return int(self.values.nbytes)

    def _as(self, dtype: Any) -> Array:
        return np.ascontiguousarray(self.values, dtype=dtype)

    def _slices(self, dtype: Any) -> Iterator[tuple[slice, Array]]:
        """All rows at once where they have the dtype; otherwise copies of ROWS_AT_ONCE rows."""
        size = max(1, self.n_rows) if self.values.dtype == dtype else ROWS_AT_ONCE
        for start in range(0, self.n_rows, size):
            where = slice(start, start + size)
            yield where, np.ascontiguousarray(self.values[where], dtype=dtype)

    def scores(self, weights: Array) -> Array:
        out = np.empty((self.n_rows, weights.shape[1]), weights.dtype)
        for where, values in self._slices(weights.dtype):
            np.matmul(values, weights, out=out[where])
        return out

    def gradient(self, residuals: Array) -> Array:
        out = np.zeros((self.n_features, residuals.shape[1]), residuals.dtype)
        for where, values in self._slices(residuals.dtype):
            out += values.T @ residuals[where]
        return out

    def subtract_gradient(self, residuals: Array, step: float, weights: Array) -> None:
        """Added up inside BLAS: a temporary of the weights' size would cost more than a small batch's product."""
        gemm = blas.sgemm if weights.dtype == np.float32 else blas.dgemm
        in_place = weights.flags.c_contiguous and weights.dtype in (np.float32, np.float64)
        for where, values in self._slices(weights.dtype):
            part = np.ascontiguousarray(residuals[where], dtype=weights.dtype)
            if in_place and part.size and values.size:
                gemm(-step, part.T, values.T, beta=1.0, c=weights.T, trans_b=True, overwrite_c=True)
            else:
                weights -= values.T @ (part * weights.dtype.type(step))

    def take(self, index: Array) -> Dense:
        return Dense(self.values[index])

    def part(self, start: int, stop: int) -> Dense:
        return Dense(self.values[start:stop])

    def decoded(self) -> Dense:
        return self if self.values.dtype != np.float16 else Dense(self._as(np.float32))

    def to_array(self, dtype: type[np.floating[Any]] = np.float32) -> Array:
        return self._as(dtype)

    def squared_norms(self) -> Array:
        out = np.empty(self.n_rows)
        for where, values in self._slices(np.float64):
            out[where] = np.einsum("ij,ij->i", values, values)
        return out
