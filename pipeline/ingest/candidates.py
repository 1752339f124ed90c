"""Where in a file the rows or the labels stand: the place that was named, or the only one there is."""

from __future__ import annotations

import re
from collections.abc import Sequence

from pipeline.dataset import Note
from pipeline.ingest.errors import LabelsMissing, UnknownInput

SHOWN = 20  # candidates in a message
LIKELY = (
    *("label", "labels", "y", "target", "targets", "class", "classes", "cls", "category", "categories", "species"),
    *("type", "celltype", "kind", "tag"),
)  # words in the names of labels, the likeliest first
IDS = {
    *("id", "ids", "index", "idx", "key", "keys", "row", "rows", "rowid", "uid", "uuid", "guid"),
    *("file", "filename", "path", "url"),
}  # words in the names of what tells rows apart
UNREAD = "LabelsNotRead"
READ = {
    "rows": "rows are a matrix of numbers, a column of lists of numbers, columns of numbers side by side (Parquet), or "
    "sparse by row: data, indices and indptr",
    "labels": "labels are integers or names, one a row",
}


def one_of(found: Sequence[str], asked: str | None, what: str, option: str, where: str) -> str:
    """The place `asked` for, which must be among `found`, or the only one of them. Raises UnknownInput."""
    names = listed(found)
    if asked is not None:
        if asked not in found:
            raise UnknownInput(f"{asked!r} is no place of {what} here", where, f"{option} takes one of: {names}")
        return asked
    if not found:
        raise UnknownInput(f"there is no place of {what}", where, READ.get(what, READ["rows"]))
    if len(found) > 1:
        raise UnknownInput(f"which of {names} holds the {what}?", where, f"name it: {option} {found[0]}")
    return found[0]


def labels_place(found: Sequence[str], asked: str | None, where: str, option: str = "") -> str | None:
    """The place of the labels; None when there is none and none was asked for. Raises UnknownInput, LabelsMissing.

    option  what a name is typed after; by default "--labels-at "
    """
    if asked is None and not found:
        return None
    if asked is not None and not found:
        what = f"{asked!r} is no place of labels here, and nothing else is"
        raise LabelsMissing(what, where, "labels are integers or names, one a row; or give a file of them: --labels")
    names = likely_first(found)
    if asked is None and len(found) > 1:
        raise UnknownInput(f"which of {listed(names)} holds the labels?", where, _name_it(names, option))
    return one_of(names, asked, "labels", LABELS_AT, where)


def _name_it(names: Sequence[str], option: str) -> str:
    """What to type; what is not called as labels are is never proposed."""
    option = option or f"{LABELS_AT} "
    if _rank(names[0]) >= len(LIKELY):
        return f"name it: {option}NAME; or give a file of labels: --labels"
    return f"name it: {option}{names[0]}"


def sought_labels(found: Sequence[str]) -> tuple[str | None, list[Note]]:
    """The only place that can be labels, for whoever can do without any; else None and, of others, a note."""
    names = likely_first(found)
    if len(names) > 1:
        return None, [Note(UNREAD, f"labels are not read: which of {listed(names)}? ({LABELS_AT})")]
    if names and tells_rows_apart(names[0]):
        text = f"labels are not read: {names[0]!r} seems to tell rows apart, not classes ({LABELS_AT} {names[0]})"
        return None, [Note(UNREAD, text)]
    return (names[0] if names else None), []


def likely_first(names: Sequence[str]) -> list[str]:
    """Those that are called as labels are, then others, then those called as numbers and names of rows."""
    return sorted(names, key=_rank)  # of equals as they come


def tells_rows_apart(name: str) -> bool:
    """Whether it is called as a number or a name of rows is."""
    return _rank(name) > len(LIKELY)


def is_plain(name: str) -> bool:
    """Whether it is called neither as labels are nor as a number or a name of rows is."""
    return _rank(name) == len(LIKELY)


def says_only_what_it_is(name: str) -> bool:
    """Whether all words of it are those of labels or of numbers of rows: class_id is one, body_mass_index is none."""
    return _words(name) <= {*LIKELY, *IDS}


def _words(name: str) -> set[str]:
    """Of the last part of a path."""
    return set(re.split(r"[^a-z0-9]+", re.split(r"[/:]", name.rstrip("/"))[-1].lower()))


def _rank(name: str) -> int:
    """By the words of it: class_id is a label, sample_id is none."""
    words = _words(name)
    ranks = [rank for rank, word in enumerate(LIKELY) if word in words]
    return ranks[0] if ranks else len(LIKELY) + bool(words & IDS)


def listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return ", ".join(map(repr, names[:SHOWN])) + more or "nothing"


ROWS_AT, LABELS_AT = "--rows-at", "--labels-at"
