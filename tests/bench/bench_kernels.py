"""Kernels beside the machine's own limits, in one process on one thread: `make bench` prints the table."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

from tasks.hashing.heshing import HashedScorer
from tasks.rows import Dense
from tasks.taxonomy import Taxonomy
from tests.bench.limits import blas, copy_rate, gemm_rate, seconds


@pytest.fixture(autouse=True, scope="module")
def one_thread() -> Iterator[None]:
    with threadpool_limits(1):
        yield


def line(name: str, ours: str, limit: str, ratio: float) -> None:
    print(f"{name:<44} {ours:>22}   limit {limit:>20}   {ratio:6.1%} of it")


def bench_machine() -> None:
    print(f"\nBLAS: {blas()}")
    print(f"float32 product {gemm_rate() / 1e9:.0f} GFLOP/s, copy {copy_rate() / 1e9:.1f} GB/s")


def bench_hashed_scores() -> None:
    n, d, k = 1024, 512, 1000
    rng = np.random.default_rng(0)
    scorer = HashedScorer.hierarchical(Taxonomy.flat(k), 1 << 18, d)
    table = rng.normal(size=(1, 1 << 18)).astype(np.float32)
    rows = Dense(rng.normal(size=(n, d)).astype(np.float32))
    taken = seconds(lambda: scorer.scores({"table": table}, rows))
    rate, limit = n / taken, gemm_rate() / (2 * d * k)
    line("hashed scores, 1,000 classes, d 512", f"{rate:,.0f} rows/s", f"{limit:,.0f} rows/s", rate / limit)
