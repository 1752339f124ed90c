"""Folders of temporary files that outlive no process for long: the next one removes those of processes that are gone.

A folder holds a file that its owner keeps locked while it lives. The system frees the lock when the process ends,
however it ends, so a folder whose lock can be had belongs to nobody.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import socket
import tempfile
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tasks.files import remove_all

PREFIX = "labelgrove-fit-"
OWNER = "owner.lock"
BARE_SECONDS = 60.0  # a folder without its lock file is about to get one, unless it is older
OLD_SECONDS = 24 * 3600.0  # since the last change in a folder of a version that had no lock files
TRIES = 100


@contextmanager
def owned_folder(base: str, others: Iterable[str] = ()) -> Iterator[Path]:
    """A new folder in `base`, gone after the block; those that dead processes left in `base` and `others` are removed.

    Raises OSError where no folder can be made.
    """
    for place in dict.fromkeys((base, *others)):
        sweep(place)
    folder, handle = _made(base)
    try:
        yield folder
    finally:
        _emptied(str(folder))
        os.close(handle)


def sweep(base: str) -> list[str]:
    """Remove the folders of this user in `base` whose owners are gone; returns their paths. Nothing is raised."""
    try:
        with os.scandir(base) as entries:
            found = [entry.path for entry in entries if entry.name.startswith(PREFIX) and _is_own(entry)]
    except OSError:
        return []
    return [path for path in found if _removed(path)]


def _is_own(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir(follow_symlinks=False) and entry.stat(follow_symlinks=False).st_uid == os.geteuid()
    except OSError:
        return False


def _made(base: str) -> tuple[Path, int]:
    """A folder and the handle that holds its lock."""
    for _ in range(TRIES):
        folder = tempfile.mkdtemp(prefix=PREFIX, dir=base)
        try:
            handle = _held(folder)
        except FileNotFoundError:  # it was swept before it had its lock
            continue
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise
        if handle is not None:
            return Path(folder), handle
    raise OSError(f"folders in {base} vanish as soon as they are made")


def _held(folder: str) -> int | None:
    """Lock a new folder; None when a sweep of another process was faster."""
    path = os.path.join(folder, OWNER)
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        with contextlib.suppress(OSError):  # where files cannot be locked, nobody can sweep either
            if not _locked(handle):
                os.close(handle)
                return None
        os.write(handle, socket.gethostname().encode())
        seen = os.stat(path)
    except FileNotFoundError:
        os.close(handle)
        return None
    except BaseException:
        os.close(handle)
        raise
    held = os.fstat(handle)
    if (seen.st_dev, seen.st_ino) != (held.st_dev, held.st_ino):
        os.close(handle)
        return None
    return handle


def _locked(handle: int) -> bool:
    """Whether this process has the lock now. Raises OSError where the file system has no locks."""
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _removed(folder: str) -> bool:
    """Remove a folder unless its owner lives."""
    try:
        handle = os.open(os.path.join(folder, OWNER), os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
    except FileNotFoundError:
        return _removed_bare(folder)
    except OSError:
        return False
    try:
        # Locks may be known to one host alone, where several share a disk: each sweeps its own.
        host = os.read(handle, 1024).decode(errors="replace")
        if host not in ("", socket.gethostname()) or not _locked(handle):
            return False
        return _emptied(folder)
    except OSError:
        return False
    finally:
        os.close(handle)


def _emptied(folder: str) -> bool:
    """Remove a folder, its lock file last: what is left of it after a kill is swept by the next process."""
    for _ in range(2):  # workers of a process that was killed may write for a moment
        with contextlib.suppress(OSError):
            names = [name for name in os.listdir(folder) if name != OWNER]
            for name in names:
                remove_all(os.path.join(folder, name), ignore_errors=True)
            if os.listdir(folder) in ([], [OWNER]):
                shutil.rmtree(folder, ignore_errors=True)
    return not os.path.exists(folder)


def _removed_bare(folder: str) -> bool:
    """Remove an empty folder whose owner ended before it had locked it, or one of a version that had no locks, which
    nobody has written in for a day."""
    try:
        age = time.time() - os.stat(folder).st_mtime
        if age < BARE_SECONDS:
            return False
        if not os.listdir(folder):
            os.rmdir(folder)
            return True
        if age < OLD_SECONDS or time.time() - _newest(folder) < OLD_SECONDS:
            return False
    except OSError:
        return False
    remove_all(folder, ignore_errors=True)
    return not os.path.exists(folder)


def _newest(folder: str) -> float:
    """When anything in a folder was changed last, at any depth. Raises OSError where it cannot be looked at."""
    newest = os.lstat(folder).st_mtime
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                newest = max(newest, _newest(entry.path))
            else:
                newest = max(newest, entry.stat(follow_symlinks=False).st_mtime)
    return newest
