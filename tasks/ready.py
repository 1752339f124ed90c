"""Preload of the process that workers of our own are forked from: what every task needs is loaded once for all of them.

What one of them is forked from and dies takes it along: whoever started the workers sees it, and starts others.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
from importlib import import_module

END_WITH_PARENT = 1  # PR_SET_PDEATHSIG, of Linux
NEEDED = ("tasks.calls", "tasks.io", "zarr", "numcodecs.blosc", "numba", "scipy.linalg.blas", "scipy.sparse")


def end_with_parent(parent: int) -> None:
    """The kernel kills this process when the one that it was forked from, of this process id, ends."""
    with contextlib.suppress(OSError, AttributeError):  # of another kernel, or C library
        ctypes.CDLL(None).prctl(END_WITH_PARENT, signal.SIGKILL)
    if os.getppid() != parent:  # it has ended before the kernel was told
        os._exit(1)


def prepare() -> None:
    """Load what is needed; what cannot be loaded fails in the task that needs it, where it has a name."""
    parent = 0

    def note() -> None:
        nonlocal parent
        parent = os.getpid()

    os.register_at_fork(before=note, after_in_child=lambda: end_with_parent(parent))
    for name in NEEDED:
        with contextlib.suppress(Exception):
            import_module(name)


if os.environ.get("LABELGROVE_READY"):  # not where somebody imports all modules
    prepare()
