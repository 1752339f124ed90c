"""Entries of one row that share a bucket, added up: without sorting.

The buckets of a row are added up in a scratch of all buckets and noted in a bitmap; a second bitmap notes which words
of the first are in use. Reading both in order gives the buckets ascending, and clears what was used for the next row. A
row costs its entries and n_buckets / 4096 words. Entries of one bucket are added in the order given.
"""

from __future__ import annotations

import numpy as np

from tasks.hashing.entries import hash_entries_into
from tasks.later import numba
from tasks.rows.base import Array

MOST_SCRATCH = 2**24  # buckets of a scratch; where there are more, sorting is the smaller evil
SIX = np.int64(6)  # log2 of the bits of a word
ONE = np.uint64(1)
PRIME = np.uint64(67)  # the 64 powers of two have different remainders


def _bit_of_remainder() -> Array:
    places = np.zeros(int(PRIME), np.int64)
    for bit in range(64):
        places[2**bit % int(PRIME)] = bit
    return places


BIT_OF_REMAINDER = _bit_of_remainder()


@numba.njit(cache=True, nogil=True)
def lowest_bit(word: np.uint64) -> np.int64:
    """Which bit of a word that is not 0 is the lowest that is set."""
    single = np.uint64(word & ~(word - ONE))
    return np.int64(BIT_OF_REMAINDER[single % PRIME])


@numba.njit(cache=True, nogil=True)
def add_row(signed: Array, buckets: Array, sums: Array, used: Array, groups: Array) -> None:
    """sums[bucket] += value in order; every bucket is noted in `used`, every word of `used` in `groups`."""
    for p in range(buckets.size):
        bucket = np.int64(buckets[p])
        word = bucket >> SIX
        sums[bucket] += signed[p]
        used[word] |= ONE << np.uint64(bucket & 63)
        groups[word >> SIX] |= ONE << np.uint64(word & 63)


@numba.njit(cache=True, nogil=True)
def take_row(sums: Array, used: Array, groups: Array, values: Array, places: Array, start: int) -> int:
    """Move the noted sums, by bucket, to values and places from `start` on; all scratch is 0 after. Returns the end."""
    for g in range(groups.size):
        group = groups[g]
        groups[g] = 0
        while group:
            word = (g << SIX) + lowest_bit(group)
            group &= group - ONE
            bits = used[word]
            used[word] = 0
            while bits:
                bucket = (word << SIX) + lowest_bit(bits)
                bits &= bits - ONE
                values[start] = sums[bucket]
                places[start] = bucket
                sums[bucket] = 0
                start += 1
    return start


@numba.njit(cache=True, nogil=True)
def hash_merged(
    data: Array, indices: Array, indptr: Array, seed: np.uint32, n_buckets: int
) -> tuple[Array, Array, Array]:
    """Phi of sparse rows as CSR arrays: data (n,), buckets (n,) int32 ascending in a row, indptr (n_rows + 1,) int64.

    data (nnz,) float, indices (nnz,) int32, indptr (n_rows + 1,) int64, n_buckets in [1, MOST_SCRATCH]
    """
    n_rows = indptr.size - 1
    longest = 0
    for i in range(n_rows):
        longest = max(longest, indptr[i + 1] - indptr[i])
    signed, buckets = np.empty(longest, data.dtype), np.empty(longest, np.int32)
    n_words = (n_buckets + 63) >> SIX
    sums, used = np.zeros(n_buckets, data.dtype), np.zeros(n_words, np.uint64)
    groups = np.zeros((n_words + 63) >> SIX, np.uint64)
    values, places = np.empty(data.size, data.dtype), np.empty(data.size, np.int32)
    ends = np.zeros(n_rows + 1, np.int64)
    for i in range(n_rows):
        first, last = indptr[i], indptr[i + 1]
        n = last - first
        hash_entries_into(data[first:last], indices[first:last], seed, n_buckets, signed[:n], buckets[:n])
        add_row(signed[:n], buckets[:n], sums, used, groups)
        ends[i + 1] = take_row(sums, used, groups, values, places, ends[i])
    return values[: ends[n_rows]], places[: ends[n_rows]], ends
