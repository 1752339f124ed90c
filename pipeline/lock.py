"""One live process per run folder: a lock with host, process and heartbeat, taken over when its owner is gone."""

from __future__ import annotations

import json
import os
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil

from pipeline.errors import RunLocked

HEARTBEAT_SECONDS = 5.0
STALE_SECONDS = 60.0  # a lock of another host counts as left behind after this long without a heartbeat


@contextmanager
def locked(folder: Path) -> Iterator[str]:
    """Hold the folder's lock; yields a message when a lock left behind was taken over, else "".

    Raises RunLocked when a live process holds it.
    """
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "lock.json"
    message = _take(path)
    stop = threading.Event()
    beat = threading.Thread(target=_beat, args=(path, stop), name="run-lock", daemon=True)
    beat.start()
    try:
        yield message
    finally:
        stop.set()
        beat.join()
        path.unlink(missing_ok=True)


def _mine() -> dict[str, Any]:
    created = psutil.Process().create_time()
    return {"host": socket.gethostname(), "pid": os.getpid(), "created": created, "heartbeat": time.time()}


def _take(path: Path) -> str:
    text = json.dumps(_mine())
    message = ""
    for _ in range(10):
        spare = path.with_name(f".lock.partial-{os.getpid()}")
        spare.write_text(text)
        try:
            os.link(spare, path)  # fails when a lock is there: of two takers one wins
            return message
        except FileExistsError:
            message = _check_abandoned(path)
            # Renaming, not unlinking: of two that take over one old lock only one succeeds.
            grave = path.with_name(f".lock-old.partial-{os.getpid()}")
            try:
                os.rename(path, grave)
                grave.unlink()
            except FileNotFoundError:
                continue
        finally:
            spare.unlink(missing_ok=True)
    raise RunLocked("the lock changes hands all the time", str(path), "are several runs being started?")


def _check_abandoned(path: Path) -> str:
    try:
        held = json.loads(path.read_text())
        host, pid, created, heartbeat = held["host"], int(held["pid"]), float(held["created"]), float(held["heartbeat"])
    except FileNotFoundError:
        return ""
    except (ValueError, KeyError, TypeError):
        return "an unreadable lock was taken over"
    who = f"process {pid} on {host}"
    age = time.time() - heartbeat
    alive = _is_alive(pid, created) if host == socket.gethostname() else age < STALE_SECONDS
    if alive:
        hint = (
            f"wait for it, or end it (its last sign of life is {age:.0f} s old); `labelgrove status` shows where it is"
        )
        raise RunLocked(f"{who} is running in this folder", str(path.parent), hint)
    return f"the lock of {who}, which is gone, was taken over"


def _is_alive(pid: int, created: float) -> bool:
    try:
        process = psutil.Process(pid)
        same = abs(process.create_time() - created) < 2
        return bool(same and process.status() != psutil.STATUS_ZOMBIE)
    except psutil.Error:
        return False


def _beat(path: Path, stop: threading.Event) -> None:
    while not stop.wait(HEARTBEAT_SECONDS):
        spare = path.with_name(f".lock-beat.partial-{os.getpid()}")
        try:
            spare.write_text(json.dumps(_mine()))
            os.replace(spare, path)
        except OSError:
            continue  # a full disk must not end the run; the process id still tells that we live


def holder(folder: Path) -> str:
    """Who holds the folder now, "" when nobody alive does."""
    try:
        _check_abandoned(folder / "lock.json")
    except RunLocked as error:
        return error.what
    return ""
