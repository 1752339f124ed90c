"""Dask's settings in this process, and in schedulers and workers that it starts."""

from __future__ import annotations

from pipeline.connection.profile import HEAP_KEPT_BYTES
from pipeline.connection.timeouts import Timeouts
from pipeline.connection.worker_memory import PAUSE

DASK_CONFIG = {
    "distributed.scheduler.allowed-failures": 20,  # a killed worker is no verdict on the tasks it held
    "distributed.nanny.pre-spawn-environ": {
        # Dask's own 64 KiB makes the kernel hand out and take back every temporary array of a batch, page by page.
        "MALLOC_TRIM_THRESHOLD_": HEAP_KEPT_BYTES,
        "MALLOC_ARENA_MAX": 1,  # each arena would keep as much
        "MALLOC_MMAP_THRESHOLD_": 32 << 20,
        "OMP_NUM_THREADS": 1,
        "MKL_NUM_THREADS": 1,
        "OPENBLAS_NUM_THREADS": 1,
        "NUMBA_NUM_THREADS": 1,
    },
    "distributed.scheduler.preload": ["pipeline.dashboard"],  # a page of our own
    "distributed.scheduler.dashboard.tasks.task-stream-length": 10_000,  # records, about 1 kB each
    "distributed.worker.preload": ["tasks.deaf"],  # of a terminal's Ctrl-C: the driver hears it and stops the workers
    # The plan lets a worker come to 0.9 of its limit. Dask's own pause, at 0.8, would be for good: what a worker holds
    # between tasks is a cache, and memory that it keeps for the next task.
    "distributed.worker.memory.target": False,
    "distributed.worker.memory.spill": False,
    "distributed.worker.memory.pause": PAUSE,
    "distributed.admin.large-graph-warning-threshold": "10MB",
}


def dask_timeouts(timeouts: Timeouts) -> dict[str, str]:
    """Dask's own time-outs: in this process, and in a scheduler and workers that it starts."""
    return {
        "distributed.comm.timeouts.connect": f"{timeouts.connect}s",
        "distributed.scheduler.no-workers-timeout": f"{timeouts.no_workers}s",
        "distributed.scheduler.worker-ttl": f"{timeouts.worker_silent}s",
        "distributed.deploy.lost-worker-timeout": f"{timeouts.worker_lost}s",
    }
