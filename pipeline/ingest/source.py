"""What every input format is turned into: a matrix of which rows can be taken in any order, in bounded memory."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from typing import ClassVar

import numpy as np

from pipeline.dataset import Note
from pipeline.ingest.errors import ColumnMismatch
from pipeline.ingest.labels import Labels
from tasks.later import later
from tasks.rows import Csr, Dense, Rows
from tasks.rows.base import Array

sparse = later("scipy.sparse")

SLAB_BYTES = 8 * 2**20  # what a pass over a source reads at once
PIECE_BYTES = 32 * 2**20  # of rows in float32 that are encoded at once


class Source(ABC):
    """Rows of one part (train, validation or test) as they stand in the user's files."""

    body: ClassVar[str]  # "dense" or "csr"

    def __init__(self, name: str, shape: tuple[int, int], dtype: np.dtype, notes: Sequence[Note] = ()) -> None:
        self.name, self.shape, self.dtype = name, shape, dtype
        self.notes = list(notes)
        self.labels: Labels | None = None  # labels that came with the rows
        self.feature_names: tuple[str, ...] | None = None  # of the columns in the files, where they have names
        self.columns: Array | None = None  # (n_features,) int64: where in the files each feature stands
        self.placed: Callable[[int], str] | None = None  # tells the place of a row that was copied from elsewhere

    @property
    def n_rows(self) -> int:
        return self.shape[0]

    @property
    def known_rows(self) -> int | None:
        """Their number; None while nobody knows."""
        return self.n_rows

    @property
    def n_features(self) -> int:
        return self.shape[1]

    @property
    @abstractmethod
    def row_bytes(self) -> int:
        """Mean bytes of a row as it will be stored in float32."""

    @abstractmethod
    def take(self, index: Array, dtype: str) -> Rows:
        """Rows at `index` (any order), with values of `dtype`."""

    @abstractmethod
    def slab(self, start: int, stop: int, dtype: str | None = None) -> Rows:
        """Rows start..stop with values of `dtype`, or as they stand in the files."""

    def slabs(self, dtype: str | None = "float32") -> Iterator[tuple[int, Rows]]:
        """All rows in order, some at a time: (first row, rows)."""
        for start, stop in self.spans():
            yield start, self.slab(start, stop, dtype)

    def spans(self) -> list[tuple[int, int]]:
        """First row of each slab, and the one after its last."""
        step = max(1, SLAB_BYTES // max(1, 2 * self.row_bytes))
        return [(start, min(start + step, self.n_rows)) for start in range(0, self.n_rows, step)]

    def place(self, row: int) -> str:
        """Where row `row` stands, for messages."""
        return self.placed(row) if self.placed else f"{self.name}, row {row}"


class Pieces:
    """Which file each row stands in, for messages."""

    def __init__(self, name: str, names: Sequence[str], lengths: Sequence[int]) -> None:
        self.name, self.names = name, list(names)
        self.offsets = np.cumsum([0, *lengths])

    def place(self, row: int) -> str:
        piece = min(int(np.searchsorted(self.offsets, row, side="right")), len(self.names)) - 1
        within = f" (row {row - self.offsets[piece]} of {self.names[piece]})" if len(self.names) > 1 else ""
        return f"{self.name}, row {row}{within}"


class DenseSource(Source):
    """One or more matrices of the same width, one below the other; memory-mapped ones stay on disk."""

    body = "dense"

    def __init__(self, name: str, parts: Sequence[tuple[str, Array]], notes: Sequence[Note] = ()) -> None:
        self.parts = [matrix for _, matrix in parts]
        pieces = Pieces(name, [part_name for part_name, _ in parts], [len(matrix) for matrix in self.parts])
        self.offsets = pieces.offsets
        dtype = np.result_type(*(matrix.dtype for matrix in self.parts))
        super().__init__(name, (int(self.offsets[-1]), self.parts[0].shape[1]), dtype, notes)
        self.placed = pieces.place

    @property
    def row_bytes(self) -> int:
        return 4 * self.n_features

    def _gather(self, index: Array, dtype: np.dtype) -> Array:
        out = np.empty((len(index), self.n_features), dtype)
        whole = self.parts[0]
        if len(self.parts) == 1 and type(whole) is np.ndarray and whole.dtype == dtype:  # in memory: copied once
            _refuse_outside(index, len(whole))
            return np.take(whole, index, axis=0, out=out, mode="clip")  # "raise" would copy to and fro
        owner = np.searchsorted(self.offsets, index, side="right") - 1
        for part in np.unique(owner):
            where = np.flatnonzero(owner == part)
            where = where[np.argsort(index[where], kind="stable")]  # read forwards through the file
            out[where] = self.parts[part][index[where] - self.offsets[part]]
        return out

    def take(self, index: Array, dtype: str) -> Rows:
        return self._ordered(self._gather(np.asarray(index), np.dtype(dtype)))

    def slab(self, start: int, stop: int, dtype: str | None = None) -> Rows:
        """Of one matrix, and as they stand there, rows are not copied."""
        kind, part = np.dtype(dtype or self.dtype), int(np.searchsorted(self.offsets, start, side="right")) - 1
        if start < stop <= self.offsets[part + 1]:
            first = self.offsets[part]
            return self._ordered(np.asarray(self.parts[part][start - first : stop - first], kind))
        return self._ordered(self._gather(np.arange(start, stop), kind))

    def _ordered(self, values: Array) -> Dense:
        return Dense(values if self.columns is None else np.ascontiguousarray(values[:, self.columns]))


def _refuse_outside(index: Array, n_rows: int) -> None:
    if len(index) and not 0 <= index.min() <= index.max() < n_rows:
        raise IndexError(f"rows {index.min()}..{index.max()} of {n_rows}")


class CsrSource(Source):
    """Sparse rows: data (nnz,), indices (nnz,), indptr (n_rows + 1,), in memory or memory-mapped.

    base  number of the first column in `indices`; rows that are taken count from 0
    """

    body = "csr"

    def __init__(
        self,
        name: str,
        data: Array,
        indices: Array,
        indptr: Array,
        n_features: int,
        notes: Sequence[Note] = (),
        base: int = 0,
    ) -> None:
        super().__init__(name, (indptr.size - 1, n_features), data.dtype, notes)
        self.data, self.indices, self.indptr, self.base = data, indices, indptr, base

    @property
    def row_bytes(self) -> int:
        return 8 + int(8 * self.indptr[-1] / max(1, self.n_rows))

    def take(self, index: Array, dtype: str) -> Rows:
        rows = Csr(self.data, self.indices, self.indptr, self.n_features).take(index)
        return self._ordered(np.asarray(rows.data, dtype), rows.indices, rows.indptr)

    def slab(self, start: int, stop: int, dtype: str | None = None) -> Rows:
        first, last = self.indptr[start], self.indptr[stop]
        indptr = np.asarray(self.indptr[start : stop + 1], np.int64) - first
        data = np.asarray(self.data[first:last], dtype)
        return self._ordered(data, self.indices[first:last], indptr)

    def _ordered(self, data: Array, indices: Array, indptr: Array) -> Csr:
        columns = np.asarray(indices, np.int32) - np.int32(self.base) if self.base else np.asarray(indices, np.int32)
        if self.columns is None:
            return Csr(data, columns, indptr, self.n_features)
        to = np.empty(self.n_features, np.int32)
        to[self.columns] = np.arange(self.n_features, dtype=np.int32)
        matrix = sparse.csr_matrix((data, to[columns], indptr), shape=(indptr.size - 1, self.n_features))
        matrix = matrix.sorted_indices()  # a copy: the rows may be mapped
        return Csr(matrix.data, matrix.indices.astype(np.int32), matrix.indptr.astype(np.int64), self.n_features)


def check_alike(sources: Sequence[Source]) -> None:
    """Refuse parts that are not the same kind of matrix with the same columns."""
    first = sources[0]
    for other in sources[1:]:
        if other.body != first.body:
            what = f"{first.name} is {first.body} and {other.name} is {other.body}"
            raise ColumnMismatch(what, other.name, "all parts of a dataset have one kind of rows")
        if other.n_features != first.n_features:
            what = f"{first.name} has {first.n_features} columns and {other.name} has {other.n_features}"
            raise ColumnMismatch(what, other.name, "all parts of a dataset have the same columns in the same order")
        if first.feature_names is not None and other.feature_names is not None:
            same_names(first.feature_names, other.feature_names, first.name, other.name)


def same_names(first: Sequence[str], other: Sequence[str], first_name: str, other_name: str, hint: str = "") -> None:
    """Raise ColumnMismatch unless two files have the same features in the same order. hint: what to do beside that"""
    if list(first) == list(other):
        return
    hint = f"all files have the same columns in the same order{hint}"
    only = [*sorted(set(first) ^ set(other))]
    if only:
        where = "this file" if only[0] in set(other) else first_name
        raise ColumnMismatch(f"the feature {only[0]!r} is in {where} alone", other_name, hint)
    pairs = enumerate(zip(first, other, strict=False))
    place, (wanted, name) = next((i, pair) for i, pair in pairs if pair[0] != pair[1])
    raise ColumnMismatch(f"feature {place} is {name!r}, and {wanted!r} in {first_name}", other_name, hint)
