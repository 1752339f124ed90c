"""Hashed dot products of dense rows and their gradients, with every hash computed on the fly.

The hashed matrix Phi is never stored. With the adjoint of Phi a node's block w of the table becomes a plain weight
vector over the features, V[u, j] = xi^u(j) w[h^u(j)], and <w, Phi(x, u)> = <V[u], x>. A node at levels first..last (a
leaf above the last level stands at all levels below it under the same id, SPECS 1.3) uses the sum of those rows.

`nodes` is (n_nodes, 4) int64 with columns SEED, FIRST, LAST, COLUMN: hash seed, first and last row of the table, and
the node's column in a matrix of node scores (its slot, see `layout.py`).
"""

from __future__ import annotations

import numpy as np

from tasks.hashing.murmur import bucket_of, feature_words, is_negative
from tasks.later import numba
from tasks.rows.base import Array

SEED, FIRST, LAST, COLUMN = 0, 1, 2, 3


@numba.njit(cache=True, nogil=True)
def unhash(base: Array, table: Array, nodes: Array, mixed: Array, out: Array) -> None:
    """out[e, j] = xi(j) * (base[h(j)] + sum over the node's levels of table[level, h(j)]), from the last level up.

    base    (n_buckets,) float, or (0,) for none
    table   (n_levels, n_buckets) float; nodes (n_nodes, 4)
    mixed   (n_features,) uint32: `mixed_keys`
    out     (n_nodes, n_features), dtype of the table
    """
    words = np.empty(mixed.size, np.uint32)
    for e in range(nodes.shape[0]):
        feature_words(mixed, np.uint32(nodes[e, SEED]), table.shape[1], words)
        target, last = out[e], nodes[e, LAST]
        source, below = (base, last) if base.size else (table[last], last - 1)
        for j in range(mixed.size):
            target[j] = source[bucket_of(words[j])]
        for level in range(below, nodes[e, FIRST] - 1, -1):
            source = table[level]
            for j in range(mixed.size):
                target[j] += source[bucket_of(words[j])]
        for j in range(mixed.size):
            target[j] = -target[j] if is_negative(words[j]) else target[j]


@numba.njit(cache=True, nogil=True)
def subtract_hashed(vectors: Array, nodes: Array, mixed: Array, table: Array) -> None:
    """table[level, h(j)] -= xi(j) vectors[e, j] at each of the node's levels; vectors (n_nodes, n_features)."""
    words, signed = np.empty(mixed.size, np.uint32), np.empty(mixed.size, table.dtype)
    for e in range(nodes.shape[0]):
        feature_words(mixed, np.uint32(nodes[e, SEED]), table.shape[1], words)
        vector = vectors[e]
        for j in range(mixed.size):  # by itself, as a loop without branches: signs are random
            signed[j] = vector[j] if is_negative(words[j]) else -vector[j]
        for level in range(nodes[e, FIRST], nodes[e, LAST] + 1):
            target = table[level]
            for j in range(mixed.size):
                target[bucket_of(words[j])] += signed[j]


@numba.njit(cache=True, nogil=True)
def path_sums(
    sums: Array, parent: Array, inner: Array, leaf_of_class: Array, above: Array, scale: float, out: Array
) -> None:
    """out[i, c] = scale * (sum of the node scores on the path of class c), from the root down.

    sums  (n_rows, n_slots) node scores, overwritten above the leaves
    parent, inner, leaf_of_class, above as of `NodeLayout`; scale has the dtype of the scores; out (n_rows, n_classes)
    """
    for i in range(sums.shape[0]):
        row, scores = sums[i], out[i]
        for u in inner:
            if parent[u] >= 0:
                row[u] += row[parent[u]]
        if above.size == 0:
            for c in range(leaf_of_class.size):
                scores[c] = scale * row[np.uint64(leaf_of_class[c])]
            continue
        for c in range(leaf_of_class.size):
            scores[c] = scale * (row[np.uint64(leaf_of_class[c])] + row[np.uint64(above[c])])


@numba.njit(cache=True, nogil=True)
def residuals_below(residuals: Array, parent: Array, leaf_of_class: Array, scale: float) -> Array:
    """Node residuals: scale * (sum of the residuals of the classes below the node), added up along the parents.

    residuals (n_rows, n_classes); parent, leaf_of_class as of `NodeLayout`; returns (n_rows, n_slots). Where only
    classes that cancel are below, it is exactly 0 when their residuals are whole multiples of one number, as those of
    a max-hinge are.
    """
    out = np.zeros((residuals.shape[0], parent.size), residuals.dtype)
    for i in range(out.shape[0]):
        sums, given = out[i], residuals[i]
        for c in range(leaf_of_class.size):
            if given[c] != 0:  # of some losses few are: then this is all that is done for a class
                sums[leaf_of_class[c]] += scale * given[c]
        for u in range(parent.size - 1, -1, -1):
            if sums[u] != 0 and parent[u] >= 0:
                sums[parent[u]] += sums[u]
    return out
