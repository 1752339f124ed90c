"""One live process per run folder: a lock with host, process and heartbeat, taken over when its owner is gone."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import shlex
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil

from pipeline.errors import OtherRun, RunLocked
from pipeline.event_log import forget_log
from pipeline.last_resort import FileAccess, say
from pipeline.remote_lock import RemoteLock
from pipeline.store import NO_FILE
from tasks.files import beside, disk_room, remove_file
from tasks.places import is_remote

HEARTBEAT_SECONDS = 5.0
NOT_ALLOWED = (errno.EACCES, errno.EPERM, errno.EROFS)
STALE_SECONDS = 60.0  # a lock of another host counts as left behind after this long without a heartbeat
AHEAD_SECONDS = 60.0  # clocks of two hosts may differ so much; a heartbeat further ahead tells nothing by its time
LOOK_SECONDS = 2.0  # between two looks whether such a heartbeat is renewed
TAKING_SECONDS = 10.0  # another process of this host that is about to take the folder is given this long
TAKEN_OVER = "another process has taken over the run"


def unheard(why: str) -> None:
    """Nobody is told that the lock was lost."""


@contextmanager
def locked(folder: Path, lost: Callable[[str], None] = unheard) -> Iterator[str]:
    """Hold the folder's lock; yields a message when a lock left behind was taken over, else "".

    lost  called, from another thread, when another process has taken the lock of a folder at a URL

    Raises RunLocked when a live process holds it, FileAccess when the folder cannot be written.
    """
    if is_remote(folder):
        with _locked_far(folder, lost) as message:
            yield message
        return
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
    beat = threading.Thread(target=_beat, args=(path, stop, lost), name="run-lock", daemon=True)
    beat.start()
    try:
        yield message
    except BaseException as error:  # whatever it is: files that another has swept away, or that it was told to stop
        if isinstance(error, RunLocked) or is_mine(path):
            raise
        raise _taken_over(folder) from error
    finally:
        stop.set()
        beat.join()
        if is_mine(path):
            path.unlink(missing_ok=True)
        with contextlib.suppress(OSError):  # a run that was refused leaves no empty folders behind
            for place in made:
                place.rmdir()


_FAR: dict[str, RemoteLock] = {}  # those that this process holds, by their folder


@contextmanager
def _locked_far(folder: Path, lost: Callable[[str], None]) -> Iterator[str]:
    """The same in an object store. Raises RunLocked also at the end, when another has taken the lock meanwhile."""
    place = folder / "lock.json"
    lock = RemoteLock(place, _mine, lambda held: _abandoned(held, place, still=_stood_still(place)))
    message = lock.take()
    _FAR[str(folder)] = lock
    stop = threading.Event()
    beat = threading.Thread(target=lock.beat, args=(stop, HEARTBEAT_SECONDS, lost), name="run-lock", daemon=True)
    beat.start()
    try:
        yield message
    except KeyboardInterrupt:
        if lock.lost:
            raise _taken_over(folder) from None
        raise
    finally:
        stop.set()
        beat.join()
        _FAR.pop(str(folder), None)
        if not lock.lost:
            forget_log(folder / "events.jsonl")
        lock.release()


def _taken_over(folder: Path) -> RunLocked:
    return RunLocked(TAKEN_OVER, str(folder), "this process was asleep for long; the other one goes on with the run")


def refuse_lost(folder: Path) -> None:
    """Asked by the holder before it writes what counts: a process that was asleep for long may have lost the folder.

    Raises RunLocked then.
    """
    if is_remote(folder):
        held = _FAR.get(str(folder))
        if held is not None and not held.still_mine():
            raise _taken_over(folder)
        return
    if not is_mine(folder / "lock.json"):
        raise _taken_over(folder)


def _mine() -> dict[str, Any]:
    created = psutil.Process().create_time()
    return {"host": socket.gethostname(), "pid": os.getpid(), "created": created, "heartbeat": time.time()}


def _take(path: Path) -> str:
    text = json.dumps(_mine())
    message = ""
    spare = beside(path)
    still = _stood_still(path)
    with _one_taker(path.parent):
        for _ in range(10):
            try:
                with disk_room(str(path), len(text)):
                    spare.write_text(text)
                os.link(spare, path)  # fails when a lock is there: of two takers one wins
                return message
            except FileExistsError:
                message = _abandoned(_held(path), path, still)
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
        limit = time.monotonic() + TAKING_SECONDS
        while True:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:  # it may have been stopped there, and then it would never end
                if time.monotonic() > limit:
                    what = f"another process has been about to take this folder for {TAKING_SECONDS:.0f} s"
                    raise RunLocked(what, str(folder), "end it if it is stopped, then run again") from None
                time.sleep(0.05)
            except OSError:  # some network file systems cannot; `_bury` is careful enough there
                break
        yield
    finally:
        os.close(handle)


def _bury(path: Path) -> None:
    """Remove a lock left behind. Renaming, not unlinking: of two that take over one old lock only one succeeds."""
    if path.is_dir() and not path.is_symlink():
        remove_file(path)  # raises InTheWay when something is in it
        return
    grave = beside(path)
    with contextlib.suppress(FileNotFoundError):
        os.rename(path, grave)
        grave.unlink()


NOTHING: Any = object()  # there is no lock


def _held(path: Path) -> Any:
    """What a lock says, NOTHING when there is none, None when it cannot be read."""
    try:
        return json.loads(path.read_bytes())
    except FileNotFoundError:
        return NOTHING
    except OSError as error:
        if error.errno not in NO_FILE:
            raise
        return None
    except ValueError:
        return None


def _abandoned(held: Any, path: Path, still: Any = None) -> str:
    """What to tell of a lock that is taken over. Raises RunLocked while its holder lives.

    still  what it says if it is known that nobody has renewed it for long (of `_stood_still`)
    """
    if held is NOTHING:
        return ""
    try:
        host, pid, created, heartbeat = held["host"], int(held["pid"]), float(held["created"]), float(held["heartbeat"])
    except (ValueError, KeyError, TypeError):
        return "an unreadable lock was taken over"
    who = f"process {pid} on {host}"
    age = time.time() - heartbeat
    alive = _is_alive(pid, created) if host == socket.gethostname() else age < STALE_SECONDS and held != still
    if alive:
        sign = f"its last sign of life is {age:.0f} s old"
        if age < -1:
            sign = f"its clock is {-age:.0f} s ahead of the one here"
        raise RunLocked(f"{who} is running in this folder", str(path.parent), f"{stop_hint(path.parent)} ({sign})")
    return f"the lock of {who}, which is gone, was taken over"


def _is_ahead(held: Any) -> bool:
    """Whether a lock is of another host and its heartbeat lies too far in the future to be judged by its time."""
    try:
        return bool(held["host"] != socket.gethostname() and float(held["heartbeat"]) - time.time() > AHEAD_SECONDS)
    except (ValueError, KeyError, TypeError):
        return False


def _stood_still(path: Path) -> Any:
    """What a lock says whose heartbeat lies far ahead, after nobody has renewed it for long; None of all other locks.

    Its holder lives when it renews the lock, whatever its clock shows: this is watched by the time that passes here.
    """
    first = _held(path)
    if not _is_ahead(first):
        return None
    say(f"the clock of {first['host']}, which holds the lock, is ahead: does it live? ({STALE_SECONDS:.0f} s)")
    until = time.monotonic() + STALE_SECONDS
    while time.monotonic() < until:
        time.sleep(min(LOOK_SECONDS, STALE_SECONDS))
        if _held(path) != first:
            return None
    return first


def _is_alive(pid: int, created: float) -> bool:
    try:
        process = psutil.Process(pid)
        same = abs(process.create_time() - created) < 2
        return bool(same and process.status() != psutil.STATUS_ZOMBIE)
    except psutil.Error:
        return False


def is_mine(path: Path) -> bool:
    """Whether the lock is still this process's: another host takes it over from one that was asleep for long, and
    removes it when it has finished."""
    try:
        held = json.loads(path.read_text())
        return (held["host"], held["pid"]) == (socket.gethostname(), os.getpid())
    except FileNotFoundError:
        return False
    except (OSError, ValueError, KeyError, TypeError):
        return True  # unreadable, but there: nobody else's


def _beat(path: Path, stop: threading.Event, lost: Callable[[str], None]) -> None:
    while not stop.wait(HEARTBEAT_SECONDS):
        if not is_mine(path):
            lost(TAKEN_OVER)
            return
        spare = beside(path)
        try:
            spare.write_text(json.dumps(_mine()))
            os.replace(spare, path)
        except OSError:
            continue  # a full disk must not end the run; the process id still tells that we live


def holder(folder: Path) -> str:
    """Who holds the folder now, "" when nobody alive does.

    A heartbeat far ahead is judged by when the lock itself was changed: nobody waits here.
    """
    path = folder / "lock.json"
    held = _held(path)
    still = held if _is_ahead(held) and _unchanged_for_long(path) else None
    try:
        _abandoned(held, path, still)
    except RunLocked as error:
        return error.what
    return ""


def stop_hint(folder: Path) -> str:
    """What to do about a run that is in the way."""
    place = shlex.quote(str(folder))
    return f"`labelgrove status {place}` tells where it is, `labelgrove cancel {place}` stops it"


def refuse_held(folder: Path) -> None:
    """Raises RunLocked when somebody alive holds the folder now."""
    if who := holder(folder):
        raise RunLocked(who, str(folder), stop_hint(folder))


@contextmanager
def holder_first(folder: Path) -> Iterator[None]:
    """Within it a folder that is another run's raises RunLocked, while that run is at work in it."""
    try:
        yield
    except OtherRun:
        refuse_held(folder)
        raise


def _unchanged_for_long(path: Path) -> bool:
    try:
        return time.time() - path.stat().st_mtime > STALE_SECONDS
    except FileNotFoundError:
        return True
