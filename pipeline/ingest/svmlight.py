"""Sparse rows as svmlight / libsvm text: `label column:value column:value ... # comment`, read line by line.

Whether columns count from 0 or from 1 changes every feature, and one file cannot always tell. So the base is stated, or
proven over all files of the dataset together: a column 0 proves base 0; a largest column equal to a stated number of
features proves base 1.
"""

from __future__ import annotations

import codecs
import gzip
import math
import zlib
from array import array
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import IO, Any

import numpy as np

from pipeline.dataset import Note
from pipeline.ingest.errors import (
    ColumnMismatch,
    DamagedInput,
    DeclaredTooLarge,
    FeatureShape,
    SvmlightIndexBase,
    SvmlightLine,
)
from pipeline.ingest.files import GZIP_START, first_bytes, stamp
from pipeline.ingest.labels import Labels
from pipeline.ingest.source import CsrSource
from pipeline.ingest.spool import Spool
from pipeline.ingest.stream import MAX_FEATURES, Job

FLUSH_ENTRIES = 2**20  # entries and rows held before they go to disk
MAX_INDEX = 2**31 - 2
HELD = 32  # bytes in memory for a byte of a line, while its words are looked at
FAR = 100  # a matrix this many times wider than its values could fill gets a warning


class Lines:
    """Sparse rows on their way from text to disk: values and columns with their numbers as they stand in the text."""

    def __init__(self, paths: Sequence[Path], job: Job) -> None:
        self.paths, self.job = paths, job
        about = {"of": [stamp(path) for path in paths], "labelled": job.labelled}
        kinds = {"values": np.float64, "columns": np.int32, "ends": np.int64, "labels": np.int64}
        self.spool = Spool(job.folder, {name: np.dtype(kind) for name, kind in kinds.items()}, about)
        known = {"file": 0, "line": 0, "entries": 0, "lowest": MAX_INDEX, "highest": -1}
        self.state: dict[str, int] = known | self.spool.state
        self._held: tuple[array[Any], ...] = (array("d"), array("i"), array("q"), array("q"))

    def __len__(self) -> int:
        """Entries read."""
        return self.state["entries"]

    def read(self) -> None:
        """All lines that an earlier attempt has not read already."""
        with self.spool as spool:
            if not spool.sizes["ends"]:
                spool.append(0, ends=np.zeros(1, np.int64))
            first = self.state["file"]
            for number in range(first, len(self.paths) if not spool.whole else first):
                self._read_file(self.paths[number], self.state["line"] if number == first else 0)
                self.state |= {"file": number + 1, "line": 0}
            self._flush()
            if not spool.whole:
                spool.mark(whole=True)

    def _read_file(self, path: Path, done: int) -> None:
        with _open_text(path) as file:
            for number, line in _lines(file, path, self.job.max_bytes // HELD):
                if number <= done:
                    continue
                row = parse_line(line, f"{path}, line {number}", self.job.labelled)
                self.state["line"] = number
                if row is not None:
                    self._add(*row)

    def _add(self, label: int, columns: list[int], values: list[float]) -> None:
        state, (held_values, held_columns, ends, labels) = self.state, self._held
        if columns:
            state["lowest"], state["highest"] = min(state["lowest"], columns[0]), max(state["highest"], columns[-1])
        state["entries"] += len(columns)
        labels.append(label)
        ends.append(state["entries"])
        held_columns.extend(columns)
        held_values.extend(values)
        if len(held_values) + len(labels) >= FLUSH_ENTRIES:
            self._flush()

    def _flush(self) -> None:
        if not self._held[3]:
            return
        values, columns, ends, labels = (np.array(held) for held in self._held)
        self.spool.append(labels.size, values=values, columns=columns, ends=ends, labels=labels)
        for held in self._held:
            del held[:]
        self.spool.state = dict(self.state)
        if self.spool.due():
            self.spool.mark()
        if self.job.tick:
            self.job.tick(self.spool.rows, 0)


def open_svmlight(
    parts: Sequence[Sequence[Path]], jobs: Sequence[Job], index_base: int | None, n_features: int | None
) -> list[CsrSource]:
    """One source for each part (train, validation, test: a list of files each), all with the same columns.

    Of a part whose labels come from elsewhere any first word is taken for the label's place, and lines may begin with
    the first column. Raises SvmlightLine with file and line, SvmlightIndexBase, ColumnMismatch, FeatureShape.
    """
    read = [Lines(paths, job) for paths, job in zip(parts, jobs, strict=True)]
    for part in read:
        part.read()
    lowest, highest = min(part.state["lowest"] for part in read), max(part.state["highest"] for part in read)
    where = parts[0][0].name if sum(map(len, parts)) == 1 else f"{parts[0][0].name} and the other files"
    for part in read:
        if not part.spool.rows:
            raise FeatureShape("there are no rows", str(part.paths[0]), HINT)
    base, why = index_base_of(lowest, highest, index_base, n_features, where)
    width = max(1, highest + 1 - base)
    if n_features is not None and n_features > MAX_FEATURES:
        raise FeatureShape(f"{n_features:,} features; at most {MAX_FEATURES:,} can be", where, "check the number")
    if n_features is not None and width > n_features:
        raise ColumnMismatch(f"column {highest} with {n_features} features and base {base}", where, "check both")
    sources = [_source(part, base, n_features or width, why) for part in read]
    if n_features is None:
        sources[0].notes += _far_column(width, sum(len(part) for part in read), where)
    return sources


def _source(part: Lines, base: int, n_features: int, why: str) -> CsrSource:
    paths = part.paths
    name = paths[0].name if len(paths) == 1 else f"{paths[0].name} .. {paths[-1].name}"
    notes = [Note("SvmlightIndexBase", f"{name}: columns count from {base} ({why})")]
    values, columns, ends, labels = (part.spool.column(column) for column in part.spool.columns)
    source = CsrSource(name, values, columns, ends, n_features, notes, base)
    if part.job.labelled:
        source.labels = Labels(name, np.array(labels))
    else:
        text = f"{name}: the labels in the file were not used, because others were given"
        source.notes.append(Note("LabelsReplaced", text))
    return source


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


def _open_text(path: Path) -> Any:
    return gzip.open(path, "rb") if first_bytes(path, 2) == GZIP_START else open(path, "rb")


def _lines(file: IO[Any], path: Path, longest: int) -> Iterator[tuple[int, bytes]]:
    try:
        for number, line in enumerate(iter(partial(file.readline, longest + 1), b""), 1):
            if len(line) > longest:
                what = f"a line of more than {longest:,} bytes"
                raise DeclaredTooLarge(what, f"{path}, line {number}", "is this svmlight text? or raise --max-bytes")
            yield number, line.removeprefix(codecs.BOM_UTF8) if number == 1 else line
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
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
