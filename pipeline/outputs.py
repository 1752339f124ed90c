"""Files that a command leaves where it is told: a table of rows as Parquet, and numbers about it beside it."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any
from unicodedata import east_asian_width

from pipeline.owned import refuse_owned
from tasks.errors import UsageError
from tasks.files import swap_in
from tasks.places import copy_file, is_remote, write_whole

ACCURACY, RETRIEVAL = "labelgrove.accuracy", "labelgrove.retrieval"  # what numbers are about
VERSION = 1
PARQUET = ".parquet"
NAME_CELLS = 40  # of a name within a sentence
LEAST_NAME, DOTS = 12, "..."  # of a name that is cut: no terminal is so narrow that less would do
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


def put_in_place(joined: Path, numbers: Path | None, output: Path, force: bool) -> None:
    """A table that is whole, then its numbers (None: it has none); those of an earlier output go before what they are
    of. Raises OutputExists when one has appeared there meanwhile, unless forced."""
    place = metrics_path(output)
    if force:
        place.unlink(missing_ok=True)
    else:
        _refuse_appeared(place)
    move_in(joined, output, force)
    if numbers is not None:
        move_in(numbers, place, force)


def move_in(made: Path, output: Path, force: bool) -> None:
    """A local file that is whole, to its place: renamed, or put into a store.

    Raises OutputExists when something has appeared there since it was refused, unless forced.
    """
    if is_remote(output):
        if not force:
            _refuse_appeared(output)
        copy_file(made, output)
    elif force:
        os.replace(made, output)
    else:
        _move_new(made, output)


def move_folder_in(made: Path, folder: Path, first: str, force: bool) -> None:
    """A local folder of files that is whole, in place of one that is replaced as a whole; in a store one by one.

    first  the file by which such a folder is known: it goes first. Raises as `move_in` does.
    """
    if not is_remote(folder):
        if force:
            swap_in(str(made), str(folder))
            return
        try:
            os.rename(made, folder)  # an empty folder may be there
        except OSError as error:
            if not os.path.lexists(folder):
                raise
            raise _appeared(folder) from error
        return
    old = set(folder.files_below())
    names = sorted((path.name for path in made.iterdir()), key=lambda name: (name != first, name))
    for name in names:
        copy_file(made / name, folder / name)
    for name in old.difference(names):
        (folder / name).unlink(missing_ok=True)


def _move_new(made: Path, output: Path) -> None:
    """A rename that replaces nothing: of two processes that make the same file one wins."""
    try:
        os.link(made, output)
    except FileExistsError:
        raise _appeared(output) from None
    except OSError:  # of file systems without links
        _refuse_appeared(output)
        os.replace(made, output)
    else:
        made.unlink()


def _refuse_appeared(place: Path) -> None:
    if place.exists():
        raise _appeared(place)


def _appeared(place: Path) -> OutputExists:
    hint = "look at what it has made, choose another name, or --force"
    return OutputExists("another process has made it meanwhile", str(place), hint)


def metrics_path(output: Path) -> Path:
    """Where the numbers of an output stand: beside it, as p.metrics.json of p.parquet, p.csv.metrics.json of p.csv."""
    return output.with_name(f"{output.stem if output.suffix == PARQUET else output.name}.metrics.json")


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


def text_table(lines: list[list[str]], names: Sequence[int] = (), width: int | None = None) -> str:
    """Lines of equally many cells, the first column to the left, the others to the right.

    names  columns of names, which are cut in the middle where a line would be wider than `width`; None: than the
           terminal, and nothing is cut in files and pipes
    """
    widths = [max(cells(line[i]) for line in lines) for i in range(len(lines[0]))]
    width = shutil.get_terminal_size((0, 0)).columns if width is None else width
    room = width - 2 * (len(widths) - 1) - sum(widths[i] for i in range(len(widths)) if i not in names)
    for place, i in enumerate(sorted(names, key=widths.__getitem__) if width else ()):
        widths[i] = min(
            widths[i], max(LEAST_NAME, room // (len(names) - place))
        )  # what short names leave goes to others
        room -= widths[i]
    cut = [[cut_to(cell, width) for cell, width in zip(line, widths, strict=True)] for line in lines]
    gaps = [[" " * (width - cells(cell)) for cell, width in zip(line, widths, strict=True)] for line in cut]
    padded = (
        "  ".join([line[0] + gap[0], *(space + cell for space, cell in zip(gap[1:], line[1:], strict=True))])
        for line, gap in zip(cut, gaps, strict=True)
    )
    return "".join(f"{line.rstrip()}\n" for line in padded)


def cells(text: str) -> int:
    """The columns of a terminal that a text takes: two a character of scripts that are written so."""
    return len(text) + sum(east_asian_width(letter) in "WF" for letter in text)


def cut_to(text: str, width: int) -> str:
    """Its beginning and its end, where it is wider: names that begin alike often end in what tells them apart.

    Looks at no more letters than may stay, since a name may be as long as its file.
    """
    if len(text) <= width and cells(text) <= width:
        return text
    room = max(0, width - len(DOTS))
    head, tail = _fitting(text, (room + 1) // 2), _fitting(reversed(text), room // 2)
    return f"{text[:head]}{DOTS}{text[len(text) - tail :]}"


def _fitting(letters: Iterable[str], room: int) -> int:
    """How many of the first letters take no more cells than there are; each takes at least one."""
    count = 0
    for letter in letters:
        room -= cells(letter)
        if room < 0:
            break
        count += 1
    return count
