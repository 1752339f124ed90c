"""Files that a command leaves where it is told: a table of rows as Parquet, and numbers about it beside it."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pipeline.owned import refuse_owned
from tasks.errors import UsageError
from tasks.places import copy_file, is_remote, write_whole

ACCURACY, RETRIEVAL = "labelgrove.accuracy", "labelgrove.retrieval"  # what numbers are about
VERSION = 1
PARQUET = ".parquet"
TABLES = (PARQUET, ".csv", ".tsv")  # what predictions are written as


class OutputExists(UsageError):
    """The file that is to be written is there already."""


def output_place(output: Path, force: bool, endings: Sequence[str] = (PARQUET,)) -> Path:
    """Where a table and its numbers are written; of a link, what it points at.

    endings  what the output's name may end in. Raises UsageError, PlaceTaken, OutputExists.
    """
    output = place_of_file(output, force, endings)
    numbers = metrics_path(output)
    refuse_owned(numbers)
    if numbers.exists() and not force:
        raise OutputExists("the output is there already", str(numbers), "choose another name, or --force")
    if numbers.exists() and not is_ours(numbers):
        hint = "numbers about the output would stand there: choose another name"
        raise OutputExists("a file of another kind is in the way", str(numbers), hint)
    return output


def place_of_file(output: Path, force: bool, endings: Sequence[str]) -> Path:
    """Where one file is written, of the kind that its ending names; of a link, what it points at.

    Raises UsageError for another ending, PlaceTaken, OutputExists.
    """
    if output.is_symlink():  # it stays, and what it points at is written
        output = Path(os.path.realpath(output))
    if output.is_dir():
        raise OutputExists("this is a folder", str(output), f"name a file: NAME{endings[0]}")
    if output.exists() and not output.is_file():
        raise OutputExists("this is no regular file", str(output), "name a file: it is written whole, by renaming")
    check_ending(output, endings)
    refuse_owned(output)
    if output.exists() and not force:
        raise OutputExists("the output is there already", str(output), "choose another name, or --force")
    return output


def check_ending(output: Path, endings: Sequence[str]) -> None:
    """The ending says what is written, so another one would be believed. Raises UsageError."""
    if output.suffix.lower() not in endings:
        ending = f"ends in {output.suffix!r}" if output.suffix else "has no ending"
        listed = " or ".join(filter(None, [", ".join(endings[:-1]), endings[-1]]))
        hint = f"name it {output.stem or 'NAME'}{endings[0]}"
        raise UsageError(f"the output {ending}: expected {listed}", str(output), hint)


def put_in_place(joined: Path, output: Path) -> None:
    """Numbers of an earlier output go before what they are of."""
    metrics_path(output).unlink(missing_ok=True)
    if is_remote(output):
        copy_file(joined, output)
    else:
        os.replace(joined, output)


def metrics_path(output: Path) -> Path:
    """Where the numbers of an output stand: beside it."""
    return output.with_name(f"{output.stem}.metrics.json")


def write_numbers(path: Path, kind: str, content: Mapping[str, Any]) -> None:
    """Whole or not at all. kind: ACCURACY or RETRIEVAL; content: what they are of, and the numbers."""
    text = json.dumps({"format": kind, "version": VERSION, **content}, indent=1, ensure_ascii=False)
    write_whole(path.absolute(), (text + "\n").encode())


def is_ours(path: Path) -> bool:
    """Whether a file holds such numbers: no other file is ever replaced or removed."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return False
    return isinstance(found, dict) and found.get("format") in (ACCURACY, RETRIEVAL)


def text_table(lines: list[list[str]]) -> str:
    """Lines of equally many cells, the first column to the left, the others to the right."""
    widths = [max(len(line[i]) for line in lines) for i in range(len(lines[0]))]
    padded = ("  ".join([line[0].ljust(widths[0]), *map(str.rjust, line[1:], widths[1:])]) for line in lines)
    return "".join(f"{line.rstrip()}\n" for line in padded)
