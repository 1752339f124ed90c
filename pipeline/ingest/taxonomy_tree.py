"""From the nodes of a taxonomy file to a checked tree whose leaves are the classes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence

import numpy as np

from pipeline.dataset import Note
from pipeline.ingest.class_table import Classes, repeated_names
from pipeline.ingest.errors import (
    DuplicateClassName,
    TaxonomyFormat,
    TaxonomyInnerLabel,
    TaxonomyMissingClass,
    TaxonomyMultiParent,
    TaxonomyRoots,
    TaxonomyUnknownClass,
)
from pipeline.ingest.taxonomy_file import NO_PARENT, TaxonomyNodes
from pipeline.ingest.taxonomy_parents import CHOICE_HINT, REFUSE, check_rule, chosen, one_parent_each, parents_note
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


def build_taxonomy(nodes: TaxonomyNodes, classes: Classes, several_parents: str = REFUSE) -> Taxonomy:
    """The taxonomy over these classes (see `taxonomy_and_notes`), without what there is to say about it."""
    return taxonomy_and_notes(nodes, classes, several_parents)[0]


def taxonomy_and_notes(
    nodes: TaxonomyNodes, classes: Classes, several_parents: str = REFUSE
) -> tuple[Taxonomy, list[Note]]:
    """The taxonomy over these classes, nodes numbered breadth-first in the order of the file; and what was decided.

    several_parents  "refuse", or which parent a node keeps: "first", "shortest", "longest" (`taxonomy_parents`). Then
                     nodes above no class are left out, too: a part of WordNet has such, and a node whose children all
                     keep other parents becomes one.

    Raises TaxonomyCycle, TaxonomyRoots, TaxonomyMissingClass, TaxonomyUnknownClass, TaxonomyInnerLabel,
    TaxonomyMultiParent, DuplicateClassName, ParamError. Leaves may lie at different depths, and a node with one child
    stays: it is a level of its own.
    """
    check_rule(several_parents)
    if not nodes.keys:
        raise TaxonomyFormat("there are no nodes", nodes.source, "list the parent of each class")
    said: list[Note] = []
    if nodes.wider:
        whole, found = nodes, _places_of_classes(nodes, classes)
        nodes = whole.above(place for listed in found for place in listed)
        said = _not_above(whole, nodes)
    parents, depth = one_parent_each(nodes, several_parents)
    places = _places_of_classes(nodes, classes)
    tree = _Tree(nodes, parents, range(len(parents)))
    if several_parents == REFUSE:
        leaves = [_only_leaf(tree, classes, c, found) for c, found in enumerate(places)]
        notes = []
    else:
        tree = _Tree(nodes, parents, _with_ancestors(parents, (place for found in places for place in found)))
        leaves = [_leaf_by_rule(tree, classes, c, found, depth, several_parents) for c, found in enumerate(places)]
        tree = _Tree(nodes, parents, _with_ancestors(parents, leaves))
        notes = [parents_note(nodes, several_parents), *_left_out(tree)]
    order = _breadth_first(tree)
    _refuse_other_leaves(tree, leaves)
    return _numbered(tree, order, leaves), [*said, *notes]


class _Tree:
    """The nodes of a file that count, each under one parent."""

    def __init__(self, nodes: TaxonomyNodes, parents: Sequence[int], kept: Iterable[int]) -> None:
        self.nodes, self.parents, self.kept = nodes, parents, sorted(kept)
        self.children: dict[int, list[int]] = defaultdict(list)
        for place in self.kept:
            self.children[parents[place]].append(place)

    def is_leaf(self, place: int) -> bool:
        return not self.children.get(place)

    def listed(self, places: Iterable[int]) -> str:
        return _listed(self.nodes.names[place] for place in places)


def _with_ancestors(parents: Sequence[int], places: Iterable[int]) -> set[int]:
    found: set[int] = set()
    for place in places:
        while place != NO_PARENT and place not in found:
            found.add(place)
            place = parents[place]
    return found


def _not_above(whole: TaxonomyNodes, kept: TaxonomyNodes) -> list[Note]:
    """What was read of a file that is of more than the classes."""
    read, n_nodes = len(kept.keys), len(whole.keys)
    text = f"{read:,} of {n_nodes:,} nodes of {whole.source} are a class or stand above one; the others were left out"
    return [Note("NodesLeftOut", text)] if read < n_nodes else []


def _left_out(tree: _Tree) -> list[Note]:
    kept = set(tree.kept)
    gone = [place for place in range(len(tree.nodes.keys)) if place not in kept]
    if not gone:
        return []
    text = f"{len(gone):,} nodes of {tree.nodes.source} stand above no class in that tree and were left out"
    return [Note("NodesLeftOut", f"{text}: {tree.listed(gone)}")]


def _breadth_first(tree: _Tree) -> list[int]:
    roots = tree.children[NO_PARENT]
    if len(roots) > 1:
        hint = "put one node above them, or give the missing parents"
        raise TaxonomyRoots(f"{len(roots)} nodes have no parent: {tree.listed(roots)}", tree.nodes.source, hint)
    order = list(roots)
    for place in order:  # grows while it is walked
        order += tree.children.get(place, ())
    return order


def _numbered(tree: _Tree, order: Sequence[int], leaves: Sequence[int]) -> Taxonomy:
    number = {place: i for i, place in enumerate(order)} | {NO_PARENT: NO_PARENT}
    parent = np.array([number[tree.parents[place]] for place in order], np.int32)
    names = tuple(tree.nodes.names[place] for place in order)
    return Taxonomy(parent, names, np.array([number[leaf] for leaf in leaves], np.int32))


# ---- the node of each class --------------------------------------------------------------------------------------


def _places_of_classes(nodes: TaxonomyNodes, classes: Classes) -> list[list[int]]:
    """Places of each class's nodes: as listed, or found by id or name, whichever finds more classes."""
    if nodes.leaves is not None:
        return [[leaf] for leaf in _listed_leaves(nodes, classes)]
    table = classes.table
    by_id, by_name = (nodes.keys, table.ids), (nodes.keys, table.names)
    called = (nodes.names, table.names)
    ways = [by_id, by_name, called] if classes.given_ids else [by_name, called, by_id]
    if classes.numeral_names and not classes.given_ids:
        ways.remove(by_id)  # a node 2 is the class '2', not that at position 2
    found = [_places(words, wanted) for words, wanted in ways]
    known = [sum(bool(places) for places in way) for way in found]
    best = known.index(max(known))
    _refuse_shared_names(ways[best][1], classes, nodes)
    return _checked(found[best], classes, nodes)


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


