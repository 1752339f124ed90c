"""Distances that leave out what neither row has: the differing share of the codes that not both lack.

Plain codes without those of empty samples, so compared, estimate k_good as densified ones do (SPECS 2, reading 3), with
less variance: densification weighs each sample that is not empty by the gap it fills (tests/bench/WTA.md).
"""

from __future__ import annotations

import numpy as np

from tasks.hashing.wta import sentinel_of
from tasks.later import numba
from tasks.retrieval.hamming import RUN
from tasks.rows.base import Array


@numba.njit(cache=True, nogil=True)
def count_both(first: Array, second: Array) -> int:
    """Places where both (n,) uint8 are 1; counted a byte at a time, as `hamming` does."""
    found = 0
    for start in range(0, first.size, RUN):
        a, b = first[start : start + RUN], second[start : start + RUN]
        here = np.uint8(0)
        for i in range(a.size):
            here = np.uint8(here + np.uint8(a[i] & b[i]))
        found += int(here)
    return found


@numba.njit(cache=True, nogil=True)
def scale_to_present(query_missing: Array, row_missing: Array, distances: Array) -> None:
    """distances (n_queries, n_rows) int32, in place: d differing codes of n become round(n d / (n - b)).

    query_missing (n_queries, n), row_missing (n_rows, n) uint8: 1 where a row has no code; b = codes that both lack.
    Halves round up; rows that lack everything are at distance 0.
    """
    n = query_missing.shape[1]
    for i in range(distances.shape[0]):
        for j in range(distances.shape[1]):
            present = n - count_both(query_missing[i], row_missing[j])
            if present:
                distances[i, j] = (2 * n * distances[i, j] + present) // (2 * present)


def missing(codes: Array) -> Array:
    """Which codes (n_rows, n_hashes) are none, uint8."""
    found: Array = (codes == sentinel_of(codes.dtype)).astype(np.uint8)
    return found
