"""A taxonomy as estimators take it: a file, or a mapping of parents to children over the labels."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from pipeline.estimators.errors import BadParameter, raise_in_python
from pipeline.estimators.labels import name_of
from pipeline.ingest.labels import normal
from pipeline.ingest.taxonomy_file import TaxonomyNodes, read_taxonomy
from tasks.errors import LabelgroveError

ROOT = "root"
HINT = (
    'a file as for `labelgrove ingest`, or a mapping whose leaves are the labels: {"plants": ["oak", "rye"]}, '
    '{"plants": {"trees": ["oak", "elm"], "rye": None}}'
)
FORMS = ("nodes", "edges_child_parent")


def taxonomy_of(given: Any, names: Sequence[str]) -> dict[str, Any] | None:
    """A taxonomy over these classes, as ingest takes it: {"nodes": [...], "leaves": [the node of class 0, 1, ...]}.

    Of nodes that stand above no class (those of classes that a fold of a cross-validation lacks) nothing is kept.
    given    a path, a mapping of parents to children (nested or flat), the parsed JSON of a file, or None
    Raises BadParameter.
    """
    if given is None:
        return None
    nodes = _read(given)
    leaves = _leaves(nodes, [normal(name) for name in names])
    kept = nodes.above(leaves)
    place = {key: i for i, key in enumerate(_numbered(nodes, leaves))}
    listed = [{"id": str(i), "name": name, "parent": _parents(kept, i)} for i, name in enumerate(kept.names)]
    return {"nodes": listed, "leaves": [str(place[leaf]) for leaf in leaves]}


def _numbered(nodes: TaxonomyNodes, leaves: Sequence[int]) -> list[int]:
    """The places that `above` keeps, in its order."""
    kept, waiting = set[int](), list(leaves)
    while waiting:
        place = waiting.pop()
        if place not in kept:
            kept.add(place)
            waiting += nodes.parents[place]
    return sorted(kept)


def _parents(nodes: TaxonomyNodes, place: int) -> Any:
    parents = [str(parent) for parent in nodes.parents[place]]
    return None if not parents else parents[0] if len(parents) == 1 else parents


def _read(given: Any) -> TaxonomyNodes:
    if isinstance(given, str | os.PathLike) or (isinstance(given, dict) and any(form in given for form in FORMS)):
        try:
            return read_taxonomy(given)
        except LabelgroveError as error:
            raise_in_python(error, "")
    if not isinstance(given, Mapping):
        raise BadParameter(f"taxonomy: {type(given).__name__} is no taxonomy", "taxonomy", HINT)
    nodes, places = TaxonomyNodes("taxonomy"), dict[str, int]()
    _hang(given, None, nodes, places)
    tops = [place for place, parents in enumerate(nodes.parents) if not parents]
    if len(tops) != 1:
        root = nodes.add(ROOT, ROOT)
        for place in tops:
            nodes.hang(place, root)
        _first(nodes, root)
    return nodes


def _first(nodes: TaxonomyNodes, root: int) -> None:
    """Number the last node first."""
    order = [root, *range(root)]
    now = {place: i for i, place in enumerate(order)}
    nodes.keys, nodes.names = [nodes.keys[place] for place in order], [nodes.names[place] for place in order]
    nodes.parents = [[now[parent] for parent in nodes.parents[place]] for place in order]


def _hang(below: Any, parent: int | None, nodes: TaxonomyNodes, places: dict[str, int]) -> None:
    """Put all that is named below a node into the list."""
    if below is None:
        return
    if isinstance(below, str) or not isinstance(below, Mapping | Sequence | set | frozenset):
        below = [below]
    for label in below:
        key = name_of(label)
        if key not in places:
            places[key] = nodes.add(key, key)
        if parent is not None:
            nodes.hang(places[key], parent)
        if isinstance(below, Mapping):
            _hang(below[label], places[key], nodes, places)


def _leaves(nodes: TaxonomyNodes, names: Sequence[str]) -> list[int]:
    """The node of each class. Raises BadParameter."""
    if nodes.leaves is not None and len(nodes.leaves) == len(names):
        return list(nodes.leaves)
    by_key = {key: i for i, key in reversed(list(enumerate(nodes.keys)))}
    by_name = {name: i for i, name in reversed(list(enumerate(nodes.names)))}
    found = [by_key.get(name, by_name.get(name)) for name in names]
    missing = [name for name, place in zip(names, found, strict=True) if place is None]
    if missing:
        what = f"taxonomy: the labels {missing[:5]} are no nodes of it ({len(missing):,} of {len(names):,})"
        raise BadParameter(what, "taxonomy", HINT)
    return [place for place in found if place is not None]
