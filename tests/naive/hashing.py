"""Hashing by its definitions, one feature at a time; the hash itself comes from mmh3."""

from __future__ import annotations

import mmh3
import numpy as np


def bucket_and_sign(feature: int, seed: int, n_buckets: int) -> tuple[int, int]:
    h = mmh3.hash(feature.to_bytes(4, "little"), int(seed), signed=False)
    return (h & 0x7FFFFFFF) % n_buckets, -1 if h >> 31 else 1


def phi(x: np.ndarray, seed: int, n_buckets: int) -> np.ndarray:
    """Phi(x, u) of Zhao & Xing, Definition 1 (with x_j inside the sum)."""
    out = np.zeros(n_buckets)
    for j, value in enumerate(x):
        bucket, sign = bucket_and_sign(j, seed, n_buckets)
        out[bucket] += sign * float(value)
    return out


def path(parent: list[int], leaf: int, n_levels: int) -> list[int]:
    """Nodes root..leaf, the leaf replicated to n_levels."""
    nodes = [leaf]
    while parent[nodes[0]] >= 0:
        nodes.insert(0, parent[nodes[0]])
    return nodes + [leaf] * (n_levels - len(nodes))


def psi(x: np.ndarray, seeds: list[int], n_buckets: int) -> np.ndarray:
    """Psi(x, y) for the seeds of y's path, root first; scaled by 1 / sqrt(T)."""
    blocks: np.ndarray = np.stack([phi(x, u, n_buckets) for u in seeds]) / np.sqrt(len(seeds))
    return blocks


def lost_features(seeds: list[int], features: list[int], n_buckets: int) -> int:
    """Definition 2: features that share their bucket with another one under every seed of the path."""
    lost = 0
    for j in features:
        lost += all(
            any(bucket_and_sign(i, u, n_buckets)[0] == bucket_and_sign(j, u, n_buckets)[0] for i in features if i != j)
            for u in seeds
        )
    return lost


def node_scores(x: np.ndarray, nodes: list[tuple[int, int, int]], table: np.ndarray) -> np.ndarray:
    """<sum of the table's rows first..last, Phi(x, seed)> of every node (seed, first, last); 0 where first < 0."""
    scores = np.zeros(len(nodes))
    for u, (seed, first, last) in enumerate(nodes):
        for level in range(first, last + 1) if first >= 0 else ():
            scores[u] += float(table[level] @ phi(x, seed, table.shape[1]))
    return scores


def taken_from_table(
    rows: np.ndarray, residuals: np.ndarray, nodes: list[tuple[int, int, int]], table: np.ndarray
) -> np.ndarray:
    """The table less the gradient of sum(residuals * node scores); residuals (n_rows, n_nodes)."""
    left = np.array(table, np.float64)
    for x, given in zip(rows, residuals, strict=True):
        for (seed, first, last), residual in zip(nodes, given, strict=True):
            for level in range(first, last + 1) if first >= 0 else ():
                left[level] -= float(residual) * phi(x, seed, table.shape[1])
    return left


def residuals_of_nodes(given: np.ndarray, parent: list[int], leaf_of_class: list[int]) -> np.ndarray:
    """(n_nodes,): the sum of the residuals of the classes below each node, the leaf itself included."""
    sums = np.zeros(len(parent))
    for c, leaf in enumerate(leaf_of_class):
        for node in path(parent, leaf, 0):
            sums[node] += float(given[c])
    return sums


def entries_by_column(values: np.ndarray) -> list[tuple[int, list[tuple[int, float]]]]:
    """(column, its non-zeros (row, value)) for every column that has some."""
    found = [(j, [(i, float(v)) for i, v in enumerate(column) if v]) for j, column in enumerate(values.T)]
    return [(j, entries) for j, entries in found if entries]


def first_row_summed(first: list[int], last: list[int], n_tables: int, looked_up: int, numbers: float) -> int:
    """The first row that so many nodes use that their look-ups of one row cost `numbers` additions or more."""
    for r in range(n_tables):
        using = sum(0 <= f <= r and f < e for f, e in zip(first, last, strict=True))
        if using and using * looked_up >= numbers:
            return r
    return n_tables


def plain_weights(seeds: list[int], rows: list[int], table: np.ndarray, n_features: int) -> np.ndarray:
    """(n_nodes, n_features): sign times number of the bucket of every node and feature; 0 where a node has no row."""
    out = np.zeros((len(seeds), n_features), table.dtype)
    for u, (seed, row) in enumerate(zip(seeds, rows, strict=True)):
        for j in range(n_features if row >= 0 else 0):
            bucket, sign = bucket_and_sign(j, seed, table.shape[1])
            out[u, j] = sign * table[row, bucket]
    return out


def places_in_panels(n_nodes: int, n_features: int, per_block: int) -> np.ndarray:
    """(n_nodes, n_features): blocks of features; in each panels of 16 nodes; in each its features, 16 nodes wide."""
    out, place = np.zeros((-(-n_nodes // 16) * 16, n_features), np.int64), 0
    for first in range(0, n_features, per_block):
        for panel in range(len(out) // 16):
            for j in range(first, min(first + per_block, n_features)):
                for node in range(16):
                    out[16 * panel + node, j] = place
                    place += 1
    return out[:n_nodes]


def places_of_shared_buckets(
    seeds: list[int], rows: list[int], n_buckets: int, n_features: int
) -> dict[int, set[tuple[int, int, int]]]:
    """{row * n_buckets + bucket: {(node, feature, sign)}} where a bucket has more than one."""
    found: dict[int, set[tuple[int, int, int]]] = {}
    for u, (seed, row) in enumerate(zip(seeds, rows, strict=True)):
        for j in range(n_features if row >= 0 else 0):
            bucket, sign = bucket_and_sign(j, seed, n_buckets)
            found.setdefault(row * n_buckets + bucket, set()).add((u, j, sign))
    return {bucket: places for bucket, places in found.items() if len(places) > 1}
