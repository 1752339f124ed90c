"""Sparse rows as svmlight / libsvm text: `label column:value column:value ... # comment`, read line by line.

Whether columns count from 0 or from 1 changes every feature, and one file cannot always tell. So the base is stated, or
proven over all files of the dataset together: a column 0 proves base 0; a largest column equal to a stated number of
features proves base 1.
"""

from __future__ import annotations

import codecs
import gzip
import math
from array import array
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import IO, Any

import numpy as np

from pipeline.dataset import Note
from pipeline.ingest.errors import ColumnMismatch, DamagedInput, FeatureShape, SvmlightIndexBase, SvmlightLine
from pipeline.ingest.files import GZIP_START, first_bytes
from pipeline.ingest.labels import Labels
from pipeline.ingest.source import CsrSource
from tasks.files import disk_room
from tasks.rows.base import Array

FLUSH_ENTRIES = 2**20  # entries held before they go to disk
MAX_INDEX = 2**31 - 2
FAR = 100  # a matrix this many times wider than its values could fill gets a warning


class Spool:
    """Sparse rows on their way from text to disk: values and columns in two files, row pointers in memory."""

    def __init__(self, folder: Path, stem: str) -> None:
        self.paths = (folder / f"{stem}-values.f64", folder / f"{stem}-columns.i32")
        self.labels = array("q")
        self.ends = array("q", [0])
        self.lowest, self.highest = MAX_INDEX, -1
        self._values, self._columns = array("d"), array("i")
        for path in self.paths:
            path.write_bytes(b"")

    def __len__(self) -> int:
        """Entries added."""
        return self.ends[-1]

    def add(self, label: int, columns: list[int], values: list[float]) -> None:
        if columns:
            self.lowest, self.highest = min(self.lowest, columns[0]), max(self.highest, columns[-1])
        self.labels.append(label)
        self.ends.append(self.ends[-1] + len(columns))
        self._columns.extend(columns)
        self._values.extend(values)
        if len(self._values) >= FLUSH_ENTRIES:
            self.flush()

    def flush(self) -> None:
        held: tuple[array[Any], array[Any]] = (self._values, self._columns)
        for path, part in zip(self.paths, held, strict=True):
            with disk_room(str(path), len(part) * part.itemsize), open(path, "ab") as file:
                part.tofile(file)
            del part[:]

    def arrays(self, base: int) -> tuple[Array, Array, Array]:
        """data float64, indices int32 (from 0), indptr int64; memory-mapped."""
        self.flush()
        indptr = np.array(self.ends, np.int64)
        if not indptr[-1]:
            return np.empty(0, np.float64), np.empty(0, np.int32), indptr
        data = np.memmap(self.paths[0], np.float64, mode="r")
        indices = np.memmap(self.paths[1], np.int32, mode="r+")
        for start in range(0, indices.size if base else 0, FLUSH_ENTRIES):
            indices[start : start + FLUSH_ENTRIES] -= base
        return data, indices, indptr


def open_svmlight(
    parts: Sequence[Sequence[Path]],
    spool: Path,
    index_base: int | None,
    n_features: int | None,
    labelled: Sequence[bool] | None = None,
) -> list[CsrSource]:
    """One source for each part (train, validation, test: a list of files each), all with the same columns.

    labelled  False for a part whose labels come from elsewhere: then any first word is taken for the label's place,
              and lines may begin with the first column
    Raises SvmlightLine with file and line, SvmlightIndexBase, ColumnMismatch, FeatureShape.
    """
    own = labelled or [True] * len(parts)
    spools = [_read_part(paths, Spool(spool, f"part{i}"), own[i]) for i, paths in enumerate(parts)]
    lowest, highest = min(part.lowest for part in spools), max(part.highest for part in spools)
    where = parts[0][0].name if sum(map(len, parts)) == 1 else f"{parts[0][0].name} and the other files"
    for paths, part in zip(parts, spools, strict=True):
        if not part.labels:
            raise FeatureShape("there are no rows", str(paths[0]), HINT)
    base, why = index_base_of(lowest, highest, index_base, n_features, where)
    width = max(1, highest + 1 - base)
    if n_features is not None and width > n_features:
        raise ColumnMismatch(f"column {highest} with {n_features} features and base {base}", where, "check both")
    sources: list[CsrSource] = []
    for paths, part in zip(parts, spools, strict=True):
        name = paths[0].name if len(paths) == 1 else f"{paths[0].name} .. {paths[-1].name}"
        notes = [Note("SvmlightIndexBase", f"{name}: columns count from {base} ({why})")]
        source = CsrSource(name, *part.arrays(base), n_features or width, notes)
        if own[len(sources)]:
            source.labels = Labels(name, np.array(part.labels, np.int64))
        else:
            text = f"{name}: the labels in the file were not used, because others were given"
            source.notes.append(Note("LabelsReplaced", text))
        sources.append(source)
    if n_features is None:
        sources[0].notes += _far_column(width, sum(len(part) for part in spools), where)
    return sources


