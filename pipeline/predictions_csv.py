"""Predictions as text with names: a line a row, for spreadsheets and for programs that read no Parquet.

One heading, UTF-8, fields quoted as in RFC 4180 where they have to be, lines that end in \\n. Columns: file (of images
alone), row, label (where any is known), then class_1, score_1 and so on, the best class first, with --proba also
probability_1 after each score and, with labels, label_log_probability at the end. Numbers have all digits of their
float32. A class that shares its name with another, or has none, is followed by its id: oak [17]. As in every CSV file
of ours, text that a spreadsheet would take for a formula gets a ' before it, and so does what begins with one.
"""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

import numpy as np

from pipeline.report.csvs import cell
from tasks.classes import ClassTable
from tasks.files import disk_room
from tasks.later import later
from tasks.models.errors import PredictionsDamaged
from tasks.models.parquet import read_columns, read_table
from tasks.models.predictions import AGAIN, FILE, LABEL_LOG, PROBABILITIES, width_of
from tasks.places import at, whole_path
from tasks.rows.base import Array

if TYPE_CHECKING:
    import pyarrow as pa
else:
    pa = later("pyarrow")

DELIMITERS = {".csv": ",", ".tsv": "\t"}


def write_csv(parts: Sequence[Path], target: Path, classes: ClassTable, proba: bool) -> None:
    """Write the parts in order into one .csv or .tsv file, a part in memory at a time; whole or not at all.

    proba   whether the probabilities that the parts have are written, too
    raises  PredictionsDamaged, DiskFull
    """
    labelled = any(_has_labels(part) for part in parts)
    names = np.array(["", *shown_names(classes)], object)  # of class -1 the empty text
    with disk_room(str(target), 0), whole_path(target) as spare, open(spare, "w", encoding="utf-8", newline="") as file:
        for i, part in enumerate(parts):
            table = read_table(at(part), PredictionsDamaged, AGAIN)
            columns = dict(_columns(table, names, labelled, proba))
            writer = csv.writer(_Lines(file), delimiter=DELIMITERS[target.suffix], lineterminator="\r\n")
            if i == 0:
                writer.writerow(columns)
            writer.writerows(zip(*columns.values(), strict=True))


def shown_names(classes: ClassTable) -> list[str]:
    """What each class is called: its name, with its id where that alone would not tell which one it is."""
    uses = Counter(classes.names)
    return [
        str(cell(name if name and uses[name] == 1 else f"{name} [{key}]".strip()))
        for name, key in zip(classes.names, classes.ids, strict=True)
    ]


class _Lines:
    """A file of lines that end in \\n: with \\r\\n for its own the writer quotes both of these in fields."""

    def __init__(self, file: TextIO) -> None:
        self.file = file

    def write(self, line: str) -> None:
        self.file.write(f"{line[:-2]}\n")


def _has_labels(part: Path) -> bool:
    column = read_columns(at(part), ["label"], PredictionsDamaged, AGAIN)["label"]
    return bool(column.null_count < len(column))


def _columns(table: pa.Table, names: Array, labelled: bool, proba: bool) -> Iterator[tuple[str, Sequence[Any]]]:
    """Heading and fields (n_rows) of each column."""
    if FILE in table.column_names:
        yield FILE, [cell(name) for name in table[FILE].to_pylist()]
    yield "row", table["row"].to_pylist()
    if labelled:
        yield "label", names[table["label"].fill_null(-1).to_numpy() + 1].tolist()
    top = width_of(table.schema)
    found = _matrix(table, "classes", top)
    numbers = {"score": _matrix(table, "scores", top)}
    if proba and PROBABILITIES in table.column_names:
        numbers["probability"] = _matrix(table, PROBABILITIES, top)
    for k in range(top):
        named = found[:, k] >= 0
        yield f"class_{k + 1}", names[found[:, k] + 1].tolist()
        for what, values in numbers.items():
            yield f"{what}_{k + 1}", _texts(values[:, k], named)
    if labelled and proba and LABEL_LOG in table.column_names:
        values = table[LABEL_LOG].fill_null(np.nan).to_numpy()
        yield LABEL_LOG, _texts(values, ~np.isnan(values))


def _matrix(table: pa.Table, name: str, top: int) -> Array:
    return np.asarray(table[name].combine_chunks().flatten()).reshape(table.num_rows, top)


def _texts(values: Array, known: Array) -> list[str]:
    """The shortest decimals that give the same float32 (n,) back; nothing where none is known."""
    return [str(value) if there else "" for value, there in zip(values.astype(np.float32), known, strict=True)]
