"""Product quantisation: encoding and training beside faiss, nanopq and a matrix product of as many operations.

One thread is measured in its CPU time, beside a matrix product of the same moment; two in wall time. Peers run in
PEERS_HOME/venv-faiss, with their own threads.
"""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import reduce
from operator import add
from pathlib import Path

import numpy as np
from threadpoolctl import threadpool_limits

from tasks.quantize.assign import nearest_and_squares
from tasks.quantize.kmeans import ArrayOracle, CodebookSums, assign_and_sum, train_codebooks
from tasks.quantize.pq import encode
from tests.bench.limits import gemm_rate, seconds
from tests.bench.table import HotPath, Suite, in_threads

SHAPES = (
    (4096, 16),
    (4096, 8),
    (1024, 8),
    (4096, 4),
    (4000, 10),
    (4096, 32),
    (10_000, 16),
)  # features, of which a byte
CENTROIDS, ENCODED, TRAINED, ROUNDS = 256, 2048, 4096, 25
PEER_ROWS = 512  # that peers encode: slower, and at a rate that does not depend on how many
CHILD, ENVIRONMENT = "pq_peers_child.py", "venv-faiss"
LIMIT_OF = "a product of as many operations"
NAMES = ("faiss", "nanopq")
Rates = dict[str, dict[str, float | str]]


def peers(threads: int) -> Rates:
    """Case -> peer -> rate, or why there is none."""
    shapes = SHAPES if threads == 1 else SHAPES[:1]
    cases = [f"{d}/{width}" for d, width in shapes] + ["train"]
    names = NAMES if threads == 1 else NAMES[:1]

    def none(why: str) -> Rates:
        return {case: dict.fromkeys(names, why) for case in cases}

    if "PEERS_HOME" not in os.environ:
        return none("no environments of peers: set PEERS_HOME")
    python = Path(os.environ["PEERS_HOME"]) / ENVIRONMENT / "bin" / "python"
    given = {"threads": threads, "shapes": shapes, "encoded": PEER_ROWS, "trained": TRAINED, "rounds": ROUNDS}
    counts = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), str(threads))
    words = [str(python), str(Path(__file__).with_name(CHILD)), json.dumps(given)]
    try:
        told = subprocess.run(words, capture_output=True, text=True, check=True, env={**os.environ, **counts}).stdout
    except (OSError, subprocess.CalledProcessError) as error:
        return none(f"{ENVIRONMENT}: {error}")
    found: Rates = {case: {} for case in cases}
    for row in json.loads(told.splitlines()[-1]):
        found[row["case"]][row["peer"]] = row["rate"]
    return found


@dataclass(frozen=True)
class Halves:
    """The k-means oracle of a sample in memory, by halves side by side."""

    values: np.ndarray
    threads: ThreadPoolExecutor

    def initial_sample(self) -> np.ndarray:
        return self.values

    def sums(self, codebooks: np.ndarray) -> CodebookSums:
        parts = np.array_split(self.values, 2)
        return reduce(add, self.threads.map(lambda part: assign_and_sum(part, codebooks), parts))


def clock_of(threads: int) -> Callable[[], float]:
    return time.thread_time if threads == 1 else time.perf_counter


def encoding(suite: Suite, shape: tuple[int, int], threads: int, others: dict[str, float | str]) -> None:
    """Rows a second: codes alone, and codes with what is lost, of both types of rows."""
    (d, width), clock = shape, clock_of(threads)
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((ENCODED, d), np.float32)
    books = rng.standard_normal((d // width, CENTROIDS, width), np.float32)
    ways: dict[str, Callable[[np.ndarray], object]] = {
        "encode": lambda part: encode(part, books),
        "encode, with squared errors": lambda part: nearest_and_squares(part, books),
    }
    for name, work in ways.items():
        for dtype in ("float32", "float16"):
            parts = np.array_split(rows.astype(dtype), threads)
            limit = threads * gemm_rate(time.thread_time) / (2 * CENTROIDS * d)
            taken = seconds(in_threads(lambda t, work=work, parts=parts: work(parts[t]), threads), clock)
            path = f"PQ {name}, {d} features, {width} a byte, {dtype}"
            beside = others if name == "encode" and dtype == "float32" else {}
            suite.add(HotPath(path, "rows/s", ENCODED / taken, threads, limit, LIMIT_OF, beside))


def training(suite: Suite, threads: int, others: dict[str, float | str]) -> None:
    """Rows times rounds a second; the choice of first centroids and the moving of centroids included."""
    (d, width), clock = SHAPES[0], clock_of(threads)
    values = np.random.default_rng(0).standard_normal((TRAINED, d), np.float32)
    oracle = ArrayOracle(values) if threads == 1 else Halves(values, ThreadPoolExecutor(threads))
    limit = threads * gemm_rate(time.thread_time) / (2 * CENTROIDS * d)
    began = clock()
    trained = train_codebooks(oracle, d // width, CENTROIDS, ROUNDS, 0)
    work = TRAINED * len(trained.errors)  # sums are taken once more than centroids move
    path = f"PQ train, {d} features, {width} a byte, {len(trained.errors) - 1} rounds on {TRAINED:,} rows"
    rate = work / (clock() - began)
    suite.add(HotPath(path, "rows x rounds/s", rate, threads, limit, LIMIT_OF, others))


def bench_pq() -> None:
    suite = Suite("pq")
    with threadpool_limits(1):
        for threads in (1, 2):
            others = peers(threads)
            for d, width in SHAPES if threads == 1 else SHAPES[:1]:
                encoding(suite, (d, width), threads, others[f"{d}/{width}"])
            training(suite, threads, others["train"])
