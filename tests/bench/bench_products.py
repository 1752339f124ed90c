"""Products on PQ codes beside a product with the full float32 matrix and beside the machine, in one process and thread.

`make bench` prints the table; `python -m tests.bench.bench_products` the same. Set the BLAS free to choose its kernel
(OPENBLAS_CORETYPE unset), else the matrix product is slower than the machine allows and every ratio flatters.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable

import numba
import numpy as np
from threadpoolctl import threadpool_limits

from tasks.emit import LINE
from tasks.quantize import tables, tables16
from tasks.quantize.products import decode
from tasks.quantize.vectors import GROUP, UNIT
from tasks.rows import PqCodes
from tests.bench.limits import blas, copy_rate, gemm_rate
from tests.bench.limits import seconds as best_seconds
from tests.bench.peers import Row, ask
from tests.bench.table import HotPath, Suite, in_threads

REPEATS = 7
N_OUTPUTS = 128
SHAPES = {"d 4,096": (100_000, 256), "d 16,384": (20_000, 1_024)}  # rows, subquantizers of 16 values
CASES = {"d 4,096": "d4096_n100k", "d 16,384": "d16384_n20k"}  # what peers call these shapes
BLOCK_ROWS = (4_096, 16_384)
Product = Callable[[PqCodes, slice], object]


def seconds(work: Callable[[], object]) -> float:
    """Processor time of this thread."""
    return best_seconds(work, clock=time.thread_time, repeats=REPEATS)


@numba.njit(cache=True, nogil=True)
def read_at_random(unit: np.ndarray, entries: np.ndarray, sums: np.ndarray, times: int) -> None:
    for _ in range(times):
        tables.look_up(unit, UNIT, entries, sums.ctypes.data, LINE, sums.ctypes.data, LINE)


def line_rate(n_centroids: int) -> float:
    """Bytes per second of look-ups in tables in the cache: a unit's lines a row, some rows' sums beside them."""
    n_rows, times, n_tables = 1024, 64, UNIT * GROUP
    codes = np.random.default_rng(0).integers(0, n_centroids, (n_rows, n_tables), np.uint8)
    entries, sums = tables.aligned(n_tables * tables.TABLE), tables.aligned(n_rows * LINE // 4)
    entries[:] = sums[:] = 0
    unit = codes.view(np.uint64)
    return n_rows * n_tables * LINE * times / seconds(lambda: read_at_random(unit, entries, sums, times))


def machine() -> tuple[float, float, float, float]:
    """Operations per second of a matrix product; bytes per second of a copy, and of random lines in caches 1 and 2."""
    flops, copied = gemm_rate(time.thread_time), copy_rate(time.thread_time)
    first, second = line_rate(16), line_rate(256)
    print(f"\nBLAS: {blas()}")
    print(f"machine: float32 product {flops / 1e9:.0f} GFLOP/s, copy {copied / 1e9:.0f} GB/s, lines at random")
    print(f"  from tables in the first-level cache {first / 1e9:.0f} GB/s, in the second-level {second / 1e9:.0f} GB/s")
    return flops, copied, first, second


def example(n_rows: int, n_subquantizers: int) -> tuple[PqCodes, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    books = rng.standard_normal((n_subquantizers, 256, 16), np.float32)
    codes = PqCodes(rng.integers(0, 256, (n_rows, n_subquantizers), np.uint8), books)
    weights = rng.standard_normal((codes.n_features, N_OUTPUTS), np.float32)
    return codes, weights, rng.standard_normal((n_rows, N_OUTPUTS), np.float32)


def by_blocks(codes: PqCodes, n_rows: int, product: Callable[[PqCodes, slice], object]) -> Callable[[], None]:
    """The product block by block, as the stages call it."""
    slices = [slice(start, min(start + n_rows, codes.n_rows)) for start in range(0, codes.n_rows, n_rows)]
    blocks = [(codes.part(s.start, s.stop), s) for s in slices]

    def run() -> None:
        for block, where in blocks:
            product(block, where)

    return run


def dense_products(codes: PqCodes, weights: np.ndarray, residuals: np.ndarray) -> tuple[float, float]:
    """Seconds of X W and X' R with the full matrix; and what 16-bit tables get wrong, printed."""
    full = decode(codes.codes, codes.codebooks)
    exact = full @ weights
    away, bound = codes.scores16(weights) - exact, tables16.error_bound(codes.codebooks, weights)
    print(
        f"  16-bit tables: largest error {np.abs(away).max():.3f}, bound {bound.max():.3f}, root mean square error"
        f" {np.sqrt(np.mean(away**2)) / exact.std():.1e} of the scores' standard deviation"
    )
    return seconds(lambda: full @ weights), seconds(lambda: full.T @ residuals)


def bench_products() -> None:
    suite, threads = Suite("products"), (1, 2)
    second = machine()[3]
    peers = {n: ask("cdp", ["dense_sgemm", "ref_ax", "ref_ax_i16", "ref_xb_sorted"], n) for n in threads}
    for name, (n_rows, n_subquantizers) in SHAPES.items():
        codes, weights, residuals = example(n_rows, n_subquantizers)
        print(f"{n_rows:,} rows, {name}, {n_subquantizers} subquantizers, {N_OUTPUTS} columns")
        with threadpool_limits(1):
            ax, xb = dense_products(codes, weights, residuals)
        look_ups = codes.codes.size * N_OUTPUTS
        works: list[tuple[str, float, int, Product]] = [
            ("X W", ax, 4, lambda block, _, w=weights: block.scores(w)),
            ("X W, 16-bit tables", ax, 2, lambda block, _, w=weights: block.scores16(w)),
            ("X' R", xb, 4, lambda block, where, r=residuals: block.gradient(r[where])),
        ]
        for what, dense, entry_bytes, product in works:
            for rows in (n_rows, *BLOCK_ROWS):
                how = "whole" if rows == n_rows else f"by {rows:,} rows"
                for n in threads if rows == n_rows else (1,):
                    taken = wall(in_threads(by_halves(codes, rows, n, product), n))
                    others = {"the product of the full float32 matrix, 1 thread": look_ups / dense}
                    others |= others_of(peers[n], what, name, look_ups) if rows == n_rows else {}
                    limit = n * second / entry_bytes
                    where = "lines at random of the second cache"
                    path = f"{what} of codes, {name}, {how}"
                    suite.add(HotPath(path, "look-ups/s", look_ups / taken, n, limit, where, others))


def others_of(rows: list[Row], what: str, name: str, look_ups: int) -> dict[str, float | str]:
    """Rates of the peers that do the same product of the same shape."""
    case, found = ("XB" if what == "X' R" else "AX") + "/" + CASES[name], dict[str, float | str]()
    for row in rows:
        if "error" in row:
            found[row["peer"]] = str(row["error"])
        elif row["case"] == case:
            found[row["peer"]] = look_ups / row["seconds_min"]
    return found


def by_halves(codes: PqCodes, n_rows: int, threads: int, product: Product) -> Callable[[int], object]:
    """The t-th of `threads` equal runs of rows, block by block."""
    bounds = [codes.n_rows * t // threads for t in range(threads + 1)]
    works = []
    for first, last in itertools.pairwise(bounds):
        part = codes.part(first, last)
        works.append(
            by_blocks(part, n_rows, lambda block, at, f=first: product(block, slice(at.start + f, at.stop + f)))
        )
    return lambda t: works[t]()


def wall(work: Callable[[], object]) -> float:
    """Seconds on the clock: of two threads no one's processor time tells."""
    return best_seconds(work, repeats=REPEATS)


if __name__ == "__main__":
    bench_products()
