"""What a run tells the scheduler of itself, for the page on Dask's dashboard (`pipeline.dashboard`).

Messages wait in bounded memory and leave in batches from a thread of their own, a few times a second at most: a run is
never held up by them, and never fails because nobody takes them.
"""

from __future__ import annotations

import contextlib
import threading
import time
import uuid
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from pipeline.store import plain
from pipeline.watching.pace import Pace

TOPIC = "labelgrove"  # of Dask's events
EVERY_SECONDS = 0.4
LAST_SECONDS = 2.0  # the last batch may take so long
ANSWER_SECONDS = 10.0  # any other one
MOST_WAITING = 400  # messages; of more the oldest are dropped
MOST_LATEST = 32  # messages of which only the newest counts
MOST_BATCH = 100  # messages of a batch
FAILURES = 5  # batches in a row that nobody took, after which nothing is told any more
IO_RETRIES = "I/O retries"  # a kind of fault

Send = Callable[[dict[str, Any]], None]
Tell = Callable[..., None]


def untold(kind: str, **fields: Any) -> None:
    """Nobody hears it."""


@dataclass(frozen=True)
class Audience:
    """Whoever hears of a run besides events.jsonl.

    tell    takes every message: kind and plain values
    latest  takes messages of which only the newest of a kind and model counts: there may be many
    """

    tell: Tell = untold
    latest: Tell = untold

    def beside(self, event: Tell) -> Tell:
        """What writes to events.jsonl, and then tells the same here."""

        def said(kind: str, **fields: Any) -> None:
            event(kind, **fields)
            self.tell(kind, **fields)

        return said


NOBODY = Audience()


class Teller:
    """Collects what a run has to say and sends it in batches; every method may be called from any thread."""

    def __init__(self, send: Send, every: float = EVERY_SECONDS) -> None:
        self.token = uuid.uuid4().hex[:12]
        self._send, self._every = send, every
        self._lock = threading.Lock()
        self._waiting: deque[dict[str, Any]] = deque(maxlen=MOST_WAITING)
        self._latest: OrderedDict[str, dict[str, Any]] = OrderedDict()
        self._stop, self._failed = threading.Event(), 0
        self._first: list[dict[str, Any]] = []  # what must be heard before anything else
        self._thread = threading.Thread(target=self._work, name="telling", daemon=True)
        self._begin_step("")

    def _begin_step(self, step: str) -> None:
        self.step, self._calls = step, dict[str, tuple[int, int, int]]()
        self._tasks = self._expected = self._rows = 0
        self._paces = dict[str, Pace]()

    def start(self, **begin: Any) -> None:
        """Tell that the run begins, and send from now on."""
        self._first = [{"event": "run", "time": time.time(), **begin}]
        self._thread.start()

    def tell(self, kind: str, **fields: Any) -> None:
        """One message: plain values."""
        with self._lock:
            self._queue_latest()  # what was told before stands before it
            if kind == "step":
                self._begin_step(str(fields.get("step", "")))
            self._waiting.append({"event": kind, "time": time.time(), **fields})

    def audience(self) -> Audience:
        return Audience(self.tell, self.tell_latest)

    def tell_latest(self, kind: str, model: str, **fields: Any) -> None:
        """A message that makes earlier ones of its kind and model void."""
        with self._lock:
            self._put_latest(f"{kind} {model}", {"event": kind, "time": time.time(), "model": model, **fields})

    def progress(self, name: str, done: int, total: int, rows: int, rows_total: int) -> None:  # noqa: ARG002
        """See `pipeline.pool.Progress`."""
        with self._lock:
            before = self._calls.get(name, (0, 0, 0))
            if done == 0 or done < before[0]:
                before = (0, 0, 0)  # another call of this name
            self._calls[name] = (done, total, rows)
            self._tasks += done - before[0]
            self._expected += max(0, total - before[1])
            self._rows += max(0, rows - before[2])
            rate, eta = self._paces.setdefault(name, Pace())(name, done, total, rows)
            message = {
                "event": "progress",
                "time": time.time(),
                "step": self.step,
                "call": name,
                "done": done,
                "total": total,
                "rate": rate,
                "eta": eta,
                "tasks": self._tasks,
                "expected": self._expected,
                "rows": self._rows,
            }
            self._put_latest("progress", message)

    def _put_latest(self, key: str, message: dict[str, Any]) -> None:
        self._latest[key] = message
        self._latest.move_to_end(key)
        if len(self._latest) > MOST_LATEST:
            self._latest.popitem(last=False)

    def _queue_latest(self) -> None:
        self._waiting.extend(self._latest.values())
        self._latest.clear()

    def _take(self) -> list[dict[str, Any]]:
        with self._lock:
            self._queue_latest()
            return [*self._first, *(self._waiting.popleft() for _ in range(min(MOST_BATCH, len(self._waiting))))]

    def _work(self) -> None:
        while not self._stop.wait(self._every):
            self._flush()

    def _flush(self) -> None:
        events = self._take()
        if not events or self._failed >= FAILURES:
            return
        try:
            self._send({"run": self.token, "sent": time.time(), "events": plain(events)})
            self._first, self._failed = [], 0
        except Exception:  # whatever it is, a run does not end because nobody listens
            self._failed += 1

    def close(self) -> None:
        """Send what is left, within LAST_SECONDS."""
        self._stop.set()
        rest = threading.Thread(target=self._rest, name="telling-rest", daemon=True)
        rest.start()
        rest.join(LAST_SECONDS)

    def _rest(self) -> None:
        self._thread.join()
        while (self._waiting or self._latest) and not self._failed:
            self._flush()


def to_scheduler(client: Any) -> Send:
    """Batches as events of the scheduler that a `distributed.Client` is connected to."""

    def send(batch: dict[str, Any]) -> None:
        client.sync(client.scheduler.log_event, topic=TOPIC, msg=batch, callback_timeout=ANSWER_SECONDS)

    return send


@contextmanager
def telling(client: Any, **begin: Any) -> Iterator[Teller]:
    """Within it a run tells of itself, how it ends, too.

    begin  what the first message says: name, folder, steps, planned_bytes, limit_bytes
    """
    teller = Teller(to_scheduler(client))
    teller.start(client=client.id, **begin)
    try:
        yield teller
    except BaseException as error:
        with contextlib.suppress(Exception):
            stopped = isinstance(error, KeyboardInterrupt)
            said = {} if stopped else {"error": type(error).__name__, "message": str(error)}
            teller.tell("interrupted" if stopped else "failed", **said)
        raise
    else:
        teller.tell("finished")
    finally:
        teller.close()
