"""Phi(x, u): rows hashed to m buckets under one seed (Zhao & Xing 2012, Definition 1, with x_j inside the sum).

Scoring never writes Phi out (`heshing.py`); this is for encodings of a dataset, tests and small uses.
"""

from __future__ import annotations

from typing import cast

import numpy as np

from tasks.errors import ParamError
from tasks.hashing.entries import add_hashed, hash_entries
from tasks.hashing.merge import MOST_SCRATCH, hash_merged
from tasks.hashing.murmur import bucket_of, feature_words, is_negative, mixed_keys
from tasks.later import numba
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


def check_buckets(n_buckets: int) -> None:
    """Raises ParamError."""
    if not 1 <= n_buckets <= MOST_BUCKETS:
        raise ParamError("n_buckets", n_buckets, f"1 to {MOST_BUCKETS}", "a bucket is the low 31 bits of a hash")


def hash_rows(rows: Rows, seed: int, n_buckets: int) -> Rows:
    """Phi of every row, (n_rows, n_buckets): dense rows stay dense, sparse rows stay sparse (collisions added up)."""
    check_buckets(n_buckets)
    plain = rows.decoded()
    if isinstance(plain, Csr):
        return _hash_sparse(plain, np.uint32(seed), n_buckets)
    values = plain.to_array(np.float64 if isinstance(plain, Dense) and plain.values.dtype == np.float64 else np.float32)
    out = np.zeros((rows.n_rows, n_buckets), values.dtype)
    hash_dense(values, np.uint32(seed), n_buckets, out)
    return Dense(out)


def hash_rows_dense(rows: Rows, seed: int, n_buckets: int) -> Dense:
    """Phi of every row as dense rows, also of sparse ones: for few buckets, where nothing needs to be merged."""
    check_buckets(n_buckets)
    plain = rows.decoded()
    if not isinstance(plain, Csr):
        return cast(Dense, hash_rows(plain, seed, n_buckets))
    out = np.zeros((rows.n_rows, n_buckets), plain.data.dtype)
    add_hashed(plain.data, plain.indices, plain.indptr, np.uint32(seed), out)
    return Dense(out)


def _hash_sparse(rows: Csr, seed: np.uint32, n_buckets: int) -> Csr:
    if n_buckets > MOST_SCRATCH:
        signed, buckets = hash_entries(rows.data, rows.indices, seed, n_buckets)
        return merged(signed, buckets, rows.indptr, n_buckets)
    data, buckets, indptr = hash_merged(rows.data, rows.indices, rows.indptr, seed, n_buckets)
    return Csr(data, buckets, indptr, n_buckets)
