"""Labels as users have them: integers or names, in an array, a text file, a column of a TSV, a JSON list."""

from __future__ import annotations

import json
import os
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from pipeline.ingest.candidates import labels_place, likely_first, listed
from pipeline.ingest.errors import FeatureDtype, LabelDtype, LabelOutOfRange, LengthMismatch, UnknownInput, guarded
from pipeline.ingest.files import (
    PathLike,
    expand,
    read_text,
    refuse_unsafe,
    table_rows,
    text_lines,
    without_blank_end,
)
from pipeline.ingest.npy_file import open_array
from tasks.rows.base import Array

NULLS = {"", "nan", "null"}  # what exports write for "no label"; still names where a class table lists them
HINT = "labels are integers, or names"
OBJECTS_HINT = "save integers as astype('int64'), names as astype(str): an array of objects is a pickle"
LabelsLike = PathLike | Sequence[Any] | Array


@dataclass
class Labels:
    """Labels of one part as given: integers, or places in a vocabulary of names.

    values      (n_rows,) int64: the integers themselves, or the place of each row's name in `vocabulary`
    vocabulary  the different names in order of appearance, in Unicode form NFC; None for integers
    """

    source: str
    values: Array
    vocabulary: list[str] | None = None
    heading: str = ""  # of the column they were read from

    def __post_init__(self) -> None:
        """Raises LabelDtype for a name that cannot be written as UTF-8: JSON can spell half of a surrogate pair."""
        broken = {i for i, name in enumerate(self.vocabulary or ()) if not _is_text(name)}
        row = first_row(self, broken) if broken else None
        if row is not None:
            hint = "write the names again as UTF-8; a name of bytes that are none cannot be kept"
            raise LabelDtype(f"label {self.shown(row)} is no Unicode text", self.place(row), hint)

    def __len__(self) -> int:
        return len(self.values)

    def shown(self, row: int) -> str:
        value = int(self.values[row])
        return str(value) if self.vocabulary is None else repr(self.vocabulary[value])

    def place(self, row: int) -> str:
        return f"{self.source}, row {row}"


