"""A run is asked to stop from anywhere: by a file in its folder, seen within seconds by the process that runs it.

A request names whom it is for: the process that holds the folder's lock, or a submission that waits for a worker. So
one that was left behind stops no later run.
"""

from __future__ import annotations

import contextlib
import getpass
import json
import os
import signal
import socket
import threading
import time
from collections.abc import Iterator
from typing import Any

import psutil

from pipeline.lock import holder
from pipeline.store import RunFolder, plain, read_json, write_json
from pipeline.submitted.submission import ASKING, SUBMITTED, Submission, read_submission
from tasks.errors import LabelgroveError
from tasks.places import is_remote

STOP = "stop.json"
POLL_SECONDS = 1.0
FAR_POLL_SECONDS = 3.0  # of a folder in an object store


class Stop:
    """Why a run is to stop, "" as long as it is not. `ask` interrupts the main thread while a run is entered."""

    def __init__(self, submission: str = "") -> None:
        self.submission, self.reason = submission, ""
        self._mutex = threading.Lock()
        self._entered = False

    def ask(self, reason: str) -> None:
        """Stop, for this reason; of several the first counts. From any thread."""
        with self._mutex:
            if self.reason:
                return
            self.reason = reason
            if self._entered:
                signal.pthread_kill(_main_thread(), signal.SIGUSR1)

    def said(self) -> dict[str, str]:
        """Of the event that ends the run: why, and of which submission."""
        told = {"why": self.reason} if self.reason else {}
        return told | ({"submission": self.submission} if self.submission else {})

    @contextlib.contextmanager
    def heard(self) -> Iterator[None]:
        """Within it `ask` raises KeyboardInterrupt in the main thread; no signal of the terminal is used for it."""
        if threading.get_ident() != _main_thread():
            yield  # Python hears signals in the main thread alone: a run elsewhere cannot be asked
            return
        before = signal.signal(signal.SIGUSR1, self._interrupt)
        try:
            with self._mutex:
                self._entered = True
            if self.reason:
                raise KeyboardInterrupt
            yield
        finally:
            with self._mutex:
                self._entered = False
            # A signal may still be on its way, and the default would end the process.
            signal.signal(signal.SIGUSR1, before if callable(before) else signal.SIG_IGN)

    def _interrupt(self, signum: int, frame: Any) -> None:  # noqa: ARG002
        if self._entered:
            raise KeyboardInterrupt


def _main_thread() -> int:
    return threading.main_thread().ident or 0


@contextlib.contextmanager
def stoppable(folder: RunFolder, stop: Stop) -> Iterator[None]:
    """Within it, which is entered by the holder of the folder's lock, requests for this process or `stop` are heard."""
    me, ended = _process(), threading.Event()
    _look(folder, me, stop)
    watcher = threading.Thread(target=_watch, args=(folder, me, stop, ended), name="stop-request", daemon=True)
    with stop.heard():
        watcher.start()
        try:
            yield
        finally:
            ended.set()
            watcher.join()
            if not stop.submission:  # of a submission it stays until that is over, or another worker would begin again
                forget_request(folder)


def _watch(folder: RunFolder, me: dict[str, Any], stop: Stop, ended: threading.Event) -> None:
    seconds = FAR_POLL_SECONDS if is_remote(folder.path) else POLL_SECONDS
    while not ended.wait(seconds) and not stop.reason:
        _look(folder, me, stop)


def _look(folder: RunFolder, me: dict[str, Any], stop: Stop) -> None:
    found = read_request(folder)
    if found and (_is_for(found.get("holder"), me) or (stop.submission and found.get("submission") == stop.submission)):
        stop.ask(f"cancelled by {found.get('by', 'somebody')}")


def _process() -> dict[str, Any]:
    """This process, as its lock names it."""
    return {"host": socket.gethostname(), "pid": os.getpid(), "created": psutil.Process().create_time()}


def _is_for(named: Any, me: dict[str, Any]) -> bool:
    if not isinstance(named, dict) or (named.get("host"), named.get("pid")) != (me["host"], me["pid"]):
        return False
    created = named.get("created")
    return isinstance(created, int | float) and abs(created - me["created"]) < 2  # as the lock compares it


def read_request(folder: RunFolder) -> dict[str, Any]:
    """The request that lies in the folder, {} when there is none or it cannot be read."""
    try:
        found = json.loads((folder / STOP).read_bytes())  # one request to a store, where it is most often not there
    except (OSError, ValueError, RecursionError, LabelgroveError):
        return {}
    return found if isinstance(found, dict) else {}


def forget_request(folder: RunFolder) -> None:
    """Remove a request: it was obeyed, or is of an earlier run."""
    with contextlib.suppress(OSError, LabelgroveError):
        (folder / STOP).unlink(missing_ok=True)


def request_stop(folder: RunFolder) -> str:
    """Ask whoever runs in the folder, or waits to run in it, to stop; returns who that is, "" when there is nobody.

    Raises DiskFull, OSError when the folder cannot be written.
    """
    held = holder(folder.path)
    submission = read_submission(folder)
    if submission is not None and submission.state == ASKING and submission.told != held:
        submission = None  # whoever waited for a worker was killed
    token = submission.token if submission is not None and submission.open else ""
    if not held and not token:
        return ""
    lock = _lock_of(folder) if held else None
    values = {"by": who_asks(), "time": time.time(), "holder": lock, "submission": token}
    write_json(folder / STOP, plain(values))
    return held or _who_drives(submission)


def _who_drives(submission: Submission | None) -> str:
    """Of a submission without a process that holds the folder now: it begins, or ends."""
    if submission is None or submission.state == SUBMITTED:
        return "the submission that waits for a worker"
    return f"the driver beside worker {submission.worker} on {submission.host}"


def _lock_of(folder: RunFolder) -> dict[str, Any] | None:
    try:
        found = read_json(folder / "lock.json")
        return {key: found[key] for key in ("host", "pid", "created")}
    except (OSError, LabelgroveError, KeyError, TypeError):
        return None


def who_asks() -> str:
    """USER@HOST of this process."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # a container's user may have no name
        user = str(os.getuid())
    return f"{user}@{socket.gethostname()}"
