"""What every input format is turned into: a matrix of which rows can be taken in any order, in bounded memory."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from typing import ClassVar

import numpy as np

from pipeline.dataset import Note
from pipeline.ingest.errors import ColumnMismatch
from pipeline.ingest.labels import Labels
from tasks.rows import Csr, Dense, Rows
from tasks.rows.base import Array

SLAB_BYTES = 8 * 2**20  # what a pass over a source reads at once


class Source(ABC):
    """Rows of one part (train, validation or test) as they stand in the user's files."""

    body: ClassVar[str]  # "dense" or "csr"

    def __init__(self, name: str, shape: tuple[int, int], dtype: np.dtype, notes: Sequence[Note] = ()) -> None:
        self.name, self.shape, self.dtype = name, shape, dtype
        self.notes = list(notes)
        self.labels: Labels | None = None  # labels that came with the rows
        self.placed: Callable[[int], str] | None = None  # tells the place of a row that was copied from elsewhere

    @property
    def n_rows(self) -> int:
        return self.shape[0]

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
        step = max(1, SLAB_BYTES // max(1, 2 * self.row_bytes))
        for start in range(0, self.n_rows, step):
            yield start, self.slab(start, min(start + step, self.n_rows), dtype)

    def place(self, row: int) -> str:
        """Where row `row` stands, for messages."""
        return self.placed(row) if self.placed else f"{self.name}, row {row}"


class Pieces:
    """Which file each row stands in, for messages."""

    def __init__(self, name: str, names: Sequence[str], lengths: Sequence[int]) -> None:
        self.name, self.names = name, list(names)
        self.offsets = np.cumsum([0, *lengths])

    def place(self, row: int) -> str:
        piece = int(np.searchsorted(self.offsets, row, side="right")) - 1
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
        owner = np.searchsorted(self.offsets, index, side="right") - 1
        for part in np.unique(owner):
            where = np.flatnonzero(owner == part)
            where = where[np.argsort(index[where], kind="stable")]  # read forwards through the file
            out[where] = self.parts[part][index[where] - self.offsets[part]]
        return out

    def take(self, index: Array, dtype: str) -> Rows:
        return Dense(self._gather(np.asarray(index), np.dtype(dtype)))

    def slab(self, start: int, stop: int, dtype: str | None = None) -> Rows:
        return Dense(self._gather(np.arange(start, stop), np.dtype(dtype or self.dtype)))


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
        return Csr(np.asarray(rows.data, dtype), self._columns(rows.indices), rows.indptr, self.n_features)

    def slab(self, start: int, stop: int, dtype: str | None = None) -> Rows:
        first, last = self.indptr[start], self.indptr[stop]
        indptr = np.asarray(self.indptr[start : stop + 1], np.int64) - first
        data = np.asarray(self.data[first:last], dtype)
        return Csr(data, self._columns(self.indices[first:last]), indptr, self.n_features)

    def _columns(self, indices: Array) -> Array:
        return np.asarray(indices, np.int32) - np.int32(self.base) if self.base else np.asarray(indices, np.int32)


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
