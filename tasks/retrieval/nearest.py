"""The nearest rows of each query: smallest distance first, ties to the lower stored row, whatever the order of blocks.

Distance and row are one number, so that their order is one comparison, and equal numbers do not occur.
"""

from __future__ import annotations

import numpy as np

from tasks.later import numba
from tasks.rows.base import Array

ROW_BITS = 33  # of a key that say which row; n_features < 2^31 leaves at most 2^30 codes that differ
FARTHEST = np.iinfo(np.int64).max


@numba.njit(cache=True, nogil=True)
def keep_nearest(distances: Array, rows: Array, top: int, keys: Array, counts: Array, bounds: Array) -> None:
    """Put what may be among a query's `top` nearest rows to its keys; the worst go when there is no room.

    distances  (n_queries, n_rows) int32; rows (n_rows,) int64, each met once in all calls
    keys       (n_queries, room > top) int64, changed: distance << ROW_BITS | row of those kept, in no order
    counts     (n_queries,) int64, changed: how many are kept
    bounds     (n_queries,) int64, changed: a key that is not below it is not among the `top`
    """
    room = keys.shape[1]
    for i in range(distances.shape[0]):
        count, bound = counts[i], bounds[i]
        for j in range(rows.size):
            key = (np.int64(distances[i, j]) << ROW_BITS) + rows[j]
            if key >= bound:
                continue
            keys[i, count] = key
            count += 1
            if count == room:
                keys[i].sort()
                count, bound = top, keys[i, top - 1]
        counts[i], bounds[i] = count, bound


class Nearest:
    """The `top` nearest rows of each of some queries, found while rows come by in tiles."""

    def __init__(self, n_queries: int, top: int) -> None:
        self.top = top
        self.keys = np.empty((n_queries, room_of(top)), np.int64)
        self.counts = np.zeros(n_queries, np.int64)
        self.bounds = np.full(n_queries, FARTHEST, np.int64)

    def add(self, first: int, distances: Array, rows: Array) -> None:
        """Distances (n, n_rows) int32 of the queries from number `first` on to the stored rows (n_rows,) int64."""
        of = slice(first, first + len(distances))
        keep_nearest(distances, rows, self.top, self.keys[of], self.counts[of], self.bounds[of])

    def found(self) -> tuple[Array, Array]:
        """(rows int64, distances int32), both (n_queries, least of top and the number of rows), nearest first."""
        met = int(self.counts[0]) if len(self.counts) else 0  # every query has met the same number of rows
        width = min(self.top, int(self.counts.min(initial=met)))
        best = np.empty((len(self.keys), width), np.int64)
        for keys, count, out in zip(self.keys, self.counts, best, strict=True):
            out[:] = np.sort(keys[:count])[:width]
        return best & ((1 << ROW_BITS) - 1), (best >> ROW_BITS).astype(np.int32)


def room_of(top: int) -> int:
    """Keys held per query: sorting twice the `top` at a time takes few steps per row in the mean."""
    return top + max(top, 32)
