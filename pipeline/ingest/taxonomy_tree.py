"""From the nodes of a taxonomy file to a checked tree whose leaves are the classes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence

import numpy as np

from pipeline.ingest.class_table import Classes, repeated_names
from pipeline.ingest.errors import (
    DuplicateClassName,
    TaxonomyCycle,
    TaxonomyFormat,
    TaxonomyInnerLabel,
    TaxonomyMissingClass,
    TaxonomyMultiParent,
    TaxonomyRoots,
    TaxonomyUnknownClass,
)
from pipeline.ingest.taxonomy_file import NO_PARENT, TaxonomyNodes
from tasks.classes import ClassTable
from tasks.taxonomy import Taxonomy

SHOWN = 10  # names listed in a message


def classes_from_leaves(nodes: TaxonomyNodes) -> Classes | None:
    """The class table that a taxonomy with a list of leaves implies; None when it has none."""
    if nodes.leaves is None:
        return None
    ids = tuple(str(c) for c in range(len(nodes.leaves)))
    names = tuple(nodes.names[leaf] for leaf in nodes.leaves)
    return Classes(ClassTable(ids, names), source=nodes.source, notes=repeated_names(ids, names))


def build_taxonomy(nodes: TaxonomyNodes, classes: Classes) -> Taxonomy:
    """The taxonomy over these classes, nodes numbered breadth-first in the order of the file.

    Raises TaxonomyCycle, TaxonomyRoots, TaxonomyMissingClass, TaxonomyUnknownClass, TaxonomyInnerLabel,
    TaxonomyMultiParent, DuplicateClassName. Leaves may lie at different depths.
    """
    children = _children(nodes)
    order = _breadth_first(nodes, children)
    leaves = _leaf_of_class(nodes, children, classes)
    _refuse_other_leaves(nodes, children, leaves)
    number = {place: i for i, place in enumerate(order)}
    parents = [nodes.parents[place] for place in order]
    parent = np.array([NO_PARENT if p == NO_PARENT else number[p] for p in parents], np.int32)
    names = tuple(nodes.names[place] for place in order)
    return Taxonomy(parent, names, np.array([number[leaf] for leaf in leaves], np.int32))


def _children(nodes: TaxonomyNodes) -> dict[int, list[int]]:
    children: dict[int, list[int]] = defaultdict(list)
    for place, parent in enumerate(nodes.parents):
        children[parent].append(place)
    return children


def _breadth_first(nodes: TaxonomyNodes, children: dict[int, list[int]]) -> list[int]:
    if not nodes.keys:
        raise TaxonomyFormat("there are no nodes", nodes.source, "list the parent of each class")
    roots = children.get(NO_PARENT, [])
    order = list(roots)
    for place in order:  # grows while it is walked
        order += children.get(place, ())
    if len(order) < len(nodes.keys):
        raise TaxonomyCycle(f"a node is its own ancestor: {_cycle(nodes, set(order))}", nodes.source, "cut the cycle")
    if len(roots) > 1:
        names = _listed(nodes.names[root] for root in roots)
        hint = "put one node above them, or give the missing parents"
        raise TaxonomyRoots(f"{len(roots)} nodes have no parent: {names}", nodes.source, hint)
    return order


def _cycle(nodes: TaxonomyNodes, reached: set[int]) -> str:
    place = next(place for place in range(len(nodes.keys)) if place not in reached)
    walk: list[int] = []
    while place not in walk:  # upwards from a node that hangs on a cycle
        walk.append(place)
        place = nodes.parents[place]
    around = [*walk[walk.index(place) :], place]
    return " -> ".join(repr(nodes.names[place]) for place in reversed(around))


def _leaf_of_class(nodes: TaxonomyNodes, children: dict[int, list[int]], classes: Classes) -> list[int]:
    """Place of each class's node: as listed, or found by id or name, whichever finds more classes."""
    if nodes.leaves is not None:
        return _listed_leaves(nodes, children, classes)
    table = classes.table
    by_id, by_name = (nodes.keys, table.ids), (nodes.keys, table.names)
    called = (nodes.names, table.names)
    ways = (by_id, by_name, called) if classes.given_ids else (by_name, called, by_id)
    found = [_places(words, wanted) for words, wanted in ways]
    known = [sum(bool(places) for places in way) for way in found]
    best = known.index(max(known))
    _refuse_shared_names(ways[best][1], classes, nodes)
    return [
        _only_leaf(nodes, children, classes, c, places)
        for c, places in enumerate(_checked(found[best], classes, nodes))
    ]


