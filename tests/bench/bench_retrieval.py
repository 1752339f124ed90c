"""Codes compared per second: the kernel, whole retrieval, NumPy and SciPy, beside the bytes that memory delivers.

A query that passed all rows on its own could compare no more codes than memory delivers; many queries on one tile of
rows that stays in the cache compare more.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from scipy.spatial.distance import cdist

from tasks.retrieval.candidates import CodedRows
from tasks.retrieval.hamming import fill_distances
from tasks.retrieval.rank import TILE_BYTES, TILE_QUERIES, TILE_ROWS, rank
from tests.bench.limits import seconds
from tests.bench.record import record

N_QUERIES, N_CLASSES, TOP = 512, 100, 10
STORE_BYTES = 64 << 20  # of candidates: more than the caches hold
FEW = 64  # queries, and thousands of candidates, for those who hold all comparisons at once


def some_codes(shape: tuple[int, int], dtype: str, seed: int) -> np.ndarray:
    codes: np.ndarray = np.random.default_rng(seed).integers(0, 4, shape, np.uint8)
    return codes.astype(dtype)


class InMemory:
    """Candidates as `rank` asks for them, in blocks of 8 MB."""

    store = "memory"

    def __init__(self, codes: np.ndarray) -> None:
        self.codes = codes
        self.labels = (np.arange(len(codes)) % N_CLASSES).astype(np.int32)
        self.step = max(1, (8 << 20) // codes[0].nbytes)

    def parts(self) -> Iterator[CodedRows]:
        for start in range(0, len(self.codes), self.step):
            rows = np.arange(start, min(start + self.step, len(self.codes)))
            yield CodedRows(self.codes[rows[0] : rows[-1] + 1], rows, self.labels[rows])


def read_bytes_per_second() -> float:
    big = np.ones(1 << 25, np.int64)
    return big.nbytes / seconds(lambda: big.sum())


@pytest.mark.parametrize("dtype", ["uint8", "uint16", "int32"])
@pytest.mark.parametrize("n_hashes", [64, 256, 512, 10_000])
def bench_retrieval(n_hashes: int, dtype: str) -> None:
    n_rows = STORE_BYTES // (n_hashes * np.dtype(dtype).itemsize)
    queries, codes = some_codes((N_QUERIES, n_hashes), dtype, 0), some_codes((n_rows, n_hashes), dtype, 1)
    tile = codes[: max(8, min(TILE_ROWS, TILE_BYTES // codes[0].nbytes))]
    distances = np.empty((TILE_QUERIES, len(tile)), np.int32)
    tiles = TILE_QUERIES * tile.size / seconds(lambda: fill_distances(queries[:TILE_QUERIES], tile, distances))
    labels = (np.arange(N_QUERIES) % N_CLASSES).astype(np.int32)
    given = (queries, labels, InMemory(codes), TOP)
    whole = N_QUERIES * codes.size / seconds(lambda: rank(*given))
    halves = [(queries[i::2], labels[i::2], *given[2:]) for i in range(2)]
    with ThreadPoolExecutor(2) as threads:
        two = N_QUERIES * codes.size / seconds(lambda: list(threads.map(lambda half: rank(*half), halves)))
    few = codes[: max(1, (2 << 20) // codes[0].nbytes)]
    plain = FEW * few.size / seconds(lambda: [(few != query).sum(axis=1) for query in queries[:FEW]])
    scipy = FEW * few.size / seconds(lambda: cdist(queries[:FEW].astype(np.float64), few.astype(np.float64), "hamming"))
    memory = read_bytes_per_second() / codes.itemsize
    figures = {"tile": tiles, "whole": whole, "two": two, "numpy": plain, "scipy": scipy, "memory": memory}
    print(
        f"retrieval, {n_hashes:>6} codes {dtype:<6}  tile {tiles / 1e9:6.1f}  whole {whole / 1e9:6.1f}  "
        f"two threads {two / 1e9:6.1f} G codes/s   memory alone {memory / 1e9:5.1f}   "
        f"NumPy {plain / 1e9:5.2f} ({whole / plain:,.0f}x)  SciPy {scipy / 1e9:5.2f} ({whole / scipy:,.0f}x)"
    )
    record(f"retrieval-{n_hashes}-{dtype}", {"codes_per_second": figures})
