"""Walks through the taxonomy: levels, heights, paths and common ancestors of its nodes."""

from __future__ import annotations

import numpy as np

from tasks.later import numba
from tasks.rows.base import Array


def node_levels(parent: Array) -> Array:
    """Level of each node, 0 at the root.

    parent  (n_nodes,) int32: -1 for node 0, otherwise a smaller node id
    returns (n_nodes,) int32
    """
    level, above = (parent >= 0).astype(np.int32), parent  # edges up to `above`, which is -1 past the root
    while (open_nodes := np.flatnonzero(above >= 0)).size:
        over = above[open_nodes]
        level[open_nodes] += level[over]
        above = above.copy()
        above[open_nodes] = above[over]
    return level


def longest_heights(parent: Array) -> Array:
    """Edges on the longest downward path from each node to a leaf. parent as in `node_levels`; (n_nodes,) int32."""
    height, level = np.zeros(parent.size, np.int32), node_levels(parent)
    order = np.argsort(level, kind="stable")
    starts = np.searchsorted(level[order], np.arange(1, int(level.max(initial=0)) + 2))
    for start, stop in zip(starts[-2::-1], starts[:0:-1], strict=True):  # deepest level first
        nodes = order[start:stop]
        np.maximum.at(height, parent[nodes], height[nodes] + 1)
    return height


def leaf_paths(parent: Array, level: Array, leaf_of_class: Array, n_levels: int) -> Array:
    """Nodes from the root to each class's leaf; a shallow leaf is replicated to the last level (SPECS 1).

    leaf_of_class (n_classes,) int32; returns (n_classes, n_levels) int32
    """
    paths = np.empty((leaf_of_class.size, n_levels), np.int32)
    nodes = leaf_of_class.astype(np.int32)
    for t in range(n_levels - 1, -1, -1):
        paths[:, t] = nodes
        if t > 0:
            nodes = np.where(t <= level[nodes], parent[nodes], nodes)
    return paths


@numba.njit(cache=True, nogil=True)
def common_ancestors(paths: Array, first: Array, second: Array) -> Array:
    """Lowest common ancestor of each pair of classes: the last node that their paths share.

    paths         (n_classes, n_levels) int32, as of `leaf_paths`
    first, second (n_pairs,) integers: classes; a negative one (no class) meets every class at the root
    returns       (n_pairs,) int32 node ids
    """
    nodes = np.zeros(first.size, np.int32)
    for i in range(first.size):
        a, b = first[i], second[i]
        if a < 0 or b < 0:
            continue
        for t in range(1, paths.shape[1]):
            if paths[a, t] != paths[b, t]:
                break
            nodes[i] = paths[a, t]
    return nodes
