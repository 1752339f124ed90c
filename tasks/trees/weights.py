"""Weights of a node that learnt from sparse rows: of the features its rows have, and there only what is not zero.

A learner that starts at 0 with an L2 penalty leaves the weights of features that no training row has at exactly 0, and
a margin loss moves few children for each feature; so a node of a wide tree needs few of its n_features x n_children
numbers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numba
import numpy as np

from tasks.rows import Dense
from tasks.rows.base import Array, Rows
from tasks.rows.csr import Csr

ENTRY_DTYPES = (np.uint16, np.uint32)  # of child numbers: the first that holds them


@numba.njit(cache=True, nogil=True)
def sparse_scores(
    data: Array,
    indices: Array,
    indptr: Array,
    columns: Array,
    starts: Array,
    entries: Array,
    values: Array,
    out: Array,
) -> None:
    """out += X W of sparse rows and sparse weights.

    data (nnz,) float32, indices (nnz,) int32, indptr (n_rows + 1,) int64: X
    columns (n,) int32 ascending, starts (n + 1,) int64, entries (n_entries,) unsigned, values (n_entries,) float32: W,
    see `SparseWeights`; out (n_rows, n_children) float32
    """
    for i in range(indptr.size - 1):
        row = out[i]
        for p in range(indptr[i], indptr[i + 1]):
            feature, value = indices[p], data[p]
            low, high = 0, columns.size
            while low < high:
                middle = (low + high) // 2
                if columns[middle] < feature:
                    low = middle + 1
                else:
                    high = middle
            if low < columns.size and columns[low] == feature:
                for e in range(starts[low], starts[low + 1]):
                    row[entries[e]] += value * values[e]


@numba.njit(cache=True, nogil=True)
def entries_fit(
    columns: Array, column_offsets: Array, entry_offsets: Array, entries: Array, n_children: Array, n_features: int
) -> bool:
    """Whether at every node columns ascend in [0, n_features) and entries are below its number of children.

    The arrays are those of a `LabelTree`; the offsets must have been checked.
    """
    for node in range(n_children.size):
        last = -1
        for c in range(column_offsets[node], column_offsets[node + 1]):
            if columns[c] <= last or columns[c] >= n_features:
                return False
            last = columns[c]
            for e in range(entry_offsets[c], entry_offsets[c + 1]):
                if entries[e] >= n_children[node]:
                    return False
    return True


@dataclass(frozen=True, eq=False)
class SparseWeights:
    """A matrix (n_features, n_children) of which few numbers are not zero, by feature.

    columns  (n,) int32, ascending: the features with a weight that is not zero
    starts   (n + 1,) int64: where the entries of each of them begin
    entries  (n_entries,) uint16 or uint32: the child of each weight, ascending within a feature
    values   (n_entries,) float32
    """

    columns: Array
    starts: Array
    entries: Array
    values: Array
    shape: tuple[int, int]

    @classmethod
    def of(cls, matrix: Array, n_features: int, features: Array | None = None) -> Self:
        """Of a matrix (n, n_children) whose rows are `features` (n,) int32 ascending; None: all features."""
        row, child = np.nonzero(matrix)
        counts = np.bincount(row, minlength=len(matrix))
        used = np.flatnonzero(counts)
        return cls(
            columns=(used if features is None else features[used]).astype(np.int32),
            starts=np.concatenate([[0], np.cumsum(counts[used])]).astype(np.int64),
            entries=child.astype(entry_dtype(matrix.shape[1])),
            values=matrix[row, child].astype(np.float32),
            shape=(n_features, matrix.shape[1]),
        )

    def scores(self, rows: Rows) -> Array:
        """X W, (n_rows, n_children) float32."""
        plain = rows.decoded()
        if not isinstance(plain, Csr):
            return Dense(plain.to_array()[:, self.columns]).scores(self.of_columns())
        out = np.zeros((rows.n_rows, self.shape[1]), np.float32)
        data = plain.data.astype(np.float32, copy=False)
        sparse_scores(data, plain.indices, plain.indptr, self.columns, self.starts, self.entries, self.values, out)
        return out

    def of_columns(self) -> Array:
        """(n, n_children) float32: the rows of the matrix that have weights."""
        matrix = np.zeros((self.columns.size, self.shape[1]), np.float32)
        matrix[np.repeat(np.arange(self.columns.size), np.diff(self.starts)), self.entries] = self.values
        return matrix

    def to_array(self) -> Array:
        """The whole matrix (n_features, n_children) float32."""
        matrix = np.zeros(self.shape, np.float32)
        matrix[self.columns] = self.of_columns()
        return matrix


def entry_dtype(n_children: int) -> type[np.unsignedinteger]:
    """The dtype of child numbers below n_children."""
    return next(dtype for dtype in ENTRY_DTYPES if n_children <= np.iinfo(dtype).max + 1)


# ---- rows of the features that a node learns from ------------------------------------------------------------------


def active_features(rows: Rows) -> Array | None:
    """(n,) int32, ascending: the features that sparse rows have; None for rows of other bodies, which have all."""
    return np.unique(rows.indices).astype(np.int32) if isinstance(rows, Csr) else None


def narrowed(rows: Rows, features: Array | None) -> Rows:
    """Rows with `features` (n,) ascending as their only columns, numbered 0..n-1; the rows themselves for None.

    Features that are not among them are dropped.
    """
    if features is None:
        return rows
    if not isinstance(rows, Csr):  # judged on another body than learnt from
        return Dense(rows.to_array()[:, features])
    position = np.minimum(np.searchsorted(features, rows.indices), max(features.size - 1, 0))
    kept = features[position] == rows.indices if features.size else np.zeros(rows.indices.size, bool)
    before = np.concatenate([[0], np.cumsum(kept)]).astype(np.int64)
    return Csr(rows.data[kept], position[kept].astype(np.int32), before[rows.indptr], features.size)
