"""Blocks of kernel values beside the machine's own limits, in one process on one thread: `make bench` prints the table.

What a pair of dense rows costs a feature stands beside the float32 product, which has one fused instruction where these
have two or more, and beside the division that chi2 needs; what a sparse pair costs, beside one addition at a looked-up
place for each feature that both have.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

import numba
import numpy as np
import pytest
from threadpoolctl import threadpool_limits

from tasks.rows import Csr, Dense
from tasks.rows.base import Array
from tasks.svm.kernel_dense import aligned
from tasks.svm.kernels import KINDS, OF_DISTANCES, Kernel
from tests.bench.limits import gemm_rate, seconds

CLOCK = time.thread_time


@pytest.fixture(autouse=True, scope="module")
def one_thread() -> Iterator[None]:
    with threadpool_limits(1):
        yield


@numba.njit(nogil=True, error_model="numpy")
def divide(left: Array, right: Array, out: Array, repeats: int) -> None:
    for _ in range(repeats):
        for j in range(out.size):
            out[j] = left[j] / (right[j] + out[j])


@numba.njit(nogil=True)
def add_at(values: Array, places: Array, out: Array) -> None:
    for e in range(values.size):
        out[places[e]] += values[e]


def division_seconds() -> float:
    """Of one float32 quotient in vectors, operands in the first cache."""
    left, right, out = (aligned((1024,), np.float32) for _ in range(3))
    left[:], right[:], out[:] = 1.0, 2.0, 1.0
    return seconds(lambda: divide(left, right, out, 1000), CLOCK) / (1000 * left.size)


def addition_seconds(places: Array, size: int) -> float:
    """Of one float64 addition at a looked-up place."""
    values, out = np.ones(places.size, np.float32), np.zeros(size)
    return seconds(lambda: add_at(values, places, out), CLOCK) / places.size


def line(name: str, taken: float, limit: float) -> None:
    print(f"{name:<52} {taken * 1e9:8.4f} ns   limit {limit * 1e9:8.4f} ns   {limit / taken:6.1%} of it")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("n_features", [64, 256, 1000])
def bench_dense_block(kind: str, n_features: int) -> None:
    n, m = 1024, 2048
    rng = np.random.default_rng(0)
    rows, others = (Dense(rng.random((size, n_features)).astype(np.float32)) for size in (n, m))
    kernel = Kernel(kind, n_features / 10 if kind in OF_DISTANCES else 1.0)  # type: ignore[arg-type]
    taken = seconds(lambda: kernel.block(rows, others), CLOCK) / (n * m * n_features)
    limit = division_seconds() if kind == "chi2" else 2 / gemm_rate(CLOCK)
    line(f"{kind}, d {n_features} dense: a pair and feature", taken, limit)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("n_features", "entries"), [(1000, 100), (100_000, 100)])
def bench_sparse_block(kind: str, n_features: int, entries: int) -> None:
    n, m = 512, 4096
    rng = np.random.default_rng(0)

    def drawn(size: int) -> Csr:
        columns = [np.unique((n_features * rng.random(entries) ** 3).astype(np.int32)) for _ in range(size)]
        indptr = np.concatenate([[0], np.cumsum([len(c) for c in columns])])
        return Csr(rng.random(indptr[-1]).astype(np.float32), np.concatenate(columns), indptr, n_features)

    rows, others = drawn(n), drawn(m)
    counts = [np.bincount(body.indices, minlength=n_features) for body in (rows, others)]
    common = float(np.dot(counts[0].astype(np.float64), counts[1]))
    kernel = Kernel(kind, 20.0 if kind in OF_DISTANCES else 1.0)  # type: ignore[arg-type]
    taken = seconds(lambda: kernel.block(rows, others), CLOCK) / common
    column = np.sort(rng.choice(m, m // 8, replace=False)).astype(np.int32)
    limit = addition_seconds(np.tile(column, 1000), m)
    name = f"{kind}, d {n_features} sparse, {common / (n * m):.1f} in common: each"
    line(name, taken, limit)
