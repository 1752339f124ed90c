"""What the machine itself allows, and the clock it is measured by: every benchmark stands beside these."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
from threadpoolctl import threadpool_info

REPEATS = 5
Clock = Callable[[], float]


def seconds(work: Callable[[], object], clock: Clock = time.perf_counter, repeats: int = REPEATS) -> float:
    """The best of some repeats, after one that compiles; `time.thread_time` leaves out what other processes take."""
    work()
    best = np.inf
    for _ in range(repeats):
        began = clock()
        work()
        best = min(best, clock() - began)
    return float(best)


def gemm_rate(clock: Clock = time.perf_counter) -> float:
    """Float operations per second of a float32 product: the limit of everything that multiplies."""
    a = np.random.default_rng(0).normal(size=(1024, 1024)).astype(np.float32)
    return 2 * 1024**3 / seconds(lambda: a @ a, clock)


def copy_rate(clock: Clock = time.perf_counter) -> float:
    """Bytes read and written per second by a copy of what no cache holds: the limit of everything that moves."""
    big = np.zeros(1 << 26, np.float32)
    return 2 * big.nbytes / seconds(lambda: big.copy(), clock)


def blas() -> str:
    """The linear algebra that is loaded, with the kernels that it chose."""
    loaded = [library for library in threadpool_info() if library["user_api"] == "blas"]
    return ", ".join(sorted({f"{b['internal_api']} {b['version']} {b.get('architecture')}" for b in loaded}))
