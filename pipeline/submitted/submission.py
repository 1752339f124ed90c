"""What stands in a run folder of a run that was handed to a cluster: who drives it, where, and how that ended.

`logs/submission.json` is written by whoever submits, then by the worker beside which the driver runs, at last by the
driver; `logs/driver-<token>.log` is what the drivers of one submission have said.
"""

from __future__ import annotations

import contextlib
import json
import threading
import time
import uuid
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

from pipeline.store import RunFolder, RunFormat, read_json, write_json
from tasks.errors import LabelgroveError
from tasks.places import is_remote, write_whole

LOGS, RECORD = "logs", "submission.json"
ASKING, SUBMITTED, DRIVING, ENDED = "asking", "submitted", "driving", "ended"
WORKER_GONE = "its worker has gone"  # why a driver was interrupted whose run goes on beside another
NEVER_TAKEN = "taken back before a worker had it"
SCHEDULER_GONE = "its scheduler has gone"  # and one whose run nobody takes up
HEARTBEAT_SECONDS = 10.0
STALE_SECONDS = 60.0  # a driver whose record was not renewed for so long is lost, or its worker is
KEPT_LOGS = 5


@dataclass(frozen=True, slots=True)
class Order:
    """A run as it travels to a worker: plain values, no secrets.

    token      names the submission
    run        the run folder
    config     where the config was read; what it names is relative to that folder
    text       the config itself: what is submitted is run, whatever becomes of the file
    profile    as `asdict` gives it; scheduler and certificates are the worker's own
    """

    token: str
    by: str
    run: str
    config: str
    text: str
    overrides: tuple[str, ...]
    runs: str
    only: tuple[str, ...]
    skip: tuple[str, ...]
    force: bool
    profile: dict[str, Any]


def order_line(order: Order, again: bool) -> str:
    """What the driver reads first."""
    return json.dumps({"order": asdict(order), "again": again}) + "\n"


def order_of(line: bytes) -> tuple[Order, bool]:
    """The order, and whether a driver of it may have left its lock."""
    values = json.loads(line)
    order: dict[str, Any] = values["order"]
    order |= {key: tuple(value) for key, value in order.items() if isinstance(value, list)}
    return Order(**order), bool(values["again"])


@dataclass(frozen=True, slots=True)
class Submission:
    """The record. Times are seconds since 1970; `code` is the exit code once it is ended.

    While its state is ASKING it is with whoever submits, who waits for a first worker and holds the run folder's lock.
    """

    token: str
    by: str
    scheduler: str
    submitted: float
    state: str = SUBMITTED
    heartbeat: float = 0.0
    attempt: int = 0
    host: str = ""
    worker: str = ""
    code: int | None = None
    told: str = ""  # how it ended, in words; of one that is ASKING who waits, as `holder` says it

    @property
    def open(self) -> bool:
        """Whether it waits for a worker or is driven, as far as the record knows."""
        return self.state != ENDED

    @property
    def fresh(self) -> bool:
        """Whether whoever drives it has given a sign of life lately."""
        return time.time() - max(self.heartbeat, self.submitted) < STALE_SECONDS

    def log(self, folder: RunFolder) -> Path:
        """Where its drivers' messages are."""
        return log_of(folder, self.token)


def new_token() -> str:
    """Names a submission; sorts by time."""
    return f"{time.strftime('%Y%m%d-%H%M%S', time.gmtime())}-{uuid.uuid4().hex[:6]}"


def log_of(folder: RunFolder, token: str) -> Path:
    """The log of a submission's drivers."""
    return folder / LOGS / f"driver-{token}.log"


def read_submission(folder: RunFolder) -> Submission | None:
    """The last submission of a run, None when there was none or its record cannot be read."""
    try:
        values = read_json(folder / LOGS / RECORD)
        found = Submission(**{field.name: values[field.name] for field in fields(Submission)})
    except (OSError, RunFormat, KeyError, TypeError):
        return None
    numbers = isinstance(found.submitted, int | float) and isinstance(found.heartbeat, int | float)
    return found if numbers and isinstance(found.token, str) else None


def write_submission(folder: RunFolder, record: Submission) -> None:
    """Whole or not at all. Raises DiskFull, OSError."""
    write_json(folder / LOGS / RECORD, asdict(record))


def renew(folder: RunFolder, token: str, **changes: Any) -> Submission | None:
    """Change the record of a submission, as long as it is the last one; a full disk does not end a run for it."""
    found = read_submission(folder)
    if found is None or found.token != token:
        return None
    found = replace(found, heartbeat=time.time(), **changes)
    with contextlib.suppress(Exception):
        write_submission(folder, found)
    return found


def forget_old_logs(folder: RunFolder) -> None:
    """Keep the logs of the last few submissions."""
    logs = sorted((folder / LOGS).glob("driver-*.log"))
    for path in logs[:-KEPT_LOGS]:
        with contextlib.suppress(OSError, LabelgroveError):
            path.unlink()


class DriverLog:
    """What drivers say, kept in the run folder: appended line by line on a disk, put whole now and then in a store."""

    PUT_SECONDS, MOST = 5.0, 4 << 20

    def __init__(self, path: Path) -> None:
        self.path, self._mutex = path, threading.Lock()
        self._text, self._new, self._put = bytearray(), False, 0.0
        if is_remote(path):
            with contextlib.suppress(OSError, LabelgroveError):
                self._text += path.read_bytes()

    def write(self, text: str) -> None:
        """Add to it; a disk that is full loses the line, not the run."""
        data = text.encode("utf-8", "replace")
        with self._mutex, contextlib.suppress(OSError):
            if is_remote(self.path):
                self._text += data
                del self._text[: -self.MOST]
                self._new = True
                return
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with open(self.path, "ab") as file:
                file.write(data)

    def flush(self, now: bool = False) -> None:
        """Put what is new, at most every few seconds unless it must be now."""
        with self._mutex:
            if not self._new or not (now or time.monotonic() - self._put >= self.PUT_SECONDS):
                return
            with contextlib.suppress(Exception):
                write_whole(self.path, bytes(self._text))
                self._new = False
            self._put = time.monotonic()

    def close(self) -> None:
        """Put what is left."""
        self.flush(now=True)
