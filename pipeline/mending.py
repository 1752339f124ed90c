"""What Dask does not mend of itself when workers are killed in quick succession."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any


def mend(client: Any, seconds: float) -> None:
    """Workers of our own cluster that are gone for good are started again, tasks that nobody would take are let go.

    Called now and then while work is under way; asks the scheduler for `seconds` at most, and fails in silence: a
    cluster that is lost is noticed elsewhere.
    """
    with contextlib.suppress(Exception):
        start_missing_workers(client)
        client.sync(client._run_on_scheduler, letting_go(), callback_timeout=seconds)


def start_missing_workers(client: Any) -> None:
    """A worker that is killed while its nanny starts it anew is given up, and dropped after Dask's lost-worker-timeout;
    it comes back when the cluster is told its number again."""
    own = getattr(client, "cluster", None)
    if own is not None and len(own.workers) < len(own.worker_spec):
        own.scale(len(own.worker_spec))


def letting_go() -> Callable[..., int]:
    """A function to be run by the scheduler; it travels by value, since a scheduler need not have our packages.

    A task that prefers a worker and comes up while no worker is alive at all waits for that one address, which never
    comes back: unlike a task that is placed, it forgets that any other worker would do.
    """

    def let_go(dask_scheduler: Any) -> int:
        """Number of tasks that any worker may take now."""
        stuck = [task for task in dask_scheduler.unrunnable if task.worker_restrictions and task.loose_restrictions]
        for task in stuck:
            task.worker_restrictions = None
        if stuck and dask_scheduler.running:
            stuck.sort(key=lambda task: task.priority, reverse=True)  # the last recommended comes first
            moves = {task.key: "processing" for task in stuck}
            dask_scheduler.transitions(moves, stimulus_id="labelgrove-let-go")
        return len(stuck)

    return let_go
