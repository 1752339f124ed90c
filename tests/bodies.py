"""Rows of every body, drawn from a seed or made of a matrix."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from tasks.rows import Csr, Dense, PqCodes, Rows


def sparse_values(seed: int, n_rows: int, n_features: int) -> np.ndarray:
    """(n_rows, n_features) float64, about half of it zero, some rows empty."""
    rng = np.random.default_rng(seed)
    values = rng.standard_normal((n_rows, n_features)) * (rng.random((n_rows, n_features)) < 0.5)
    return values * (rng.random((n_rows, 1)) < 0.8)


def csr_of(values: np.ndarray) -> Csr:
    """The non-zeros of a matrix."""
    indptr = np.concatenate([[0], np.cumsum(np.count_nonzero(values, axis=1))]).astype(np.int64)
    rows, columns = np.nonzero(values)
    return Csr(values[rows, columns], columns.astype(np.int32), indptr, values.shape[1])


def dense_of(dtype: type) -> Callable[[int, int, int], Rows]:
    return lambda seed, n_rows, n_features: Dense(sparse_values(seed, n_rows, n_features).astype(dtype))


def random_csr(seed: int, n_rows: int, n_features: int) -> Rows:
    plain = csr_of(sparse_values(seed, n_rows, n_features))
    return Csr(plain.data.astype(np.float32), plain.indices, plain.indptr, n_features)


def random_codes(seed: int, n_rows: int, n_features: int) -> PqCodes:
    """Codes of the widest parts that leave more than one subquantizer, where the width allows it."""
    rng = np.random.default_rng(seed)
    width = next((w for w in (3, 2) if n_features % w == 0), 1)
    n_centroids = int(rng.integers(1, 7))
    codebooks = rng.standard_normal((n_features // width, n_centroids, width)).astype(np.float32)
    return PqCodes(rng.integers(0, n_centroids, (n_rows, n_features // width)).astype(np.uint8), codebooks)


BODIES: dict[str, Callable[[int, int, int], Rows]] = {
    "float16": dense_of(np.float16),
    "float32": dense_of(np.float32),
    "float64": dense_of(np.float64),
    "csr": random_csr,
    "pq": random_codes,
}
each_body = pytest.mark.parametrize("make", BODIES.values(), ids=BODIES)
