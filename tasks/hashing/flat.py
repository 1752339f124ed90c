"""Phi(x, u): rows hashed to m buckets under one seed (Zhao & Xing 2012, Definition 1, with x_j inside the sum).

Scoring never writes Phi out (`heshing.py`); this is for encodings of a dataset, tests and small uses.
"""

from __future__ import annotations

import numba
import numpy as np

from tasks.errors import ParamError
from tasks.hashing.murmur import bucket_of, feature_words, is_negative, mixed_key, mixed_keys
from tasks.rows.base import Array, Rows
from tasks.rows.csr import Csr, merged
from tasks.rows.dense import Dense

MOST_BUCKETS = 2**31 - 1


@numba.njit(cache=True, nogil=True)
def hash_dense(values: Array, seed: np.uint32, n_buckets: int, out: Array) -> None:
    """out[i, h(j)] += xi(j) values[i, j]; values (n_rows, n_features) and out (n_rows, n_buckets) of one dtype."""
    n_rows, n_features = values.shape
    words = np.empty(n_features, np.uint32)
    feature_words(mixed_keys(n_features), seed, n_buckets, words)
    for i in range(n_rows):
        for j in range(n_features):
            value = values[i, j]
            out[i, bucket_of(words[j])] += -value if is_negative(words[j]) else value


@numba.njit(cache=True, nogil=True)
def hash_entries(data: Array, indices: Array, seed: np.uint32, n_buckets: int) -> tuple[Array, Array]:
    """Signed values (nnz,) and buckets (nnz,) int32 of the non-zeros of sparse rows; buckets are not merged here."""
    words = np.empty(indices.size, np.uint32)
    for p in range(indices.size):
        words[p] = mixed_key(np.uint32(indices[p]))
    feature_words(words, seed, n_buckets, words)
    signed, buckets = np.empty_like(data), np.empty(indices.size, np.int32)
    for p in range(indices.size):
        signed[p] = -data[p] if is_negative(words[p]) else data[p]
        buckets[p] = bucket_of(words[p])
    return signed, buckets


def check_buckets(n_buckets: int) -> None:
    """Raises ParamError."""
    if not 1 <= n_buckets <= MOST_BUCKETS:
        raise ParamError("n_buckets", n_buckets, f"1 to {MOST_BUCKETS}", "a bucket is the low 31 bits of a hash")


def hash_rows(rows: Rows, seed: int, n_buckets: int) -> Rows:
    """Phi of every row, (n_rows, n_buckets): dense rows stay dense, sparse rows stay sparse (collisions added up)."""
    check_buckets(n_buckets)
    plain = rows.decoded()
    if isinstance(plain, Csr):
        signed, buckets = hash_entries(plain.data, plain.indices, np.uint32(seed), n_buckets)
        return merged(signed, buckets, plain.indptr, n_buckets)
    values = plain.to_array(np.float64 if isinstance(plain, Dense) and plain.values.dtype == np.float64 else np.float32)
    out = np.zeros((rows.n_rows, n_buckets), values.dtype)
    hash_dense(values, np.uint32(seed), n_buckets, out)
    return Dense(out)
