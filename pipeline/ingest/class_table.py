"""The class table: read from a file or made from the labels; and which class each label is."""

from __future__ import annotations

import json
import os
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from pipeline.dataset import Note
from pipeline.ingest.errors import (
    ClassTableFormat,
    DuplicateClassId,
    DuplicateClassName,
    LabelDtype,
    LabelOutOfRange,
    UnknownInput,
)
from pipeline.ingest.files import PathLike, read_text, refuse_unsafe, table_rows, without_blank_end
from pipeline.ingest.labels import NULLS, Labels, first_row, normal
from tasks.classes import ClassTable
from tasks.rows.base import Array

SHOWN, NAMED = 10, 3  # classes listed in a message, in a note
SPARSE = 100  # integer labels may go up to this many times the number of rows, without a class table
INTEGER = re.compile(r"0|-?[1-9][0-9]{0,17}")  # as str() writes it, within 64 bits
NUMERAL = re.compile(r"-?[0-9]{1,18}")  # 007, too
NONE = -1  # no class
FORMATS_HINT = 'a JSON list of names or of {"id", "name"}, a TSV or CSV of id and name, or a text with one name a line'


@dataclass(frozen=True)
class Classes:
    """A class table, and whether its ids were given (or are just the positions 0, 1, ...)."""

    table: ClassTable
    given_ids: bool = False
    source: str = "labels"  # what gave the classes, for messages
    notes: list[Note] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.table)

    @property
    def integer_ids(self) -> bool:
        """Whether ids were given, and are integers."""
        return self.given_ids and all(map(is_integer, self.table.ids))

    @property
    def numeral_names(self) -> bool:
        """Whether every name is a numeral, and no integer ids were given: integers are then names, never positions.

        Sorted names are '0', '1', '10', '2': nobody who gives the label 2 means the class at position 2.
        """
        return not self.integer_ids and all(map(NUMERAL.fullmatch, self.table.names))


ClassesLike = PathLike | Sequence[Any]


def read_classes(classes: ClassesLike) -> Classes:
    """The class table of a .json, .tsv, .csv or .txt file, or of a list in memory.

    Raises ClassTableFormat, DuplicateClassId. A name that occurs twice is two classes and a warning.
    """
    if not isinstance(classes, str | os.PathLike):
        return _from_items(list(classes), "classes")
    path = Path(classes)
    ending = path.suffix.lower()
    if not path.is_file():
        raise ClassTableFormat("there is no such file", str(path), "check the path")
    refuse_unsafe(path)
    if ending == ".json":
        return _from_json(path)
    if ending in (".tsv", ".csv", ".txt", ""):
        return _from_lines(without_blank_end(table_rows(path)), path.name)
    raise UnknownInput(f"the ending {path.suffix!r} is no kind of class table", str(path), FORMATS_HINT)


def _from_json(path: Path) -> Classes:
    try:
        found = json.loads(read_text(path), object_pairs_hook=_Pairs)
    except (ValueError, RecursionError) as error:
        raise ClassTableFormat(f"this is no JSON ({error})", str(path), FORMATS_HINT) from error
    if isinstance(found, _Pairs):
        return _from_items(_of_pairs(found.pairs), path.name)
    if not isinstance(found, list):
        raise ClassTableFormat("a list is expected", str(path), FORMATS_HINT)
    return _from_items([dict(item.pairs) if isinstance(item, _Pairs) else item for item in found], path.name)


def _of_pairs(pairs: list[tuple[str, Any]]) -> list[Any]:
    """{id: name}; but {name: number}, a dictionary made to number the classes, in the order of its numbers."""
    numbers = [value for _, value in pairs if isinstance(value, int) and not isinstance(value, bool)]
    if pairs and len(numbers) == len(pairs) and not all(is_integer(key) for key, _ in pairs):
        return [{"id": value, "name": key} for key, value in sorted(pairs, key=lambda pair: int(pair[1]))]
    return [{"id": key, "name": value} for key, value in pairs]


class _Pairs:
    """A JSON object with repeated keys kept: a dict would drop all but the last."""

    def __init__(self, pairs: list[tuple[str, Any]]) -> None:
        self.pairs = pairs


