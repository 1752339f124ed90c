"""The scored nodes in the order in which kernels walk the table: level by level, so that one row of it stays in cache.

A node's place in that order is its slot. Within a level the nodes that use one row of the table come first (`plain`),
then the leaves above the last level (`short`): they stand at all levels below themselves under the same id (SPECS 1.3),
and use the sum of those rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Self

import numpy as np

from tasks.rows.base import Array

PANEL = 16  # nodes whose weights of a feature lie beside each other in a mirror (`mirror.py`)
MOST_PLACES = 2**25  # nodes times features of a mirror: 128 MB of weights
ADDED_PER_LOOKUP = 5  # numbers of a row of the table added to another in the time of one look-up, measured


@dataclass(frozen=True, eq=False)
class NodeLayout:
    """Nodes by slot; parents come before their children.

    seeds          (n_nodes,) uint32
    first, last    (n_nodes,) int64: rows of the table that a node uses; first < 0 for a root that is not scored
    parent         (n_nodes,) int64 slot, -1 where a node has none
    inner          (n_inner,) int64 slots of the nodes that are no class
    leaf_of_class  (n_classes,) int64 slots
    above          (n_classes,) int64 slots of the leaves' parents; empty when they have none
    segments       (n_tables, 3) int64: of row r the slots [0]..[1] are plain, [1]..[2] short
    """

    seeds: Array
    first: Array
    last: Array
    parent: Array
    inner: Array
    leaf_of_class: Array
    above: Array
    segments: Array

    @classmethod
    def of(cls, seeds: Array, parent: Array, level: Array, leaf_of_class: Array, top: int, n_tables: int) -> Self:
        """top = the level of the table's first row; arrays by node id, as of a `HashedScorer`."""
        first = level.astype(np.int64) - top
        last = first.copy()
        last[leaf_of_class] = n_tables - 1
        order = np.lexsort((np.arange(first.size), first < last, first))
        slot = np.empty(order.size, np.int64)
        slot[order] = np.arange(order.size)
        short, rows = (first < last)[order], np.arange(n_tables)
        begin, end = (np.searchsorted(first[order], rows, side) for side in ("left", "right"))
        n_short = np.bincount(first[order][short & (first[order] >= 0)], minlength=n_tables)
        is_class = np.zeros(first.size, bool)
        is_class[slot[leaf_of_class]] = True
        above = parent[order].astype(np.int64)
        above = np.where(above >= 0, slot[above], -1)
        leaves = slot[leaf_of_class]
        has_parent = bool(leaves.size) and bool(np.all(above[leaves] >= 0))
        return cls(
            np.ascontiguousarray(seeds[order]),
            first[order],
            last[order],
            above,
            np.flatnonzero(~is_class),
            leaves,
            above[leaves] if has_parent else np.empty(0, np.int64),
            np.ascontiguousarray(np.stack([begin, end - n_short, end], axis=1).astype(np.int64)),
        )

    @property
    def n_slots(self) -> int:
        return int(self.seeds.size)

    @property
    def n_scored(self) -> int:
        return int(np.count_nonzero(self.first >= 0))

    def has_mirror(self, n_features: int, n_numbers: int) -> bool:
        """Whether a mirror can hold what the nodes use of a table of n_numbers, and pays.

        In a smaller table nearly all places share their buckets, and it lies in a nearer cache.
        """
        scored = self.first >= 0
        if not mirror_bytes(self.n_slots, n_features, n_numbers) or self.n_scored * n_features > n_numbers:
            return False
        return bool(np.array_equal(self.first[scored], self.last[scored]))

    @cached_property
    def _short_down_to(self) -> Array:
        """(n_tables,): short slots whose rows begin at a row or above it."""
        short = self.first[(self.first < self.last) & (self.first >= 0)]
        counted: Array = np.cumsum(np.bincount(short, minlength=len(self.segments)))
        return counted

    def tails_from(self, looked_up: int, n_buckets: int) -> int:
        """The row of the table from which on a running sum of the rows below is worth its additions; n_tables for none.

        looked_up  columns that each node looks up
        With the row in the sum, each short slot that uses it looks up one row less.
        """
        worth = self._short_down_to * looked_up * ADDED_PER_LOOKUP >= max(n_buckets, 1)
        worth &= self._short_down_to > 0
        return int(np.argmax(worth)) if worth.any() else len(self.segments)


def padded(n_nodes: int) -> int:
    """Nodes of whole panels."""
    return -(-n_nodes // PANEL) * PANEL


def mirror_bytes(n_nodes: int, n_features: int, n_numbers: int) -> int:
    """Bytes of a mirror and its making at most, of a table of n_numbers: weights, shared places and buckets, counts.

    0 where there is none for the size.
    """
    places = padded(n_nodes) * n_features
    return 16 * places + 2 * n_numbers if 0 < places <= min(MOST_PLACES, n_numbers + PANEL * n_features) else 0
