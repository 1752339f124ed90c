"""How well the nodes of a finished tree send validation rows on: loss and ambiguity, node by node."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from tasks.fit.targets import TRAIN, VALIDATION
from tasks.io import Block, read_labels, read_rows, read_split
from tasks.later import numba
from tasks.metrics.hierarchy import holds
from tasks.rows.base import Array, Rows
from tasks.sums import FieldSums
from tasks.trees.local import Balance
from tasks.trees.scale import SCALES, add_held, best_scale
from tasks.trees.tree import LabelTree

ROWS, LOST, KEPT = range(3)  # of a node's counts


@numba.njit(cache=True, nogil=True)
def judge_paths(path: Array, labels: Array, offsets: Array, classes: Array, counts: Array) -> None:
    """Add walks to counts (n_nodes, 3) int64: rows met with their class in the node, those lost, classes kept (summed).

    path (n_rows, longest) int32 node ids from the root, -1 padded; labels (n_rows,) int32; offsets, classes as of a
    `LabelTree`. A row is judged at a node when the node still holds its class: the nodes below the one that lost it
    are not told of it.
    """
    for i in range(path.shape[0]):
        for depth in range(path.shape[1] - 1):
            node, child = path[i, depth], path[i, depth + 1]
            if child < 0 or not holds(classes[offsets[node] : offsets[node + 1]], labels[i]):
                break
            below = classes[offsets[child] : offsets[child + 1]]
            counts[node, 0] += 1
            counts[node, 1] += 0 if holds(below, labels[i]) else 1
            counts[node, 2] += below.size


def judge_rows(tree: LabelTree, rows: Rows, labels: Array) -> Array:
    """(n_nodes, 3) int64 of labelled rows; see `judge_paths`."""
    counts = np.zeros((tree.n_nodes, 3), np.int64)
    path = tree.rank(rows, 1).path
    if path is not None:
        judge_paths(path, labels.astype(np.int32), tree.offsets, tree.classes, counts)
    return counts


@dataclass(frozen=True, eq=False)
class Judged(FieldSums):
    """Counts of validation rows, and of training rows of the classes that have none: (n_nodes, 3) int64 each; and what
    the validation rows say of scales, see `path_likelihoods`."""

    validation: Array
    stand_ins: Array
    likelihoods: Array

    def weighed(self, balance: Balance) -> Array:
        """(n_nodes, 3) float64: a training row counts as `Balance` says."""
        return np.asarray(self.validation + balance.share * self.stand_ins)


def judge_block(
    block: Block, dataset: str, tree: Mapping[str, Array], header: Mapping[str, Any], without: Array
) -> Judged:
    """One block's share, of the rows that the tree is tested on.

    tree, header  tensors and header of a LabelTree, with n_features and n_classes
    without       (n_classes,) bool: classes without validation rows
    """
    split, labels = (read(dataset, block.start, block.stop) for read in (read_split, read_labels))
    model = LabelTree.load(dict(header), {name: np.asarray(values) for name, values in tree.items()})
    validation = np.flatnonzero((labels >= 0) & (split == VALIDATION))
    others = np.flatnonzero((labels >= 0) & (split == TRAIN) & without[labels])
    rows = read_rows(block)
    judged, stand_ins = (judge_rows(model, rows.take(index), labels[index]) for index in (validation, others))
    return Judged(judged, stand_ins, path_likelihoods(model, rows.take(validation), labels[validation]))


def path_likelihoods(tree: LabelTree, rows: Rows, labels: Array) -> Array:
    """(splits on the longest path, n_scales) float64: log-probability of each step of the rows' own paths, by depth.

    Of a tree whose children share no class; at each of `scale.SCALES`.
    """
    at, total = np.zeros(rows.n_rows, np.int64), np.zeros((int(tree.depth_of.max()), SCALES.size))
    for likelihoods in total:
        inner = np.flatnonzero((at >= 0) & (tree.n_children[at] > 0))
        nodes, at = at[inner], np.full(rows.n_rows, -1, np.int64)
        for node in np.unique(nodes).tolist():
            index, first, n_children = inner[nodes == node], int(tree.first_child[node]), int(tree.n_children[node])
            columns = child_of_class(tree, first, n_children)[labels[index]]
            known = columns >= 0
            scores = tree.node_scores(node, rows.take(index[known]))
            add_held(scores, columns[known], np.eye(n_children, dtype=bool), SCALES, likelihoods)
            at[index[known]] = first + columns[known]
    return total


def child_of_class(tree: LabelTree, first: int, n_children: int) -> Array:
    """(n_classes,) int32: which child of a node holds each class; -1 where none does."""
    found = np.full(tree.n_classes, -1, np.int32)
    for child in range(n_children):
        found[tree.label_set(first + child)] = child
    return found


def scales_by_depth(tree: LabelTree, likelihoods: Array) -> Array:
    """(n_nodes,) float32: the best scale of each depth, 1 for leaves; likelihoods as of `path_likelihoods`."""
    best = np.array([best_scale(one) for one in likelihoods] + [1.0], np.float32)
    return np.where(tree.n_children > 0, best[tree.depth_of], np.float32(1.0)).astype(np.float32)


def node_records(tree: LabelTree, counts: Array) -> list[dict[str, Any]]:
    """Of every inner node: classes, children, judged_rows, loss and ambiguity on the rows counted; by node id."""
    sizes = np.diff(tree.offsets)
    found = []
    for node in np.flatnonzero(tree.n_children):
        rows, lost, kept = (float(value) for value in counts[node])
        found.append(
            {
                "node": int(node),
                "depth": int(tree.depth_of[node]),
                "classes": int(sizes[node]),
                "children": int(tree.n_children[node]),
                "judged_rows": round(rows),
                "loss": lost / rows if rows else 0.0,
                "ambiguity": kept / (rows * sizes[node]) if rows else 0.0,
            }
        )
    return found


def judged_by_depth(tree: LabelTree, counts: Array) -> list[dict[str, float]]:
    """Loss and ambiguity per depth, means over the rows that judge its nodes; the keys of `local.judged_by_depth`."""
    sizes = np.maximum(np.diff(tree.offsets), 1)
    found = []
    for depth in range(int(tree.depth_of.max())):
        here = (tree.depth_of == depth) & (tree.n_children > 0)
        rows, lost = (float(counts[here, which].sum()) for which in (ROWS, LOST))
        kept = float((counts[here, KEPT] / sizes[here]).sum())
        found.append(
            {"depth": depth, "rows": round(rows), "loss": lost / max(rows, 1), "ambiguity": kept / max(rows, 1)}
        )
    return found
