"""Sparse rows in compressed sparse row form."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from tasks.later import numba
from tasks.rows.base import Array, Rows


@numba.njit(cache=True, nogil=True)
def csr_scores(data: Array, indices: Array, indptr: Array, weights: Array, out: Array) -> None:
    """out += X W. data (nnz,), indices (nnz,) int32, indptr (n_rows + 1,) int64, weights (n_features, n_outputs)."""
    for i in range(indptr.size - 1):
        row = out[i]
        for p in range(indptr[i], indptr[i + 1]):
            value = data[p]
            source = weights[indices[p]]
            for c in range(row.size):
                row[c] += value * source[c]


@numba.njit(cache=True, nogil=True)
def csr_add_transposed(data: Array, indices: Array, indptr: Array, residuals: Array, factor: float, out: Array) -> None:
    """out += factor * X' R, touching only the rows of `out` named in `indices`; factor has the dtype of `out`."""
    for i in range(indptr.size - 1):
        source = residuals[i]
        for p in range(indptr[i], indptr[i + 1]):
            value = factor * data[p]
            row = out[indices[p]]
            for c in range(source.size):
                row[c] += value * source[c]


@numba.njit(cache=True, nogil=True)
def csr_scatter(data: Array, indices: Array, indptr: Array, out: Array) -> None:
    """out += X, (n_rows, n_features) of the dtype of `data`; entries of one place add up."""
    for i in range(indptr.size - 1):
        row = out[i]
        for p in range(indptr[i], indptr[i + 1]):
            row[indices[p]] += data[p]


@numba.njit(cache=True, nogil=True)
def csr_places(indptr: Array, index: Array) -> tuple[Array, Array]:
    """Where the entries of the rows `index` (n,) int64 are, in that order: (places (nnz,), indptr (n + 1,)) int64.

    Raises IndexError for a row that is not there.
    """
    starts = np.zeros(index.size + 1, np.int64)
    for i in range(index.size):
        if not 0 <= index[i] < indptr.size - 1:
            raise IndexError("there is no such row")
        starts[i + 1] = starts[i] + indptr[index[i] + 1] - indptr[index[i]]
    places = np.empty(starts[-1], np.int64)
    for i in range(index.size):
        for p in range(starts[i], starts[i + 1]):
            places[p] = indptr[index[i]] + p - starts[i]
    return places, starts


class Csr(Rows):
    """data (nnz,) float32 or float64; indices (nnz,) int32, ascending in a row; indptr (n_rows + 1,) int64."""

    body: ClassVar[str] = "csr"

    def __init__(self, data: Array, indices: Array, indptr: Array, n_features: int) -> None:
        self.data, self.indices, self.indptr = data, indices, indptr
        self.shape = (indptr.size - 1, n_features)

    @property
    def nbytes(self) -> int:
        return int(self.data.nbytes + self.indices.nbytes + self.indptr.nbytes)

    def scores(self, weights: Array) -> Array:
        out = np.zeros((self.n_rows, weights.shape[1]), weights.dtype)
        csr_scores(self.data.astype(weights.dtype, copy=False), self.indices, self.indptr, weights, out)
        return out

    def gradient(self, residuals: Array) -> Array:
        out = np.zeros((self.n_features, residuals.shape[1]), residuals.dtype)
        self.subtract_gradient(residuals, -1.0, out)
        return out

    def subtract_gradient(self, residuals: Array, step: float, weights: Array) -> None:
        data = self.data.astype(weights.dtype, copy=False)
        csr_add_transposed(data, self.indices, self.indptr, residuals, weights.dtype.type(-step), weights)

    def take(self, index: Array) -> Csr:
        places, indptr = csr_places(np.asarray(self.indptr, np.int64), np.asarray(index, np.int64))
        return Csr(self.data[places], self.indices[places], indptr, self.n_features)

    def part(self, start: int, stop: int) -> Csr:
        first, last = self.indptr[start], self.indptr[stop]
        return Csr(
            self.data[first:last], self.indices[first:last], self.indptr[start : stop + 1] - first, self.n_features
        )

    def decoded(self) -> Csr:
        return self

    def to_array(self, dtype: type[np.floating[Any]] = np.float32) -> Array:
        out = np.zeros(self.shape, dtype)
        csr_scatter(self.data.astype(dtype, copy=False), self.indices, self.indptr, out)
        return out

    def squared_norms(self) -> Array:
        owner = np.repeat(np.arange(self.n_rows), np.diff(self.indptr))
        squares = self.data.astype(np.float64) ** 2
        return np.bincount(owner, weights=squares, minlength=self.n_rows).astype(np.float64)  # of no rows: integers


def merged(data: Array, indices: Array, indptr: Array, n_features: int) -> Csr:
    """Rows from entries in any order in their row: sorted, and entries of one place added up in the order given.

    data (nnz,) float, indices (nnz,) integers in [0, n_features), indptr (n_rows + 1,) int64
    """
    owner = np.repeat(np.arange(indptr.size - 1, dtype=np.int64), np.diff(indptr))
    place = owner * n_features + indices
    order = np.argsort(place, kind="stable")
    place = place[order]
    firsts = np.flatnonzero(np.concatenate([[True], place[1:] != place[:-1]])) if place.size else place
    added = np.add.reduceat(data[order], firsts) if place.size else data
    starts = np.searchsorted(place[firsts], np.arange(indptr.size, dtype=np.int64) * n_features)
    return Csr(added, (place[firsts] % n_features).astype(np.int32), starts.astype(np.int64), n_features)
