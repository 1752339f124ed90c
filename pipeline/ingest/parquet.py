"""Vectors in a column of Parquet files: a list of numbers a row, of one length; labels in another column.

Row groups are read one after the other and decoded some rows at a time, so memory does not grow with a file.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from pipeline.dataset import Note
from pipeline.ingest.candidates import LABELS_AT, ROWS_AT, labels_place, one_of
from pipeline.ingest.errors import DamagedInput, DeclaredTooLarge, FeatureDtype, FeatureShape, RaggedEmbedding
from pipeline.ingest.files import stamp
from pipeline.ingest.label_parts import LabelParts
from pipeline.ingest.labels import Labels
from pipeline.ingest.npy import shard_order
from pipeline.ingest.source import SLAB_BYTES, Source
from pipeline.ingest.stream import Job, Stream, same_places, spooled
from pipeline.ingest.wide import NUMBER, TEXT, wide_parquet
from tasks.errors import LabelgroveError, is_starved
from tasks.rows import Dense, Rows
from tasks.rows.base import Array

LABEL_ROWS = 1 << 16  # read at a time
PAGES = 1 << 20  # bytes read from disk at a time, in place of a whole column of a row group


def open_parquet(paths: Sequence[Path], job: Job) -> Source:
    """A source over one or more Parquet files. Raises RaggedEmbedding, DeclaredTooLarge, DamagedInput, UnknownInput."""
    streams = [ParquetStream(path, job) for path in paths]
    same_places([stream.column for stream in streams], paths, f"rows ({ROWS_AT})")
    same_places([stream.labels_at for stream in streams], paths, f"labels ({LABELS_AT})")
    filled = [stream for stream in streams if stream.n_rows] or streams[:1]
    if not filled[0].n_rows:
        raise FeatureShape("there are no rows", str(paths[0]), "check how the file was written")
    filled[0].notes += shard_order(paths)
    return spooled(list[Stream](filled), job)


def parquet_labels(path: Path, column: str | None) -> Labels:
    """A column of a Parquet file as labels."""
    with opened(path) as file:
        name = labels_place(label_columns(file.schema_arrow), column, str(path), f"--labels {path.name}:")
        if name is None:
            one_of([], None, "labels", "FILE:COLUMN", str(path))
    assert name is not None
    return _read_labels(path, name)


class ParquetStream:
    """The vectors of one file."""

    body, rides = "dense", False

    def __init__(self, path: Path, job: Job) -> None:
        self.path, self.name, self.job = path, path.name, job
        self.notes: list[Note] = []
        self.counts: Counter[str] = Counter()
        with opened(path) as file:
            schema = file.schema_arrow
            vectors = vector_columns(schema)
            wide = None if vectors else wide_parquet(path, [(field.name, _kind(field)) for field in schema])
            if wide is not None:
                raise wide
            self.column = one_of(vectors, job.rows_at, "rows", ROWS_AT, str(path))
            self.labels_at, notes = job.place_of_labels(label_columns(schema), str(path))
            self.notes += notes
            self.dtype = _dtype_of(schema.field(self.column).type, f"{path}, column {self.column!r}")
            self.groups = [file.metadata.row_group(i).num_rows for i in range(file.num_row_groups)]
            self.n_rows: int = sum(self.groups)
            self._check_declared(file.metadata)
            self.n_features = self._width(file) if self.n_rows else 0
        self.nbytes = self.n_rows * self.n_features * self.dtype.itemsize
        self.about: list[Any] = [*stamp(path), self.column]

    def _check_declared(self, metadata: Any) -> None:
        limit = self.job.max_bytes
        wanted = {column.split(".")[0] for column in (self.column, self.labels_at) if column}
        for number in range(metadata.num_row_groups):
            group = metadata.row_group(number)
            for place in range(group.num_columns):
                chunk = group.column(place)
                name = chunk.path_in_schema.split(".")[0]
                if name not in wanted:
                    continue
                declared = chunk.total_uncompressed_size
                if name == self.column.split(".")[0]:
                    declared = max(declared, chunk.num_values * self.dtype.itemsize)
                if declared > limit:
                    what = f"{declared:,} bytes of {name!r} in one row group; the limit is {limit:,}"
                    hint = "write smaller row groups (row_group_size=), or raise --max-bytes"
                    raise DeclaredTooLarge(what, f"{self.path}, row group {number}", hint)

    def _width(self, file: Any) -> int:
        """Length of the first vector."""
        kind = plain(file.schema_arrow.field(self.column).type)
        width = kind.list_size if pa.types.is_fixed_size_list(kind) else 0
        if not pa.types.is_fixed_size_list(kind):
            with _readable(str(self.path)):
                first = next(iter(file.iter_batches(1, columns=[self.column])))
            lengths = pc.list_value_length(_storage(first.column(self.column)))
            width = lengths[0].as_py() or 0
            if not lengths[0].is_valid:
                self._refuse(0, "has no vector (null)")
        if not width:
            raise FeatureShape("the first vector is empty", f"{self.path}, row 0", "every row has at least one value")
        return int(width)

    def slabs(self, start: int) -> Iterator[Rows]:
        with opened(self.path) as file:
            first = 0
            for number, n_rows in enumerate(self.groups):
                if start < first + n_rows:
                    for row, batch in self._batches(file, number, first):
                        stop = row + batch.num_rows
                        if stop > start:
                            yield Dense(self._values(_storage(batch.column(self.column)), row)[max(0, start - row) :])
                first += n_rows

    def _batches(self, file: Any, group: int, first: int) -> Iterator[tuple[int, Any]]:
        size = max(1, SLAB_BYTES // (self.n_features * self.dtype.itemsize))
        with _readable(f"{self.path}, row group {group}"):
            for batch in file.iter_batches(size, row_groups=[group], columns=[self.column], use_threads=False):
                yield first, batch
                first += batch.num_rows

    def _values(self, vectors: Any, first: int) -> Array:
        """(n, n_features) of the stream's dtype; raises RaggedEmbedding for the first row that does not fit."""
        if vectors.null_count:
            row = int(np.flatnonzero(vectors.is_null().to_numpy(zero_copy_only=False))[0])
            self._refuse(first + row, "has no vector (null)")
        if not pa.types.is_fixed_size_list(vectors.type):
            lengths = pc.list_value_length(vectors).to_numpy(zero_copy_only=False)
            wrong = np.flatnonzero(lengths != self.n_features)
            if wrong.size:
                row = int(wrong[0])
                self._refuse(first + row, f"has {lengths[row]} values where the first row has {self.n_features}")
        flat = vectors.flatten()
        if flat.null_count:
            place = int(np.flatnonzero(flat.is_null().to_numpy(zero_copy_only=False))[0])
            self._refuse(first + place // self.n_features, f"has no value (null) in column {place % self.n_features}")
        values: Array = flat.to_numpy(zero_copy_only=False)
        return values.reshape(-1, self.n_features)

    def _refuse(self, row: int, what: str) -> None:
        where = f"{self.path}, row {row}, column {self.column!r}"
        raise RaggedEmbedding(f"the row {what}", where, "give every row a vector of one length, or leave the row out")

    def labels(self) -> Labels | None:
        return None if self.labels_at is None else _read_labels(self.path, self.labels_at)


# ---- columns -----------------------------------------------------------------------------------------------------


def vector_columns(schema: Any) -> list[str]:
    """Columns of lists of numbers."""
    return [field.name for field in _unique(schema) if _is_list(plain(field.type))]


def _unique(schema: Any) -> list[Any]:
    """Columns that can be told by their names."""
    return [field for field in schema if schema.names.count(field.name) == 1]


def label_columns(schema: Any) -> list[str]:
    """Columns of integers or of names, without the index that pandas adds."""
    found = []
    for field in _unique(schema):
        kind = plain(field.type)
        kind = kind.value_type if pa.types.is_dictionary(kind) else kind
        if (pa.types.is_integer(kind) or _is_text(kind)) and not field.name.startswith("__index_level_"):
            found.append(field.name)
    return found


def _kind(field: Any) -> str:
    """Of a column of single values: whether they are numbers, whole or not."""
    if pa.types.is_floating(field.type):
        return NUMBER
    return "whole" if pa.types.is_integer(field.type) or pa.types.is_boolean(field.type) else TEXT


def plain(kind: Any) -> Any:
    """The type that an extension type is stored as, such as the list of a tensor of fixed shape."""
    return kind.storage_type if isinstance(kind, pa.BaseExtensionType) else kind


def _storage(array: Any) -> Any:
    return array.storage if isinstance(array, pa.ExtensionArray) else array


def _is_list(kind: Any) -> bool:
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind))


