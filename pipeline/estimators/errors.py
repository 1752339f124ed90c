"""Errors of estimators: named as everywhere, and ValueErrors, which scikit-learn and its users expect."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

from pipeline.last_resort import FileAccess
from tasks.errors import InputError, LabelgroveError, UsageError, is_starved
from tasks.files import NO_ROOM, DiskFull


class BadParameter(UsageError, ValueError):
    """A constructor parameter of an estimator is outside its range, or does not fit the data or another one."""


class BadRows(InputError, ValueError):
    """Rows or labels given to an estimator cannot be used."""


class NoNumbers(BadRows, TypeError):
    """Rows given to an estimator hold text, dates or other objects that are no numbers."""


class FolderTaken(UsageError, ValueError):
    """A model cannot be saved where something else is."""


WORDS = {  # of the command line and the config -> of Python
    "[[train]]": "the estimator's parameters",
    "`labelgrove run`": "fit",
    "--scheduler": "scheduler",
    "type the same command again": "call fit again",
    "pq.": "",
    ", or choose one by a rule (labelgrove ingest --several-parents first, shortest or longest)": "",
    "--labels": "y",
    "--taxonomy": "taxonomy",
    "--on-nonfinite drop-row": "a mask: X[np.isfinite(X).all(axis=1)]",
    "ingest the source again": "fit again",
}
ROWS = {"array": "X", "matrix": "X"}  # how ingest calls rows in memory
SECTIONS = ("encode ", "train ")
FREE = "free some space and type the same command again"
NO_GUARD = "start a new process before"  # what Python says of a script that workers would run again
GUARD = 'in a script, put the calls under `if __name__ == "__main__":`, as for every local cluster'


def in_python(text: str) -> str:
    """A message without the words of the command line."""
    for word, other in WORDS.items():
        text = text.replace(word, other)
    return text


def raise_in_python(error: LabelgroveError, section: str) -> NoReturn:
    """The error as an estimator tells it: one of usage or of the data is also a ValueError; all others as they are.

    section  how the config calls the part that the parameters make: "train label-tree"
    """
    if isinstance(error, ValueError):
        raise error
    if not isinstance(error, UsageError | InputError):
        error.hint = GUARD if NO_GUARD in error.what else in_python(error.hint)
        raise error
    parts = [ROWS.get(part, part) for part in error.where.split(", ")]
    where = ", ".join(part for part in parts if part and part != section and not part.startswith(SECTIONS))
    usage = isinstance(error, UsageError) or error.code.startswith("Taxonomy")
    kind = BadParameter if usage else BadRows
    name = "" if isinstance(error, UsageError) else f"{error.code}: "
    raise kind(f"{name}{in_python(error.what)}", in_python(where), in_python(error.hint)) from error


@contextmanager
def os_errors(place: Any, hint: str) -> Iterator[None]:
    """Errors of the disk within the block as FileAccess or DiskFull, with the path that the system names, or `place`.

    hint  what to do, unless the disk is full
    """
    if "\0" in str(place):
        raise FileAccess("a path holds no null character", repr(str(place)), hint)
    try:
        yield
    except LabelgroveError as error:
        error.hint = in_python(error.hint)
        raise
    except OSError as error:
        if is_starved(error):
            raise
        name = error.filename if isinstance(error.filename, str | bytes) else str(place)
        where = os.fsdecode(name) if os.fsdecode(name) else str(place)
        if error.errno in NO_ROOM:
            raise DiskFull(NO_ROOM[error.errno], where, in_python(FREE)) from error
        raise FileAccess(error.strerror or str(error) or type(error).__name__, where, hint) from error
