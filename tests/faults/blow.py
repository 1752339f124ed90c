"""In a process that is to be struck: counts places of the disk, and kills or stops the process at the one asked for.

The order stands in a file, `Order` as JSON, that is read again whenever it changes, so that processes which live long
can be told. Who strikes first leaves a file beside it, and all others let it be.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from collections import Counter
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tests.faults.places import EVENT, kind_of

CLIENT, SCHEDULER, NANNY, WORKER = "client", "scheduler", "nanny", "worker"
BEFORE, WITHIN, AFTER = "before", "in", "after"


@dataclass(frozen=True)
class Order:
    """Strike a process of this role before, in the middle of, or after its n-th change of a kind.

    sign  "SIGKILL" or "SIGSTOP"; "" to count alone, into the file COUNTED
    """

    number: int
    role: str
    when: str
    kind: str
    nth: int
    sign: str

    def write(self, path: Path) -> None:
        """For all processes that look at this file."""
        spare = path.with_suffix(".new")
        spare.write_text(json.dumps(asdict(self)))
        spare.rename(path)


def role_of(words: list[str]) -> str:
    """What a process is by its command line; "" for a helper such as the resource tracker."""
    said = " ".join(words)
    known = {
        "spawn_main": WORKER,
        "multiprocessing.forkserver": WORKER,  # and what workers of our own are forked from
        "pipeline.cli": CLIENT,
        "distributed.cli.dask_worker": NANNY,
        "distributed.cli.dask_scheduler": SCHEDULER,
    }
    return next((role for word, role in known.items() if word in said), "")


class Blow:
    """The audit hook of one process."""

    def __init__(self, path: str, role: str) -> None:
        self.path, self.role = Path(path), role
        self.order: Order | None = None
        self.stamp = 0
        self.seen: Counter[str] = Counter()
        self.busy = threading.local()
        self.due = ""  # path of the change that has begun and is to be struck in or after, by this thread
        self.thread = 0

    def hear(self, event: str, arguments: tuple[Any, ...]) -> None:
        """Called by Python before every change (and much else); never raises."""
        if getattr(self.busy, "on", False):
            return
        if self.due:
            if threading.get_ident() == self.thread:
                self.strike(self.due)
            return
        if event not in ("open", "os.rename", "os.link"):
            return
        self.busy.on = True
        try:
            if kind := kind_of(event, arguments):
                self.meet(kind, os.path.abspath(os.fsdecode(arguments[0 if event == "open" else 1])))
        finally:
            self.busy.on = False

    def meet(self, kind: str, path: str) -> None:
        """A change of this kind is about to happen."""
        self.look()
        order = self.order
        if order is None or order.role != self.role or self.struck().exists():
            return
        if not order.sign:
            with open(self.path.with_name("COUNTED"), "a") as file:
                file.write(f"{self.role} {os.getpid()} {kind}\n")
            return
        self.seen[kind] += 1
        if kind != order.kind or self.seen[kind] != order.nth:
            return
        if order.when == BEFORE:
            self.strike("")
        self.due, self.thread = path, threading.get_ident()

    def look(self) -> None:
        """Read the order, if it is another."""
        try:
            stamp = os.stat(self.path).st_mtime_ns
            if stamp != self.stamp:
                self.order, self.stamp = Order(**json.loads(self.path.read_text())), stamp
                self.seen.clear()
        except OSError:
            self.order = None

    def struck(self) -> Path:
        assert self.order is not None
        return self.path.with_name(f"STRUCK-{self.order.number}")

    def strike(self, path: str) -> None:
        """Kill or stop this process, unless another was faster; `path` is what it has just written."""
        order, self.due = self.order, ""
        self.busy.on = True
        try:
            assert order is not None
            handle = os.open(self.struck(), os.O_CREAT | os.O_EXCL | os.O_WRONLY)
        except FileExistsError:
            self.busy.on = False
            return
        os.write(handle, f"{os.getpid()}\n".encode())
        os.close(handle)
        if order.when == WITHIN and os.path.isfile(path):
            tear(path, order.kind)
        os.kill(os.getpid(), signal.Signals[order.sign])
        self.busy.on = False


def tear(path: str, kind: str) -> None:
    """Half of what was written last is there: of a file that grows by lines, half of the last one."""
    data = Path(path).read_bytes()
    kept = data.rstrip(b"\n").rfind(b"\n") + 1 if kind == EVENT else 0
    os.truncate(path, kept + (len(data) - kept) // 2)


def arm(path: str) -> None:
    """Let this process be struck, if it is one of those that a run consists of."""
    if role := role_of(sys.orig_argv):
        sys.addaudithook(Blow(path, role).hear)
