"""Vectors in a column of Parquet files: a list of numbers a row, of one length; labels in another column."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipeline.dataset import Note
from pipeline.ingest.candidates import LABELS_AT, ROWS_AT, labels_place, listed, one_of
from pipeline.ingest.errors import FeatureShape, RaggedEmbedding, readable
from pipeline.ingest.files import stamp
from pipeline.ingest.labels import Labels
from pipeline.ingest.npy import shard_order
from pipeline.ingest.parquet_file import (
    batches_from,
    dtype_of,
    label_columns,
    list_columns,
    opened,
    plain,
    read_labels,
    refuse_too_large,
    storage,
    vector_columns,
)
from pipeline.ingest.parquet_wide import WideStream, is_wide, same_columns
from pipeline.ingest.source import SLAB_BYTES, Source
from pipeline.ingest.stream import Job, Stream, same_places, spooled
from tasks.models.feature_names import normal_names
from tasks.rows import Dense, Rows
from tasks.rows.base import Array


def open_parquet(paths: Sequence[Path], job: Job) -> Source:
    """A source over one or more Parquet files. Raises RaggedEmbedding, DeclaredTooLarge, DamagedInput, UnknownInput."""
    streams = [_stream(path, job) for path in paths]
    same_places([stream.column for stream in streams], paths, f"rows ({ROWS_AT})")
    same_columns([stream.columns for stream in streams], paths)
    same_places([stream.labels_at for stream in streams], paths, f"labels ({LABELS_AT})")
    filled = [stream for stream in streams if stream.n_rows] or streams[:1]
    if not filled[0].n_rows:
        raise FeatureShape("there are no rows", str(paths[0]), "check how the file was written")
    filled[0].notes += [*shard_order(paths), *filled[0].about_columns()]
    source = spooled(list[Stream](filled), job)
    source.feature_names = normal_names(filled[0].columns) if filled[0].columns else None
    return source


def _stream(path: Path, job: Job) -> ParquetStream | WideStream:
    """Of a column of lists, where there is one; else of the columns of numbers."""
    with opened(path) as file:
        schema = file.schema_arrow
    return WideStream(path, job) if is_wide(schema, job.rows_at) else ParquetStream(path, job)


def parquet_labels(path: Path, column: str | None) -> Labels:
    """A column of a Parquet file as labels."""
    with opened(path) as file:
        name = labels_place(label_columns(file.schema_arrow), column, str(path), f"--labels {path.name}:")
        if name is None:
            one_of([], None, "labels", "FILE:COLUMN", str(path))
    assert name is not None
    return read_labels(path, name)


class ParquetStream:
    """The vectors of one file."""

    body, rides = "dense", False
    columns: tuple[str, ...] = ()  # one a feature, where there are such

    def __init__(self, path: Path, job: Job) -> None:
        self.path, self.name, self.job = path, path.name, job
        self.notes: list[Note] = []
        self.counts: Counter[str] = Counter()
        with opened(path) as file:
            schema = file.schema_arrow
            lists = list_columns(schema)
            vectors = lists if job.rows_at in lists else vector_columns(schema) or lists[:1]
            self.column = one_of(vectors, job.rows_at, "rows", ROWS_AT, str(path))
            self.labels_at, notes = job.place_of_labels(label_columns(schema), str(path))
            self.notes += notes
            self.dtype = dtype_of(schema.field(self.column).type, f"{path}, column {self.column!r}")
            self._beside = [name for name in schema.names if name not in (self.column, self.labels_at)]
            self.n_rows: int = file.metadata.num_rows
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
                refuse_too_large(declared, repr(name), f"{self.path}, row group {number}", limit)

    def _width(self, file: Any) -> int:
        """Length of the first vector."""
        kind = plain(file.schema_arrow.field(self.column).type)
        width = kind.list_size if pa.types.is_fixed_size_list(kind) else 0
        if not pa.types.is_fixed_size_list(kind):
            with readable(str(self.path)):
                first = next(iter(file.iter_batches(1, columns=[self.column])))
            lengths = pc.list_value_length(storage(first.column(self.column)))
            width = lengths[0].as_py() or 0
            if not lengths[0].is_valid:
                self._refuse(0, "has no vector (null)")
        if not width:
            raise FeatureShape("the first vector is empty", f"{self.path}, row 0", "every row has at least one value")
        return int(width)

    def slabs(self, start: int) -> Iterator[Rows]:
        size = max(1, SLAB_BYTES // (self.n_features * self.dtype.itemsize))
        with opened(self.path) as file:
            for row, batch in batches_from(file, self.path, [self.column], size, start):
                yield Dense(self._values(storage(batch.column(self.column)), row)[max(0, start - row) :])

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

    def about_columns(self) -> list[Note]:
        """Which column the rows are, where others are not read."""
        if not self._beside:
            return []
        text = f"{self.name}: each row is the list in column {self.column!r}; not read: {listed(self._beside)}"
        return [Note("Columns", text)]

    def labels(self) -> Labels | None:
        return None if self.labels_at is None else read_labels(self.path, self.labels_at)