def _from_lines(fields: Sequence[list[str]], source: str) -> Classes:
    """Names, one a line; or id and name, with or without a header."""
    if not any(len(row) > 1 for row in fields):
        names = ["".join(row) for row in fields]
        return _from_items(names[1:] if names[:1] == ["name"] else names, source)
    header = [name.strip().lower() for name in fields[0]]
    columns = (header.index("id"), header.index("name")) if {"id", "name"} <= set(header) else (0, 1)
    items = []
    for number, row in enumerate(fields):
        if number == 0 and {"id", "name"} <= set(header):
            continue
        if len(row) != len(header) or len(row) < 2:
            what = f"{len(row)} fields where the first line has {len(header)}"
            raise ClassTableFormat(what, f"{source}, line {number + 1}", FORMATS_HINT)
        items.append({"id": row[columns[0]], "name": row[columns[1]]})
    return _from_items(items, source)


def _from_items(items: list[Any], source: str) -> Classes:
    ids, names, given = [], [], []
    for c, item in enumerate(items):
        entry = item if isinstance(item, Mapping) else {"name": item}
        name, key = entry.get("name", entry.get("id")), entry.get("id")
        for value in (name, key):
            if isinstance(value, bool) or not isinstance(value, str | int | None):
                raise ClassTableFormat(f"{value!r} is neither a name nor an id", f"{source}, class {c}", FORMATS_HINT)
        if name is None:
            raise ClassTableFormat("neither name nor id", f"{source}, class {c}", FORMATS_HINT)
        given.append(key is not None or isinstance(name, int))
        ids.append(normal(str(name if key is None else key)) if given[-1] else str(c))
        names.append(normal(str(name)))
    if not ids:
        raise ClassTableFormat("there are no classes", source, FORMATS_HINT)
    if len(set(given)) > 1:
        raise ClassTableFormat(
            "some classes have ids, others not", f"{source}, class {given.index(False)}", FORMATS_HINT
        )
    _check_ids(ids, source)
    return Classes(ClassTable(tuple(ids), tuple(names)), given[0], source, repeated_names(ids, names))


def _check_ids(ids: Sequence[str], source: str) -> None:
    first: dict[str, int] = {}
    for c, key in enumerate(ids):
        if first.setdefault(key, c) != c:
            where = f"{source}, classes {first[key]} and {c}"
            raise DuplicateClassId(f"the id {key!r} occurs twice", where, "ids tell classes apart; names may repeat")


def repeated_names(ids: Sequence[str], names: Sequence[str]) -> list[Note]:
    """A warning that lists names borne by several classes."""
    repeated = [name for name, count in Counter(names).items() if count > 1]
    if not repeated:
        return []
    shown = [
        f"{name!r} ({', '.join(i for i, n in zip(ids, names, strict=True) if n == name)})" for name in repeated[:SHOWN]
    ]
    more = f" and {len(repeated) - SHOWN} more" if len(repeated) > SHOWN else ""
    text = f"several classes bear one name (ids in brackets): {', '.join(shown)}{more}; they stay separate classes"
    return [Note("DuplicateClassName", text, "warning")]


# ---- made from the labels ----------------------------------------------------------------------------------------


def classes_of(parts: Sequence[Labels]) -> Classes:
    """The class table that labels imply: 0 to the largest integer, or the different names in sorted order.

    Raises LabelDtype when parts mix integers and names, or hold fractions; LabelOutOfRange for nulls and negatives.
    """
    kinds = {part.vocabulary is None for part in parts}
    if len(kinds) > 1:
        where = " and ".join(part.source for part in parts)
        raise LabelDtype("some labels are integers, others names", where, "use one kind for all parts")
    if kinds == {True}:
        return _positions(parts)
    for part in parts:
        _refuse_nulls(part)
    names = tuple(sorted({name for part in parts for name in part.vocabulary or ()}))
    source = " and ".join(part.source for part in parts)
    return Classes(ClassTable(tuple(str(c) for c in range(len(names))), names), False, source, nearly_equal(names))


def nearly_equal(names: Sequence[str]) -> list[Note]:
    """A warning that lists names which differ by blanks around them alone."""
    alike: dict[str, list[str]] = {}
    for name in names:
        alike.setdefault(name.strip(), []).append(name)
    found = [" and ".join(map(repr, group)) for group in alike.values() if len(group) > 1]
    if not found:
        return []
    more = f" and {len(found) - SHOWN} more" if len(found) > SHOWN else ""
    text = f"labels that differ by blanks around them alone are classes of their own: {', '.join(found[:SHOWN])}{more}"
    return [Note("BlanksInNames", text, "warning")]


