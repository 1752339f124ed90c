"""The process that workers of our own are forked from: begun first of all, it loads what they need while this one reads
config and data. Without it every worker would load the same by itself, once there is something to do.

Only commands begin one, for the time that they take: whoever calls us from Python may change environment variables
between two calls, and has a main module that workers may need.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import forkserver
from typing import Any

from pipeline.connection.profile import HEAP_KEPT_BYTES, Profile

PRELOADED = ["tasks.ready", "distributed", "distributed.nanny", "tasks.deaf"]
READY = "LABELGROVE_READY"  # environment variable: `tasks.ready` is to prepare
WORKER_ENVIRON: dict[str, int] = {  # of the workers, before they start; those that are set already stay
    # Dask's own 64 KiB makes the kernel hand out and take back every temporary array of a batch, page by page.
    "MALLOC_TRIM_THRESHOLD_": HEAP_KEPT_BYTES,
    "MALLOC_ARENA_MAX": 1,  # each arena would keep as much
    "MALLOC_MMAP_THRESHOLD_": 32 << 20,
    "OMP_NUM_THREADS": 1,
    "MKL_NUM_THREADS": 1,
    "OPENBLAS_NUM_THREADS": 1,
    "NUMBA_NUM_THREADS": 1,
}
SEED = {"PYTHONHASHSEED": 6640}  # as Dask's nanny has it
_begun = False


@contextmanager
def nursery(profile: Profile) -> Iterator[None]:
    """Within it, workers of our own are forked, if the profile has such. Nothing is left at its end."""
    global _begun
    server: Any = forkserver._forkserver
    if not profile.local_workers or server._forkserver_pid is not None:  # somebody else's has loaded other things
        yield
        return
    preloaded = server._preload_modules
    try:
        _begin({name: os.environ.get(name, str(value)) for name, value in {**SEED, **WORKER_ENVIRON}.items()})
        with main_hidden():
            yield
    finally:
        _begun = False
        _end(server)
        forkserver.set_forkserver_preload(preloaded)


def is_begun() -> bool:
    """Whether workers are to be forked."""
    return _begun


def _begin(environ: dict[str, str]) -> None:
    global _begun
    before = dict(os.environ)  # what it has it keeps
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})  # a terminal's Ctrl-C is ours alone
    try:
        os.environ.update(environ | {READY: "1"})
        forkserver.set_forkserver_preload(PRELOADED)
        forkserver.ensure_running()
        _begun = True
    except OSError:  # no process can be started: told when workers are
        _begun = False
    finally:
        for name in {*environ, READY} - before.keys():
            del os.environ[name]
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked)


def _end(server: Any) -> None:
    """Kill the process, which may still be loading; its workers, if any are left, end with it."""
    pid = getattr(server, "_forkserver_pid", None)
    if pid is None:
        return
    with contextlib.suppress(OSError):
        os.kill(pid, signal.SIGKILL)
    with contextlib.suppress(OSError):
        server._stop()


@contextmanager
def main_hidden() -> Iterator[None]:
    """Without what leads to the main module, which every worker would load: a command's has nothing for them."""
    main = sys.modules["__main__"]
    known: dict[str, Any] = vars(main)
    names: list[str] = [name for name in ("__file__", "__spec__") if name in known]
    hidden = {name: known.pop(name) for name in names}
    known["__spec__"] = None
    try:
        yield
    finally:
        known.update(hidden)
