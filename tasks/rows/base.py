"""The contract that every body of rows keeps."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


class Rows(ABC):
    """A matrix X of shape (n_rows, n_features) of which only products and selections are asked for."""

    body: ClassVar[str]
    shape: tuple[int, int]

    @property
    def n_rows(self) -> int:
        return self.shape[0]

    @property
    def n_features(self) -> int:
        return self.shape[1]

    @property
    @abstractmethod
    def nbytes(self) -> int:
        """Bytes held by this body (codebooks shared between blocks are not counted)."""

    @abstractmethod
    def scores(self, weights: Array) -> Array:
        """X W: weights (n_features, n_outputs) float32 or float64 -> (n_rows, n_outputs), dtype of the weights."""

    @abstractmethod
    def gradient(self, residuals: Array) -> Array:
        """X' R: residuals (n_rows, n_outputs) -> (n_features, n_outputs) in the dtype of the residuals."""

    @abstractmethod
    def subtract_gradient(self, residuals: Array, step: float, weights: Array) -> None:
        """weights -= step * X' R in place, touching only what the rows touch (sparse bodies stay sparse)."""

    @abstractmethod
    def take(self, index: Array) -> Rows:
        """The rows at `index` (integers, any order, repeats allowed), in the same body."""

    def part(self, start: int, stop: int) -> Rows:
        """Rows start..stop-1 in the same body; a view where the body can give one."""
        return self.take(np.arange(start, stop))

    @abstractmethod
    def decoded(self) -> Rows:
        """The same rows as `Dense` or `Csr`: what small batches are cut from, and what PQ codes stand for."""

    @abstractmethod
    def to_array(self, dtype: type[np.floating[Any]] = np.float32) -> Array:
        """The full matrix (n_rows, n_features); for tests, small samples and k-means, never for a whole data set."""

    @abstractmethod
    def squared_norms(self) -> Array:
        """(n_rows,) float64: squared Euclidean norm of each row."""
