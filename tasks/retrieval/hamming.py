"""Hamming distances between codes: how many of two rows' codes differ (Chen & Shrivastava 2018, section 5.3).

The compiler makes vector instructions of `count += first != second` when it knows how often the loop turns and the
count is as narrow as a byte: hence runs of RUN codes, whose counts fit into one. Two queries are compared at a time,
so that a code that has been loaded is used twice.
"""

from __future__ import annotations

import numpy as np

from tasks.later import numba
from tasks.rows.base import Array

RUN = 128  # codes counted in one byte: at most 255
SEGMENT = 32 * RUN  # codes of a row that are compared before the next row's, so that all of a tile stay in the cache


@numba.njit(cache=True, nogil=True)
def fill_distances(queries: Array, codes: Array, distances: Array) -> None:
    """Distances of every query to every row of codes. One sentinel is like any code: two of them are equal.

    queries    (n_queries, n_hashes) uint8, uint16 or int32, C order
    codes      (n_rows, n_hashes) of the same dtype, C order
    distances  (n_queries, n_rows) int32, filled
    """
    n_queries, n_hashes = queries.shape
    distances[:, :] = 0
    for start in range(0, n_hashes, SEGMENT):
        stop = min(start + SEGMENT, n_hashes)
        for first in range(0, n_queries, 2):
            second = min(first + 1, n_queries - 1)  # an odd query at the end goes with itself
            add_mismatches(queries, first, second, codes, start, stop, distances)


@numba.njit(cache=True, nogil=True)
def add_mismatches(
    queries: Array, first: int, second: int, codes: Array, start: int, stop: int, distances: Array
) -> None:
    """Add to the distances of two queries (or twice the same) how many of codes start..stop - 1 differ."""
    rest = start + (stop - start) // RUN * RUN
    for j in range(codes.shape[0]):
        of_first = of_second = 0
        for at in range(start, rest, RUN):
            a, b, c = queries[first, at : at + RUN], queries[second, at : at + RUN], codes[j, at : at + RUN]
            in_first = in_second = np.uint8(0)
            for i in range(RUN):
                in_first = np.uint8(in_first + np.uint8(a[i] != c[i]))
                in_second = np.uint8(in_second + np.uint8(b[i] != c[i]))
            of_first += int(in_first)
            of_second += int(in_second)
        a, b, c = queries[first, rest:stop], queries[second, rest:stop], codes[j, rest:stop]
        in_first = in_second = np.uint8(0)
        for i in range(c.size):
            in_first = np.uint8(in_first + np.uint8(a[i] != c[i]))
            in_second = np.uint8(in_second + np.uint8(b[i] != c[i]))
        distances[first, j] += of_first + int(in_first)
        if second != first:
            distances[second, j] += of_second + int(in_second)


def hamming_distances(queries: Array, codes: Array) -> Array:
    """(n_queries, n_rows) int32 of queries (n_queries, n_hashes) and codes (n_rows, n_hashes).

    Raises ValueError for two widths or dtypes: codes of two definitions have no distance.
    """
    if queries.shape[1:] != codes.shape[1:] or queries.dtype != codes.dtype:
        given = f"{queries.dtype} {queries.shape} and {codes.dtype} {codes.shape}"
        raise ValueError(f"codes of one definition are compared, not {given}")
    distances = np.empty((len(queries), len(codes)), np.int32)
    fill_distances(np.ascontiguousarray(queries), np.ascontiguousarray(codes), distances)
    return distances
