"""The process that drives a submitted run: `labelgrove run` beside a worker, whose end is its end.

It reads the order from its stdin, which stays open as long as the worker lives: when it ends, the run is interrupted,
as by Ctrl-C. What it has to tell the worker goes to stdout as lines of JSON, everything for people to stderr.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import sys
import threading
import time
from pathlib import Path
from typing import Any

from pipeline.choice import Choice
from pipeline.commands.running import check_dataset_is_there, run_loaded
from pipeline.config import load_config
from pipeline.connection.profile import Profile
from pipeline.connection.timeouts import Timeouts
from pipeline.errors import ClusterLost, RunLocked
from pipeline.interrupts import INTERRUPTED, hear_sigterm
from pipeline.last_resort import named, report_error, say
from pipeline.lock import STALE_SECONDS
from pipeline.stop_request import Stop
from pipeline.store import RunFolder
from pipeline.submitted.carried_errors import error_values
from pipeline.submitted.submission import ENDED, SCHEDULER_GONE, WORKER_GONE, Order, order_of, renew
from tasks.errors import LabelgroveError
from tasks.places import at

LOCK_SECONDS = STALE_SECONDS + 60.0  # the lock of a driver that died on another host is waited for so long
LOCK_POLL_SECONDS = 2.0
KNOCK_SECONDS = 2.0  # a scheduler that is there takes a connection within this time, also a frozen one
STOP_SECONDS = 60.0  # from the end of the worker until the process ends, whatever keeps it


class Teller:
    """Lines of JSON to the worker beside which the driver runs."""

    def __init__(self, handle: int) -> None:
        self._handle, self._mutex = handle, threading.Lock()

    def __call__(self, **values: Any) -> None:
        line = json.dumps(values) + "\n"
        with self._mutex, contextlib.suppress(OSError):  # the worker may be gone
            os.write(self._handle, line.encode())


def main() -> None:
    """Drive the run of the order on stdin; the exit code is that of `labelgrove run`."""
    tell = Teller(os.dup(1))
    os.dup2(2, 1)  # the table is for people, too
    hear_sigterm()
    order, again = order_of(_first_line(0))
    stop = Stop(order.token)
    scheduler = str(order.profile.get("scheduler", ""))
    threading.Thread(target=_lifeline, args=(stop, scheduler), name="lifeline", daemon=True).start()
    try:
        _drive(order, again, stop, tell)
        code = 0
    except KeyboardInterrupt:
        code = INTERRUPTED
    except Exception as error:
        found = named(error)
        tell(error=error_values(found))
        code = report_error(found)
    if stop.reason == SCHEDULER_GONE:  # the worker ends, too, perhaps before it can record that
        with contextlib.suppress(OSError, LabelgroveError):
            renew(RunFolder(at(order.run)), order.token, state=ENDED, code=ClusterLost.exit_code, told=stop.reason)
    tell(ended=code, told=stop.reason)
    sys.stderr.flush()
    sys.exit(code)


def _drive(order: Order, again: bool, stop: Stop, tell: Teller) -> None:
    """The run; one that goes on after its worker has died waits for the lock that its last driver may have left."""
    until = time.monotonic() + (LOCK_SECONDS if again else 0.0)
    said = False
    while True:
        if stop.reason:
            raise KeyboardInterrupt
        try:
            _run(order, stop, tell)
            return
        except RunLocked as locked:
            if time.monotonic() >= until:
                raise
            if not said:
                say(f"waiting for the lock of the driver before: {locked.what}")
                said = True
            time.sleep(LOCK_POLL_SECONDS)


def _run(order: Order, stop: Stop, tell: Teller) -> None:
    loaded = load_config(Path(order.config), order.overrides, order.text)
    check_dataset_is_there(loaded.dataset_path)
    values = {**order.profile, "timeouts": Timeouts(**order.profile["timeouts"])}
    run_loaded(
        loaded,
        Profile(**values),
        runs=at(order.runs) if order.runs else None,
        force=order.force,
        choice=Choice(order.only, order.skip),
        stop=stop,
        began=lambda: tell(began=os.getpid()),
    )


def _first_line(handle: int) -> bytes:
    """Read byte by byte, unbuffered: what follows is waited for by a thread that must not hold a lock at exit."""
    line = bytearray()
    while not line.endswith(b"\n"):
        byte = os.read(handle, 1)
        if not byte:
            sys.exit(INTERRUPTED)  # the worker was gone before it had said what to do
        line += byte
    return bytes(line)


def _lifeline(stop: Stop, scheduler: str) -> None:
    """Ends the run when the worker ends; nothing may keep the process for long after it.

    A worker whose scheduler is lost ends as well, but then there is nobody who starts the task beside another.
    """
    while os.read(0, 1):
        continue
    stop.ask(WORKER_GONE if listens(scheduler) else SCHEDULER_GONE)
    time.sleep(STOP_SECONDS)
    os._exit(INTERRUPTED)


def listens(address: str) -> bool:
    """Whether something listens at the address of a scheduler; of kinds that are no host and port it is believed."""
    kind, _, place = address.partition("://")
    host, _, port = place.rpartition(":")
    if kind not in ("tcp", "tls") or not port.isdecimal():
        return True
    try:
        with socket.create_connection((host.strip("[]"), int(port)), KNOCK_SECONDS):
            return True
    except (OSError, OverflowError, UnicodeError):
        return False


if __name__ == "__main__":
    main()
