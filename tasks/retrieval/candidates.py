"""The rows among which neighbours are looked for: the training rows of a dataset, as codes in blocks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from tasks.errors import ArtefactError
from tasks.io import blocks_of, read_labels, read_row_ids, read_rows, read_split
from tasks.models.selection import TRAIN
from tasks.rows.base import Array, Rows

HAMMING, PRESENT = "hamming", "present"


class NoCodes(ArtefactError):
    """Rows that are no codes, or codes of another definition than those that they are compared with."""


@dataclass(frozen=True, eq=False)
class CodedRows:
    """Some rows: codes (n, n_hashes), rows (n,) int64 their places in the store, labels (n,) int32 (-1: not known)."""

    codes: Array
    rows: Array
    labels: Array


class Coded(Protocol):
    """Codes among which neighbours are looked for."""

    @property
    def store(self) -> str: ...

    def parts(self) -> Iterator[CodedRows]:
        """All of them, some at a time."""
        ...


@dataclass(frozen=True, slots=True)
class Candidates:
    """The training rows of a store of codes.

    store    path of the rows store
    dataset  path of the dataset whose rows it encodes, in its order: knows split, labels and source rows
    measure  HAMMING: how many codes differ; PRESENT: the same, in proportion to the codes that not both rows lack
    """

    store: str
    dataset: str
    measure: str = HAMMING

    def parts(self) -> Iterator[CodedRows]:
        """The training rows of one block after the other, from this process's cache when it has them."""
        for block in blocks_of(self.store):
            index = np.flatnonzero(read_split(self.dataset, block.start, block.stop) == TRAIN)
            if index.size:
                codes = codes_of(read_rows(block), block.store)
                labels = read_labels(self.dataset, block.start, block.stop)[index]
                whole = index.size == block.n_rows
                yield CodedRows(codes if whole else codes[index], index + block.start, labels)

    def describe(self, rows: Array) -> tuple[Array, Array]:
        """(source rows int64, labels int32) of stored rows (any shape) int64, reading one block's columns at a time."""
        flat, where = np.unique(rows, return_inverse=True)
        row_ids, labels = np.empty(flat.size, np.int64), np.empty(flat.size, np.int32)
        for block in blocks_of(self.store):
            first, last = np.searchsorted(flat, [block.start, block.stop])
            if first < last:
                places = flat[first:last] - block.start
                row_ids[first:last] = read_row_ids(self.dataset, block.start, block.stop)[places]
                labels[first:last] = read_labels(self.dataset, block.start, block.stop)[places]
        return row_ids[where].reshape(rows.shape), labels[where].reshape(rows.shape)


def codes_of(rows: Rows, where: str) -> Array:
    """The codes (n_rows, n_hashes) that rows are kept as. Raises NoCodes."""
    codes: Array | None = getattr(rows, "codes", None)
    if codes is None:
        raise NoCodes(f"the rows are {rows.body}, not codes", where, "name an encoding of kind wta or dwta")
    return codes
