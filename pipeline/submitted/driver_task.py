"""A submitted run as one Dask task: it frees its worker's thread, starts the driver as a process, and watches it.

When the worker dies, Dask starts the task elsewhere and the run goes on by itself; when the run ends, well or with an
error, the task is done and never begun again. Of Dask the task uses no more than its own worker.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pipeline
from pipeline.errors import ClusterLost
from pipeline.interrupts import INTERRUPTED
from pipeline.stop_request import forget_request
from pipeline.store import RunFolder
from pipeline.submitted.submission import (
    DRIVING,
    ENDED,
    HEARTBEAT_SECONDS,
    SCHEDULER_GONE,
    DriverLog,
    Order,
    log_of,
    order_line,
    read_submission,
    renew,
)
from tasks.errors import LabelgroveError
from tasks.places import at

POLL_SECONDS = 0.2
STOP_SECONDS = 40.0  # a driver is given this long to end a run that its worker cannot wait for any longer
DRIVES = 3  # a driver that somebody kills, or the lack of memory, is begun again beside the same worker


@dataclass(frozen=True, slots=True)
class Ended:
    """How the driver ended: exit code of `run`, why in words, and its error as `driver.error_values`."""

    token: str
    code: int
    told: str = ""
    error: dict[str, str] | None = None


def drive(order: Order) -> Ended:
    """The task. Raises Dask's Reschedule when its worker leaves in an orderly way."""
    from distributed import Reschedule, get_worker, secede

    worker = get_worker()
    here = Driving(order, worker)
    secede()
    ended = here.to_the_end()
    if ended is None:
        raise Reschedule
    return ended


class Driving:
    """The driver of an order beside one worker."""

    def __init__(self, order: Order, worker: Any) -> None:
        self.worker, self.topic = worker, topic_of(order.token)
        self.folder = RunFolder(at(order.run))
        self.order = replace(order, profile=order.profile | connection_of(worker))
        self.log = DriverLog(log_of(self.folder, order.token))
        self.messages: dict[str, Any] = {}

    def to_the_end(self) -> Ended | None:
        """Drive until the run has ended; None when the worker leaves before."""
        before = read_submission(self.folder)
        if before is not None and before.token != self.order.token:
            before = None
        if before is not None and before.state == ENDED:  # taken back just now, or its worker died with the last word
            return Ended(self.order.token, INTERRUPTED if before.code is None else before.code, before.told)
        again = before is not None and before.attempt > 0
        first = 1 + (before.attempt if before is not None else 0)
        try:
            for attempt in range(first, first + DRIVES):
                code = self._once(attempt, again)
                if code is None or code >= 0:
                    return None if code is None else self._ended(code)
                again = True  # below 0: ended by a signal of somebody else
            return self._ended(1, f"the driver was killed {DRIVES} times, most often for lack of memory")
        finally:
            self.log.close()

    def _once(self, attempt: int, again: bool) -> int | None:
        """One driver process: its exit code, or None when the worker leaves."""
        self.messages = {}
        where = f"{socket.gethostname()} (worker {self.worker.name})"
        self._renew(state=DRIVING, attempt=attempt, host=socket.gethostname(), worker=str(self.worker.name))
        self.log.write(f"--- driver {attempt} of {self.order.run} on {where}\n")
        with started(self.order, again) as process:
            readers = [
                _reading(process.stderr, self.log.write),
                _reading(process.stdout, self._hear),
            ]
            code = self._watch(process)
            for reader in readers:
                reader.join(STOP_SECONDS)
            if code is None and self.messages.get("told") == SCHEDULER_GONE:
                code = process.returncode  # nobody is left to begin the task again
        if code is not None and code < 0:
            self.log.write(f"--- the driver was killed by signal {-code} ({_signal_name(-code)})\n")
        return code

    def _watch(self, process: subprocess.Popen[str]) -> int | None:
        beat = time.monotonic() + HEARTBEAT_SECONDS
        while True:
            with contextlib.suppress(subprocess.TimeoutExpired):
                return process.wait(POLL_SECONDS)
            if self._leaving():
                stop(process)
                self.log.write(f"--- worker {self.worker.name} leaves\n")
                return None
            if time.monotonic() >= beat:
                self._renew()
                beat = time.monotonic() + HEARTBEAT_SECONDS
            self.log.flush()

    def _leaving(self) -> bool:
        return self.worker.status.name not in ("init", "running", "paused")

    def _hear(self, line: str) -> None:
        """What the driver tells."""
        with contextlib.suppress(ValueError):
            self.messages |= json.loads(line)
        if "began" in self.messages:
            self.worker.log_event(self.topic, {"began": self.order.token, "host": socket.gethostname()})

    def _renew(self, **changes: Any) -> None:
        with contextlib.suppress(OSError, LabelgroveError):  # a store that is away must not end a run
            renew(self.folder, self.order.token, **changes)

    def _ended(self, code: int, told: str = "") -> Ended:
        told = told or str(self.messages.get("told") or "")
        if told == SCHEDULER_GONE:  # it was interrupted, but nobody has asked for that
            code = ClusterLost.exit_code
        self._renew(state=ENDED, code=code, told=told)
        forget_request(self.folder)
        return Ended(self.order.token, code, told, self.messages.get("error"))


def state_of_key(key: str, dask_scheduler: Any = None) -> str:
    """Run on the scheduler: the state of a task, "" when it knows none of that key."""
    found = dask_scheduler.tasks.get(key)
    return "" if found is None else str(found.state)


def topic_of(token: str) -> str:
    """Where the scheduler keeps what the task of a submission tells."""
    return f"labelgrove-driver-{token}"


def connection_of(worker: Any) -> dict[str, Any]:
    """What a profile says of the way to the scheduler: the worker's own, with the certificates that it uses."""
    address, security = worker.scheduler.address, worker.security
    files = {"tls_ca": "", "tls_cert": "", "tls_key": ""}
    if address.startswith("tls://"):
        files["tls_ca"] = security.tls_ca_file or ""
        files["tls_cert"] = security.tls_client_cert or security.tls_worker_cert or ""
        files["tls_key"] = security.tls_client_key or security.tls_worker_key or ""
    if any("\n" in text for text in files.values()):  # no files but their text, in Dask's settings: those are inherited
        files = dict.fromkeys(files, "")
    return {"scheduler": address, "insecure": True, **files}  # whoever started the worker has decided how safe that is


def started(order: Order, again: bool) -> subprocess.Popen[str]:
    """The driver process, with its order written; its stdin stays open: the end of it is the end of the worker."""
    # This very package, but nothing else of the worker's working folder.
    folder = str(Path(pipeline.__file__).resolve().parents[1])
    program = f"import sys; sys.path.append({folder!r}); from pipeline.submitted.driver import main; main()"
    process = subprocess.Popen(
        [sys.executable, "-P", "-c", program],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        start_new_session=True,  # a Ctrl-C in the worker's terminal is the worker's
    )
    assert process.stdin is not None
    with contextlib.suppress(BrokenPipeError):
        process.stdin.write(order_line(order, again))
        process.stdin.flush()
    return process


def stop(process: subprocess.Popen[str]) -> None:
    """End the driver as if the worker were gone; kill it when that takes too long."""
    assert process.stdin is not None
    process.stdin.close()
    try:
        process.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _reading(stream: Any, hear: Callable[[str], None]) -> threading.Thread:
    """A thread that gives lines on until the stream ends."""

    def read() -> None:
        for line in stream:
            hear(line)

    reader = threading.Thread(target=read, name="driver-output", daemon=True)
    reader.start()
    return reader


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