def _is_text(kind: Any) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _dtype_of(kind: Any, where: str) -> np.dtype:
    inner = plain(kind).value_type
    if not (pa.types.is_integer(inner) or pa.types.is_floating(inner) or pa.types.is_boolean(inner)):
        raise FeatureDtype(f"lists of {inner} are no vectors of real numbers", where, "convert them to float32")
    dtype: np.dtype = np.dtype(inner.to_pandas_dtype())
    return dtype


# ---- files -------------------------------------------------------------------------------------------------------


@contextmanager
def opened(path: Path, texts: Sequence[str] = ()) -> Iterator[Any]:
    """A Parquet file, page checksums compared where it has them.

    texts  columns of which each different text is held once; spelt out, few bytes of a file can be any number
    """
    with _readable(str(path)):
        handle = pa.OSFile(os.fsencode(path))  # a name such as a:b.parquet would be taken for a URL
    with handle:
        with _readable(str(path)):
            options: dict[str, Any] = {"page_checksum_verification": True, "read_dictionary": list(texts)}
            file = pq.ParquetFile(handle, buffer_size=PAGES, pre_buffer=False, **options)
        with file:
            yield file


@contextmanager
def _readable(where: str) -> Iterator[None]:
    try:
        yield
    except LabelgroveError:
        raise
    except Exception as error:
        if is_starved(error):
            raise
        first = str(error).split("\n")[0]
        what = f"this is no readable Parquet file ({first})"
        raise DamagedInput(what, where, "copy the file again, or write it again") from error


