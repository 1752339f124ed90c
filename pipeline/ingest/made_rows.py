"""Rows that a Python function makes, or an iterator gives: what of them is a stream, and what is asked of them."""

from __future__ import annotations

import json
import operator
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import Any, ClassVar

import numpy as np

from pipeline.dataset import Note
from pipeline.ingest.errors import ColumnMismatch, FeatureDtype, FeatureShape, LabelDtype, LengthMismatch, check_columns
from pipeline.ingest.labels import HINT, Labels, from_array
from pipeline.ingest.npz import is_sparse
from pipeline.ingest.stream import check_matrix
from tasks.errors import ParamError
from tasks.rows import Dense, Rows
from tasks.rows.base import Array

Made = Array | tuple[Array, Array]  # rows (n, n_features), or these and their labels (n,), whole numbers


@dataclass(frozen=True)
class MadeRows:
    """Rows of which any block can be made at any time: a source of `ingest`.

    make        block number (from 0) -> rows (block_rows, n_features), fewer in the last block; or (rows, labels),
                labels (n,) whole numbers. A block is the same rows whenever it is asked for, by whichever thread.
    about       what tells these rows from others, the seed of random ones above all, as JSON values: with it an ingest
                that was killed is continued; None: it begins anew
    """

    make: Callable[[int], Made]
    n_rows: int
    n_features: int
    block_rows: int
    about: Any = None
    name: str = "made rows"

    def __post_init__(self) -> None:
        for name in ("n_rows", "n_features", "block_rows"):
            try:
                object.__setattr__(self, name, operator.index(getattr(self, name)))
            except TypeError:
                why = f"{type(getattr(self, name)).__name__} is none"
                raise ParamError(name, getattr(self, name), "a whole number", why) from None
            if getattr(self, name) < 1:
                raise ParamError(name, getattr(self, name), "at least 1", "rows are made block by block")
        try:
            json.dumps(self.about)
        except (TypeError, ValueError):
            why = "it is compared with what an interrupted ingest has noted"
            raise ParamError("about", self.about, "JSON values", why) from None

    def told(self) -> Mapping[str, Any]:
        """What is said of them, as JSON values."""
        sizes = {name: int(getattr(self, name)) for name in ("n_rows", "n_features", "block_rows")}
        return {"name": self.name, "about": self.about, **sizes}

    @property
    def n_blocks(self) -> int:
        return -(-self.n_rows // self.block_rows)


class LabelledRows(Dense):
    """Dense rows that come with labels (n_rows,) int64."""

    def __init__(self, values: Array, labels: Array) -> None:
        super().__init__(values)
        self.labels = labels

    def part(self, start: int, stop: int) -> LabelledRows:
        return LabelledRows(self.values[start:stop], self.labels[start:stop])


def joined(parts: Sequence[Dense]) -> Dense:
    """Dense rows, one below the other, with their labels where they have some."""
    if len(parts) == 1:
        return parts[0]
    values = np.concatenate([part.values for part in parts])
    labelled = [part.labels for part in parts if isinstance(part, LabelledRows)]
    return LabelledRows(values, np.concatenate(labelled)) if labelled else Dense(values)


def rows_made(made: Any, where: str) -> Dense:
    """What a function or an iterator has given.

    Raises FeatureShape, FeatureDtype, LabelDtype, LengthMismatch.
    """
    values, labels = made if isinstance(made, tuple) and len(made) == 2 else (made, None)
    values = _array_of(values, where)
    check_matrix(values.shape, values.dtype, where)
    values = np.ascontiguousarray(values, values.dtype.newbyteorder("="))
    if labels is None:
        return Dense(values)
    labels = np.asarray(labels)
    if labels.dtype.kind not in "iu" or labels.ndim != 1:
        what = f"labels of type {labels.dtype} and shape {labels.shape}: one whole number a row is expected"
        raise LabelDtype(what, where, f"{HINT}; names are given apart, as `labels`")
    if labels.size != len(values):
        raise LengthMismatch(f"{labels.size:,} labels for {len(values):,} rows", where, "give one label a row")
    return LabelledRows(values, from_array(labels, where).values)


def _array_of(values: Any, where: str) -> Array:
    """Raises FeatureShape, FeatureDtype of what is no array of numbers."""
    if is_sparse(values):
        raise FeatureDtype("rows in a sparse matrix", where, "made rows are dense: give matrix.toarray()")
    try:
        found = np.asarray(values)
    except ValueError:  # as of [rows, labels]
        hint = "give an array (n, n_features), or a tuple of such and its labels: (rows, labels)"
        raise FeatureShape(f"a {type(values).__name__} that is no matrix", where, hint) from None
    if found.dtype == object:
        what = f"values of Python objects ({type(values).__name__})"
        raise FeatureDtype(what, where, "give an array of numbers, or a tuple of such and its labels: (rows, labels)")
    return found


class _Stream:
    """What both kinds of made rows have in common."""

    body: ClassVar[str] = "dense"
    rides: ClassVar[bool] = False
    feature_names: ClassVar[None] = None

    def __init__(self, name: str, first: Dense, n_features: int) -> None:
        self.name, self.n_features = name, n_features
        self.dtype = first.values.dtype
        self.carries_labels = isinstance(first, LabelledRows)
        self.notes: list[Note] = []
        self.counts: Counter[str] = Counter()

    def checked(self, made: Any, where: str) -> Dense:
        """Rows that are like the first. Raises the errors of `rows_made`, ColumnMismatch."""
        rows = rows_made(made, where)
        if rows.n_features != self.n_features:
            what = f"{rows.n_features:,} columns where {self.n_features:,} are expected"
            raise ColumnMismatch(what, where, "all rows have the same columns")
        if rows.values.dtype != self.dtype:
            what = f"values of type {rows.values.dtype}, and {self.dtype} before"
            raise FeatureDtype(what, where, "give all rows in one type")
        if isinstance(rows, LabelledRows) != self.carries_labels:
            what = "rows with labels and rows without are mixed"
            raise LengthMismatch(what, where, "give a label of every row, or none and `labels` apart")
        return rows

    def labels(self) -> Labels | None:
        """Those that come with rows are kept beside them."""
        return None


class MadeStream(_Stream):
    """Rows of a function, any block at any time."""

    def __init__(self, source: MadeRows) -> None:
        self.source = source
        where = f"{source.name}, block 0"
        first = rows_made(source.make(0), where)
        super().__init__(source.name, first, source.n_features)
        check_columns(first.n_features, source.n_features, where)
        self.n_rows: int | None = source.n_rows
        self.about = [dict(source.told())]

    @property
    def nbytes(self) -> int:
        return self.source.n_rows * self.n_features * self.dtype.itemsize

    def block(self, number: int) -> Dense:
        """Raises as `checked`, and LengthMismatch for a block of another number of rows."""
        where, source = f"{self.name}, block {number}", self.source
        rows = self.checked(source.make(number), where)
        wanted = min(source.block_rows, source.n_rows - number * source.block_rows)
        if rows.n_rows != wanted:
            raise LengthMismatch(f"{rows.n_rows:,} rows where {wanted:,} are expected", where, "make whole blocks")
        return rows

    def jobs(self, start: int) -> Iterator[Callable[[], Dense]]:
        """Calls that make the rows from row `start` on, where a block begins or all end; they may run side by side."""
        for number in range(-(-start // self.source.block_rows), self.source.n_blocks):
            yield partial(self.block, number)

    def slabs(self, start: int) -> Iterator[Rows]:
        for job in self.jobs(start):
            yield job()


class IteratorStream(_Stream):
    """Rows of an iterator, once, from first to last."""

    def __init__(self, given: Iterator[Made], name: str = "rows of an iterator") -> None:
        self._given, self._place = given, 0
        self.about: list[Any] = []  # nothing tells them from others: such an ingest is never continued
        self.nbytes: int | None = None
        self.n_rows: int | None = None
        found = next(given, None)
        if found is None:
            raise FeatureShape("the iterator gives no rows", name, "give at least one array of rows")
        first = rows_made(found, f"{name}, item 0")
        super().__init__(name, first, first.n_features)
        self._ahead: list[Dense] = [first]  # read and not yet given

    def look(self, n_rows: int) -> list[Dense]:
        """The first rows, at least so many where there are; `slabs` gives them again."""
        given = self._items()
        while sum(rows.n_rows for rows in self._ahead) < n_rows:
            rows = next(given, None)
            if rows is None:
                break
            self._ahead.append(rows)
        return list(self._ahead)

    def _items(self) -> Iterator[Dense]:
        for made in self._given:
            self._place += 1
            yield self.checked(made, f"{self.name}, item {self._place}")

    def slabs(self, start: int) -> Iterator[Rows]:
        assert not start, "an iterator cannot begin in the middle"
        total = 0
        ahead, self._ahead = self._ahead, []
        for rows in chain(ahead, self._items()):
            total += rows.n_rows
            yield rows
        self.n_rows = total
