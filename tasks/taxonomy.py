"""The taxonomy: a rooted tree whose leaves are the classes (Zhao & Xing 2012, section 2).

Node ids are stable: root first, breadth-first. They seed the hash functions of hierarchical hashing, so the order of
the nodes is part of a model's meaning and is checked, never repaired.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal, Self

import numpy as np

from tasks.errors import InputError
from tasks.rows.base import Array

ROOT = 0
NO_CLASS = -1  # a prediction that names no class

HeightKind = Literal["longest", "padded"]


class TaxonomyInvalid(InputError):
    """The arrays do not describe a rooted tree in breadth-first order with the classes at its leaves."""


@dataclass(frozen=True, eq=False)
class Taxonomy:
    """A rooted tree over the classes.

    parent         (n_nodes,) int32: -1 for the root (node 0), otherwise a smaller node id; levels never decrease
    names          one name per node; any text, never part of a path
    leaf_of_class  (n_classes,) int32: a childless node for each class, all different

    Raises TaxonomyInvalid.
    """

    parent: Array
    names: tuple[str, ...]
    leaf_of_class: Array
    level: Array = field(init=False, repr=False)  # (n_nodes,) int32, 0 at the root

    def __post_init__(self) -> None:
        object.__setattr__(self, "parent", np.ascontiguousarray(self.parent, np.int32))
        object.__setattr__(self, "leaf_of_class", np.ascontiguousarray(self.leaf_of_class, np.int32))
        object.__setattr__(self, "names", tuple(self.names))
        _check_parents(self.parent)
        from tasks.taxonomy_walks import node_levels

        object.__setattr__(self, "level", node_levels(self.parent))
        _check_order(self.level)
        _check_leaves(self.parent, self.leaf_of_class)
        if len(self.names) != self.n_nodes:
            raise TaxonomyInvalid(f"{len(self.names)} names for {self.n_nodes} nodes", "taxonomy.names")

    @classmethod
    def flat(cls, n_classes: int) -> Self:
        """A root with one leaf per class: what a dataset without a taxonomy has."""
        parent = np.zeros(n_classes + 1, np.int32)
        parent[ROOT] = -1
        names = ("root", *(str(c) for c in range(n_classes)))
        return cls(parent, names, np.arange(1, n_classes + 1, dtype=np.int32))

    @property
    def n_nodes(self) -> int:
        return int(self.parent.size)

    @property
    def n_classes(self) -> int:
        return int(self.leaf_of_class.size)

    @property
    def n_levels(self) -> int:
        """Levels of the deepest node (T): 2 for a flat taxonomy."""
        return int(self.level.max()) + 1

    @property
    def node_seeds(self) -> Array:
        """(n_nodes,) uint32: the hash seed of each node is its id."""
        return np.arange(self.n_nodes, dtype=np.uint32)

    @cached_property
    def _child_lists(self) -> tuple[Array, Array]:
        order = np.argsort(self.parent[1:], kind="stable").astype(np.int32) + 1
        counts = np.bincount(self.parent[1:], minlength=self.n_nodes)
        return order, np.concatenate([[0], np.cumsum(counts)])

    def children(self, node: int) -> Array:
        """Children of a node, ascending (int32)."""
        order, offsets = self._child_lists
        found: Array = order[offsets[node] : offsets[node + 1]]
        return found

    @cached_property
    def _paths(self) -> Array:
        from tasks.taxonomy_walks import leaf_paths

        paths: Array = leaf_paths(self.parent, self.level, self.leaf_of_class, self.n_levels)
        paths.setflags(write=False)
        return paths

    def paths(self) -> Array:
        """(n_classes, n_levels) int32: nodes root..leaf of each class, shallow leaves replicated."""
        return self._paths

    @cached_property
    def _longest(self) -> Array:
        from tasks.taxonomy_walks import longest_heights

        heights: Array = longest_heights(self.parent)
        return heights

    def heights(self, kind: HeightKind = "longest") -> Array:
        """Height of each node, (n_nodes,) int32.

        longest  edges on the longest downward path to a leaf (primary; ILSVRC's usage)
        padded   levels below the node when all leaves are replicated to the last level (SPECS 1.8)
        """
        return self._longest if kind == "longest" else self.n_levels - 1 - self.level

    def lca(self, first: Array, second: Array) -> Array:
        """Lowest common ancestor (node ids, int32) of pairs of classes; with NO_CLASS it is the root."""
        from tasks.taxonomy_walks import common_ancestors

        nodes: Array = common_ancestors(self.paths(), np.atleast_1d(first), np.atleast_1d(second))
        return nodes

    def lca_heights(self, first: Array, second: Array, kind: HeightKind = "longest") -> Array:
        """Height (int32) of the lowest common ancestor of pairs of classes; 0 for equal classes in either kind."""
        first, second = np.atleast_1d(first), np.atleast_1d(second)
        heights: Array = self.heights(kind)[self.lca(first, second)]
        heights[(first == second) & (first >= 0)] = 0  # an equal pair meets at the replicated leaf of the last level
        return heights


def _check_parents(parent: Array) -> None:
    if parent.ndim != 1 or parent.size == 0 or parent[ROOT] != -1:
        raise TaxonomyInvalid("node 0 must be the root, with parent -1", "taxonomy.parent")
    wrong = np.flatnonzero((parent[1:] < 0) | (parent[1:] >= np.arange(1, parent.size))) + 1
    if wrong.size:
        node = int(wrong[0])
        raise TaxonomyInvalid(
            f"parent {int(parent[node])} of node {node} is not an earlier node",
            f"taxonomy.parent[{node}]",
            "number the nodes breadth-first, root first",
        )


def _check_order(level: Array) -> None:
    wrong = np.flatnonzero(np.diff(level) < 0) + 1
    if wrong.size:
        raise TaxonomyInvalid(
            f"node {int(wrong[0])} is nearer to the root than the node before it",
            f"taxonomy.parent[{int(wrong[0])}]",
            "number the nodes breadth-first, root first",
        )


def _check_leaves(parent: Array, leaf_of_class: Array) -> None:
    if leaf_of_class.ndim != 1 or leaf_of_class.size == 0:
        raise TaxonomyInvalid("a taxonomy needs at least one class", "taxonomy.leaf_of_class")
    outside = np.flatnonzero((leaf_of_class < 0) | (leaf_of_class >= parent.size))
    if outside.size:
        c = int(outside[0])
        raise TaxonomyInvalid(f"class {c} has no node {int(leaf_of_class[c])}", f"taxonomy.leaf_of_class[{c}]")
    has_children = np.zeros(parent.size, bool)
    has_children[parent[1:]] = True
    inner = np.flatnonzero(has_children[leaf_of_class])
    if inner.size:
        c = int(inner[0])
        raise TaxonomyInvalid(f"class {c} sits on an inner node", f"taxonomy.leaf_of_class[{c}]")
    if np.unique(leaf_of_class).size != leaf_of_class.size:
        raise TaxonomyInvalid("two classes share one leaf", "taxonomy.leaf_of_class")
