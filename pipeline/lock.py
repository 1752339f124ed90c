"""One live process per run folder: a lock with host, process and heartbeat, taken over when its owner is gone."""

from __future__ import annotations

import contextlib
import errno
import fcntl
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
from pipeline.last_resort import FileAccess
from tasks.files import beside, disk_room

HEARTBEAT_SECONDS = 5.0
NOT_ALLOWED = (errno.EACCES, errno.EPERM, errno.EROFS)
STALE_SECONDS = 60.0  # a lock of another host counts as left behind after this long without a heartbeat


@contextmanager
def locked(folder: Path) -> Iterator[str]:
    """Hold the folder's lock; yields a message when a lock left behind was taken over, else "".

    Raises RunLocked when a live process holds it, FileAccess when the folder cannot be written.
    """
    made = [place for place in (folder, *folder.parents) if not place.exists()]
    path = folder / "lock.json"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        message = _take(path)
    except OSError as error:
        if error.errno not in NOT_ALLOWED:
            raise
        what = f"the run folder cannot be written: {error.strerror}"
        raise FileAccess(what, str(folder), "make it writable, or give another --runs folder") from None
    stop = threading.Event()
    beat = threading.Thread(target=_beat, args=(path, stop), name="run-lock", daemon=True)
    beat.start()
    try:
        yield message
    finally:
        stop.set()
        beat.join()
        if not _is_anothers(path):
            path.unlink(missing_ok=True)
        with contextlib.suppress(OSError):  # a run that was refused leaves no empty folders behind
            for place in made:
                place.rmdir()


def _mine() -> dict[str, Any]:
    created = psutil.Process().create_time()
    return {"host": socket.gethostname(), "pid": os.getpid(), "created": created, "heartbeat": time.time()}


def _take(path: Path) -> str:
    text = json.dumps(_mine())
    message = ""
    spare = beside(path)
    with _one_taker(path.parent):
        for _ in range(10):
            try:
                with disk_room(str(path), len(text)):
                    spare.write_text(text)
                os.link(spare, path)  # fails when a lock is there: of two takers one wins
                return message
            except FileExistsError:
                message = _check_abandoned(path)
                _bury(path)
            except FileNotFoundError:
                continue  # a run that has just begun swept the spare away
            finally:
                spare.unlink(missing_ok=True)
    raise RunLocked("the lock changes hands all the time", str(path), "are several runs being started?")


@contextmanager
def _one_taker(folder: Path) -> Iterator[None]:
    """One process of this host at a time: else a second could bury the lock that a first has just taken over."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        with contextlib.suppress(OSError):  # some network file systems cannot; `_bury` is careful enough there
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def _bury(path: Path) -> None:
    """Remove a lock left behind. Renaming, not unlinking: of two that take over one old lock only one succeeds."""
    grave = beside(path)
    with contextlib.suppress(FileNotFoundError):
        os.rename(path, grave)
        grave.unlink()


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


def _is_anothers(path: Path) -> bool:
    """Whether the lock is no longer ours: another host takes it over from a process that was asleep for long."""
    try:
        held = json.loads(path.read_text())
        return (held["host"], held["pid"]) != (socket.gethostname(), os.getpid())
    except (OSError, ValueError, KeyError, TypeError):
        return False


def _beat(path: Path, stop: threading.Event) -> None:
    while not stop.wait(HEARTBEAT_SECONDS):
        spare = beside(path)
        if _is_anothers(path):
            continue
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
