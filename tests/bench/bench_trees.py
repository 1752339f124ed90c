"""Rankings by trees of 1,000 classes beside one-vs-rest on the same rows, in one process and thread.

`make bench` prints the table; `python -m tests.bench.bench_trees` the same. Set the BLAS free to choose its kernel
(OPENBLAS_CORETYPE unset), else the matrix product is slower than the machine allows and every ratio flatters. Sizes as
in peers' measurements: 1,024 dense columns; 60,000 sparse ones of which a row has 118. Rows and weights are random: how
far a search goes depends on how sure the nodes are, so the beams are shown with their mean evaluations.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
import pytest
import scipy.sparse
from threadpoolctl import threadpool_limits

from tasks.rows import Csr, Dense, Rows
from tasks.trees.tree import LabelTree, Path, Split, assemble
from tasks.trees.weights import ActiveWeights, AnyWeights, SparseWeights
from tests.bench.limits import blas, copy_rate, gemm_rate
from tests.bench.limits import seconds as best_seconds

N_CLASSES, N_ROWS, TOP = 1000, 16_384, 5
WIDE, FEW, NONZEROS = 1024, 60_000, 118
SHAPES = {"T(32, 2)": (32, 2), "T(10, 3)": (10, 3), "T(6, 4)": (6, 4)}
BEAMS = (1, 2, 10)
Make = Callable[[int], AnyWeights]


def seconds(work: Callable[[], object]) -> float:
    """Processor time of this thread."""
    return best_seconds(work, clock=time.thread_time)


def tree_of(n_features: int, shape: tuple[int, int], make: Make, scale: float | None) -> LabelTree:
    """Classes divided evenly; a scale makes it a tree of probabilities."""
    branching, depth = shape
    waiting: list[tuple[Path, np.ndarray]] = [((), np.arange(N_CLASSES, dtype=np.int32))]
    splits: dict[Path, Split] = {}
    for path, classes in waiting:
        if classes.size == 1:
            continue
        parts = np.array_split(classes, branching if len(path) < depth - 1 else classes.size)
        children = np.array([np.isin(classes, part) for part in parts])
        bias = np.zeros(len(parts), np.float32)
        splits[path] = Split(classes, children, make(len(parts)), bias, 1.0 if scale is None else scale)
        waiting += [((*path, q), part) for q, part in enumerate(parts)]
    facts = {} if scale is None else {"probabilistic": True}
    return assemble(splits, n_features, N_CLASSES, facts, waiting[0][1])


def line(name: str, tree: LabelTree, rows: Rows, beam: int, ovr: float, bound: Callable[[float], str]) -> None:
    """One ranking: microseconds a row, how many times faster than one-vs-rest, what its products alone would take."""
    ranking = tree.rank(rows, TOP, None, beam)
    evaluations = float(ranking.evaluations.mean())
    taken = seconds(lambda: tree.rank(rows, TOP, None, beam)) / rows.n_rows
    print(
        f"  {name:<34} beam {beam:>2} {taken * 1e6:6.2f} us a row, {ovr / taken:5.1f}x in time,"
        f" {N_CLASSES / evaluations:5.1f}x in dot products ({evaluations:5.1f}); {bound(evaluations)}"
    )


def random_matrix(rng: np.random.Generator, n_features: int) -> Make:
    return lambda n: rng.standard_normal((n_features, n), np.float32)


@pytest.mark.parametrize("name", SHAPES)
def bench_dense(name: str) -> None:
    with threadpool_limits(1):
        flops, copied = gemm_rate(time.thread_time), copy_rate(time.thread_time)
        print(f"\nBLAS: {blas()}; float32 product {flops / 1e9:.0f} GFLOP/s, copy {copied / 1e9:.0f} GB/s")
        rng = np.random.default_rng(0)
        values, weights = rng.standard_normal((N_ROWS, WIDE), np.float32), rng.standard_normal((WIDE, N_CLASSES))
        every = weights.astype(np.float32)
        ovr = seconds(lambda: values @ every) / N_ROWS
        print(f"dense rows of {WIDE:,} columns, {name}; one-vs-rest product {ovr * 1e6:.1f} us a row")

        def bound(evaluations: float) -> str:
            return (
                f"products {2 * WIDE * evaluations / flops * 1e6:.2f} us, a row read {4 * WIDE / copied * 1e6:.2f} us"
            )

        make = random_matrix(rng, WIDE)
        line("walk by margins", tree_of(WIDE, SHAPES[name], make, None), Dense(values), 1, ovr, bound)
        for scale, what in ((0.1, "sure"), (0.03, "unsure")):
            tree = tree_of(WIDE, SHAPES[name], make, scale)
            for beam in BEAMS:
                line(f"search, nodes {what}", tree, Dense(values), beam, ovr, bound)


def some_features(rng: np.random.Generator, share: float) -> Make:
    def make(n: int) -> ActiveWeights:
        columns = np.sort(rng.choice(FEW, int(share * FEW), replace=False)).astype(np.int32)
        return ActiveWeights(columns, rng.standard_normal((columns.size, n), np.float32), (FEW, n))

    return make


def some_numbers(rng: np.random.Generator, share: float) -> Make:
    def make(n: int) -> SparseWeights:
        held = rng.random((FEW, n)) < share
        return SparseWeights.of(rng.standard_normal((FEW, n), np.float32) * held, FEW)

    return make


@pytest.mark.parametrize("name", SHAPES)
def bench_sparse(name: str) -> None:
    with threadpool_limits(1):
        copied = copy_rate(time.thread_time)
        rng = np.random.default_rng(0)
        indices = np.sort(rng.integers(0, FEW, (N_ROWS, NONZEROS)), axis=1).astype(np.int32)
        starts = np.arange(0, N_ROWS * NONZEROS + 1, NONZEROS, dtype=np.int64)
        rows = Csr(rng.standard_normal(N_ROWS * NONZEROS, np.float32), indices.ravel(), starts, FEW)
        part = scipy.sparse.csr_matrix((rows.data, rows.indices, rows.indptr), shape=rows.shape)[:2048]
        every = rng.standard_normal((FEW, N_CLASSES), np.float32)
        ovr = seconds(lambda: part @ every) / 2048
        print(f"\nsparse rows of {NONZEROS} in {FEW:,}, {name}; one-vs-rest by scipy {ovr * 1e6:.1f} us a row")

        def bound(evaluations: float) -> str:
            return f"weights read {4 * NONZEROS * evaluations / copied * 1e6:.2f} us if all were held"

        shape = SHAPES[name]
        line("walk, all features", tree_of(FEW, shape, some_features(rng, 1.0), None), rows, 1, ovr, bound)
        line("walk, a third of the features", tree_of(FEW, shape, some_features(rng, 0.3), None), rows, 1, ovr, bound)
        line("walk, a tenth of the numbers", tree_of(FEW, shape, some_numbers(rng, 0.1), None), rows, 1, ovr, bound)
        tree = tree_of(FEW, shape, some_features(rng, 0.3), 0.1)
        for beam in BEAMS:
            line("search, a third of the features", tree, rows, beam, ovr, bound)


if __name__ == "__main__":
    for each in SHAPES:
        bench_dense(each)
        bench_sparse(each)