def _read_labels(path: Path, column: str) -> Labels:
    found = LabelParts(f"{path.name}:{column}")
    with opened(path, [column]) as file, _readable(f"{path}, column {column!r}"):
        for batch in file.iter_batches(LABEL_ROWS, columns=[column], use_threads=False):
            _add_labels(found, _storage(batch.column(column)))
    return found.labels()


def _add_labels(found: LabelParts, values: Any) -> None:
    if values.null_count:
        found.refuse_null(int(np.flatnonzero(values.is_null().to_numpy(zero_copy_only=False))[0]))
    if pa.types.is_dictionary(values.type):
        words, codes = values.dictionary, values.indices.to_numpy(zero_copy_only=False)
        if words.null_count:
            null = np.flatnonzero(np.isin(codes, np.flatnonzero(words.is_null().to_numpy(zero_copy_only=False))))
            if null.size:
                found.refuse_null(int(null[0]))
        if pa.types.is_integer(words.type):
            found.integers(words.to_numpy(zero_copy_only=False)[codes])
        else:
            found.names(codes.astype(np.int64), [str(word) for word in words.to_pylist()])
    elif pa.types.is_integer(values.type):
        found.integers(values.to_numpy(zero_copy_only=False))
    else:
        encoded = values.dictionary_encode()
        found.names(encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64), encoded.dictionary.to_pylist())
