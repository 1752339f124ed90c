"""Products on PQ codes beside a product with the full float32 matrix and beside the machine, in one process and thread.

`make bench` prints the table; `python -m tests.bench.bench_products` the same. Set the BLAS free to choose its kernel
(OPENBLAS_CORETYPE unset), else the matrix product is slower than the machine allows and every ratio flatters.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import numba
import numpy as np
import pytest
from threadpoolctl import threadpool_limits

from tasks.quantize import tables, tables16
from tasks.quantize.products import decode
from tasks.quantize.vectors import GROUP, LINE, UNIT
from tasks.rows import PqCodes
from tests.bench.limits import blas, copy_rate, gemm_rate
from tests.bench.limits import seconds as best_seconds

REPEATS = 7
N_OUTPUTS = 128
SHAPES = {"d 4,096": (100_000, 256), "d 16,384": (20_000, 1_024)}  # rows, subquantizers of 16 values
BLOCK_ROWS = (4_096, 16_384)


def seconds(work: Callable[[], object]) -> float:
    """Processor time of this thread."""
    return best_seconds(work, clock=time.thread_time, repeats=REPEATS)


@numba.njit(cache=True, nogil=True)
def read_at_random(unit: np.ndarray, entries: np.ndarray, sums: np.ndarray, times: int) -> None:
    for _ in range(times):
        tables.look_up(unit, UNIT, entries, tables.address(sums), LINE, tables.address(sums), LINE)


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


def line(name: str, codes: PqCodes, taken: float, full: float, entry_bytes: int, second: float) -> None:
    """One product: its time, how many times faster than the matrix product, and its rates."""
    additions = codes.codes.size * N_OUTPUTS
    moved = additions * entry_bytes / taken
    print(
        f"  {name:<34} {taken * 1e3:8.1f} ms  {full / taken:5.1f}x   table lines {moved / 1e9:4.0f} GB/s"
        f" ({moved / second:4.0%} of the cache's), additions {additions / taken / 1e9:4.0f} G/s,"
        f" as if {2 * codes.n_rows * codes.n_features * N_OUTPUTS / taken / 1e9:,.0f} GFLOP/s"
    )


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


@pytest.mark.parametrize("name", SHAPES)
def bench_products(name: str) -> None:
    with threadpool_limits(1):
        second = machine()[3]
        codes, weights, residuals = example(*SHAPES[name])
        print(f"{codes.n_rows:,} rows, {name}, {len(codes.codebooks)} subquantizers, {N_OUTPUTS} columns")
        ax, xb = dense_products(codes, weights, residuals)
        print(f"  with the full float32 matrix: X W {ax * 1e3:.0f} ms, X' R {xb * 1e3:.0f} ms")
        for rows in (codes.n_rows, *BLOCK_ROWS):
            what = "whole" if rows == codes.n_rows else f"by {rows:,} rows"
            in_blocks = by_blocks(codes, rows, lambda block, _: block.scores(weights))
            line(f"X W {what}", codes, seconds(in_blocks), ax, 4, second)
            in_blocks = by_blocks(codes, rows, lambda block, _: block.scores16(weights))
            line(f"X W {what}, 16-bit tables", codes, seconds(in_blocks), ax, 2, second)
            in_blocks = by_blocks(codes, rows, lambda block, where: block.gradient(residuals[where]))
            line(f"X' R {what}", codes, seconds(in_blocks), xb, 4, second)


if __name__ == "__main__":
    for each in SHAPES:
        bench_products(each)
