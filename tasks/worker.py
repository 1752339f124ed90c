"""One-time set-up of a process that runs tasks, and its memory as the kernel counts it."""

from __future__ import annotations

import contextlib
import ctypes
import gc
import importlib.metadata
import os
import platform
import resource
import threading
from dataclasses import dataclass
from pathlib import Path

from threadpoolctl import threadpool_limits

from tasks.cache import ROWS, set_cache_bytes
from tasks.io import configure_worker as configure_io


@dataclass(frozen=True, slots=True)
class WorkerSettings:
    """Where a task runs, never what it computes: `cache_bytes` of rows kept between tasks of one process."""

    cache_bytes: int = 256 << 20


_lock = threading.Lock()
_configured: WorkerSettings | None = None


def configure_worker(settings: WorkerSettings) -> int:
    """Set one BLAS thread, zarr's thread counts and the cache limit, once per process; returns the process id.

    One BLAS thread because float32 products differ in their last bits with the number of threads.
    """
    global _configured
    if _configured != settings:
        with _lock:
            threadpool_limits(1)
            configure_io()
            set_cache_bytes(settings.cache_bytes)
            _configured = settings
    return os.getpid()


def make_room() -> None:
    """Give back the rows read lately, and the memory that the allocator keeps; what is dropped is read again."""
    ROWS.clear()
    gc.collect()
    with contextlib.suppress(OSError, AttributeError):  # other C libraries than GNU's have no such function
        ctypes.CDLL(None).malloc_trim(0)


PACKAGES = ("numpy", "scipy", "numba", "zarr", "numcodecs", "mmh3", "pyarrow", "safetensors", "labelgrove")


def versions() -> dict[str, str]:
    """Versions of what decides the bits of a result, in this process."""
    found = {name: importlib.metadata.version(name) for name in PACKAGES}
    return found | {"python": platform.python_version()}


def reset_peak() -> int:
    """Begin a new high-water mark of resident memory where the kernel allows it; returns the bytes resident now."""
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        return peak_bytes()
    return _status_bytes("VmRSS:")


def peak_bytes() -> int:
    """The resident high-water mark of this process, in bytes."""
    return _status_bytes("VmHWM:") or resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def _status_bytes(field: str) -> int:
    try:
        for line in Path("/proc/self/status").read_text().splitlines():
            if line.startswith(field):
                return int(line.split()[1]) * 1024
    except OSError:
        pass
    return 0