def _positions(parts: Sequence[Labels]) -> Classes:
    for part in parts:
        _refuse_rows(part, part.values < 0, "is negative; without a class table labels count from 0", NEGATIVE_HINT)
    n_rows = sum(len(part) for part in parts)
    limit = SPARSE * n_rows + 1000
    for part in parts:
        _refuse_rows(part, part.values > limit, f"is far beyond the number of rows ({n_rows:,}): give a class table")
    numbers = tuple(str(c) for c in range(max(int(part.values.max(initial=-1)) for part in parts) + 1))
    source = " and ".join(part.source for part in parts)
    return Classes(ClassTable(numbers, numbers), source=source, notes=_from_one(parts))


def _from_one(parts: Sequence[Labels]) -> list[Note]:
    if min(int(part.values.min(initial=1)) for part in parts) == 0:
        return []
    text = (
        "no row has the label 0, so class 0 is empty: if labels count from 1, list them as classes (--classes FILE.txt "
        "with lines 1, 2, 3 ..., or FILE.tsv with lines of label, tab, name), or subtract 1"
    )
    return [Note("LabelsFromOne", text, "warning")]


def _refuse_nulls(part: Labels) -> None:
    names = part.vocabulary or []
    row = first_row(part, (i for i, name in enumerate(names) if name.strip().lower() in NULLS))
    if row is not None:
        hint = "leave such rows out, or list it as a class (--classes) if it is one"
        raise LabelOutOfRange(f"{part.shown(row)} stands for no label", part.place(row), hint)
    numbers = [_is_number(name) for name in names]
    if names and all(numbers):
        row = first_row(part, (i for i, name in enumerate(names) if not name.lstrip("-").isdigit()))
        if row is not None:
            hint = "write integers; if these numbers are names, list them as classes (--classes)"
            raise LabelDtype(f"label {part.shown(row)} is a number, but no integer", part.place(row), hint)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


# ---- which class each label is -----------------------------------------------------------------------------------


def class_of_rows(labels: Labels, classes: Classes) -> Array:
    """Class (n_rows,) int32 of each row. Raises LabelOutOfRange with row and value, DuplicateClassName.

    Names are matched with ids that were given, then with names; integers as `find_integers` says.
    """
    if labels.vocabulary is not None:
        return _by_name(labels, classes)
    found = find_integers(labels.values, classes)
    if classes.integer_ids:
        _refuse_rows(labels, found < 0, f"is no id of the class table {classes.source}")
    elif classes.numeral_names:
        _refuse_shared_numeral(labels, classes, found)
        first = ", ".join(map(repr, classes.table.names[:SHOWN]))
        hint = f"the names of the classes are numerals, so integer labels are names: {first}{_dots(classes, SHOWN)}"
        _refuse_rows(labels, found < 0, f"is the name of no class of {classes.source}", hint)
    else:
        from_one = labels.values.size and labels.values.min() == 1 and labels.values.max() == len(classes)
        hint = FROM_ONE_HINT if from_one else ""
        _refuse_rows(labels, found < 0, f"is outside the class table (0 to {len(classes) - 1})", hint)
    return found


def find_integers(values: Array, classes: Classes) -> Array:
    """Class (n,) int32 of each integer label (n,), NONE where there is none, or several bear that numeral.

    Integers are ids where integer ids were given; else names where all names are numerals; else positions in the table.
    """
    if not classes.integer_ids and not classes.numeral_names:
        return np.where((values >= 0) & (values < len(classes)), values, NONE).astype(np.int32)
    used, place = np.unique(values, return_inverse=True)
    if classes.integer_ids:
        known = {int(key): c for c, key in enumerate(classes.table.ids)}
    else:
        known = {number: bearers[0] for number, bearers in _numerals(classes).items() if len(bearers) == 1}
    lookup = np.array([known.get(number, NONE) for number in used.tolist()], np.int32)
    return lookup[place]


def _numerals(classes: Classes) -> dict[int, list[int]]:
    """Which classes a number names: those called so as it is written; else those called so with zeros before it."""
    padded: dict[int, list[int]] = {}
    exact: dict[int, list[int]] = {}
    for c, name in enumerate(classes.table.names):
        (exact if is_integer(name) else padded).setdefault(int(name), []).append(c)
    return padded | exact


def _refuse_shared_numeral(labels: Labels, classes: Classes, found: Array) -> None:
    missed = set(np.unique(labels.values[found < 0]).tolist())
    for number, bearers in _numerals(classes).items():
        if number in missed:
            called = ", ".join(repr(classes.table.names[c]) for c in bearers)
            hint = "give labels as text, letter for letter; or classes with ids (--classes), and labels as ids"
            what = f"the number {number} is the name of {len(bearers)} classes ({called})"
            raise DuplicateClassName(what, f"{labels.source} and {classes.source}", hint)


