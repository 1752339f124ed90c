"""A label tree as padded tables, one row for each inner node, that a graph gathers from.

Inner nodes are numbered in order of their ids, so the root is 0. Row n_inner of the tables is that of rows that are
finished: its children are none.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pipeline.export.graph import check_bytes
from tasks.rows.base import Array
from tasks.trees.prediction.links import REACH
from tasks.trees.tree import LabelTree

BYTES_PER_CELL = 8 + 8 + 8 + 8 + 4  # of a padded table: what a search holds for a child


@dataclass(frozen=True)
class TreeTables:
    """Tables (n_inner + 1, widest) of children: in each row those of an inner node, then padding.

    columns      int64: the column of a child among the scores of all nodes but the root; of padding the last one, whose
                 score is -inf, and 0 of the row of those that are finished
    numbers      int64: the inner node that a child is, n_inner for leaves and padding
    leaves       int64: the leaf that a child is, in order of ids, n_leaves for inner nodes, empty leaves and padding
    nodes        int64: ids, -1 for padding
    scales       (n_inner + 1, 1) float32; depths (n_inner,) int64
    leaf_sizes   (n_leaves + 1,) float64: classes of each leaf that has any; 1 at the end
    """

    columns: Array
    numbers: Array
    leaves: Array
    nodes: Array
    scales: Array
    depths: Array
    leaf_sizes: Array
    leaf_ids: Array

    @property
    def n_inner(self) -> int:
        return len(self.columns) - 1

    @property
    def n_leaves(self) -> int:
        return self.leaf_sizes.size - 1

    @property
    def widest(self) -> int:
        return int(self.columns.shape[1])


def tree_bytes(tree: LabelTree) -> int:
    """Of the constants, about: all weights as one matrix, and the tables."""
    cells = (int(np.count_nonzero(tree.n_children)) + 1) * int(tree.n_children.max(initial=1))
    return 4 * tree.n_nodes * (tree.n_features + 1) + BYTES_PER_CELL * cells


def tables_of(tree: LabelTree) -> TreeTables:
    """Of a tree with an inner node."""
    inner = np.flatnonzero(tree.n_children)
    sizes = np.diff(tree.offsets)
    leaf_ids = np.flatnonzero((tree.n_children == 0) & (sizes > 0))
    offsets = np.arange(tree.n_children.max())
    nodes = np.full((inner.size + 1, offsets.size), -1)
    nodes[:-1] = np.where(
        offsets < tree.n_children[inner, None], tree.first_child[inner, None].astype(np.int64) + offsets, -1
    )
    numbers = numbered(inner, tree.n_nodes)[nodes]
    leaves = numbered(leaf_ids, tree.n_nodes)[nodes]
    columns = np.where(nodes >= 0, nodes - 1, tree.n_nodes - 1)
    columns[-1] = 0
    scales = np.ones((inner.size + 1, 1), np.float32)
    if tree.scales is not None:
        scales[:-1, 0] = tree.scales[inner]
    leaf_sizes = np.append(sizes[leaf_ids], 1).astype(np.float64)
    depths = tree.depth_of[inner].astype(np.int64)
    return TreeTables(columns, numbers, leaves, nodes, scales, depths, leaf_sizes, leaf_ids)


def numbered(chosen: Array, n_nodes: int) -> Array:
    """(n_nodes + 1,) int64: the place of each node among the chosen, their number for all others; -1 is no node."""
    places = np.full(n_nodes + 1, chosen.size)
    places[chosen] = np.arange(chosen.size)
    return places


def whole_weights(tree: LabelTree) -> tuple[Array, Array]:
    """(weights (n_features, n_nodes), bias (n_nodes,)) float32: of node n in column n - 1; the last scores -inf.

    Raises ExportTooLarge before anything is allocated.
    """
    check_bytes(tree_bytes(tree))
    weights = np.zeros((tree.n_features, tree.n_nodes), np.float32)
    for node in np.flatnonzero(tree.n_children):
        first, own = int(tree.first_child[node]) - 1, tree.node_weights(int(node))
        weights[:, first : first + int(tree.n_children[node])] = own if isinstance(own, np.ndarray) else own.to_array()
    return weights, np.append(tree.bias, -np.inf).astype(np.float32)


def holders_by_class(tree: LabelTree, tables: TreeTables) -> Array:
    """(n_classes, most) int64: the leaves that hold each class, by their places among leaves, n_leaves as padding."""
    sizes = np.diff(tree.offsets)[tables.leaf_ids]
    starts = tree.offsets[tables.leaf_ids]
    held = np.repeat(starts - np.cumsum(sizes) + sizes, sizes) + np.arange(sizes.sum())
    classes, owners = tree.classes[held], np.repeat(np.arange(tables.n_leaves), sizes)
    order = np.argsort(classes, kind="stable")
    counts = np.bincount(classes, minlength=tree.n_classes)
    places = np.arange(order.size) - np.repeat(np.cumsum(counts) - counts, counts)
    holders = np.full((tree.n_classes, max(1, int(counts.max(initial=1)))), tables.n_leaves)
    holders[classes[order], places] = owners[order]
    return holders


def first_labels(tree: LabelTree, tables: TreeTables, top: int) -> Array:
    """(n_inner + 1, widest, top) int64: the first classes of every child, ascending; n_classes as padding.

    No more than `top` of one child are ever named, since the first `top` of them fill every place.
    """
    most = min(top, int(np.diff(tree.offsets).max()))
    check_bytes(8 * tables.nodes.size * most)
    labels = np.full((tree.n_nodes + 1, most), tree.n_classes)
    for node in range(tree.n_nodes):
        own = tree.label_set(node)[:most]
        labels[node, : own.size] = own
    return labels[tables.nodes]


def adds_up(tree: LabelTree) -> bool:
    """Whether the values of paths are probabilities as they are."""
    return tree.link == "softmax" and tree.sharpness == 1


def reaches(tree: LabelTree) -> bool:
    return tree.link == REACH
