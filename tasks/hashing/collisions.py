"""How many features a hashing loses (Zhao & Xing 2012, Definition 2, Theorem 2 and equation (20)).

A feature shares its bucket under a node's hash when another feature has the same bucket. It is lost for a class when it
shares its bucket under every node of the class's path. Expectations are of ideal hashing.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from tasks.hashing.murmur import bucket_of, feature_words, mixed_key
from tasks.later import numba
from tasks.rows.base import Array

FEATURES_AT_ONCE = 4096  # words hashed before they are looked up: they stay in the first-level cache


@numba.njit(cache=True, nogil=True)
def mixed_features(features: Array) -> Array:
    """`mixed_key` of features (n,) integers in [0, 2^32), (n,) uint32."""
    mixed = np.empty(features.size, np.uint32)
    for i in range(features.size):
        mixed[i] = mixed_key(np.uint32(features[i]))
    return mixed


@numba.njit(cache=True, nogil=True)
def mark_shared(mixed: Array, seed: np.uint32, counts: Array, words: Array, shared: Array) -> int:
    """shared[i] = whether another of these features has the bucket of the i-th under `seed`; returns how many have.

    mixed   (n,) uint32: `mixed_key` of each feature, all different
    counts  (n_buckets,) uint8, all zero, before and after
    words   (n,) uint32 and shared (n,) bool: written
    """
    for start in range(0, mixed.size, FEATURES_AT_ONCE):
        part = words[start : start + FEATURES_AT_ONCE]
        feature_words(mixed[start : start + FEATURES_AT_ONCE], seed, counts.size, part)
        for i in range(part.size):
            bucket = bucket_of(part[i])
            counts[bucket] = min(counts[bucket] + 1, 2)
    found = 0
    for i in range(mixed.size):
        shared[i] = counts[bucket_of(words[i])] > 1
        found += shared[i]
    if counts.size <= mixed.size:
        counts[:] = 0
        return found
    for i in range(mixed.size):
        counts[bucket_of(words[i])] = 0
    return found


class Collisions:
    """Counts of one number of features and buckets, with the memory that they take: n_buckets + 6 bytes a feature."""

    def __init__(self, features: Array, n_buckets: int) -> None:
        self.mixed = mixed_features(features)
        self.counts = np.zeros(n_buckets, np.uint8)
        self.words = np.empty(self.mixed.size, np.uint32)
        self.shared = np.empty(self.mixed.size, np.bool_)

    def under(self, seed: int) -> tuple[int, Array]:
        """How many features share their bucket, and which (n,) bool: valid until the next call."""
        found = mark_shared(self.mixed, np.uint32(seed), self.counts, self.words, self.shared)
        return int(found), self.shared

    def mask(self, path_seeds: Array) -> Array:
        """Which features (n,) bool share their bucket under every seed of a path; seeds that repeat count once."""
        lost = np.ones(self.mixed.size, np.bool_)
        for seed in np.unique(np.asarray(path_seeds, np.uint32)):
            lost &= self.under(seed)[1]
        return lost

    def of(self, features: Array) -> Collisions:
        """The same of other features, in the same buckets; both cannot be asked at once."""
        other = Collisions.__new__(Collisions)
        other.mixed, other.counts = mixed_features(features), self.counts
        other.words = np.empty(other.mixed.size, np.uint32)
        other.shared = np.empty(other.mixed.size, np.bool_)
        return other


def lost_features(path_seeds: Array, n_features: int, n_buckets: int, support: Array | None = None) -> int:
    """Features that share their bucket with another feature under every seed of a class's path.

    path_seeds  (n_nodes,) seeds of the different nodes root..leaf
    support     int array: count only these features, as if the others did not exist (the non-zeros of a sparse row,
                SPECS 1.7); None counts all of them (Definition 2)
    """
    features = np.arange(n_features) if support is None else np.unique(support)
    return int(Collisions(features, n_buckets).mask(path_seeds).sum())


@dataclass(frozen=True, eq=False)
class TreeCollisions:
    """Of every node and class of a taxonomy; d features.

    shared         (n_nodes,) int64: features that share their bucket under the node's hash
    lost           (n_classes,) int64: features lost under the whole path (Definition 2)
    lost_unrooted  (n_classes,) int64: the same without the root, which takes no part in scores (SPECS 1.5)
    """

    shared: Array
    lost: Array
    lost_unrooted: Array


def tree_collisions(
    seeds: Array, parent: Array, leaf_of_class: Array, n_features: int, n_buckets: int
) -> TreeCollisions:
    """One look at every node, depth first: what is held are the lost features of the nodes on one path.

    seeds (n_nodes,) uint32 and parent (n_nodes,) int32, parents before their children, -1 where a node has none;
    leaf_of_class (n_classes,) int32. A node without parent that has no children is a class of a flat model: no root.
    """
    counted = Collisions(np.arange(n_features), n_buckets)
    shared = np.zeros(len(seeds), np.int64)
    lost, unrooted = np.zeros(len(seeds), np.int64), np.zeros(len(seeds), np.int64)
    has_children = np.isin(np.arange(len(seeds)), parent)
    masks: list[tuple[Array, Array]] = []  # by depth: lost so far with the root, and without it
    everything = np.ones(n_features, np.bool_)
    for node, depth in _depth_first(parent):
        shared[node], under = counted.under(seeds[node])
        above, above_unrooted = masks[depth - 1] if depth else (everything, everything)
        is_root = parent[node] < 0 and has_children[node]
        both = above & under, everything if is_root else above_unrooted & under
        masks[depth:] = [both]
        lost[node], unrooted[node] = (np.count_nonzero(mask) for mask in both)
    return TreeCollisions(shared, lost[leaf_of_class], unrooted[leaf_of_class])


def _depth_first(parent: Array) -> Iterator[tuple[int, int]]:
    """(node, depth) of every node, each after its parent and before its parent's next child."""
    children: list[list[int]] = [[] for _ in parent]
    waiting: list[int] = []
    for node, above in enumerate(parent.tolist()):
        (children[above] if above >= 0 else waiting).append(node)
    stack = [(node, 0) for node in reversed(waiting)]
    while stack:
        node, depth = stack.pop()
        yield node, depth
        stack.extend((child, depth + 1) for child in reversed(children[node]))


def shared_expected(n_features: int, n_buckets: int) -> float:
    """Expected share of the features that share their bucket: 1 - (1 - 1/m)^(d - 1)."""
    if n_features < 2:
        return 0.0
    if n_buckets == 1:
        return 1.0
    return -math.expm1((n_features - 1) * math.log1p(-1 / n_buckets))


def lost_bound(n_features: int, n_buckets: int, n_levels: int) -> float:
    """Equation (20): d ((d - 1) / m)^tau, tau the levels of the shortest path. Says nothing (> d) once m < d."""
    try:
        return float(n_features * ((n_features - 1) / n_buckets) ** n_levels)
    except OverflowError:
        return math.inf


def lost_expected(n_features: int, n_buckets: int, n_levels: int) -> float:
    """Expected number of lost features: d (1 - (1 - 1/m)^(d - 1))^tau; never above the bound."""
    return float(n_features * shared_expected(n_features, n_buckets) ** n_levels)