def _places(words: Sequence[str], wanted: Sequence[str]) -> list[list[int]]:
    places: dict[str, list[int]] = defaultdict(list)
    for place, word in enumerate(words):
        places[word].append(place)
    return [places.get(word, []) for word in wanted]


def _refuse_shared_names(words: Sequence[str], classes: Classes, nodes: TaxonomyNodes) -> None:
    seen: set[str] = set()
    for word in words:
        if word in seen:
            hint = "give classes ids (--classes) and use them in the taxonomy, or list its leaves"
            where = f"{nodes.source} and {classes.source}"
            raise DuplicateClassName(f"the name {word!r} is that of several classes", where, hint)
        seen.add(word)


def _checked(found: list[list[int]], classes: Classes, nodes: TaxonomyNodes) -> list[list[int]]:
    missing = [classes.table.label(c) for c, places in enumerate(found) if not places]
    if missing:
        what = f"{len(missing)} of {len(found)} classes are no node: {_listed(missing, quote=False)}"
        hint = "nodes are matched with class ids or class names, letter for letter"
        raise TaxonomyMissingClass(what, f"{nodes.source} and {classes.source}", hint)
    return found


def _only_leaf(
    nodes: TaxonomyNodes, children: dict[int, list[int]], classes: Classes, c: int, places: list[int]
) -> int:
    leaves = [place for place in places if not children.get(place)]
    if len(leaves) > 1:
        above = _listed(nodes.names[nodes.parents[place]] for place in leaves)
        what = f"class {classes.table.label(c)} stands under {above}"
        raise TaxonomyMultiParent(what, nodes.source, "a taxonomy is a tree: keep one parent")
    if not leaves:
        raise _inner(nodes, children, classes.table.label(c), places[0])
    return leaves[0]


def _inner(nodes: TaxonomyNodes, children: dict[int, list[int]], label: str, place: int) -> TaxonomyInnerLabel:
    below = _listed(nodes.names[child] for child in children[place])
    hint = "classes are leaves: give the class a leaf of its own below that node"
    return TaxonomyInnerLabel(f"class {label} is an inner node, above {below}", nodes.source, hint)


def _listed_leaves(nodes: TaxonomyNodes, children: dict[int, list[int]], classes: Classes) -> list[int]:
    leaves = nodes.leaves or []
    where = f"{nodes.source} and {classes.source}"
    if len(leaves) < len(classes):
        what = f"{len(leaves)} leaves are listed for {len(classes)} classes"
        raise TaxonomyMissingClass(what, where, "leaves lists the node of class 0, 1, ...")
    if len(leaves) > len(classes):
        what = f"{len(leaves)} leaves are listed for {len(classes)} classes"
        raise TaxonomyUnknownClass(what, where, "leaves lists the node of class 0, 1, ...; is the class table whole?")
    owner: dict[int, int] = {}
    for c, leaf in enumerate(leaves):
        if owner.setdefault(leaf, c) != c:
            what = f"classes {owner[leaf]} and {c} are one node, {nodes.names[leaf]!r}"
            raise TaxonomyUnknownClass(what, nodes.source, "give each class a leaf of its own")
        if children.get(leaf):
            raise _inner(nodes, children, classes.table.label(c), leaf)
    return leaves


def _refuse_other_leaves(nodes: TaxonomyNodes, children: dict[int, list[int]], leaves: list[int]) -> None:
    known = set(leaves)
    others = [place for place in range(len(nodes.keys)) if not children.get(place) and place not in known]
    if others:
        what = f"{len(others)} childless nodes are no class: {_listed(nodes.names[place] for place in others)}"
        raise TaxonomyUnknownClass(what, nodes.source, "remove them, or add them to the class table (--classes)")


def _listed(names: Iterable[str], *, quote: bool = True) -> str:
    words = [repr(name) if quote else name for name in names]
    more = f" and {len(words) - SHOWN} more" if len(words) > SHOWN else ""
    return ", ".join(words[:SHOWN]) + more
