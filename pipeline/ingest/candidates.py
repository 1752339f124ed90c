"""Where in a file the rows or the labels stand: the place that was named, or the only one there is."""

from __future__ import annotations

from collections.abc import Sequence

from pipeline.ingest.errors import LabelsMissing, UnknownInput

SHOWN = 20  # candidates in a message


def one_of(found: Sequence[str], asked: str | None, what: str, option: str, where: str) -> str:
    """The place `asked` for, which must be among `found`, or the only one of them. Raises UnknownInput."""
    names = listed(found)
    if asked is not None:
        if asked not in found:
            raise UnknownInput(f"{asked!r} is no place of {what} here", where, f"{option} takes one of: {names}")
        return asked
    if not found:
        raise UnknownInput(f"there is no place of {what}", where, "see the README for what is read in such files")
    if len(found) > 1:
        raise UnknownInput(f"which of {names} holds the {what}?", where, f"name it: {option} {found[0]}")
    return found[0]


def labels_place(found: Sequence[str], asked: str | None, where: str) -> str | None:
    """The place of the labels; None when there is none and none was asked for."""
    if asked is None and not found:
        return None
    if asked is not None and not found:
        what = f"{asked!r} is no place of labels here, and nothing else is"
        raise LabelsMissing(what, where, "labels are integers or names, one a row; or give a file of them: --labels")
    return one_of(found, asked, "labels", LABELS_AT, where)


def listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return ", ".join(map(repr, names[:SHOWN])) + more or "nothing"


ROWS_AT, LABELS_AT = "--rows-at", "--labels-at"
