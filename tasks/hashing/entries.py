"""The non-zeros of sparse rows under one seed: to each its sign and its bucket, in one pass that vectorises."""

from __future__ import annotations

import numpy as np

from tasks.hashing.murmur import BUCKET_BITS, is_negative, mixed_key, remainder, seeded
from tasks.later import numba
from tasks.rows.base import Array

ENTRIES_AT_ONCE = 2048  # entries hashed before they are scattered: what is written is still in the first-level cache


@numba.njit(cache=True, nogil=True)
def hash_entries_into(
    data: Array, indices: Array, seed: np.uint32, n_buckets: int, signed: Array, buckets: Array
) -> None:
    """signed[p] = xi(j) data[p] and buckets[p] = h(j) of the features j = indices[p].

    data and signed (nnz,) of one float dtype; indices and buckets (nnz,) int32; n_buckets in [1, 2^31)
    """
    if n_buckets & (n_buckets - 1) == 0:
        kept = np.uint32(n_buckets - 1)
        for p in range(indices.size):
            h = seeded(mixed_key(np.uint32(indices[p])), seed)
            signed[p] = -data[p] if is_negative(h) else data[p]
            buckets[p] = np.int32(h & kept)
        return
    inverse = 1.0 / n_buckets
    for p in range(indices.size):
        h = seeded(mixed_key(np.uint32(indices[p])), seed)
        signed[p] = -data[p] if is_negative(h) else data[p]
        buckets[p] = np.int32(remainder(np.uint32(h & BUCKET_BITS), n_buckets, inverse))


@numba.njit(cache=True, nogil=True)
def hash_entries(data: Array, indices: Array, seed: np.uint32, n_buckets: int) -> tuple[Array, Array]:
    """Signed values (nnz,) and buckets (nnz,) int32 of the non-zeros of sparse rows; buckets are not merged here."""
    signed, buckets = np.empty_like(data), np.empty(indices.size, np.int32)
    hash_entries_into(data, indices, seed, n_buckets, signed, buckets)
    return signed, buckets


@numba.njit(cache=True, nogil=True)
def add_hashed(data: Array, indices: Array, indptr: Array, seed: np.uint32, out: Array) -> None:
    """out[i, h(j)] += xi(j) x[i, j] of sparse rows, entries in order; out (n_rows, n_buckets) of the dtype of data."""
    signed, buckets = np.empty(ENTRIES_AT_ONCE, data.dtype), np.empty(ENTRIES_AT_ONCE, np.int32)
    for i in range(indptr.size - 1):
        row = out[i]
        for start in range(indptr[i], indptr[i + 1], ENTRIES_AT_ONCE):
            stop = min(start + ENTRIES_AT_ONCE, indptr[i + 1])
            n = stop - start
            hash_entries_into(data[start:stop], indices[start:stop], seed, out.shape[1], signed[:n], buckets[:n])
            for p in range(n):
                row[np.uint64(buckets[p])] += signed[p]
