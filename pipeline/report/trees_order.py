"""Classes in the order of a depth-first walk through the taxonomy, and the largest subtrees on the way."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tasks.rows.base import Array
from tasks.taxonomy import ROOT, Taxonomy

MOST_GROUPS = 12  # subtrees that a figure names
LEAST_SHARE = 0.02  # of the classes, that a subtree must have to be named
LARGEST_SHARE = 0.25  # of the classes, above which its subtrees are named in its place


@dataclass(frozen=True, slots=True)
class Group:
    """A subtree: its name, and where its classes stand, start <= place < stop."""

    name: str
    start: int
    stop: int

    @property
    def n_classes(self) -> int:
        return self.stop - self.start


@dataclass(frozen=True)
class ClassOrder:
    """Columns of a figure: `classes` (K,) from left to right, and subtrees that do not overlap, from left to right."""

    classes: Array
    groups: tuple[Group, ...] = ()

    @property
    def places(self) -> Array:
        """(K,) int64: the column of each class."""
        return np.argsort(self.classes, kind="stable")


def class_order(taxonomy: Taxonomy | None, n_classes: int) -> ClassOrder:
    """Of a dataset; without a taxonomy, or with one that groups nothing, classes stand by number."""
    if taxonomy is None or taxonomy.n_levels < 3:
        return ClassOrder(np.arange(n_classes))
    start, stop, classes = _spans(taxonomy)
    found = [
        Group(taxonomy.names[node], int(start[node]), int(stop[node])) for node in _largest(taxonomy, stop - start)
    ]
    return ClassOrder(classes, tuple(sorted(found, key=lambda group: group.start)))


def _spans(taxonomy: Taxonomy) -> tuple[Array, Array, Array]:
    """(start, stop) of each node's classes, and the classes in the order of a depth-first walk, children by id."""
    class_of = np.full(taxonomy.n_nodes, -1)
    class_of[taxonomy.leaf_of_class] = np.arange(taxonomy.n_classes)
    start, stop = np.zeros(taxonomy.n_nodes, np.int64), np.zeros(taxonomy.n_nodes, np.int64)
    order: list[int] = []
    waiting = [(ROOT, False)]
    while waiting:
        node, left = waiting.pop()
        if left:
            stop[node] = len(order)
            continue
        start[node] = len(order)
        if class_of[node] >= 0:
            order.append(int(class_of[node]))
        waiting.append((node, True))
        waiting += [(int(child), False) for child in reversed(taxonomy.children(node))]
    return start, stop, np.array(order, np.int64)


def _largest(taxonomy: Taxonomy, sizes: Array) -> list[int]:
    """Nodes of disjoint subtrees: the largest is opened while it is too large to say much, and the others have room."""
    found = [ROOT]
    least = max(2, int(np.ceil(LEAST_SHARE * taxonomy.n_classes)))
    while found:
        largest = max(found, key=lambda node: (sizes[node], -node))
        below = [int(child) for child in taxonomy.children(largest) if sizes[child] >= least]
        if sizes[largest] <= LARGEST_SHARE * taxonomy.n_classes or not below:
            break
        found.remove(largest)
        found += below
    return sorted(found, key=lambda node: (-sizes[node], node))[:MOST_GROUPS] if found != [ROOT] else []