def notes_of_integers(parts: Sequence[Labels], classes: Classes) -> list[Note]:
    """How integer labels were read, where they can be read in two ways."""
    ids, names = classes.table.ids, classes.table.names
    n = len(classes)
    by_position = ids == tuple(str(c) for c in range(n))
    if all(part.vocabulary is not None for part in parts) or (by_position and names == ids):
        return []
    other = sum(1 for c, name in enumerate(names) if NUMERAL.fullmatch(name) and int(name) != c)
    if classes.integer_ids:
        if not by_position or not all(map(NUMERAL.fullmatch, names)):
            return []
        text = (
            f"integer labels are the ids of {classes.source}, 0 to {n - 1}, whose names are other numerals; `predict` "
            "takes integers for names there: give it labels as text, or names that are no numerals"
        )
        return [Note("IdsBesideNumerals", text, "warning")]
    if classes.numeral_names:
        c = next((c for c, name in enumerate(names) if int(name) != c), 0)
        text = (
            f"integer labels are the names of classes, which are numerals: {int(names[c])} is {names[c]!r}, class {c}"
        )
        return [Note("LabelsAreNames", text)] if other else []
    shown = ", ".join(f"{c} is {name!r}" for c, name in enumerate(names[:NAMED]))
    text = f"integer labels are taken as class numbers: {shown}{_dots(classes, NAMED)}"
    return [Note("LabelsAreNumbers", text, "warning" if other else "info")]


def _dots(classes: Classes, shown: int) -> str:
    return ", ..." if len(classes) > shown else ""


def is_integer(text: str) -> bool:
    return INTEGER.fullmatch(text) is not None


def _by_name(labels: Labels, classes: Classes) -> Array:
    used = labels.vocabulary or []
    best: list[int | None] = [None] * len(used)
    for keys in _key_kinds(classes):
        found = [keys.get(word) for word in used]
        if sum(c is not None for c in found) > sum(c is not None for c in best):
            best = found
    row = first_row(labels, (i for i, c in enumerate(best) if c is None))
    if row is not None:
        hint = f"labels are matched with ids and names of {classes.source} ({len(classes)} classes), letter for letter"
        raise LabelOutOfRange(f"label {labels.shown(row)} is not in the class table", labels.place(row), hint)
    _refuse_shared_name(labels, classes, best)
    lookup = np.array([-1 if c is None else c for c in best], np.int32)
    return lookup[labels.values] if len(labels) else np.empty(0, np.int32)


def _key_kinds(classes: Classes) -> list[dict[str, int]]:
    """Ways to read a word, best first: given ids, names, positions (numerals are no positions among numerals)."""
    by_id = {key: c for c, key in enumerate(classes.table.ids)}
    by_name: dict[str, int] = {}
    for c, name in enumerate(classes.table.names):
        by_name.setdefault(name, c)
    if classes.given_ids:
        return [by_id, by_name]
    return [by_name] if classes.numeral_names else [by_name, by_id]


def _refuse_shared_name(labels: Labels, classes: Classes, found: Sequence[int | None]) -> None:
    counts = Counter(classes.table.names)
    for word, c in zip(labels.vocabulary or (), found, strict=True):
        if c is not None and counts[word] > 1 and classes.table.names[c] == word and classes.table.ids[c] != word:
            ids = [i for i, name in zip(classes.table.ids, classes.table.names, strict=True) if name == word]
            what = f"the name {word!r} is that of {counts[word]} classes ({', '.join(ids)})"
            raise DuplicateClassName(what, f"{labels.source} and {classes.source}", "give labels as ids or integers")


FROM_ONE_HINT = "if labels count from 1, subtract 1, or give lines of label, tab, name as classes (--classes FILE.tsv)"
NEGATIVE_HINT = "list the labels as classes: --classes FILE.json with, say, [-1, 1]"


def _refuse_rows(labels: Labels, wrong: Array, why: str, hint: str = "") -> None:
    rows = np.flatnonzero(wrong)
    if rows.size:
        row = int(rows[0])
        more = f" ({rows.size:,} such rows)" if rows.size > 1 else ""
        hint = hint or "labels are integers from 0, or ids or names of the class table"
        raise LabelOutOfRange(f"label {labels.shown(row)} {why}{more}", labels.place(row), hint)
