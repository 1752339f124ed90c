"""Ingest beside its parts and the machine: the look at all values, and rows that become codes as they are made.

`make bench SUITE=ingest` prints the tables; `python -m tests.bench.bench_ingest` the same. Rates are by processor time
of all threads, so that other processes on the machine hardly change them.
"""

from __future__ import annotations

import resource
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from pipeline.ingest import MadeRows, ingest
from pipeline.ingest.npy import from_array
from pipeline.ingest.scan import scan
from tasks.coded_rows import coded
from tasks.seeds import stream
from tests.bench.limits import copy_rate, gemm_rate, seconds
from tests.bench.table import HotPath, Suite

N_FEATURES, SUBQUANTIZERS, BLOCK, N_CLASSES = 10_000, 625, 1024, 1000
N_ROWS = 40 * BLOCK


def processor(work: Callable[[], object]) -> float:
    """Seconds of all threads of this process."""
    return seconds(work, clock=time.process_time, repeats=3)


def looked_at(dtype: str) -> HotPath:
    values = np.random.default_rng(0).standard_normal((65_536, 1024), np.float32).astype(dtype)
    source, most = from_array(values, "array"), copy_rate(time.process_time)
    took = processor(lambda: scan(source, "float32"))
    return HotPath(f"look at {dtype} values", "bytes/s", values.nbytes / took, limit=most, limit_of="a copy")


def made_rows() -> MadeRows:
    """Rows of 1,000 classes, each its centre and two of 256 vectors of noise."""
    centres = stream(0, "centres").standard_normal((N_CLASSES, N_FEATURES), np.float32)
    noise = stream(0, "noise").standard_normal((256, N_FEATURES), np.float32)

    def block(number: int) -> tuple[np.ndarray, np.ndarray]:
        rng = stream(0, "block", number)
        labels = rng.integers(0, N_CLASSES, BLOCK)
        rows = centres[labels]
        for _ in range(2):
            rows += noise[rng.integers(0, 256, BLOCK)]
        return rows, labels

    return MadeRows(block, N_ROWS, N_FEATURES, BLOCK)


def bench_ingest() -> None:
    suite, source = Suite("ingest"), made_rows()
    for dtype in ("float32", "float16"):
        suite.add(looked_at(dtype))
    rows, flops = source.make(0)[0], 2 * 256 * N_FEATURES
    books = stream(0, "books").standard_normal((SUBQUANTIZERS, 256, N_FEATURES // SUBQUANTIZERS), np.float32)
    made, kernel = BLOCK / processor(lambda: source.make(0)), BLOCK / processor(lambda: coded(rows, books))
    limit = gemm_rate(time.process_time) / flops
    suite.add(HotPath("rows made", "rows/s", made))
    suite.add(HotPath("rows made codes, and what is lost", "rows/s", kernel, limit=limit, limit_of="a matrix product"))
    began: list[float] = []

    def copying(*_: int) -> None:
        began.append(time.process_time())

    with tempfile.TemporaryDirectory() as folder:
        options = {"encode": "pq", "subquantizers": SUBQUANTIZERS, "sample": 4096, "iterations": 3}
        start = time.process_time()
        made_of = ingest(source, Path(folder) / "d.zarr", copying=copying, **options)  # type: ignore[arg-type]
        whole = time.process_time() - start
    streamed = (len(began) - 1) * BLOCK / (began[-1] - began[0])
    both = 1 / (1 / made + 1 / kernel)
    suite.add(HotPath("made, encoded and kept", "rows/s", streamed, limit=both, limit_of="both parts"))
    suite.add(HotPath("a whole ingest, codebooks included", "rows/s", made_of.n_rows / whole))
    peak, floats = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, 4e-6 * N_ROWS * N_FEATURES
    print(f"    peak memory of the process {peak:,.0f} MB; as float32 the rows are {floats:,.0f} MB")


if __name__ == "__main__":
    bench_ingest()
