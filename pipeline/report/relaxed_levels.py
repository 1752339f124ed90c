"""The first levels of a relaxed hierarchy: which classes each node sends where (Gao & Koller 2011, Figure 6)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pipeline.report.csvs import csv_text
from pipeline.report.labels import short_name
from pipeline.report.relaxed_members import Member, full_size, setting_text
from pipeline.report.summary import RunSummary
from pipeline.report.trees_walks import class_name

Record = Mapping[str, Any]
MOST_SHOWN = 2  # hierarchies
MOST_NAMES = 12  # of one color in a node; they are taken evenly from the list
LETTERS = 40  # of a name
PLUS, MINUS, RING = "+", "\N{MINUS SIGN}", "\N{WHITE CIRCLE}"
COLORS = (  # key, mark, what it means, its class on the page
    ("positive", PLUS, "positive", "plus"),
    ("negative", MINUS, "negative", "minus"),
    ("ignored", RING, "ignored, in both children", "both"),
)
LEAF = ("ignored", RING, "one against all others", "both")
NOTE = (
    "Of every node its classes by color: + and - are told apart by its classifier, those with a ring are ignored and "
    "go on to both children. Of many classes some are named, taken evenly from the list."
)


@dataclass(frozen=True, slots=True)
class Group:
    """The classes of one color: its mark, how many they are, the names of some, how many more there are."""

    mark: str
    told: str
    style: str
    count: int
    names: Sequence[str]
    more: int


@dataclass(frozen=True, slots=True)
class Node:
    """A node, and its children as far as they are known.

    side  how it is reached: "+", "-", "" of the root
    head  what it is in a line; opened  whether the page shows it unfolded
    """

    side: str
    head: str
    groups: Sequence[Group]
    children: Sequence[Node]
    opened: bool


@dataclass(frozen=True, slots=True)
class Hierarchy:
    """The first levels of one model."""

    model: str
    told: str
    root: Node


def shown_members(members: Sequence[Member]) -> list[Member]:
    """Relaxed hierarchies whose nodes are known, else rivals'; the first of every kernel before the second of any.

    Of those that differ in doubt alone, and have the same nodes, the first. Of samples of the classes only where nobody
    has learnt all. Those whose root is a leaf have least to show, and come last.
    """
    known = full_size([one for one in members if one.hierarchy.get("records")])
    own = [one for one in known if one.family == "relaxed-hierarchy"] or known
    own = sorted(own, key=lambda one: all(record.get("kind") != "split" for record in one.hierarchy["records"]))
    own = [one for i, one in enumerate(own) if not any(_twins(one, other) for other in own[:i])]
    kernels = [one.kernel for one in own]
    order = sorted(range(len(own)), key=lambda i: (kernels[:i].count(kernels[i]), i))
    return [own[i] for i in order[:MOST_SHOWN]]


def _twins(one: Member, other: Member) -> bool:
    """Whether two models have the same nodes, and other doubts."""
    alike = (one.family, one.basis, setting_text(one)) == (other.family, other.basis, setting_text(other))
    return alike and one.doubt != other.doubt


def levels_of(run: RunSummary, members: Sequence[Member]) -> list[Hierarchy]:
    """Of the first hierarchies, nodes with their children inside."""
    found = []
    for one in shown_members(members):
        records = list(one.hierarchy["records"])
        said = ", ".join(filter(None, [one.what, setting_text(one), one.kernel]))
        root, levels = min(records, key=depth_of), 1 + max(map(depth_of, records))
        found.append(Hierarchy(one.name, said, _node(run, records, root, "", levels)))
    return found


def depth_of(record: Record) -> int:
    """0 of the root; of a node with several parents, as it was found first."""
    return int(record["depth"])


def _node(run: RunSummary, records: Sequence[Record], record: Record, side: str, levels: int) -> Node:
    """With its children, if it is told so many levels of them and itself."""
    split = record.get("kind") == "split"
    colors = COLORS if split else (LEAF,)
    groups = [_group(run, held, color) for color in colors if (held := _held(record, split, color[0]))]
    children = _children(run, records, record, levels - 1) if split else []
    return Node(side, _head(record), groups, children, not side)


def _held(record: Record, split: bool, key: str) -> list[int]:
    return [int(c) for c in record.get(key) or ()] if split else sorted(classes_of(record))


def classes_of(record: Record) -> frozenset[int]:
    """All classes of a node."""
    return frozenset(int(c) for key in ("positive", "negative", "ignored") for c in record.get(key) or ())


def _children(run: RunSummary, records: Sequence[Record], record: Record, levels: int) -> list[Node]:
    """Positive child first; one without a record has one class, or lies below the levels that are told."""
    found = []
    for side, key in ((PLUS, "positive"), (MINUS, "negative")):
        classes = frozenset(int(c) for part in (key, "ignored") for c in record.get(part) or ())
        below = next((one for one in records if classes_of(one) == classes), None) if levels else None
        if below is not None:
            found.append(_node(run, records, below, side, levels))
        else:
            found.append(Node(side, _told(run, classes), (), (), False))
    return found


def _told(run: RunSummary, classes: frozenset[int]) -> str:
    if len(classes) == 1:
        return f"leaf: {short_name(class_name(run, min(classes)), LETTERS)}"
    return f"{len(classes):,} classes, not told further"


def _head(record: Record) -> str:
    kind = "one-vs-all leaf, " * (record.get("kind") != "split")
    text = f"{kind}{len(classes_of(record)):,} classes"
    for key, word in (("n_rows", "rows"), ("support_vectors", "support vectors"), ("tried", "initialisations tried")):
        if record.get(key):
            text += f", {int(record[key]):,} {word}"
    return text


def _group(run: RunSummary, classes: Sequence[int], color: tuple[str, str, str, str]) -> Group:
    _, mark, told, style = color
    names = [short_name(class_name(run, c), LETTERS) for c in some_of(_in_order(run, classes))]
    return Group(mark, told, style, len(classes), names, len(classes) - len(names))


def _in_order(run: RunSummary, classes: Sequence[int]) -> list[int]:
    """Of the taxonomy, where there is one."""
    if run.class_order is None:
        return sorted(classes)
    places = run.class_order.places
    return sorted(classes, key=lambda c: int(places[c]))


def some_of(classes: Sequence[int], most: int = MOST_NAMES) -> list[int]:
    """At most so many, evenly spaced, the first and the last among them."""
    if len(classes) <= most:
        return list(classes)
    return [classes[int(i)] for i in np.linspace(0, len(classes) - 1, most).round()]


def levels_csv(run: RunSummary, members: Sequence[Member]) -> str | None:
    """The color of every class in every node that is known, of the hierarchies that are shown; None without any."""
    lines = [
        (one.name, place, depth_of(record), record.get("kind", ""), c, _id(run, c), color)
        for one in shown_members(members)
        for place, record in enumerate(one.hierarchy["records"])
        for key, color in (("positive", 1), ("negative", -1), ("ignored", 0))
        for c in record.get(key) or ()
    ]
    return csv_text(["model", "node", "depth", "kind", "class", "id", "color"], lines) if lines else None


def _id(run: RunSummary, number: int) -> str:
    return run.class_ids[number] if number < len(run.class_ids) else ""
