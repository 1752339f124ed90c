"""Dense rows: float32, float64, or float16 at rest (widened when used)."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from tasks.rows.base import Array, Rows


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

    def scores(self, weights: Array) -> Array:
        return self._as(weights.dtype) @ weights

    def gradient(self, residuals: Array) -> Array:
        return self._as(residuals.dtype).T @ residuals

    def subtract_gradient(self, residuals: Array, step: float, weights: Array) -> None:
        weights -= self._as(weights.dtype).T @ (residuals * weights.dtype.type(step))

    def take(self, index: Array) -> Dense:
        return Dense(self.values[index])

    def decoded(self) -> Dense:
        return self if self.values.dtype != np.float16 else Dense(self._as(np.float32))

    def to_array(self, dtype: type[np.floating[Any]] = np.float32) -> Array:
        return self._as(dtype)

    def squared_norms(self) -> Array:
        values = self._as(np.float64)
        return np.einsum("ij,ij->i", values, values)
