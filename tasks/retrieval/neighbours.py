"""Neighbours as Parquet: one part per block of queries, joined in block order.

Columns: row int64 (the query's source row), label int32 (null when not known), neighbours list<int64> (source rows of
the nearest training rows, nearest first), neighbour_labels list<int32>, distances list<int32>.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from tasks.digest import digest_arrays
from tasks.errors import ArtefactError
from tasks.later import later
from tasks.models.parquet import Joined, join_tables, read_table, write_table
from tasks.places import at
from tasks.rows.base import Array

if TYPE_CHECKING:
    import pyarrow as pa
else:
    pa = later("pyarrow")

FORMAT, VERSION = "labelgrove.neighbours", 1
AGAIN = "retrieve again"
LISTS = {"neighbours": np.int64, "neighbour_labels": np.int32, "distances": np.int32}


@cache
def schema() -> pa.Schema:
    """Of a table of neighbours."""
    fields = [
        pa.field("row", pa.int64(), nullable=False),
        pa.field("label", pa.int32()),
        *(pa.field(name, pa.list_(pa.from_numpy_dtype(dtype))) for name, dtype in LISTS.items()),
    ]
    return pa.schema(fields)


class NeighboursDamaged(ArtefactError):
    """A file of neighbours is missing, damaged, or not one of ours."""


@dataclass(frozen=True, eq=False)
class Neighbours:
    """What one part says: row (n,) int64, label (n,) int32 with -1 for not known, the others (n, k) as in LISTS."""

    row: Array
    label: Array
    neighbours: Array
    neighbour_labels: Array
    distances: Array

    def digest(self) -> str:
        return digest_arrays(self.row, self.label, *(getattr(self, name) for name in LISTS))

    def hits(self, top: int) -> Array:
        """(top,) int64: rows of the query's own class among the first 1, 2, ..., top; of queries with a label."""
        known = self.label >= 0
        same = self.neighbour_labels[known] == self.label[known, None]
        counts = np.zeros(top, np.int64)
        counts[: same.shape[1]] = same.sum(axis=0, dtype=np.int64)
        return np.cumsum(counts)


def write_neighbours(target: Path, found: Neighbours) -> str:
    """Write one part, whole or not at all; returns its content digest."""
    n_rows, width = found.neighbours.shape
    offsets = pa.array(np.arange(n_rows + 1, dtype=np.int32) * width, pa.int32())
    columns = [pa.array(found.row, pa.int64()), pa.array(found.label, pa.int32(), mask=found.label < 0)]
    for name, dtype in LISTS.items():
        values = np.ascontiguousarray(getattr(found, name), dtype).reshape(-1)
        columns.append(pa.ListArray.from_arrays(offsets, pa.array(values)))
    write_table(target, pa.table(columns, schema=schema()))
    return found.digest()


def read_neighbours(source: str | Path) -> Neighbours:
    """Read a part, or a joined file that fits in memory; raises NeighboursDamaged."""
    return neighbours_of(read_table(at(source), NeighboursDamaged, AGAIN), str(source))


def neighbours_of(table: pa.Table, where: str) -> Neighbours:
    """The arrays behind a table of neighbours; raises NeighboursDamaged when it is none."""
    if table.schema.remove_metadata() != schema():
        raise NeighboursDamaged("it is no file of neighbours: the columns are others", where, AGAIN)
    lists = {name: _matrix(table[name], where) for name in LISTS}
    if len({values.shape for values in lists.values()}) > 1:
        raise NeighboursDamaged("its lists are not equally long", where, AGAIN)
    label = table["label"].fill_null(-1).to_numpy().astype(np.int32)
    return Neighbours(table["row"].to_numpy(), label, **lists)


def join_neighbours(
    parts: Sequence[str | Path],
    target: str | Path,
    metadata: Mapping[str, str] | None = None,
    digests: Sequence[str] | None = None,
) -> Joined:
    """Join parts in the given order into one file, one part in memory at a time; see `join_tables`."""
    labels = {"format": FORMAT, "version": str(VERSION), **(metadata or {})}

    def digest_of(table: pa.Table, where: str) -> str:
        return neighbours_of(table, where).digest()

    return join_tables(parts, at(target), labels, digest_of, digests, NeighboursDamaged, AGAIN)


def _matrix(column: pa.ChunkedArray, where: str) -> Array:
    """(n_rows, k): every query has ranked the same candidates, so all lists are equally long."""
    lists = column.combine_chunks()
    lengths = np.asarray(lists.value_lengths().fill_null(-1))
    width = int(lengths[0]) if len(lengths) else 0
    if (lengths != width).any() or width < 0:
        raise NeighboursDamaged("its lists are not equally long", where, AGAIN)
    return np.asarray(lists.flatten()).reshape(len(lengths), width)
