"""Text tables with a column for each feature: no source of rows, but one line of Python makes a matrix of them."""

from __future__ import annotations

import csv
import itertools
from collections.abc import Sequence
from pathlib import Path

from pipeline.ingest.candidates import is_plain, likely_first, tells_rows_apart
from pipeline.ingest.errors import UnknownInput
from pipeline.ingest.files import first_bytes

SEPARATORS = {".csv": ",", ".tsv": "\t"}
LOOKED_AT = 1 << 20  # bytes of a text, for its first two lines
LEAST = 2  # columns that make a matrix
NUMBER, TEXT = "number", "text"  # kinds of columns; others may be told apart further

Columns = Sequence[tuple[str, str]]  # name and kind of each


def refuse_text_tables(paths: Sequence[Path]) -> None:
    """Raise UnknownInput for the first .csv or .tsv file among those that are to be rows."""
    for path in paths:
        separator = SEPARATORS.get(path.suffix.lower())
        if separator and not path.is_dir():
            raise _of_text(path, separator)


def _of_text(path: Path, separator: str) -> UnknownInput:
    lines = first_bytes(path, LOOKED_AT).decode("utf-8-sig", "replace").splitlines()[:2]
    head, first = ([*csv.reader(lines, delimiter=separator), [], []])[:2]
    what = f"a {path.suffix.lower()} file holds labels or classes, not rows"
    if head and all(map(_is_number, head)):
        read = f'numpy.loadtxt("{path.name}", "float32", delimiter={separator!r})'
        return UnknownInput(what, str(path), f'make a matrix of it in Python: numpy.save("{path.stem}.npy", {read})')
    columns = [(name, NUMBER if _is_number(value) else TEXT) for name, value in zip(head, first, strict=False)]
    run = longest_run(columns)
    if len(run) < LEAST:
        hint = "give rows as .npy, .parquet, .svmlight or their like; of images the folder, and this file as --labels"
        return UnknownInput(what, str(path), hint)
    separated = "" if separator == "," else ', sep="\\t"'
    hint = _hint(path, f'pandas.read_csv("{path.name}"{separated})', columns, run)
    return UnknownInput(f"{what}: columns {_span(run)} hold single numbers", str(path), hint)


def longest_run(columns: Columns) -> list[str]:
    """Names of the most columns of one kind of numbers that stand side by side, without those called as labels are."""
    best: list[str] = []
    for kind, group in itertools.groupby(columns, lambda column: column[1] if is_plain(column[0]) else TEXT):
        run = [name for name, _ in group]
        best = run if kind != TEXT and len(run) > len(best) else best
    return best


def _hint(path: Path, table: str, columns: Columns, run: Sequence[str]) -> str:
    """The line of Python, and where the labels then are."""
    line = f'numpy.save("{path.stem}.npy", {table}.loc[:, "{run[0]}":"{run[-1]}"].to_numpy("float32"))'
    others = likely_first([name for name, _ in columns if name not in run])
    named = others[0] if others and not tells_rows_apart(others[0]) else "COLUMN"
    return f"make a matrix of them in Python: {line}; then ingest {path.stem}.npy --labels {path.name}:{named}"


def _span(run: Sequence[str]) -> str:
    return f"{run[0]!r} .. {run[-1]!r}"


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
