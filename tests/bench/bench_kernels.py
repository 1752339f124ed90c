"""Kernels beside the machine's own limits, in one process on one thread: `make bench` prints the table."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

from tasks.fit.linear import LinearScorer
from tasks.fit.sgd import ScaledParameters, descend
from tasks.hashing.heshing import HashedScorer
from tasks.losses.crammer_singer import CrammerSinger
from tasks.losses.hinge import OneVsRestHinge
from tasks.quantize.pq import encode
from tasks.rows import Csr, Dense
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


@pytest.mark.parametrize("width", [8, 16])
def bench_pq_encode(width: int) -> None:
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(2048, 4096)).astype(np.float32)
    books = rng.normal(size=(4096 // width, 256, width)).astype(np.float32)
    rate = len(rows) / seconds(lambda: encode(rows, books))
    limit = gemm_rate() / (2 * 256 * 4096)
    line(f"PQ encode, d 4096, {width} dimensions a byte", f"{rate:,.0f} rows/s", f"{limit:,.0f} rows/s", rate / limit)


@pytest.mark.parametrize("batch", [16, 64])
def bench_sgd(batch: int) -> None:
    n, d, k = 8192, 512, 1000
    rng = np.random.default_rng(0)
    rows, labels = Dense(rng.normal(size=(n, d)).astype(np.float32)), rng.integers(0, k, n).astype(np.int32)
    scorer, steps = LinearScorer(d, k), np.full(n // batch, 1e-4)

    def one_pass() -> None:
        state = ScaledParameters(scorer.initial(np.float32))
        descend(scorer, OneVsRestHinge(), state, rows, labels, np.arange(n), steps, batch, 1e-6)

    rate, limit = n * k / seconds(one_pass), gemm_rate() / (4 * d)
    name = f"SGD one-vs-rest, d {d}, batch {batch}"
    line(name, f"{rate / 1e6:,.0f} M rows x classes/s", f"{limit / 1e6:,.0f} M", rate / limit)


def bench_hashed_scores() -> None:
    n, d, k = 1024, 512, 1000
    rng = np.random.default_rng(0)
    scorer = HashedScorer.hierarchical(Taxonomy.flat(k), 1 << 18, d)
    table = rng.normal(size=(1, 1 << 18)).astype(np.float32)
    rows = Dense(rng.normal(size=(n, d)).astype(np.float32))
    taken = seconds(lambda: scorer.scores({"table": table}, rows))
    rate, limit = n / taken, gemm_rate() / (2 * d * k)
    line("hashed scores, 1,000 classes, d 512", f"{rate:,.0f} rows/s", f"{limit:,.0f} rows/s", rate / limit)


@pytest.mark.parametrize("levels", [1, 12])
def bench_hashed_sgd_of_sparse_rows(levels: int) -> None:
    """Look-ups of a node per column of a batch, beside loads from one row of the table at places that are ready."""
    n, d, k, entries, batch, bits = 256, 100_000, 4_000, 20, 16, 20
    rng = np.random.default_rng(0)
    chain = np.arange(-1, levels - 1)  # the classes hang at all levels of a chain
    leaves = np.sort(rng.integers(0, levels, k))
    parent = chain_with_leaves(chain, leaves)
    is_leaf = ~np.isin(np.arange(parent.size), parent)
    taxonomy = Taxonomy(parent, ("",) * parent.size, np.flatnonzero(is_leaf).astype(np.int32))
    scorer = HashedScorer.hierarchical(taxonomy, 1 << bits, d)
    columns = np.sort(rng.integers(0, d, (n, entries)).astype(np.int32), axis=1)
    rows = Csr(np.ones(n * entries, np.float32), columns.ravel(), np.arange(0, n * entries + 1, entries), d)
    labels, steps = rng.integers(0, taxonomy.n_classes, n).astype(np.int32), np.full(n // batch, 1e-3)
    state = ScaledParameters(scorer.initial(np.float32))
    taken = seconds(lambda: descend(scorer, CrammerSinger(), state, rows, labels, np.arange(n), steps, batch, 1e-6))
    lookups = scorer.operations_per_row() * sum(
        np.unique(columns[start : start + batch]).size for start in range(0, n, batch)
    )
    row, places = np.zeros(1 << bits, np.float32), rng.integers(0, 1 << bits, 1 << 20)
    limit = places.size / seconds(lambda: row.take(places, mode="wrap"))
    name = f"hashed SGD of sparse rows, {levels} levels"
    line(name, f"{lookups / taken / 1e6:,.0f} M look-ups/s", f"{limit / 1e6:,.0f} M", lookups / taken / limit)


def chain_with_leaves(chain: np.ndarray, level_of_leaf: np.ndarray) -> np.ndarray:
    """Parents, breadth-first: a chain of inner nodes, below the one of level l the leaves whose number is l."""
    parent = [-1]
    inner = 0
    for level in range(chain.size):
        n_leaves = max(1, int(np.count_nonzero(level_of_leaf == level)))
        below = len(parent)
        parent += [inner] * (n_leaves + (level + 1 < chain.size))
        inner = below
    return np.array(parent, np.int32)
