"""Rows held as product-quantiser codes (Harchaoui et al. 2012, section 4); X always means the reconstruction."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from tasks.rows.base import Array, Rows
from tasks.rows.dense import Dense


class PqCodes(Rows):
    """codes (n_rows, n_subquantizers) uint8; codebooks (n_subquantizers, n_centroids, width) float32."""

    body: ClassVar[str] = "pq"

    def __init__(self, codes: Array, codebooks: Array) -> None:
        self.codes, self.codebooks = codes, codebooks
        self.shape = (codes.shape[0], codebooks.shape[0] * codebooks.shape[2])

    @property
    def nbytes(self) -> int:
        return int(self.codes.nbytes)

    def scores(self, weights: Array) -> Array:
        return self.decoded().scores(weights)

    def gradient(self, residuals: Array) -> Array:
        return self.decoded().gradient(residuals)

    def subtract_gradient(self, residuals: Array, step: float, weights: Array) -> None:
        self.decoded().subtract_gradient(residuals, step, weights)

    def take(self, index: Array) -> PqCodes:
        return PqCodes(self.codes[index], self.codebooks)

    def decoded(self) -> Dense:
        return Dense(self.to_array())

    def to_array(self, dtype: type[np.floating[Any]] = np.float32) -> Array:
        parts = self.codebooks[np.arange(self.codebooks.shape[0])[None, :], self.codes]
        return np.ascontiguousarray(parts.reshape(self.shape), dtype=dtype)

    def squared_norms(self) -> Array:
        return self.decoded().squared_norms()
