"""What the scheduler does for the page: takes the messages of runs, and sees workers and tasks itself."""

from __future__ import annotations

import contextlib
import time
from typing import Any

from distributed.diagnostics.plugin import SchedulerPlugin
from tornado.ioloop import PeriodicCallback

from pipeline.dashboard.board import ERRED, KILLED, LOST, RETRIED, Board
from pipeline.watching.telling import TOPIC

NAME = "labelgrove"
SAMPLE_SECONDS = 1.0
KEPT_MESSAGES = 50  # of the topic, in Dask's own log of events: the board has what they said


class BoardPlugin(SchedulerPlugin):  # type: ignore[misc]
    """Keeps the board of a scheduler up to date."""

    name = NAME

    def __init__(self, scheduler: Any) -> None:
        self.scheduler, self.board = scheduler, Board()
        self._names = {address: str(worker.name) for address, worker in scheduler.workers.items()}
        self._sampling = PeriodicCallback(self._sample, 1000 * SAMPLE_SECONDS)
        self._sampling.start()

    def log_event(self, topic: str, msg: Any) -> None:
        """A batch of a run; or Dask's own word of a worker that is gone."""
        if topic == TOPIC:
            self.board.take(msg, time.time())
            self._forget_messages()
        elif topic == "all" and isinstance(msg, dict) and msg.get("action") == "remove-worker":
            self._lost(msg)

    def add_worker(self, scheduler: Any, worker: str) -> None:
        """Its name, which nobody knows any more once it is gone."""
        self._names[worker] = str(scheduler.workers[worker].name)

    def _forget_messages(self) -> None:
        with contextlib.suppress(AttributeError, KeyError):  # of another version of distributed, which keeps 1000
            kept = self.scheduler._broker._topics[TOPIC].events
            while len(kept) > KEPT_MESSAGES:
                kept.popleft()

    def _lost(self, msg: dict[str, Any]) -> None:
        """A worker that nobody has asked to go, with the tasks that it was working on."""
        address = str(msg.get("worker", "?"))
        name = self._names.pop(address, address)
        if msg.get("expected") or getattr(self.scheduler.status, "name", "") in ("closing", "closed"):
            return
        tasks, lost = len(msg.get("processing-tasks") or ()), len(msg.get("lost-computed-tasks") or ())
        more = f", {lost} results are made again" if lost else ""
        said = f"worker {name} is gone: {tasks} tasks begin again{more}"
        self.board.incident(LOST, 1, time.time(), said)
        self.board.incident(RETRIED, tasks, time.time())

    def transition(self, key: Any, start: str, finish: str, *args: Any, **kwargs: Any) -> None:  # noqa: ARG002
        """Counts tasks that fail; of all others this is one comparison."""
        if finish != "erred" or start == "erred":
            return
        task = self.scheduler.tasks.get(key)
        if task is None or getattr(task, "exception_blame", None) not in (None, task):
            return  # it only waited for one that failed
        said = str(getattr(task, "exception_text", ""))[:160]
        killed = said.startswith("KilledWorker")
        self.board.incident(ERRED, 1, time.time(), f"{key} failed: {said}")
        if killed:
            self.board.incident(KILLED, 1, time.time())

    def remove_client(self, scheduler: Any, client: str) -> None:  # noqa: ARG002
        """A driver has left."""
        self.board.client_gone(client, time.time())

    def _sample(self) -> None:
        """What the workers' heartbeats say of their memory."""
        workers = self.scheduler.workers
        self.board.keep_workers(workers)
        for address, worker in workers.items():
            used = int(worker.metrics.get("memory") or 0)
            self.board.see_memory(address, str(worker.name), used, int(worker.memory_limit or 0))
        self.board.version += 1

    async def close(self) -> None:
        """The scheduler ends."""
        self._sampling.stop()


def board_of(scheduler: Any) -> Board:
    """The board of a scheduler; an empty one where the plugin is not there."""
    plugin = scheduler.plugins.get(NAME)
    return plugin.board if isinstance(plugin, BoardPlugin) else Board()
