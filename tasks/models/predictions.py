"""Predictions as Parquet: one part per block, joined in block order without holding more than a part and a row group.

Columns: row int64 (the source row), label int32 (null when not known), classes and scores fixed_size_list[top]
(int32, -1 and float32, NaN where a row names fewer classes), evaluations int32, path list<int32> (trees only),
classifiers int32 (hierarchies of kernels only, whose evaluations are kernel values), file string (of images alone:
the path within their folder).
Of models whose scores are log-odds also: probabilities fixed_size_list[top] float32 of these classes, and
label_log_probability float32 (natural logarithm; null when the label is not known).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from tasks.digest import digest_arrays
from tasks.later import later
from tasks.models.base import Probabilities, Ranking
from tasks.models.errors import PredictionsDamaged
from tasks.models.parquet import Joined, join_tables, read_table, write_table
from tasks.models.selection import Selected
from tasks.places import at
from tasks.rows.base import Array

if TYPE_CHECKING:
    import pyarrow as pa
else:
    pa = later("pyarrow")

FORMAT, VERSION = "labelgrove.predictions", 1
AGAIN = "predict again"
CLASSIFIERS, FILE = "classifiers", "file"
PROBABILITIES, LABEL_LOG = "probabilities", "label_log_probability"


@dataclass(frozen=True, eq=False)
class Predictions:
    """What one part says; arrays as in `Ranking`, row (n,) int64, label (n,) int32 with -1 for not known."""

    row: Array
    label: Array
    ranking: Ranking

    def digest(self) -> str:
        ranking = self.ranking
        path = () if ranking.path is None else _ragged(ranking.path)
        found = () if ranking.probabilities is None else (ranking.probabilities.named, ranking.probabilities.label_log)
        asked = () if ranking.classifiers is None else (ranking.classifiers,)
        every = ranking.classes, ranking.scores, ranking.evaluations
        return digest_arrays(self.row, self.label, *every, *path, *found, *asked)

    def where(self, mask: Array) -> Predictions:
        """The rows (n,) bool that are asked for."""
        ranking = self.ranking
        path = None if ranking.path is None else ranking.path[mask]
        found = ranking.probabilities
        if found is not None:
            found = Probabilities(found.named[mask], found.label_log[mask])
        asked = None if ranking.classifiers is None else ranking.classifiers[mask]
        kept = Ranking(ranking.classes[mask], ranking.scores[mask], ranking.evaluations[mask], path, found, asked)
        return Predictions(self.row[mask], self.label[mask], kept)


def part_name(index: int) -> str:
    return f"part-{index:05d}.parquet"


def schema_of(
    top: int,
    with_path: bool,
    with_probabilities: bool = False,
    with_classifiers: bool = False,
    with_files: bool = False,
) -> pa.Schema:
    fields = [
        pa.field("row", pa.int64(), nullable=False),
        pa.field("label", pa.int32()),
        pa.field("classes", pa.list_(pa.int32(), top)),
        pa.field("scores", pa.list_(pa.float32(), top)),
    ]
    if with_probabilities:
        fields += [pa.field(PROBABILITIES, pa.list_(pa.float32(), top)), pa.field(LABEL_LOG, pa.float32())]
    fields.append(pa.field("evaluations", pa.int32(), nullable=False))
    fields += [pa.field("path", pa.list_(pa.int32()))] if with_path else []
    fields += [pa.field(CLASSIFIERS, pa.int32(), nullable=False)] if with_classifiers else []
    return pa.schema([*fields, pa.field(FILE, pa.string(), nullable=False)] if with_files else fields)


def write_part(target: Path, selected: Selected, ranking: Ranking, files: Sequence[str] | None = None) -> str:
    """Write the predictions of one block, whole or not at all; returns their content digest.

    files   of images, the path of each row's
    """
    top, unknown, found = ranking.classes.shape[1], selected.labels < 0, ranking.probabilities
    columns = [
        pa.array(selected.row_ids, pa.int64()),
        pa.array(selected.labels, pa.int32(), mask=unknown),
        _lists(ranking.classes, pa.int32()),
        _lists(ranking.scores, pa.float32()),
    ]
    if found is not None:
        columns += [_lists(found.named, pa.float32()), pa.array(found.label_log, pa.float32(), mask=unknown)]
    columns.append(pa.array(ranking.evaluations, pa.int32()))
    if ranking.path is not None:
        offsets, nodes = _ragged(ranking.path)
        columns.append(pa.ListArray.from_arrays(pa.array(offsets), pa.array(nodes)))
    if ranking.classifiers is not None:
        columns.append(pa.array(ranking.classifiers, pa.int32()))
    if files is not None:
        columns.append(pa.array(files, pa.string()))
    has = (one is not None for one in (ranking.path, found, ranking.classifiers, files))
    write_table(target, pa.table(columns, schema=schema_of(top, *has)))
    return Predictions(selected.row_ids, selected.labels, ranking).digest()


def _lists(matrix: Array, kind: pa.DataType) -> pa.FixedSizeListArray:
    return pa.FixedSizeListArray.from_arrays(pa.array(matrix.reshape(-1), kind), matrix.shape[1])


def read_part(source: str | Path) -> Predictions:
    """Read a part, or a joined file that fits in memory; raises PredictionsDamaged."""
    return predictions_of(read_table(at(source), PredictionsDamaged, AGAIN), str(source))


def predictions_of(table: pa.Table, where: str) -> Predictions:
    """The arrays behind a table of predictions; raises PredictionsDamaged when it is none."""
    top, with_path = width_of(table.schema), "path" in table.column_names
    probable, asked, named = (name in table.column_names for name in (PROBABILITIES, CLASSIFIERS, FILE))
    if not top or table.schema.remove_metadata() != schema_of(top, with_path, probable, asked, named):
        raise PredictionsDamaged("it is no predictions file: the columns are others", where, AGAIN)
    label = table["label"].fill_null(-1).to_numpy().astype(np.int32)
    ranking = Ranking(
        _matrix(table["classes"], top, where),
        _matrix(table["scores"], top, where),
        table["evaluations"].to_numpy(),
        _padded(table["path"]) if with_path else None,
        _probabilities(table, top, where) if probable else None,
        table[CLASSIFIERS].to_numpy() if asked else None,
    )
    return Predictions(table["row"].to_numpy(), label, ranking)


def _probabilities(table: pa.Table, top: int, where: str) -> Probabilities:
    label_log = table[LABEL_LOG].fill_null(np.nan).to_numpy()
    return Probabilities(_matrix(table[PROBABILITIES], top, where), label_log)


def width_of(schema: pa.Schema) -> int:
    """How many classes a row of predictions names; 0 when the schema is none of ours."""
    place = schema.get_field_index("classes")
    kind = schema.field(place).type if place >= 0 else None
    return int(kind.list_size) if kind is not None and pa.types.is_fixed_size_list(kind) else 0


def join_parts(
    parts: Sequence[str | Path],
    target: str | Path,
    metadata: Mapping[str, str] | None = None,
    digests: Sequence[str] | None = None,
    drop: Sequence[str] = (),
) -> Joined:
    """Join parts in the given order into one file, one part in memory at a time; whole or not at all.

    metadata   put into the file's metadata (model digest, top, ...)
    digests    the content digests the parts were written with; a part that has another raises PredictionsDamaged
    drop       columns that the parts may have, and the file shall not
    """
    labels = {"format": FORMAT, "version": str(VERSION), **(metadata or {})}

    def digest_of(table: pa.Table, where: str) -> str:
        return predictions_of(table, where).digest()

    return join_tables(parts, at(target), labels, digest_of, digests, PredictionsDamaged, AGAIN, drop)


def _ragged(path: Array) -> tuple[Array, Array]:
    """(offsets (n_rows + 1,) int32, nodes int32) of a -1 padded path."""
    used = path >= 0
    offsets = np.zeros(len(path) + 1, np.int32)
    np.cumsum(used.sum(axis=1), out=offsets[1:])
    return offsets, path[used].astype(np.int32)


def _padded(column: pa.ChunkedArray) -> Array:
    lists = column.combine_chunks()
    lengths = np.asarray(lists.value_lengths().fill_null(0)).astype(np.int64)
    out = np.full((len(lengths), int(lengths.max(initial=0))), -1, np.int32)
    out[np.arange(out.shape[1])[None, :] < lengths[:, None]] = np.asarray(lists.flatten())
    return out


def _matrix(column: pa.ChunkedArray, top: int, where: str) -> Array:
    flat = np.asarray(column.combine_chunks().flatten())
    if flat.size != len(column) * top:
        raise PredictionsDamaged("a row names no classes", where, AGAIN)
    return flat.reshape(len(column), top)
