"""Parquet files with a column for each feature: which columns are features, and their rows in bounded memory.

Numbers are features, unless they are labels, an index, or whole numbers that are called as labels or ids are. Where
that does not tell which is which, the columns are to be named: `--rows-at FIRST..LAST`.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from pipeline.dataset import Note
from pipeline.ingest.candidates import (
    LABELS_AT,
    ROWS_AT,
    is_plain,
    listed,
    says_only_what_it_is,
    tells_rows_apart,
)
from pipeline.ingest.errors import FeatureDtype, RaggedEmbedding, UnknownInput
from pipeline.ingest.files import stamp
from pipeline.ingest.labels import Labels
from pipeline.ingest.parquet_file import (
    PAGES,
    batches_from,
    label_columns,
    opened,
    read_labels,
    refuse_too_large,
    vector_columns,
)
from pipeline.ingest.source import SLAB_BYTES, same_names
from pipeline.ingest.stream import Job
from pipeline.ingest.wide import LEAST
from tasks.rows import Dense, Rows
from tasks.rows.base import Array

TO = ".."  # between the first and the last column that `--rows-at` names
LEAST_PAGES = 1 << 14  # bytes of a column that are fetched at a time, however many columns there are


class WideStream:
    """The rows of one file with a column for each feature."""

    body, rides, column = "dense", False, None

    def __init__(self, path: Path, job: Job) -> None:
        self.path, self.name, self.job = path, path.name, job
        self.counts: Counter[str] = Counter()
        with opened(path) as file:
            schema = file.schema_arrow
            _refuse_twins(schema, str(path))
            span = None if job.rows_at is None else _span(schema, job.rows_at, job.labels_at, str(path))
            self.labels_at, self.notes = job.place_of_labels(_label_places(schema, job.labels_at, span), str(path))
            chosen = _default(schema, job, self.labels_at, str(path)) if span is None else span
            self.columns = tuple(name for name in chosen if name != self.labels_at)
            self.dtype = np.result_type(*(_dtype(schema, name, str(path)) for name in self.columns))
            read = {*self.columns, self.labels_at}
            self._beside = [name for name in schema.names if name not in read]
            self.n_rows: int = file.metadata.num_rows
            self._check_declared(file.metadata)
        self.n_features = len(self.columns)
        self.nbytes = self.n_rows * self.n_features * self.dtype.itemsize
        self.about: list[Any] = [*stamp(path), *self.columns]

    def about_columns(self) -> list[Note]:
        """Which columns are features, and which are not read."""
        text = f"{self.name}: {self.n_features:,} columns are features: {self.columns[0]!r} .. {self.columns[-1]!r}"
        return [Note("Columns", f"{text}; not read: {listed(self._beside)}" if self._beside else text)]

    def _check_declared(self, metadata: Any) -> None:
        wanted = {*self.columns, self.labels_at}
        for number in range(metadata.num_row_groups):
            group = metadata.row_group(number)
            chunks = (group.column(place) for place in range(group.num_columns))
            declared = sum(chunk.total_uncompressed_size for chunk in chunks if chunk.path_in_schema in wanted)
            refuse_too_large(declared, "its columns", f"{self.path}, row group {number}", self.job.max_bytes)

    def slabs(self, start: int) -> Iterator[Rows]:
        size = max(1, SLAB_BYTES // (self.n_features * self.dtype.itemsize))
        with opened(self.path, pages=max(LEAST_PAGES, 8 * PAGES // self.n_features)) as file:
            for row, batch in batches_from(file, self.path, self.columns, size, start):
                yield Dense(self._values(batch, row)[max(0, start - row) :])

    def _values(self, batch: Any, first: int) -> Array:
        """(n, n_features) of the stream's dtype; raises RaggedEmbedding for the first column with a gap."""
        values = np.empty((batch.num_rows, self.n_features), self.dtype)
        for place, name in enumerate(self.columns):
            column = batch.column(name)
            if column.null_count:
                row = first + int(np.flatnonzero(column.is_null().to_numpy(zero_copy_only=False))[0])
                hint = "fill the gap, or leave the row out; pandas writes NaN as null"
                raise RaggedEmbedding("the row has no value (null)", f"{self.path}, row {row}, column {name!r}", hint)
            values[:, place] = column.to_numpy(zero_copy_only=False)
        return values

    def labels(self) -> Labels | None:
        return None if self.labels_at is None else read_labels(self.path, self.labels_at)


def is_wide(schema: Any, rows_at: str | None) -> bool:
    """Whether rows are columns of numbers side by side: named as such, or there are some and no column of lists."""
    if rows_at is not None and _ends(schema, rows_at):
        return True
    if vector_columns(schema):
        return False
    return sum(_is_fraction(field.type) or is_plain(field.name) for field in _numbers(schema)) >= LEAST


def same_columns(found: Sequence[tuple[str, ...]], paths: Sequence[Path]) -> None:
    """Raise ColumnMismatch unless all files of a source have the same features in the same order."""
    for path, names in zip(paths, found, strict=True):
        same_names(found[0], names, paths[0].name, str(path), f"; {ROWS_AT} FIRST{TO}LAST names them")


# ---- which columns are what --------------------------------------------------------------------------------------


