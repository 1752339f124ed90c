"""Weights of a node that learnt from sparse rows: of the features its rows have, and there only what is not zero.

A learner that starts at 0 with an L2 penalty leaves the weights of features that no training row has at exactly 0, and
a margin loss moves few children for each feature; so a node of a wide tree needs few of its n_features x n_children
numbers. They are held number by number (`SparseWeights`), or, where most numbers of a feature that has any are not
zero, feature by feature (`ActiveWeights`): no more bytes, and vectors at prediction.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from tasks.later import numba
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
def count_entries(matrix: Array) -> Array:
    """(n,) int64: the numbers of each row of a matrix (n, m) that are not 0."""
    counts = np.zeros(matrix.shape[0], np.int64)
    for i in range(matrix.shape[0]):
        for j in range(matrix.shape[1]):
            counts[i] += 1 if matrix[i, j] != 0 else 0
    return counts


@numba.njit(cache=True, nogil=True)
def take_entries(matrix: Array, used: Array, entries: Array, values: Array) -> None:
    """Fill entries and values, both (n_entries,), with the columns and numbers that are not 0 of the rows `used`."""
    at = 0
    for i in used:
        for j in range(matrix.shape[1]):
            if matrix[i, j] != 0:
                entries[at], values[at] = j, matrix[i, j]
                at += 1


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
        counts = count_entries(matrix)
        used = np.flatnonzero(counts)
        starts = np.concatenate([[0], np.cumsum(counts[used])]).astype(np.int64)
        entries, values = np.empty(starts[-1], entry_dtype(matrix.shape[1])), np.empty(starts[-1], np.float32)
        take_entries(matrix, used, entries, values)
        columns = (used if features is None else features[used]).astype(np.int32)
        return cls(columns, starts, entries, values, (n_features, matrix.shape[1]))

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

    def by_feature(self) -> ActiveWeights:
        """Whole rows of the matrix."""
        return ActiveWeights(self.columns, self.of_columns(), self.shape)

    def by_number(self) -> SparseWeights:
        return self

    def bytes_by_feature(self) -> int:
        return 4 * int(self.columns.size) * self.shape[1]

    def bytes_by_number(self) -> int:
        return int(self.values.nbytes + self.entries.nbytes + 8 * self.columns.size)


@dataclass(frozen=True, eq=False)
class ActiveWeights:
    """A matrix (n_features, n_children) of which few rows are not zero.

    columns  (n,) int32, ascending: the features with weights
    matrix   (n, n_children) float32, C order: their rows
    """

    columns: Array
    matrix: Array
    shape: tuple[int, int]

    def scores(self, rows: Rows) -> Array:
        """X W, (n_rows, n_children) float32."""
        return narrowed(rows.decoded(), self.columns).scores(self.matrix)

    @classmethod
    def of(cls, matrix: Array) -> Self:
        """Of a matrix (n_features, n_children): its rows that are not zero."""
        columns = np.flatnonzero(matrix.any(axis=1)).astype(np.int32)
        return cls(columns, np.asarray(matrix[columns], np.float32), (matrix.shape[0], matrix.shape[1]))

    def to_array(self) -> Array:
        """The whole matrix (n_features, n_children) float32."""
        matrix = np.zeros(self.shape, np.float32)
        matrix[self.columns] = self.matrix
        return matrix

    def by_feature(self) -> ActiveWeights:
        return self

    def by_number(self) -> SparseWeights:
        """Number by number, those that are zero left out."""
        return SparseWeights.of(self.matrix, self.shape[0], self.columns)

    def bytes_by_feature(self) -> int:
        return int(self.matrix.nbytes)

    def bytes_by_number(self) -> int:
        entry = np.dtype(entry_dtype(self.shape[1])).itemsize + self.matrix.itemsize
        return int(np.count_nonzero(self.matrix)) * entry + 8 * int(self.columns.size)


AnyWeights = Array | SparseWeights | ActiveWeights


def node_scores(rows: Rows, weights: AnyWeights, bias: Array) -> Array:
    """X W + b at one node: weights (n_features, n_children), bias (n_children,) -> (n_rows, n_children)."""
    scores: Array = rows.scores(weights) if isinstance(weights, np.ndarray) else weights.scores(rows)
    scores += bias
    return scores


def entry_dtype(n_children: int) -> type[np.unsignedinteger]:
    """The dtype of child numbers below n_children."""
    return next(dtype for dtype in ENTRY_DTYPES if n_children <= np.iinfo(dtype).max + 1)


# ---- the weights of all nodes ---------------------------------------------------------------------------------------


def joined(matrices: Sequence[AnyWeights], n_children: Array) -> dict[str, Array]:
    """The tensors that hold the weights of a tree's inner nodes, all in one form.

    matrices  of the inner nodes, by node id; n_children (n_nodes,) int32. If any node has few of its features, all
    are held in whichever form of those takes fewer bytes: by features or by numbers; otherwise as matrices.
    """
    if all(isinstance(one, np.ndarray) for one in matrices):
        plain = [np.asarray(one, np.float32).reshape(-1) for one in matrices]
        return {"weights": np.concatenate([np.zeros(0, np.float32), *plain])}
    few = [ActiveWeights.of(one) if isinstance(one, np.ndarray) else one for one in matrices]
    inner = np.flatnonzero(n_children)
    if sum(one.bytes_by_feature() for one in few) <= sum(one.bytes_by_number() for one in few):
        features = [one.by_feature() for one in few]
        return _columns(features, inner, n_children.size) | {"weights": _chained(features, "matrix", np.float32)}
    numbers = [one.by_number() for one in few]
    lengths = np.concatenate([np.diff(one.starts) for one in numbers])
    return _columns(numbers, inner, n_children.size) | {
        "weights": _chained(numbers, "values", np.float32),
        "entry_offsets": np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64),
        "entries": _chained(numbers, "entries", entry_dtype(int(n_children.max()))),
    }


def _columns(few: Sequence[SparseWeights | ActiveWeights], inner: Array, n_nodes: int) -> dict[str, Array]:
    counts = np.zeros(n_nodes, np.int64)
    counts[inner] = [one.columns.size for one in few]
    offsets = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    return {"columns": _chained(few, "columns", np.int32), "column_offsets": offsets}


def _chained(few: Sequence[SparseWeights | ActiveWeights], name: str, dtype: Any) -> Array:
    return np.concatenate([getattr(one, name).reshape(-1).astype(dtype, copy=False) for one in few])


# ---- rows of the features that a node learns from ------------------------------------------------------------------


TABLE_FEATURES = 1 << 26  # a table of all features is made for at most so many (256 MB); more are searched


def active_features(rows: Rows) -> Array | None:
    """(n,) int32, ascending: the features that sparse rows have; None for rows of other bodies, which have all."""
    if not isinstance(rows, Csr):
        return None
    if rows.n_features > TABLE_FEATURES:
        return np.unique(rows.indices).astype(np.int32)
    had = np.zeros(rows.n_features, bool)
    had[rows.indices] = True
    return np.flatnonzero(had).astype(np.int32)


def narrowed(rows: Rows, features: Array | None) -> Rows:
    """Rows with `features` (n,) ascending as their only columns, numbered 0..n-1; the rows themselves for None.

    Features that are not among them are dropped.
    """
    if features is None:
        return rows
    if not isinstance(rows, Csr):  # judged on another body than learnt from
        return Dense(rows.to_array()[:, features])
    position = _positions(rows, features)
    kept = position >= 0
    if kept.all():
        return Csr(rows.data, position, rows.indptr, features.size)
    before = np.concatenate([[0], np.cumsum(kept)]).astype(np.int64)
    return Csr(rows.data[kept], position[kept], before[rows.indptr], features.size)


def _positions(rows: Csr, features: Array) -> Array:
    """(nnz,) int32: where the feature of each entry is among `features`, -1 where it is not."""
    if rows.n_features <= TABLE_FEATURES:
        table = np.full(rows.n_features, -1, np.int32)
        table[features] = np.arange(features.size, dtype=np.int32)
        return np.asarray(table[rows.indices])
    place = np.minimum(np.searchsorted(features, rows.indices), max(features.size - 1, 0))
    kept = features[place] == rows.indices if features.size else np.zeros(rows.indices.size, bool)
    return np.where(kept, place, -1).astype(np.int32)
