"""All that the page shows: the last runs of a scheduler, and what the scheduler itself sees of workers and tasks."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pipeline.dashboard.facts import items, mapping, number, text
from pipeline.dashboard.state import RunState
from pipeline.watching.telling import IO_RETRIES

FORMAT, VERSION = "labelgrove.dashboard", 1
MOST_RUNS = 8
MOST_EVENTS = 1000  # of one message
MOST_INCIDENTS = 40
MOST_WORKERS = 1000  # whose memory is followed
LOST, RETRIED, KILLED, ERRED = "workers lost", "tasks retried", "tasks given up", "tasks failed"
CLUSTER_FAULTS = {
    LOST: "a worker left without being asked to: killed, out of memory, or its machine is gone",
    RETRIED: "tasks that a lost worker was working on, given to another one",
    KILLED: "tasks whose workers died too often: the run fails with TaskKilled",
    ERRED: "tasks that raised an error, those given up among them",
}
RUN_FAULTS = {
    "damaged": "files of finished steps that are not what was written: the step is made again",
    IO_RETRIES: "reads and writes that failed and were tried again",
}


@dataclass(frozen=True)
class WorkerMemory:
    """Resident bytes of a worker's process: now, the most that was seen, and its limit (0: none)."""

    name: str
    used: int
    peak: int
    limit: int

    def as_json(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in ("name", "used", "peak", "limit")}


@dataclass
class Board:
    """Runs by token, oldest first; faults that the scheduler saw; memory of its workers by address."""

    runs: dict[str, RunState] = field(default_factory=dict)
    faults: dict[str, int] = field(default_factory=lambda: dict.fromkeys(CLUSTER_FAULTS, 0))
    incidents: deque[tuple[float, str]] = field(default_factory=lambda: deque(maxlen=MOST_INCIDENTS))
    workers: dict[str, WorkerMemory] = field(default_factory=dict)
    version: int = 0  # grows with every change

    def take(self, message: Any, now: float) -> None:
        """A batch of messages of one run, as `pipeline.watching.telling` sends them; anything else is passed over.

        Times of the driver's clock are moved to the scheduler's: the batch says when it was sent.
        """
        said = mapping(message)
        token, sent = text(said.get("run")), number(said.get("sent"))
        events = [mapping(one) for one in items(said.get("events"), MOST_EVENTS)]
        if not token or not events:
            return
        run = self._run(token, any(one.get("event") == "run" for one in events), now)
        if run is None:
            return
        for event in events:
            when = number(event.get("time"))
            ago = 0.0 if sent is None or when is None else max(0.0, sent - when)
            run.fold(event, now - ago)
        self.version += 1

    def _run(self, token: str, begins: bool, now: float) -> RunState | None:
        """The run of a token. A new one takes the place of the oldest that is over, or of the oldest."""
        if token not in self.runs:
            if not begins:
                return None  # the scheduler was started after the run: it cannot know what the steps are
            while len(self.runs) >= MOST_RUNS:
                over = (old for old, run in self.runs.items() if not run.live)
                del self.runs[next(over, next(iter(self.runs)))]
            self.runs[token] = RunState(token, started=now)
        return self.runs[token]

    def newest_first(self) -> list[RunState]:
        """Live runs before those that are over; of each kind the newest first."""
        latest = sorted(self.runs.values(), key=lambda run: run.started, reverse=True)
        return sorted(latest, key=lambda run: not run.live)

    def client_gone(self, client: str, now: float) -> None:
        """A driver has left; where its run has not said how it ended, it was killed."""
        for run in self.runs.values():
            if run.client == client and run.live:
                run.end("driver gone", now)
                self.version += 1

    def incident(self, kind: str, number_of: int, now: float, said: str = "") -> None:
        """Something that the scheduler saw."""
        self.faults[kind] += number_of
        self.version += 1
        if said:
            self.incidents.append((now, said))

    def see_memory(self, address: str, name: str, used: int, limit: int) -> None:
        """A worker holds so much now."""
        before = self.workers.get(address)
        if before is None and len(self.workers) >= MOST_WORKERS:
            return
        self.workers[address] = WorkerMemory(name, used, max(used, before.peak if before else 0), limit)

    def keep_workers(self, addresses: Mapping[str, Any]) -> None:
        """Forget those that are gone."""
        for address in [one for one in self.workers if one not in addresses]:
            del self.workers[address]

    def as_json(self, now: float) -> dict[str, Any]:
        """Plain finite values, the newest run first: what `/labelgrove/state.json` serves."""
        return {
            "format": FORMAT,
            "version": VERSION,
            "time": now,
            "runs": [run.as_json(now) for run in self.newest_first()],
            "cluster": {
                "workers": [worker.as_json() for worker in self.workers.values()],
                "faults": dict(self.faults),
                "incidents": [[when, said] for when, said in self.incidents],
            },
        }
