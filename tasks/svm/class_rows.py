"""Training rows sorted by class in files that are memory-mapped, so that a node reads the rows of its classes alone.

Rows are numbered by class, and within a class as the dataset stores them, which is a random order. They lie in shelves,
files of some consecutive classes each, in the body of the store they come from. Each shelf is the work of one task.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from tasks.calls import write_array
from tasks.digest import digest_arrays
from tasks.features.errors import numbered
from tasks.fit.targets import TRAIN
from tasks.io import (
    Block,
    blocks_of,
    facts_of,
    n_codes_of,
    read_codebooks,
    read_labels,
    read_row_ids,
    read_rows,
    read_split,
)
from tasks.places import at, open_array, read_array, write_whole
from tasks.rows import Csr, Dense, OneHot, PqCodes, Rows
from tasks.rows.base import Array
from tasks.svm.kernels import Kernel
from tasks.trees.gather import gather

SHELF_BYTES = 64 << 20
PARTS = {"dense": ("values",), "pq": ("codes",), "onehot": ("codes",), "csr": ("data", "indices", "indptr")}


@dataclass(frozen=True, slots=True)
class Shelf:
    """Classes first ... last - 1, whose rows are first_row ... last_row - 1."""

    index: int
    first: int
    last: int
    first_row: int
    last_row: int

    @property
    def n_rows(self) -> int:
        return self.last_row - self.first_row


@dataclass(frozen=True, slots=True)
class ClassRows:
    """Where the sorted rows are. Small: it travels with tasks.

    folder   of the shelves' files
    store    of the rows that were sorted; dataset: whose labels
    shelves  in the order of their classes
    """

    folder: str
    store: str
    dataset: str
    shelves: tuple[Shelf, ...]

    @property
    def n_rows(self) -> int:
        return self.shelves[-1].last_row if self.shelves else 0

    def take(self, numbers: Array) -> Dense | Csr:
        """Rows by number, ascending (n,) int64; float32, codes decoded."""
        starts = np.array([shelf.first_row for shelf in self.shelves] + [self.n_rows])
        cuts = np.searchsorted(numbers, starts)
        parts = [
            read_shelf(self, shelf, numbers[first:last] - shelf.first_row)
            for shelf, first, last in zip(self.shelves, cuts, cuts[1:], strict=False)
            if last > first
        ]
        if parts:
            return stacked(parts)
        written = next(shelf for shelf in self.shelves if shelf.n_rows)
        return read_shelf(self, written, np.zeros(0, np.int64))


@dataclass(frozen=True, slots=True)
class RowRuns:
    """The same rows, by runs (see `tasks.svm.gram.RowSource`)."""

    rows: ClassRows

    @property
    def n_rows(self) -> int:
        return self.rows.n_rows

    def take(self, start: int, stop: int) -> Dense | Csr:
        """Rows start ... stop - 1."""
        return self.rows.take(np.arange(start, stop))


def shelves_of(counts: Array, row_bytes: float) -> tuple[Shelf, ...]:
    """The shelves of classes with so many rows each, (K,) int64, of about SHELF_BYTES: part of no result."""
    ends = np.concatenate([[0], np.cumsum(counts)]).astype(int).tolist()
    most, shelves, first = max(1, int(SHELF_BYTES / max(row_bytes, 1.0))), list[Shelf](), 0
    for last in range(1, len(ends)):
        if last == len(ends) - 1 or ends[last + 1] - ends[first] > most:
            shelves.append(Shelf(len(shelves), first, last, ends[first], ends[last]))
            first = last
    return tuple(shelves)


def check_block(block: Block, kernel: Kernel, dataset: str) -> int:
    """Rows of a block, if a kernel can take them. Raises NegativeFeature with the source's row."""
    with numbered(lambda: read_row_ids(dataset, block.start, block.stop)):
        kernel.check(read_rows(block), block.store)
    return block.n_rows


def sort_shelf(shelf: Shelf, rows: ClassRows) -> int:
    """Write one shelf, whole or not at all; one that is there as it was written is left alone.

    Returns its rows. Raises DiskFull.
    """
    done = at(rows.folder) / f"shelf-{shelf.index:05d}.done"
    with contextlib.suppress(OSError, ValueError):
        if done.read_text("ascii") == shelf_digest(rows, shelf):
            return shelf.n_rows
    blocks = blocks_of(rows.store)
    found = [_members(rows.dataset, place, block, shelf) for place, block in enumerate(blocks)]
    block, offset, label = np.concatenate([np.zeros((0, 3), np.int64), *found]).T
    order = np.argsort(label, kind="stable")
    body = gather(list(blocks), block, offset).take(order)
    for part in PARTS[body.body]:
        write_array(_file(rows, shelf, part), getattr(body, part))
    write_whole(done, shelf_digest(rows, shelf).encode())
    return shelf.n_rows