def _is_text(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def normal(name: str) -> str:
    """Names are compared and hashed in Unicode form NFC, so that an accent composed in either way is the same name."""
    return unicodedata.normalize("NFC", name)


def read_labels(labels: LabelsLike, n_rows: int, rows_name: str) -> Labels:
    """The labels of one part; raises LabelDtype, LabelOutOfRange (for nulls) and LengthMismatch.

    labels  path of .npy, .txt (one a line), .json (a list); FILE:NAME of .tsv, .csv, .parquet (a column), .h5, .h5ad
            or zarr (an array, a column of obs); a list or pattern of .npy shards; or an array or list in memory; blank
            lines after the last label of a text do not count
    """
    with guarded(_shown_source(labels)):
        found = _read(labels, n_rows)
    check_length(found, n_rows, rows_name)
    return found


def look_at_labels(labels: LabelsLike) -> None:
    """Raise what `read_labels` does of files that are not there or hold no labels, while nobody knows how many rows."""
    with guarded(_shown_source(labels)):
        _read(labels, 0)


def _shown_source(labels: LabelsLike) -> str:
    return os.fspath(labels) if isinstance(labels, str | os.PathLike) else "labels"


def check_length(labels: Labels, n_rows: int, rows_name: str) -> None:
    """Raise LengthMismatch unless there is one label a row."""
    if len(labels) != n_rows:
        what = f"{len(labels):,} labels for {n_rows:,} rows"
        hint = f"one label a row, in the same order{_header_hint(labels, n_rows)}"
        raise LengthMismatch(what, f"{labels.source} and {rows_name}", hint)


def _header_hint(found: Labels, n_rows: int) -> str:
    """One line too many or too few is often the line that names the column."""
    if found.heading and len(found) == n_rows - 1:
        return f"; the first line, {found.heading!r}, was read as the name of the column"
    if found.vocabulary and len(found) == n_rows + 1 and np.count_nonzero(found.values == found.values[0]) == 1:
        return f"; if the first line, {found.shown(0)}, names the column, call the file .tsv or .csv"
    return ""


def _read(labels: LabelsLike, n_rows: int) -> Labels:
    if isinstance(labels, np.ndarray):
        return from_array(labels, "labels")
    if isinstance(labels, str | os.PathLike):
        return _read_path(labels, n_rows)
    items = list(labels)
    if items and all(isinstance(item, os.PathLike) or str(item).endswith(".npy") for item in items):
        return join_labels([_read_file(path, 0) for path in expand(items)])
    return from_items(items, "labels")


def _read_path(labels: PathLike, n_rows: int) -> Labels:
    text = os.fspath(labels)
    name, colon, column = text.rpartition(":")
    if colon and not os.path.exists(text) and os.path.exists(name):
        return _from_file(Path(name), column) or _from_table(Path(name), column, n_rows)
    paths = expand(labels)
    return join_labels([_read_file(path, n_rows if len(paths) == 1 else 0) for path in paths])


def _read_file(path: Path, n_rows: int) -> Labels:
    """Blank lines at the end are left out; an empty label may be a class, so among the first n_rows they stay."""
    found = _from_file(path, None)
    if found is not None:
        return found
    refuse_unsafe(path)
    ending = path.suffix.lower()
    if ending == ".npy":
        return from_array(_open_npy(path), path.name)
    if ending == ".json":
        return from_items(_json_list(path), path.name)
    if ending in (".tsv", ".csv"):
        return _from_table(path, None, n_rows)
    if ending in (".txt", ""):
        return from_lines(without_blank_end(text_lines(path), n_rows), path.name)
    hint = "labels are read from .npy, .txt (one a line), .json (a list), and FILE:NAME of .tsv, .csv, .parquet, .h5"
    raise UnknownInput(f"the ending {path.suffix!r} is no kind of labels", str(path), hint)


def _from_file(path: Path, name: str | None) -> Labels | None:
    """Labels of a file of many columns or arrays; None for any other."""
    from pipeline.ingest.label_columns import holds_columns, labels_in  # these read labels with what stands here

    return labels_in(path, name) if holds_columns(path) else None


def _open_npy(path: Path) -> Array:
    try:
        return open_array(path)
    except FeatureDtype as error:
        raise LabelDtype(error.what, error.where, OBJECTS_HINT) from error


def join_labels(parts: Sequence[Labels]) -> Labels:
    """Labels of several files, one below the other; LabelDtype when some are integers and others names."""
    if len(parts) == 1:
        return parts[0]
    name = f"{parts[0].source} .. {parts[-1].source}"
    if all(part.vocabulary is None for part in parts):
        return Labels(name, np.concatenate([part.values for part in parts]))
    if any(part.vocabulary is None for part in parts):
        raise LabelDtype("some shards hold integers, others names", name, HINT)
    places: dict[str, int] = {}
    values = []
    for part in parts:
        seen = [places.setdefault(word, len(places)) for word in part.vocabulary or ()]
        values.append(np.array(seen, np.int64)[part.values])
    return Labels(name, np.concatenate(values), list(places))


def from_array(array: Array, source: str) -> Labels:
    """Labels of an array: any integer type, or text; floats, objects, booleans and matrices are refused."""
    if array.dtype.hasobject:
        raise LabelDtype("this is an array of Python objects", source, OBJECTS_HINT)
    if array.ndim != 1:
        what = f"labels of shape {array.shape}: one label a row is expected"
        raise LabelDtype(what, source, "one column: labels.ravel(); one-hot rows: labels.argmax(axis=1)")
    if array.dtype.kind == "f":
        broken = np.flatnonzero(array != np.floor(array))  # NaN too
        row = int(broken[0]) if broken.size else 0
        value = f" (row {row} holds {array[row]})" if array.size else ""
        raise LabelDtype(
            f"labels of type {array.dtype}{value}", source, "convert them to integers, e.g. astype('int32')"
        )
    if array.dtype.kind in "iu":
        if array.size and int(array.max()) > np.iinfo(np.int64).max:
            raise LabelOutOfRange(f"label {array.max()} names no class", f"{source}, row {int(array.argmax())}", HINT)
        return Labels(source, array.astype(np.int64))
    if array.dtype.kind in "US":
        return _from_names(_decoded(array, source), source)
    raise LabelDtype(f"labels of type {array.dtype}", source, HINT)


def _decoded(array: Array, source: str) -> Iterator[str]:
    for row, item in enumerate(array.tolist()):
        try:
            yield item.decode("utf-8") if isinstance(item, bytes) else item
        except UnicodeDecodeError as error:
            hint = "save them as text (dtype str), or as bytes in UTF-8"
            raise LabelDtype(f"label {item!r} is no UTF-8 text", f"{source}, row {row}", hint) from error


def from_items(items: Sequence[Any], source: str) -> Labels:
    """Labels of a list of integers, or of names."""
    kinds = set()
    for row, item in enumerate(items):
        if item is None:
            raise LabelOutOfRange(
                "the label is null", f"{source}, row {row}", "every row has a label; leave the row out"
            )
        if isinstance(item, bool | np.bool_) or not isinstance(item, int | np.integer | str):
            raise LabelDtype(f"label {item!r} of type {type(item).__name__}", f"{source}, row {row}", HINT)
        kinds.add(isinstance(item, str))
        if len(kinds) > 1:
            raise LabelDtype(f"label {item!r}: integers and names are mixed", f"{source}, row {row}", HINT)
    if kinds == {True}:
        return _from_names(items, source)
    try:
        return Labels(source, np.array(items, np.int64))
    except OverflowError as error:
        raise LabelOutOfRange(f"a label is beyond 64 bits ({error})", source, HINT) from error


def from_lines(lines: Sequence[str], source: str) -> Labels:
    """Lines of a text: integers when every line is one, otherwise names. An empty line is a name only in a table."""
    if lines and all(_is_integer(line.strip()) for line in lines):
        try:
            return from_items([int(line) for line in lines], source)
        except ValueError as error:  # thousands of digits
            row = max(range(len(lines)), key=lambda row: len(lines[row]))
            what = f"a label of {len(lines[row]):,} digits names no class"
            raise LabelOutOfRange(what, f"{source}, row {row}", HINT) from error
    return _from_names(lines, source)


def _is_integer(text: str) -> bool:
    digits = text[1:] if text.startswith("-") else text
    return digits.isascii() and digits.isdigit() and (digits == "0" or not digits.startswith("0"))


def _from_names(names: Iterable[str], source: str) -> Labels:
    places: dict[str, int] = {}
    values = np.fromiter((places.setdefault(normal(name), len(places)) for name in names), np.int64)
    return Labels(source, values, list(places))


def _from_table(path: Path, column: str | None, n_rows: int) -> Labels:
    """A column of a TSV or CSV whose first line names the columns; it may be left out where there is only one."""
    rows = without_blank_end(table_rows(path), n_rows + 1)
    header, body = (rows[0], rows[1:]) if rows else ([], [])
    if column is None and len(header) != 1:
        labels_place(header, None, str(path), f"--labels {path.name}:")  # raises
        raise UnknownInput("there are no columns", str(path), "the first line names the columns")
    if column is not None and column not in header:
        raise UnknownInput(f"no column is called {column!r}", str(path), f"columns: {listed(likely_first(header))}")
    place = 0 if column is None else header.index(column)
    for number, row in enumerate(body):
        if len(row) != len(header):
            what = f"{len(row)} fields where {len(header)} columns are named"
            raise LabelOutOfRange(what, f"{path.name}, row {number} (line {number + 2})", "one line a row")
    found = from_lines([row[place] for row in body], f"{path.name}:{header[place]}" if header else path.name)
    found.heading = header[place] if header else ""
    return found


def _json_list(path: Path) -> list[Any]:
    try:
        found = json.loads(read_text(path))
    except (ValueError, RecursionError) as error:
        raise UnknownInput(f"this is no JSON ({error})", str(path), "a list of labels is expected") from error
    if not isinstance(found, list):
        raise UnknownInput("a JSON list of labels is expected", str(path), HINT)
    return found


def first_row(labels: Labels, names: Iterable[int]) -> int | None:
    """The first row whose name is one of these places of the vocabulary; None when there is none."""
    rows = np.flatnonzero(np.isin(labels.values, list(names)))
    return int(rows[0]) if rows.size else None