def _label_places(schema: Any, asked: str | None, span: Sequence[str] | None) -> list[str]:
    """Columns that may be the labels: those asked for may be any, others are told by type or name."""
    found = label_columns(schema)
    if asked is not None:
        return found
    index = _index_columns(schema)
    if span is not None:  # what is beside the features
        found = [name for name in found if name not in set(span)]
    else:
        whole = {field.name for field in _numbers(schema) if is_plain(field.name)}
        found = [name for name in found if name not in whole]
    return [name for name in found if name not in index and not tells_rows_apart(name)]


def _default(schema: Any, job: Job, labels_at: str | None, where: str) -> list[str]:
    """The features where none are named. Raises UnknownInput, FeatureDtype."""
    numbers = [field for field in _numbers(schema) if field.name != labels_at]
    fractions = [field.name for field in numbers if _is_fraction(field.type)]
    whole = [field.name for field in numbers if not _is_fraction(field.type) and is_plain(field.name)]
    features = {*fractions, *whole}
    found = [field.name for field in numbers if field.name in features]
    for field in schema:
        if pa.types.is_decimal(field.type):
            hint = f"write it as float32, or name the features: {ROWS_AT} FIRST{TO}LAST"
            raise FeatureDtype(f"{field.type} values are not read", f"{where}, column {field.name!r}", hint)
    doubtful = [name for name in fractions if says_only_what_it_is(name)]
    if doubtful:
        hint = f"name the features: {ROWS_AT} {_typed(found, doubtful)}; labels are integers or names"
        raise UnknownInput(
            f"is {doubtful[0]!r} a feature? It holds fractions, and is called as labels are", where, hint
        )
    if fractions and whole and labels_at is None and len(found) != job.n_features:
        hint = f"name the features: {ROWS_AT} {_typed(found, whole)}; or the labels: {LABELS_AT} {whole[-1]}"
        raise UnknownInput(f"are {listed(whole)} features, or labels? They hold whole numbers", where, hint)
    if len(found) < LEAST:
        hint = f"name the features: {ROWS_AT} FIRST{TO}LAST"
        raise UnknownInput(f"which of {listed([field.name for field in numbers])} are the features?", where, hint)
    return found


def _typed(found: Sequence[str], without: Sequence[str]) -> str:
    """The first and last of the features that are certain, as they are typed."""
    certain = [name for name in found if name not in without] or list(found)
    return f"{certain[0]}{TO}{certain[-1]}"


def _span(schema: Any, asked: str, labels_at: str | None, where: str) -> list[str]:
    """The columns from FIRST to LAST but the labels. Raises UnknownInput; FeatureDtype where one holds no numbers."""
    names = schema.names
    pair = _ends(schema, asked)
    numbers = [field.name for field in _numbers(schema)]
    if pair is None or names.index(pair[0]) > names.index(pair[1]):
        hint = f"{ROWS_AT} FIRST{TO}LAST takes columns in the file's order, such as {_typed(numbers, [])}"
        raise UnknownInput(f"{asked!r} names no columns of this file", where, hint)
    found = names[names.index(pair[0]) : names.index(pair[1]) + 1]
    read = {*numbers, labels_at}
    wrong = [name for name in found if name not in read]
    if wrong:
        hint = f"if it holds the labels: {LABELS_AT} {wrong[0]}; else name columns of numbers that stand side by side"
        kind = schema.field(wrong[0]).type
        raise FeatureDtype(f"{kind} values are no features", f"{where}, column {wrong[0]!r}", hint)
    return [name for name in found if name != labels_at]


def _ends(schema: Any, asked: str) -> tuple[str, str] | None:
    """The first and the last column of FIRST..LAST; None where these are no columns."""
    names = set(schema.names)
    cuts = [place for place in range(len(asked)) if asked.startswith(TO, place)]
    pairs = ((asked[:place], asked[place + len(TO) :]) for place in cuts)
    return next(((first, last) for first, last in pairs if first in names and last in names), None)


def _refuse_twins(schema: Any, where: str) -> None:
    twins = [name for name, count in Counter(schema.names).items() if count > 1]
    if twins:
        hint = "give each column a name of its own"
        raise UnknownInput(f"names that several columns have: {len(twins):,}, such as {twins[0]!r}", where, hint)


def _numbers(schema: Any) -> list[Any]:
    """Columns of single numbers that are no index."""
    index = _index_columns(schema)
    return [field for field in schema if field.name not in index and (_is_fraction(field.type) or _is_whole(field))]


def _index_columns(schema: Any) -> set[str]:
    """What pandas has written as the index of its rows."""
    try:
        said = json.loads((schema.metadata or {}).get(b"pandas", b"{}"))["index_columns"]
        named = {name for name in said if isinstance(name, str)}
    except (KeyError, TypeError, ValueError):
        named = set()
    return named | {name for name in schema.names if name.startswith("__index_level_")}


def _is_fraction(kind: Any) -> bool:
    """Whether its values can be no labels: fractions, and true or false."""
    return bool(pa.types.is_floating(kind) or pa.types.is_boolean(kind))


def _is_whole(field: Any) -> bool:
    return bool(pa.types.is_integer(field.type))


def _dtype(schema: Any, name: str, where: str) -> np.dtype:
    kind = schema.field(name).type
    try:
        found: np.dtype = np.dtype(kind.to_pandas_dtype())
    except (NotImplementedError, TypeError):
        raise FeatureDtype(f"{kind} values are not read", f"{where}, column {name!r}", "write it as float32") from None
    return found