def _only_leaf(tree: _Tree, classes: Classes, c: int, places: Sequence[int]) -> int:
    leaves = _leaves(tree, classes, c, places)
    if len(leaves) > 1:
        above = tree.listed(tree.parents[place] for place in leaves)
        what = f"class {classes.table.label(c)} stands under {above}"
        raise TaxonomyMultiParent(what, tree.nodes.source, CHOICE_HINT)
    return leaves[0]


def _leaf_by_rule(tree: _Tree, classes: Classes, c: int, places: Sequence[int], depth: Sequence[int], rule: str) -> int:
    """Nested JSON says that a class has several parents by naming it at several places."""
    return chosen(_leaves(tree, classes, c, places), depth, rule)


def _leaves(tree: _Tree, classes: Classes, c: int, places: Sequence[int]) -> list[int]:
    """Those of a class's places that are leaves; TaxonomyInnerLabel when none is."""
    leaves = [place for place in places if tree.is_leaf(place)]
    if not leaves:
        below = tree.listed(tree.children[places[0]])
        hint = "classes are leaves: give the class a leaf of its own below that node"
        what = f"class {classes.table.label(c)} is an inner node, above {below}"
        raise TaxonomyInnerLabel(what, tree.nodes.source, hint)
    return leaves


def _listed_leaves(nodes: TaxonomyNodes, classes: Classes) -> list[int]:
    leaves = nodes.leaves or []
    where = f"{nodes.source} and {classes.source}"
    what = f"{len(leaves)} leaves are listed for {len(classes)} classes"
    if len(leaves) < len(classes):
        raise TaxonomyMissingClass(what, where, "leaves lists the node of class 0, 1, ...")
    if len(leaves) > len(classes):
        raise TaxonomyUnknownClass(what, where, "leaves lists the node of class 0, 1, ...; is the class table whole?")
    owner: dict[int, int] = {}
    for c, leaf in enumerate(leaves):
        if owner.setdefault(leaf, c) != c:
            what = f"classes {owner[leaf]} and {c} are one node, {nodes.names[leaf]!r}"
            raise TaxonomyUnknownClass(what, nodes.source, "give each class a leaf of its own")
    return leaves


def _refuse_other_leaves(tree: _Tree, leaves: Sequence[int]) -> None:
    known = set(leaves)
    others = [place for place in tree.kept if tree.is_leaf(place) and place not in known]
    if others:
        what = f"{len(others)} childless nodes are no class: {tree.listed(others)}"
        raise TaxonomyUnknownClass(what, tree.nodes.source, "remove them, or add them to the class table (--classes)")


def _listed(names: Iterable[str], *, quote: bool = True) -> str:
    words = [repr(name) if quote else name for name in names]
    more = f" and {len(words) - SHOWN} more" if len(words) > SHOWN else ""
    return ", ".join(words[:SHOWN]) + more
