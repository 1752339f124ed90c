"""Memory of the workers of somebody else's cluster: what they have for a run, and those that Dask has paused.

A worker that holds more than its pause fraction of its limit begins no task until it holds less. Between tasks it holds
rows that it has read lately and memory that it keeps for the next task: it can give back both.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tasks.worker import make_room

PAUSE = 0.94  # of a worker's limit, for workers of ours; the plan lets one come to 0.9
DASK_PAUSE = "DASK_DISTRIBUTED__WORKER__MEMORY__PAUSE"

Infos = Mapping[str, Mapping[str, Any]]  # address -> what the scheduler's identity says of a worker


@dataclass(frozen=True)
class WorkerRoom:
    """What one worker has.

    limit    bytes; 0 when nobody limits it
    threads  tasks that it does at once
    pause    share of the limit above which it begins no task; 1 for none
    """

    name: str
    limit: int
    threads: int
    pause: float

    @property
    def usable(self) -> int:
        """Bytes as if it were paused where workers of ours are; 0 when nobody limits it."""
        return int(self.limit * min(1.0, self.pause / PAUSE))


def rooms(infos: Infos, ask: Callable[..., Mapping[str, Any]]) -> list[WorkerRoom]:
    """What the workers have, by name; those that leave while they are asked are left out.

    ask  ask(function) is address -> what function() returns on that worker
    """
    pauses = {address: share for address, share in ask(pause_share).items() if isinstance(share, float)}
    found = [
        WorkerRoom(
            str(info.get("name", address)), int(info["memory_limit"] or 0), int(info["nthreads"]), pauses[address]
        )
        for address, info in infos.items()
        if address in pauses
    ]
    return sorted(found, key=lambda room: room.name)


def pause_share(dask_worker: Any) -> float:
    """Run on a worker: its pause fraction, 1 when it is never paused."""
    share = dask_worker.memory_manager.memory_pause_fraction
    return 1.0 if share is False else float(share)


def paused(infos: Infos) -> dict[str, str]:
    """Address -> name of the workers that are paused and have no task in hand, whose end might free them."""
    return {
        address: str(info.get("name", address))
        for address, info in infos.items()
        if info.get("status") == "paused" and not _tasks(info, "executing")
    }


def has_running(infos: Infos) -> bool:
    """Whether there is a worker that takes tasks."""
    return any(info.get("status") == "running" for info in infos.values())


def is_stuck(infos: Infos) -> bool:
    """Whether a paused worker keeps tasks that nobody else has, or there is none but paused ones."""
    names = paused(infos)
    return bool(names) and (len(names) == len(infos) or any(_tasks(infos[address], "ready") for address in names))


def _tasks(info: Mapping[str, Any], state: str) -> int:
    return int(info.get("metrics", {}).get("task_counts", {}).get(state, 0))


def free(client: Any, addresses: Sequence[str], seconds: float) -> None:
    """Have workers give back what they hold between tasks; one that does not answer is noticed elsewhere."""
    with contextlib.suppress(Exception):
        client.sync(client._run, make_room, workers=list(addresses), on_error="return", callback_timeout=seconds)
