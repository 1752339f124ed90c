"""Kernels of the taxonomy: levels, heights, paths and common ancestors of its nodes."""

from __future__ import annotations

import numba
import numpy as np

from tasks.rows.base import Array


@numba.njit(cache=True, nogil=True)
def node_levels(parent: Array) -> Array:
    """Level of each node, 0 at the root.

    parent  (n_nodes,) int32: -1 for node 0, otherwise a smaller node id
    returns (n_nodes,) int32
    """
    level = np.zeros(parent.size, np.int32)
    for node in range(1, parent.size):
        level[node] = level[parent[node]] + 1
    return level


@numba.njit(cache=True, nogil=True)
def longest_heights(parent: Array) -> Array:
    """Edges on the longest downward path from each node to a leaf. parent as in `node_levels`; (n_nodes,) int32."""
    height = np.zeros(parent.size, np.int32)
    for node in range(parent.size - 1, 0, -1):
        height[parent[node]] = max(height[parent[node]], height[node] + 1)
    return height


@numba.njit(cache=True, nogil=True)
def leaf_paths(parent: Array, level: Array, leaf_of_class: Array, n_levels: int) -> Array:
    """Nodes from the root to each class's leaf; a shallow leaf is replicated to the last level (SPECS 1).

    leaf_of_class (n_classes,) int32; returns (n_classes, n_levels) int32
    """
    paths = np.empty((leaf_of_class.size, n_levels), np.int32)
    for c in range(leaf_of_class.size):
        node = leaf_of_class[c]
        for t in range(n_levels - 1, -1, -1):
            paths[c, t] = node
            if t <= level[node] and t > 0:
                node = parent[node]
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
