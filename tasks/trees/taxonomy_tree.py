"""The splits of a taxonomy, as a tree to walk down: every node with several children chooses among them.

A node with a single child makes no choice, so such chains are drawn together into their last node; what is left has the
arrays of a `LabelTree`, nodes breadth-first and the children of a node consecutive. Child n of a split has column n - 1
among the scores of all splits.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from tasks.losses.path_crammer_singer import PathCrammerSinger
from tasks.rows.base import Array
from tasks.taxonomy import ROOT, Taxonomy
from tasks.trees.tree import GIVEN, NONE, LabelTree


@dataclass(frozen=True, eq=False)
class TaxonomyTree:
    """A contracted taxonomy: no node has exactly one child.

    parent         (n_nodes,) int32, -1 for the root (node 0)
    first_child    (n_nodes,) int32, -1 for a leaf
    n_children     (n_nodes,) int32: 0 for a leaf, otherwise 2 or more
    leaf_of_class  (n_classes,) int32
    """

    parent: Array
    first_child: Array
    n_children: Array
    leaf_of_class: Array

    @classmethod
    def of(cls, taxonomy: Taxonomy) -> Self:
        """The splits of a taxonomy, its children in the order of their ids."""
        kept = [_end_of_chain(taxonomy, ROOT)]
        parent, first_child, n_children = [NONE], [], []
        for place, node in enumerate(kept):  # grows while it is walked: breadth-first
            children = taxonomy.children(node)
            first_child.append(len(kept) if children.size else NONE)
            n_children.append(int(children.size))
            parent += [place] * int(children.size)
            kept += [_end_of_chain(taxonomy, int(child)) for child in children]
        place_of = np.full(taxonomy.n_nodes, NONE, np.int32)
        place_of[kept] = np.arange(len(kept))
        leaves = place_of[taxonomy.leaf_of_class]
        return cls(np.array(parent, np.int32), np.array(first_child, np.int32), np.array(n_children, np.int32), leaves)

    @property
    def n_nodes(self) -> int:
        return int(self.parent.size)

    @property
    def n_columns(self) -> int:
        """Children of splits: every node but the root."""
        return self.n_nodes - 1

    @property
    def n_classes(self) -> int:
        return int(self.leaf_of_class.size)

    def paths(self) -> list[list[int]]:
        """Of each class its nodes below the root, from the top down."""
        found = []
        for leaf in self.leaf_of_class.tolist():
            path, node = [], leaf
            while node != ROOT:
                path.append(node)
                node = int(self.parent[node])
            found.append(path[::-1])
        return found

    def height(self) -> int:
        """Splits on the longest path."""
        return max(len(path) for path in self.paths())

    def loss(self) -> PathCrammerSinger:
        """The hinge at every split on a class's path."""
        paths = self.paths()
        nodes = np.array([node for path in paths for node in path], np.int64)
        above = self.parent[nodes]
        starts = np.concatenate([[0], np.cumsum([len(path) for path in paths])]).astype(np.int64)
        steps = self.first_child[above] - 1, self.n_children[above], nodes - 1
        return PathCrammerSinger(starts, *(part.astype(np.int32) for part in steps))

    def label_sets(self) -> tuple[Array, Array]:
        """(offsets (n_nodes + 1,) int64, classes int32): the classes below each node, ascending."""
        held: list[list[int]] = [[] for _ in range(self.n_nodes)]
        for c, path in enumerate(self.paths()):
            for node in (ROOT, *path):
                held[node].append(c)
        offsets = np.concatenate([[0], np.cumsum([len(classes) for classes in held])]).astype(np.int64)
        return offsets, np.array([c for classes in held for c in classes], np.int32)

    def model(self, weights: Array, bias: Array | None, facts: dict[str, Any]) -> LabelTree:
        """What is walked down: weights (n_features, n_columns) and bias (n_columns,) of the columns of all splits."""
        offsets, classes = self.label_sets()
        matrices = [np.zeros(0, np.float32)]
        for node in np.flatnonzero(self.n_children):
            first = self.first_child[node] - 1
            matrices.append(np.ravel(weights[:, first : first + self.n_children[node]]))
        return LabelTree(
            first_child=self.first_child,
            n_children=self.n_children,
            offsets=offsets,
            classes=classes,
            weights=np.concatenate(matrices).astype(np.float32, copy=False),
            bias=np.zeros(self.n_columns, np.float32) if bias is None else np.asarray(bias, np.float32),
            n_features=int(weights.shape[0]),
            n_classes=self.n_classes,
            facts=facts,
            kind=GIVEN,
        )


def _end_of_chain(taxonomy: Taxonomy, node: int) -> int:
    """The first node from here down that has no child or several."""
    while True:
        children = taxonomy.children(node)
        if children.size != 1:
            return node
        node = int(children[0])
