"""Workers that leave without being asked to: a run goes on without them, and says so."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from pipeline.connection.cluster import ask_scheduler

TOPIC = "all"  # where Dask's scheduler says who comes and goes


@contextmanager
def lost_workers_told(client: Any, seconds: float, tell: Callable[[str, int], object]) -> Iterator[None]:
    """Within it `tell(name, tasks)` hears of a worker that has gone, with how many tasks in hand; in another thread.

    seconds  that the scheduler may take to answer: ClusterLost
    """
    names: dict[str, str] = {}  # of each address: whoever is gone is known by nothing else
    hears = [True]

    def learn(found: Any) -> None:
        names.update({address: str(info.get("name", address)) for address, info in found["workers"].items()})

    async def hear(event: tuple[float, Any]) -> None:
        said = event[1]
        if not (hears and isinstance(said, dict)):
            return
        address = str(said.get("worker", ""))
        if said.get("action") == "add-worker":
            with contextlib.suppress(OSError, AttributeError):  # the scheduler goes: others notice
                learn(await client.scheduler.identity(n_workers=-1))
        elif said.get("action") == "remove-worker" and not said.get("expected"):
            tell(names.get(address, address), len(said.get("processing-tasks") or ()))

    client.subscribe_topic(TOPIC, hear)
    try:
        learn(ask_scheduler(client, "identity", seconds, n_workers=-1))
        yield
    finally:
        hears.clear()


def lost_text(name: str, tasks: int) -> str:
    """What a user reads of it."""
    begun = {0: "", 1: "; the task that it had in hand begins again"}
    return f"worker {name} is gone{begun.get(tasks, f'; {tasks} tasks that it had in hand begin again')}"
