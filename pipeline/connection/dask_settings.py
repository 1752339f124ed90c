"""Dask's settings in this process, and in schedulers and workers that it starts."""

from __future__ import annotations

from pipeline.connection.nursery import WORKER_ENVIRON
from pipeline.connection.timeouts import Timeouts
from pipeline.connection.worker_memory import PAUSE

DASK_CONFIG = {
    "distributed.scheduler.allowed-failures": 20,  # a killed worker is no verdict on the tasks it held
    "distributed.nanny.pre-spawn-environ": WORKER_ENVIRON,
    "distributed.scheduler.preload": ["pipeline.dashboard"],  # a page of our own
    "distributed.scheduler.dashboard.tasks.task-stream-length": 10_000,  # records, about 1 kB each
    "distributed.worker.preload": ["tasks.deaf"],  # of a terminal's Ctrl-C: the driver hears it and stops the workers
    # The plan lets a worker come to 0.9 of its limit. Dask's own pause, at 0.8, would be for good: what a worker holds
    # between tasks is a cache, and memory that it keeps for the next task.
    "distributed.worker.memory.target": False,
    "distributed.worker.memory.spill": False,
    "distributed.worker.memory.pause": PAUSE,
    "distributed.admin.large-graph-warning-threshold": "10MB",
    # Our tasks take seconds. As often as Dask looks by itself, the looking takes a tenth of every worker's processor.
    "distributed.worker.profile.interval": "100ms",
    "distributed.admin.tick.interval": "200ms",
    "distributed.admin.system-monitor.interval": "1s",
    "distributed.worker.memory.monitor-interval": "200ms",
}


def dask_timeouts(timeouts: Timeouts) -> dict[str, str]:
    """Dask's own time-outs: in this process, and in a scheduler and workers that it starts."""
    return {
        "distributed.comm.timeouts.connect": f"{timeouts.connect}s",
        "distributed.scheduler.no-workers-timeout": f"{timeouts.no_workers}s",
        "distributed.scheduler.worker-ttl": f"{timeouts.worker_silent}s",
        "distributed.deploy.lost-worker-timeout": f"{timeouts.worker_lost}s",
    }
