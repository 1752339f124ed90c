"""Where a figure is written: known to be possible before any data is read."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from pipeline.last_resort import FileAccess
from pipeline.outputs import OutputExists
from pipeline.owned import PlaceTaken, refuse_owned
from pipeline.store import MANIFEST
from tasks.errors import UsageError
from tasks.files import NO_ROOM
from tasks.places import is_remote

OTHER = "name another folder with -o"
CSV_HEADING = ("table", "row", "column", "value")
MARK_BYTES = 1024  # of a page, in which its title stands


def files_of(folder: Path, name: str) -> tuple[Path, Path]:
    """The page and the CSV of a figure."""
    page = folder / f"reproduce-{name}.html"
    return page, page.with_suffix(".csv")


def title_of(name: str) -> str:
    """The page's title, by which it is known as one of ours."""
    return f"{name} - labelgrove"


def refuse_place(folder: Path, name: str) -> None:
    """Raise what stands against a figure's page, CSV and runs in `folder`; nothing is left behind.

    Raises UsageError for a URL, PlaceTaken within a dataset, a model folder or a run, OutputExists where the page or
    the CSV would replace what is none of ours, FileAccess where the folder cannot be made or written.
    """
    if is_remote(folder):
        raise UsageError("the folder of a figure is on this machine", str(folder), "name a folder with -o")
    if (folder / MANIFEST).is_file():
        raise PlaceTaken("this is a run folder", str(folder), OTHER)
    page, table = files_of(folder, name)
    for target in (page, table):
        refuse_owned(target)
    for place in (folder, folder / "runs"):
        _refuse_unwritable(place)
    for target, mark in ((page, f"<title>{title_of(name)}</title>"), (table, ",".join(CSV_HEADING))):
        _refuse_foreign(target, mark)


def _refuse_unwritable(folder: Path) -> None:
    """The folder, or the nearest one above it that is there, takes a file."""
    there = next(place for place in (folder.absolute(), *folder.absolute().parents) if os.path.lexists(place))
    if not there.is_dir():
        raise FileAccess("this is no folder", str(there), OTHER)
    try:
        with tempfile.TemporaryFile(dir=there):
            pass
    except OSError as error:
        if error.errno in NO_ROOM:  # whatever wants more room says so itself
            return
        raise FileAccess(f"the folder cannot be written: {error.strerror}", str(there), OTHER) from None


def _refuse_foreign(target: Path, mark: str) -> None:
    """What is replaced is a page or CSV of an earlier time."""
    if not os.path.lexists(target):
        return
    if not target.is_file():
        raise OutputExists("this is no regular file", str(target), f"remove it, or {OTHER}")
    with open(target, "rb") as file:
        if mark not in file.read(MARK_BYTES).decode("utf-8", "replace"):
            raise OutputExists("a file of another kind is in the way", str(target), f"remove it, or {OTHER}")
