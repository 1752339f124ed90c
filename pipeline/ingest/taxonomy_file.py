"""Taxonomy files: parent/child TSV, WordNet's is_a lists, nested JSON, a JSON list of nodes, or a JSON list of edges.

    {"nodes": [{"id", "name", "parent": id or list of ids}, ...], "leaves": [node ids]}
    {"edges_child_parent": [[child, parent], ...], "names": {id: name}, "leaves": [node ids]}

All are read into the same list of nodes with their parents, in the order of the file; a node may have several.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pipeline.ingest.errors import TaxonomyFormat, TaxonomyMultiParent, TaxonomyUnknownClass
from pipeline.ingest.files import PathLike, read_text, table_rows
from pipeline.ingest.labels import normal
from pipeline.ingest.wordnet import is_wordnet, spaced, words_beside

EDGES = "edges_child_parent"
HINT = (
    "a TSV or CSV of parent and child, nested JSON objects, or JSON with nodes (id, name, parent) and leaves, "
    f"or with {EDGES}"
)
MANY_PARENTS = 'each node once; where it has several parents, they are a list: "parent": ["a", "b"]'
NO_PARENT = -1


@dataclass
class TaxonomyNodes:
    """Nodes in the order of the file.

    keys     what the file calls each node; may repeat only in nested JSON without ids
    names    what people call it
    parents  places of its parents in this list, in the order of the file; none at a root
    leaves   place of the node of class 0, 1, ...; None where classes are found by id or name
    wider    whether the file is of more than the classes: only these and what stands above them counts
    """

    source: str
    keys: list[str] = field(default_factory=list)
    names: list[str] = field(default_factory=list)
    parents: list[list[int]] = field(default_factory=list)
    leaves: list[int] | None = None
    wider: bool = False

    def add(self, key: str, name: str, parent: int = NO_PARENT) -> int:
        self.keys.append(normal(key))
        self.names.append(normal(name))
        self.parents.append([] if parent == NO_PARENT else [parent])
        return len(self.keys) - 1

    def hang(self, child: int, parent: int) -> None:
        """Put a node under a parent, beside those that it has already."""
        if parent not in self.parents[child]:
            self.parents[child].append(parent)

    def above(self, places: Iterable[int]) -> TaxonomyNodes:
        """The nodes at `places` and all that stand above them, in the order of the file."""
        kept, waiting = set[int](), list(places)
        while waiting:
            place = waiting.pop()
            if place not in kept:
                kept.add(place)
                waiting += self.parents[place]
        order = sorted(kept)
        now = {place: i for i, place in enumerate(order)}
        keys, names = [self.keys[place] for place in order], [self.names[place] for place in order]
        parents = [[now[parent] for parent in self.parents[place]] for place in order]
        return TaxonomyNodes(self.source, keys, names, parents)


def read_taxonomy(taxonomy: PathLike | dict[str, Any]) -> TaxonomyNodes:
    """The nodes of a taxonomy file (or of the parsed JSON), with all of their parents.

    Raises TaxonomyFormat, TaxonomyMultiParent (a node listed twice), TaxonomyUnknownClass (an id that is no node).
    """
    if isinstance(taxonomy, dict):
        return _from_json(json.dumps(taxonomy), "taxonomy")
    path = Path(taxonomy)
    if not path.is_file():
        raise TaxonomyFormat("there is no such file", str(path), "check the path")
    if path.suffix.lower() == ".json":
        return _from_json(read_text(path), path.name)
    lines = table_rows(path)
    nodes = _from_lines(lines if path.suffix.lower() == ".csv" else spaced(lines), path.name)
    if is_wordnet(path):
        called = words_beside(path)
        nodes.names = [called.get(key, key) for key in nodes.keys]
        nodes.wider = True
    return nodes


# ---- parent and child --------------------------------------------------------------------------------------------


def _from_lines(lines: Sequence[list[str]], source: str) -> TaxonomyNodes:
    """A parent and a child a line, a tab between (in .csv a comma; or all with a space); a header may say the order.

    An empty parent declares a root.
    """
    nodes, places = TaxonomyNodes(source), dict[str, int]()
    parent_column, child_column, start = _columns(lines[0] if lines else [])
    for number, fields in enumerate(lines[start:], start + 1):
        if not "".join(fields).strip():
            continue
        if len(fields) <= max(parent_column, child_column) or not fields[child_column]:
            raise TaxonomyFormat(
                "a parent and a child are expected, with a tab between (in .csv a comma)",
                f"{source}, line {number}",
                HINT,
            )
        above, below = (normal(fields[column]) for column in (parent_column, child_column))
        for key in (above, below):
            if key and key not in places:
                places[key] = nodes.add(key, key)
        if above:
            nodes.hang(places[below], places[above])
    return nodes


def _columns(header: Sequence[str]) -> tuple[int, int, int]:
    """Columns of parent and child, and the first line after the header."""
    words = [word.strip().lower() for word in header]
    child = next((word for word in ("child", "id", "node") if word in words), None)
    if "parent" in words and child is not None:
        return words.index("parent"), words.index(child), 1
    return 0, 1, 0


# ---- JSON --------------------------------------------------------------------------------------------------------


class _Object:
    """A JSON object with repeated keys kept: a dict would drop all but the last."""

    def __init__(self, pairs: list[tuple[str, Any]]) -> None:
        self.pairs = pairs
        self.values = dict(pairs)


def _from_json(text: str, source: str) -> TaxonomyNodes:
    try:
        found = json.loads(text, object_pairs_hook=_Object)
    except (ValueError, RecursionError) as error:
        raise TaxonomyFormat(f"this is no JSON ({error})", source, HINT) from error
    if not isinstance(found, _Object):
        raise TaxonomyFormat("an object is expected", source, HINT)
    if isinstance(found.values.get(EDGES), list):
        return _from_edges(found, source)
    return _from_table(found, source) if "nodes" in found.values else _from_nested(found, source)


def _from_table(found: _Object, source: str) -> TaxonomyNodes:
    nodes, places = TaxonomyNodes(source), dict[str, int]()
    listed = found.values["nodes"]
    above: list[list[str]] = []
    for number, item in enumerate(listed if isinstance(listed, list) else [None]):
        entry = item.values if isinstance(item, _Object) else {}
        where = f"{source}, node {number}"
        if "id" not in entry:
            raise TaxonomyFormat("a node is an object with id, name and parent", where, HINT)
        key = normal(_text(entry["id"], where))
        if key in places:
            raise TaxonomyMultiParent(f"the node {key!r} is listed twice", where, MANY_PARENTS)
        places[key] = nodes.add(key, _text(entry.get("name", key), where))
        parent = entry.get("parent")
        listing = parent if isinstance(parent, list) else [] if parent is None else [parent]
        above.append([normal(_text(one, where)) for one in listing])
    for child, parents in enumerate(above):
        for parent in parents:
            nodes.hang(child, _known(parent, places, f"{source}, node {child} ({nodes.keys[child]!r})"))
    nodes.leaves = _leaves(found.values.get("leaves"), places, source)
    return nodes


def _from_edges(found: _Object, source: str) -> TaxonomyNodes:
    """Edges of child and parent, by id; "names" says what people call an id, "leaves" which are class 0, 1, ..."""
    nodes, places = TaxonomyNodes(source), dict[str, int]()
    names = _names(found.values.get("names"), source)
    for number, edge in enumerate(found.values[EDGES]):
        where = f"{source}, edge {number}"
        if not isinstance(edge, list) or len(edge) != 2:
            raise TaxonomyFormat("an edge is a list of child and parent", where, HINT)
        below, above = (normal(_text(end, where)) for end in edge)
        for key in (above, below):
            if key not in places:
                places[key] = nodes.add(key, names.get(key, key))
        nodes.hang(places[below], places[above])
    nodes.leaves = _leaves(found.values.get("leaves"), places, source)
    return nodes


def _names(given: Any, source: str) -> dict[str, str]:
    if given is None:
        return {}
    if not isinstance(given, _Object):
        raise TaxonomyFormat("names is an object of id and name", source, HINT)
    return {normal(key): _text(name, f"{source}, name of {key!r}") for key, name in given.pairs}


def _leaves(listed: Any, places: dict[str, int], source: str) -> list[int] | None:
    if listed is None:
        return None
    if not isinstance(listed, list):
        raise TaxonomyFormat("leaves is a list of node ids, one a class", source, HINT)
    where = [f"{source}, leaf {c}" for c in range(len(listed))]
    return [_known(normal(_text(key, at)), places, at) for key, at in zip(listed, where, strict=True)]


def _known(key: str, places: dict[str, int], where: str) -> int:
    if key not in places:
        raise TaxonomyUnknownClass(f"{key!r} is no node", where, "parents and leaves are ids of listed nodes")
    return places[key]


def _text(value: Any, where: str) -> str:
    if isinstance(value, bool) or not isinstance(value, str | int):
        shown = "an object" if isinstance(value, _Object) else repr(value)
        raise TaxonomyFormat(f"{shown} is neither an id nor a name", where, HINT)
    return str(value)


def _from_nested(found: _Object, source: str) -> TaxonomyNodes:
    """Nested objects {"name", "children"}, or {name: subtree}; a list of names holds leaves."""
    nodes = TaxonomyNodes(source)
    if "children" in found.values or len(found.pairs) == 1:
        waiting = [(NO_PARENT, item) for item in _subtrees(found, source)]
    else:  # several names side by side: the outermost object is their root
        root = nodes.add("root", "root")
        waiting = [(root, item) for item in _subtrees(found, source)]
    waiting.reverse()
    while waiting:
        parent, (key, name, below) = waiting.pop()
        place = nodes.add(key, name, parent)
        waiting += [(place, item) for item in reversed(list(_subtrees(below, f"{source}, below {name!r}")))]
    return nodes


def _subtrees(value: Any, where: str) -> Iterator[tuple[str, str, Any]]:
    """(key, name, what stands below) of each subtree that a JSON value lists."""
    if isinstance(value, _Object) and ({"children", "name"} & set(value.values) or set(value.values) == {"id"}):
        name = _text(value.values.get("name", value.values.get("id")), where)
        yield _text(value.values.get("id", name), where), name, value.values.get("children")
    elif isinstance(value, _Object):
        for name, below in value.pairs:
            yield name, name, below
    elif isinstance(value, list):
        for item in value:
            if isinstance(item, _Object | list):
                yield from _subtrees(item, where)
            else:
                yield _text(item, where), _text(item, where), None
    elif value is not None:
        name = _text(value, where)
        yield name, name, None
