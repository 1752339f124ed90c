"""Preload of a local worker: Ctrl-C in a terminal reaches every process of its group; only the driver acts."""

from __future__ import annotations

import signal


def dask_setup(worker: object) -> None:  # noqa: ARG001
    """Called by Dask in the worker's process when it starts."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