def shelf_digest(rows: ClassRows, shelf: Shelf) -> str:
    """Of what a shelf's files hold. Raises OSError and ValueError where they are missing or cut short."""
    parts = PARTS[facts_of(rows.store).body]
    return digest_arrays(*(read_array(_file(rows, shelf, part)) for part in parts))


def _members(dataset: str, place: int, block: Block, shelf: Shelf) -> Array:
    """(n, 3) int64: block, offset and class of the training rows of a shelf's classes."""
    labels = read_labels(dataset, block.start, block.stop)
    wanted = (read_split(dataset, block.start, block.stop) == TRAIN) & (labels >= shelf.first) & (labels < shelf.last)
    offset = np.flatnonzero(wanted)
    return np.stack([np.full(offset.size, place), offset, labels[offset]], axis=1).astype(np.int64)


def _file(rows: ClassRows, shelf: Shelf, part: str) -> Path:
    return at(rows.folder) / f"shelf-{shelf.index:05d}-{part}.npy"


def read_shelf(rows: ClassRows, shelf: Shelf, offsets: Array) -> Dense | Csr:
    """Rows of a shelf by offset (n,) int64, in memory; its files are mapped only."""
    body = facts_of(rows.store).body
    parts = {part: open_array(_file(rows, shelf, part)) for part in PARTS[body]}
    whole: Rows
    if body == "csr":
        whole = Csr(parts["data"], parts["indices"], np.array(parts["indptr"]), facts_of(rows.store).n_features)
    elif body == "pq":
        whole = PqCodes(parts["codes"], read_codebooks(rows.store))
    elif body == "onehot":
        whole = OneHot(parts["codes"], n_codes_of(rows.store))
    else:
        whole = Dense(parts["values"])
    return in_float32(whole.take(offsets).decoded())


def in_float32(rows: Rows) -> Dense | Csr:
    """Decoded rows with float32 values."""
    if isinstance(rows, Csr):
        return Csr(np.asarray(rows.data, np.float32), np.asarray(rows.indices), rows.indptr, rows.n_features)
    return Dense(np.ascontiguousarray(rows.to_array(), np.float32))


def stacked(parts: Sequence[Dense | Csr]) -> Dense | Csr:
    """Rows one below the other."""
    if len(parts) == 1:
        return parts[0]
    sparse = [part for part in parts if isinstance(part, Csr)]
    if not sparse:
        return Dense(np.concatenate([part.to_array() for part in parts]))
    lengths = np.concatenate([np.diff(part.indptr) for part in sparse])
    return Csr(
        np.concatenate([part.data for part in sparse]),
        np.concatenate([part.indices for part in sparse]),
        np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64),
        parts[0].n_features,
    )


def quotas(counts: Array, most: int) -> Array:
    """Rows taken of each class, (K,) int64, together at most `most` but one of each class: small classes whole.

    counts  (K,) rows of each. The others get alike, the largest of them one more.
    """
    counts = np.asarray(counts, np.int64)
    if counts.sum() <= most:
        return counts
    order = np.argsort(counts, kind="stable")
    taken, left = np.zeros_like(counts), most
    for place, k in enumerate(order.tolist()):
        share = left // (counts.size - place)
        taken[k] = min(int(counts[k]), max(1, share)) if counts[k] else 0
        left -= int(taken[k])
    return taken


@dataclass(frozen=True, eq=False)
class NodeRows:
    """Rows of some classes, or a sample of them.

    numbers  (n,) int64, ascending: which rows
    labels   (n,) int32: class of each, as a place among the node's classes
    counts   (K,) int64: all rows of each class; weights (n,) float32: how many of them a row stands for
    """

    numbers: Array
    labels: Array
    counts: Array
    weights: Array

    @classmethod
    def of(cls, starts: Array, classes: Array, most: int) -> NodeRows:
        """starts (n_classes + 1,) int64: number of the first row of each class; classes (K,) ascending."""
        counts = np.diff(starts)[classes]
        taken = quotas(counts, most)
        numbers = np.concatenate([np.arange(starts[k], starts[k] + m) for k, m in zip(classes, taken, strict=True)])
        labels = np.repeat(np.arange(classes.size, dtype=np.int32), taken)
        weight = counts / np.maximum(taken, 1)
        return cls(numbers.astype(np.int64), labels, counts, weight.astype(np.float32)[labels])

    @property
    def n_rows(self) -> int:
        return int(self.numbers.size)

    @property
    def whole(self) -> bool:
        """Whether these are all rows of the classes."""
        return self.n_rows == int(self.counts.sum())

    def where(self, kept: Array) -> NodeRows:
        """The rows of a mask (n,) bool, each standing for as many as before."""
        return replace(self, numbers=self.numbers[kept], labels=self.labels[kept], weights=self.weights[kept])
