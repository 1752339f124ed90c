"""The scored nodes in the order in which kernels walk the table: level by level, so that one row of it stays in cache.

A node's place in that order is its slot. Within a level the nodes that use one row of the table come first (`plain`),
then the leaves above the last level (`short`): they stand at all levels below themselves under the same id (SPECS 1.3),
and use the sum of those rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np

from tasks.rows.base import Array


@dataclass(frozen=True, eq=False)
class NodeLayout:
    """Nodes by slot; parents come before their children.

    seeds          (n_nodes,) uint32
    first, last    (n_nodes,) int64: rows of the table that a node uses; first < 0 for a root that is not scored
    parent         (n_nodes,) int64 slot, -1 where a node has none
    inner          (n_inner,) int64 slots of the nodes that are no class
    leaf_of_class  (n_classes,) int64 slots
    segments       (n_tables, 3) int64: of row r the slots [0]..[1] are plain, [1]..[2] short
    """

    seeds: Array
    first: Array
    last: Array
    parent: Array
    inner: Array
    leaf_of_class: Array
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
        return cls(
            np.ascontiguousarray(seeds[order]),
            first[order],
            last[order],
            np.where(above >= 0, slot[above], -1),
            np.flatnonzero(~is_class),
            slot[leaf_of_class],
            np.ascontiguousarray(np.stack([begin, end - n_short, end], axis=1).astype(np.int64)),
        )

    @property
    def n_slots(self) -> int:
        return int(self.seeds.size)

    @property
    def n_scored(self) -> int:
        return int(np.count_nonzero(self.first >= 0))

    def tails_from(self, looked_up: int, n_buckets: int, gain: int) -> int:
        """The first row of the table from which short nodes look up running sums of rows; n_tables for none.

        looked_up  columns that each node looks up
        gain       how many numbers of a row are added in the time of one look-up
        """
        n_tables = len(self.segments)
        short = self.first < self.last
        if not short.any():
            return n_tables
        highest = max(0, int(self.first[short].min()))
        saved = int((self.last[short] - self.first[short]).sum()) * looked_up
        return highest if saved * gain >= (n_tables - highest) * n_buckets else n_tables
