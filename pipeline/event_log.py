"""events.jsonl in an object store, which cannot append: kept here, and put whole again now and then.

A kill may lose the events of the last seconds, and nothing else: what is finished is told by DONE.json, not by events.
"""

from __future__ import annotations

import contextlib
import threading
import time
from typing import Any

from tasks.errors import LabelgroveError
from tasks.places import write_whole

EVERY_SECONDS = 2.0  # at most one put in so many seconds, but for the ends of steps and runs
AT_ONCE = ("run", "done", "finished", "failed", "interrupted")


class RemoteLog:
    """All lines of one file; the process that holds the run's lock writes it alone."""

    def __init__(self, path: Any) -> None:
        self.path = path
        self.data = bytearray(_there(path))
        self._put_at = 0.0
        self._waiting: threading.Timer | None = None
        self._mutex = threading.RLock()

    def add(self, line: bytes, kind: str) -> None:
        """One line more, of a kind of event. Raises the errors of `tasks.urls.named`."""
        with self._mutex:
            if self.data and not self.data.endswith(b"\n"):
                self.data += b"\n"
            self.data += line
            wait = self._put_at + EVERY_SECONDS - time.monotonic()
            if kind in AT_ONCE or wait <= 0:
                self.flush()
            elif self._waiting is None:
                self._waiting = threading.Timer(wait, self._late)
                self._waiting.daemon = True
                self._waiting.start()

    def flush(self) -> None:
        """Put what is here."""
        with self._mutex:
            if self._waiting is not None:
                self._waiting.cancel()
                self._waiting = None
            write_whole(self.path, bytes(self.data))
            self._put_at = time.monotonic()

    def _late(self) -> None:
        with contextlib.suppress(LabelgroveError, OSError):  # the next event tries again, and tells
            self.flush()


def _there(path: Any) -> bytes:
    try:
        data: bytes = path.read_bytes()
        return data
    except FileNotFoundError:
        return b""


_LOGS: dict[str, RemoteLog] = {}


def log_at(path: Any) -> RemoteLog:
    """The log of a run folder's events in this process, until `forget_log`."""
    if str(path) not in _LOGS:
        _LOGS[str(path)] = RemoteLog(path)
    return _LOGS[str(path)]


def forget_log(path: Any) -> None:
    """Put what is not put yet; others may write from now on."""
    log = _LOGS.pop(str(path), None)
    if log is not None:
        log.flush()


def bytes_of(path: Any) -> bytes:
    """All lines: those here, or those in the store."""
    return bytes(_LOGS[str(path)].data) if str(path) in _LOGS else _there(path)