def _far_column(width: int, entries: int, where: str) -> list[Note]:
    """A warning when the largest column makes the matrix far wider than its values can fill: often a wrong number."""
    if width <= FAR * entries + 1000:
        return []
    text = f"{where}: the largest column makes {width:,} features of {entries:,} values; is its number right?"
    return [Note("FarColumn", text, "warning")]


def index_base_of(lowest: int, highest: int, stated: int | None, n_features: int | None, where: str) -> tuple[int, str]:
    """The base and why it is known; raises SvmlightIndexBase when it is not."""
    if stated is not None:
        if lowest < stated:
            raise SvmlightIndexBase(f"base {stated} was stated, but a column {lowest} occurs", where, "--index-base 0")
        return stated, "stated"
    if lowest == 0:
        return 0, "a column 0 occurs"
    if n_features is not None and highest == n_features:
        return 1, f"the largest column is {highest} of {n_features} features"
    seen = f"columns {lowest} to {highest} occur" if highest >= 0 else "no columns occur"
    what = f"whether columns count from 0 or 1 cannot be told: {seen}"
    raise SvmlightIndexBase(what, where, "state it: --index-base 1 (usual for libsvm files) or --index-base 0")


def _read_part(paths: Iterable[Path], spool: Spool, labelled: bool) -> Spool:
    for path in paths:
        with _open_text(path) as file:
            for number, line in _lines(file, path):
                row = parse_line(line, f"{path}, line {number}", labelled)
                if row is not None:
                    spool.add(*row)
    return spool


def _open_text(path: Path) -> Any:
    return gzip.open(path, "rb") if first_bytes(path, 2) == GZIP_START else open(path, "rb")


def _lines(file: IO[Any], path: Path) -> Iterator[tuple[int, bytes]]:
    try:
        for number, line in enumerate(file, 1):
            yield number, line.removeprefix(codecs.BOM_UTF8) if number == 1 else line
    except (EOFError, gzip.BadGzipFile) as error:
        raise DamagedInput(f"it cannot be inflated to its end ({error})", str(path), "copy it again") from error


def parse_line(line: bytes, where: str, labelled: bool = True) -> tuple[int, list[int], list[float]] | None:
    """Label, ascending columns and values of one line; None for an empty line or a comment. Raises SvmlightLine.

    Without `labelled` the first word is no label that counts, and may be missing.
    """
    content = line.split(b"#", 1)[0]
    words = content.split()
    if not words:
        return None
    if b"_" in content:  # Python would read 1_0 as ten
        raise SvmlightLine("an underscore is no part of a number", where, HINT)
    if not labelled and b":" in words[0]:
        words.insert(0, b"0")
    label = _label(words[0], where) if labelled else 0
    pairs = words[2:] if len(words) > 1 and words[1].startswith(b"qid:") else words[1:]
    columns, values = [], []
    last = -1
    for word in pairs:
        left, _, right = word.partition(b":")
        try:
            column, value = int(left), float(right)
        except ValueError:
            raise SvmlightLine(f"{_shown(word)} is no column:value", where, HINT) from None
        if not 0 <= column <= MAX_INDEX:
            raise SvmlightLine(f"column {column} is outside 0 to {MAX_INDEX}", where, HINT)
        if column <= last:
            kind = "occurs twice" if column == last else f"comes after column {last}"
            raise SvmlightLine(f"column {column} {kind}: columns must ascend", where, HINT)
        columns.append(column)
        values.append(value)
        last = column
    return label, columns, values


HINT = "a line is: integer label, then column:value pairs with ascending columns"


def _label(word: bytes, where: str) -> int:
    """Integers, also written as 3.0 or +3."""
    try:
        value = float(word)
    except ValueError:
        value = math.nan
    if not value.is_integer() or abs(value) >= 2**53:
        why = "several labels" if b"," in word else "no integer label"
        raise SvmlightLine(f"{_shown(word)} is {why}", where, "give labels in a file of their own (--labels)")
    return int(value)


def _shown(word: bytes) -> str:
    return repr(word[:40].decode("utf-8", "replace"))
