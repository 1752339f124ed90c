"""The weights of all nodes over all features, un-hashed once for many steps: what a table says, as plain weights.

V[u, j] = xi^u(j) w[h^u(j)] is the plain weight of feature j at node u (see `kernels.py`). Where no other place (u, j)
has the bucket of this one, the place is the bucket: a step may change V instead of the table. Places that share their
bucket, few in a table that is larger than the places, are listed, and made equal again after each step.

V lies in panels of 16 nodes as of `tasks.fit.panels`. Nodes come depth first, each before its children, so that a path
and what competes with it lie in few panels. This is for tables in which every scored node uses one row; leaves that
stand at several levels of a table of levels are sums of several buckets.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Self

import numpy as np

from tasks.emit import LANES
from tasks.fit.panels import FEATURES, lines
from tasks.hashing.layout import NodeLayout, padded
from tasks.hashing.murmur import BUCKET_BITS, SIGN_BIT, bucket_of, feature_words, mixed_keys
from tasks.later import numba
from tasks.rows.base import Array

RUN = 16  # buckets whose ranks are found from one number


@dataclass(frozen=True, eq=False)
class Mirror:
    """Where the weights of a scorer's nodes are, in panels and in its table: the same for all tables.

    all_words      (n_nodes, n_features) uint32: bucket | sign bit of every place
    rows           (n_nodes,) int64: of the table; < 0 for a root that is not scored
    n_buckets      of a row of the table
    parent         (n_nodes,) int64 by node, -1 where a node has none
    inner          (n_inner,) int64: the nodes that are no class
    leaf_of_class  (n_classes,) int64
    above          (n_classes,) int64: the leaves' parents; empty when they have none
    starts         (n_panels * n_blocks * LANES + 1,) int64: where the shared places of a panel's block of features
                   begin, one node of it after the other
    where, words   (n_shared,) uint16 and uint32: places in their block that share their bucket; its number | sign bit
    buckets        (n_shared_buckets,) int64: these buckets in the table, rows behind each other, as they are met first
    """

    all_words: Array
    rows: Array
    n_buckets: int
    parent: Array
    inner: Array
    leaf_of_class: Array
    above: Array
    starts: Array
    where: Array
    words: Array
    buckets: Array

    @classmethod
    def of(cls, layout: NodeLayout, n_tables: int, n_buckets: int, n_features: int) -> Self:
        """For a layout that `has_mirror`."""
        order = depth_first(layout.parent)
        node = np.empty(order.size, np.int64)
        node[order] = np.arange(order.size)
        parent = layout.parent[order]
        rows, mixed = layout.first[order], mixed_keys(n_features)
        all_words = np.empty((order.size, n_features), np.uint32)
        for words, seed in zip(all_words, layout.seeds[order], strict=True):
            feature_words(mixed, seed, n_buckets, words)
        counts = np.zeros(n_tables * n_buckets, np.uint8)
        ranks = np.zeros(-(-counts.size // RUN) + 1, np.uint32)
        starts = np.zeros(-(-n_features // FEATURES) * padded(order.size) + 1, np.int64)
        count_places(all_words, rows, n_buckets, counts, ranks)
        where, words, buckets = list_shared(all_words, rows, n_buckets, counts, ranks, starts)
        return cls(
            all_words,
            rows,
            n_buckets,
            np.where(parent >= 0, node[parent], -1),
            np.sort(node[layout.inner]),
            node[layout.leaf_of_class],
            node[layout.above] if layout.above.size else layout.above,
            starts,
            where,
            words,
            buckets,
        )

    @property
    def n_nodes(self) -> int:
        return len(self.all_words)

    @property
    def n_features(self) -> int:
        return int(self.all_words.shape[1])

    def weights(self, table: Array) -> tuple[Array, Array]:
        """(panels, kept): the panels of a table (n_tables, n_buckets) float32, and its shared buckets' numbers."""
        panels = lines(padded(self.n_nodes) // LANES * self.n_features)
        flat = table.reshape(-1)
        for nodes, run, at, negative in self._parts():
            values = flat[at]
            np.negative(values, out=values, where=negative)
            values[self.rows[nodes] < 0] = 0.0
            panels[run, : len(at)] = values.T
        kept: Array = flat[self.buckets]
        return panels, kept

    def put_back(self, panels: Array, kept: Array, table: Array) -> None:
        """Into the table what the panels and the shared buckets have come to."""
        flat = table.reshape(-1)
        for nodes, run, at, negative in self._parts():
            values, scored = panels[run, : len(at)].T.copy(), self.rows[nodes] >= 0
            np.negative(values, out=values, where=negative)
            flat[at[scored]] = values[scored]
        flat[self.buckets] = kept

    def _parts(self) -> Iterator[tuple[slice, slice, Array, Array]]:
        """A panel's nodes and its lines of a block of features; where their places (nodes, features) are in the flat
        table; whether their sign is -1."""
        start = 0
        for first in range(0, self.n_features, FEATURES):
            for node in range(0, self.n_nodes, LANES):
                nodes = slice(node, min(node + LANES, self.n_nodes))
                words = self.all_words[nodes, first : first + FEATURES]
                at = self.n_buckets * np.maximum(self.rows[nodes], 0)[:, None] + (words & BUCKET_BITS)
                run = slice(start, start + words.shape[1])
                start = run.stop
                yield nodes, run, at, words >= SIGN_BIT


def depth_first(parent: Array) -> Array:
    """(n,) int64: the nodes, each before its children and these together; parent (n,), -1 where a node has none."""
    children: list[list[int]] = [[] for _ in range(parent.size)]
    open_nodes: list[int] = []
    for node, above in enumerate(parent.tolist()):
        (children[above] if above >= 0 else open_nodes).append(node)
    open_nodes.reverse()
    order: list[int] = []
    while open_nodes:
        order.append(open_nodes.pop())
        open_nodes += reversed(children[order[-1]])
    return np.array(order, np.int64)


@numba.njit(cache=True, nogil=True)
def count_places(all_words: Array, rows: Array, n_buckets: int, counts: Array, ranks: Array) -> None:
    """counts[row * n_buckets + bucket] = how many places use it, 2 for more; ranks[r] = those of 2 before run r of RUN.

    counts  (n_tables * n_buckets,) uint8; ranks (ceil(counts.size / RUN) + 1,) uint32; both 0 before
    """
    for u in range(rows.size):
        for j in range(all_words.shape[1] if rows[u] >= 0 else 0):
            at = rows[u] * n_buckets + np.int64(bucket_of(all_words[u, j]))
            counts[at] = min(counts[at] + 1, 2)
    found = 0
    for run in range(ranks.size - 1):
        for at in range(run * RUN, min(counts.size, (run + 1) * RUN)):
            found += counts[at] > 1
        ranks[run + 1] = found


@numba.njit(cache=True, nogil=True)
def list_shared(
    all_words: Array, rows: Array, n_buckets: int, counts: Array, ranks: Array, starts: Array
) -> tuple[Array, Array, Array]:
    """(where, words, buckets) of `Mirror`, and its starts, which are zeros before; counts, ranks: `count_places`."""
    n_nodes, n_features = all_words.shape
    total, found, met, run = 0, 0, 0, 0
    for u in range(n_nodes):
        for j in range(n_features if rows[u] >= 0 else 0):
            total += counts[rows[u] * n_buckets + np.int64(bucket_of(all_words[u, j]))] > 1
    where, named = np.empty(total, np.uint16), np.empty(total, np.uint32)
    numbers, buckets = np.full(ranks[-1], -1, np.int64), np.empty(ranks[-1], np.int64)
    n_blocks = (n_features + FEATURES - 1) // FEATURES
    for panel in range((starts.size - 1) // (n_blocks * LANES)):
        node = panel * LANES
        for first in range(0, n_features, FEATURES):
            for u in range(node, node + LANES):
                for j in range(first, min(first + FEATURES, n_features) if u < n_nodes and rows[u] >= 0 else first):
                    word = all_words[u, j]
                    at = rows[u] * n_buckets + np.int64(bucket_of(word))
                    if counts[at] > 1:
                        rank = np.int64(ranks[at // RUN])
                        for before in range(at // RUN * RUN, at):
                            rank += counts[before] > 1
                        if numbers[rank] < 0:
                            numbers[rank], buckets[met] = met, at
                            met += 1
                        where[found] = (j - first) * LANES + u - node
                        named[found] = np.uint32(np.uint32(numbers[rank]) | np.uint32(word & SIGN_BIT))
                        found += 1
                run += 1
                starts[run] = found
    return where, named, buckets
