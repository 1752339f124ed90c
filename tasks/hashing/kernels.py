"""Hashed dot products and their gradients, with every hash computed on the fly.

The hashed matrix Phi is never stored. With the adjoint of Phi a node's block w of the table becomes a plain weight
vector over the features, V[u, j] = xi^u(j) w[h^u(j)], and <w, Phi(x, u)> = <V[u], x>. A node at levels first..last (a
leaf above the last level stands at all levels below it under the same id, SPECS 1.3) uses the sum of those rows.

`nodes` is (n_nodes, 4) int64 with columns SEED, FIRST, LAST, COLUMN: hash seed, first and last row of the table, and
the node's column in a matrix of node scores.
"""

from __future__ import annotations

import numba
import numpy as np

from tasks.hashing.murmur import bucket_of, feature_words, is_negative, mixed_key, node_words
from tasks.rows.base import Array

SEED, FIRST, LAST, COLUMN = 0, 1, 2, 3


@numba.njit(cache=True, nogil=True)
def unhash(table: Array, nodes: Array, mixed: Array, out: Array) -> None:
    """out[e, j] = xi(j) * sum over the node's levels of table[level, h(j)].

    table   (n_levels, n_buckets) float; nodes (n_nodes, 4)
    mixed   (n_features,) uint32: `mixed_keys`
    out     (n_nodes, n_features), dtype of the table
    """
    words = np.empty(mixed.size, np.uint32)
    for e in range(nodes.shape[0]):
        feature_words(mixed, np.uint32(nodes[e, SEED]), table.shape[1], words)
        target, source = out[e], table[nodes[e, LAST]]
        for j in range(mixed.size):
            target[j] = source[bucket_of(words[j])]
        for level in range(nodes[e, LAST] - 1, nodes[e, FIRST] - 1, -1):
            source = table[level]
            for j in range(mixed.size):
                target[j] += source[bucket_of(words[j])]
        for j in range(mixed.size):
            target[j] = -target[j] if is_negative(words[j]) else target[j]


@numba.njit(cache=True, nogil=True)
def subtract_hashed(vectors: Array, nodes: Array, mixed: Array, table: Array) -> None:
    """table[level, h(j)] -= xi(j) vectors[e, j] at each of the node's levels; vectors (n_nodes, n_features)."""
    words = np.empty(mixed.size, np.uint32)
    for e in range(nodes.shape[0]):
        feature_words(mixed, np.uint32(nodes[e, SEED]), table.shape[1], words)
        vector = vectors[e]
        for level in range(nodes[e, FIRST], nodes[e, LAST] + 1):
            target = table[level]
            for j in range(mixed.size):
                target[bucket_of(words[j])] += vector[j] if is_negative(words[j]) else -vector[j]


@numba.njit(cache=True, nogil=True)
def sparse_node_scores(data: Array, indices: Array, indptr: Array, nodes: Array, table: Array, out: Array) -> None:
    """out[i, COLUMN] += sum over the row's non-zeros of xi(j) x_ij * (sum over the node's levels of table[., h(j)]).

    data (nnz,), indices (nnz,) int32, indptr (n_rows + 1,) int64; out (n_rows, all columns), dtype of the table
    """
    n_nodes = nodes.shape[0]
    seeds, words = nodes[:, SEED].astype(np.uint32), np.empty(n_nodes, np.uint32)
    for i in range(indptr.size - 1):
        row = out[i]
        for p in range(indptr[i], indptr[i + 1]):
            node_words(mixed_key(np.uint32(indices[p])), seeds, table.shape[1], words)
            value = data[p]
            for e in range(n_nodes):
                bucket = bucket_of(words[e])
                weight = table[nodes[e, LAST], bucket]
                for level in range(nodes[e, LAST] - 1, nodes[e, FIRST] - 1, -1):
                    weight += table[level, bucket]
                row[nodes[e, COLUMN]] += -value * weight if is_negative(words[e]) else value * weight


@numba.njit(cache=True, nogil=True)
def sparse_subtract(data: Array, indices: Array, indptr: Array, nodes: Array, residuals: Array, table: Array) -> None:
    """table[level, h(j)] -= xi(j) residuals[i, COLUMN] x_ij for every row and every node of non-zero residual.

    residuals (n_rows, all columns), dtype of the table; rows in order, then nodes, then non-zeros
    """
    longest = 0
    for i in range(indptr.size - 1):
        longest = max(longest, indptr[i + 1] - indptr[i])
    mixed, words = np.empty(longest, np.uint32), np.empty(longest, np.uint32)
    for i in range(indptr.size - 1):
        values, columns = data[indptr[i] : indptr[i + 1]], indices[indptr[i] : indptr[i + 1]]
        for p in range(columns.size):
            mixed[p] = mixed_key(np.uint32(columns[p]))
        for e in range(nodes.shape[0]):
            residual = residuals[i, nodes[e, COLUMN]]
            if residual == 0:
                continue
            feature_words(mixed[: columns.size], np.uint32(nodes[e, SEED]), table.shape[1], words)
            for level in range(nodes[e, FIRST], nodes[e, LAST] + 1):
                target = table[level]
                for p in range(columns.size):
                    change = residual * values[p]
                    target[bucket_of(words[p])] += change if is_negative(words[p]) else -change


@numba.njit(cache=True, nogil=True)
def path_sums(node_scores: Array, parent: Array, leaf_of_class: Array, scale: float, out: Array) -> None:
    """out[i, c] = scale * (sum of the node scores on the path of class c), from the root down.

    node_scores (n_rows, n_nodes), overwritten with the sums from the root; parent (n_nodes,) breadth-first;
    scale has the dtype of the scores; out (n_rows, n_classes)
    """
    for i in range(node_scores.shape[0]):
        sums, scores = node_scores[i], out[i]
        for u in range(parent.size):
            if parent[u] >= 0:
                sums[u] += sums[parent[u]]
        for c in range(leaf_of_class.size):
            scores[c] = scale * sums[leaf_of_class[c]]


@numba.njit(cache=True, nogil=True)
def residuals_below(residuals: Array, parent: Array, leaf_of_class: Array, scale: float) -> Array:
    """Node residuals: scale * (sum of the residuals of the classes below the node), added up along the parents.

    residuals (n_rows, n_classes); returns (n_rows, n_nodes). Where only classes that cancel are below, it is exactly 0
    when their residuals are whole multiples of one number, as those of a max-hinge are.
    """
    out = np.zeros((residuals.shape[0], parent.size), residuals.dtype)
    for i in range(out.shape[0]):
        sums, given = out[i], residuals[i]
        for c in range(leaf_of_class.size):
            sums[leaf_of_class[c]] += scale * given[c]
        for u in range(parent.size - 1, -1, -1):
            if parent[u] >= 0:
                sums[parent[u]] += sums[u]
    return out
