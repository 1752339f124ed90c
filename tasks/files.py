"""Files that are there whole or not at all, and disks that fill up."""

from __future__ import annotations

import errno
import os
import shutil
import tempfile
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

from tasks.errors import ResourceError, UsageError

SYNC_THREADS = 32


NO_ROOM = {
    errno.ENOSPC: "no space left",
    errno.EDQUOT: "no space left within the quota",
    errno.EFBIG: "a file may not become so large here (ulimit -f)",
}


class DiskFull(ResourceError):
    """No space left where something was to be written."""


class InTheWay(UsageError):
    """A folder with something in it lies where a file of ours goes: it may be somebody's, so it is not removed."""


@contextmanager
def disk_room(path: str, nbytes: int) -> Iterator[None]:
    """Turn "no space left" into an error that names the place, the need and what is free; of stores there is none."""
    try:
        yield
    except OSError as error:
        if error.errno not in NO_ROOM:
            raise
        if "://" in path:  # it was the disk of temporary files
            path = tempfile.gettempdir() + "/x"
        folder = next(parent for parent in Path(path).absolute().parents if parent.exists())
        free = shutil.disk_usage(folder).free
        need = f"{nbytes:,}" if nbytes else "some"
        what = f"{NO_ROOM[error.errno]}: {need} bytes were to be written, {free:,} are free"
        raise DiskFull(what, path, "free some space and type the same command again") from error


def beside(path: Path) -> Path:
    """A temporary name beside `path` that no other writer uses, to be renamed when the file is whole.

    Not of the process id: in containers of one image, two workers that write one shared disk often have the same.
    """
    return path.with_name(f".{path.name}.partial-{uuid.uuid4().hex[:12]}")


def replace_file(spare: str | Path, place: str | Path) -> None:
    """Rename a file that is whole to `place`; a link there is replaced, never followed. Raises InTheWay."""
    try:
        os.replace(spare, place)
    except IsADirectoryError:
        remove_file(place)
        os.replace(spare, place)


def remove_file(place: str | Path) -> None:
    """Remove a file or a link, if there is one; an empty folder in its place, too. Raises InTheWay."""
    try:
        os.unlink(place)
    except FileNotFoundError:
        return
    except (IsADirectoryError, PermissionError):  # some systems say the latter of folders
        if os.path.islink(place) or not os.path.isdir(place):
            raise
        try:
            os.rmdir(place)
        except OSError as error:
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                raise
            what = "a folder that is not empty lies in the place of a file of ours"
            raise InTheWay(what, str(place), "look into it, remove it, and type the same command again") from None


def remove_all(place: str | Path, ignore_errors: bool = False) -> None:
    """Remove what stands at `place`: a folder with all below it, a file, or a link, but not what that leads to."""
    if os.path.isdir(place) and not os.path.islink(place):
        shutil.rmtree(place, ignore_errors=ignore_errors)
        return
    try:
        os.unlink(place)
    except OSError as error:
        if not ignore_errors and not isinstance(error, FileNotFoundError):
            raise


def make_folder(place: str | Path) -> None:
    """A folder of ours at `place`, and those above it: a file or a link in its way is removed, whatever it leads to."""
    if os.path.lexists(place) and (os.path.islink(place) or not os.path.isdir(place)):
        os.unlink(place)
    os.makedirs(place, exist_ok=True)


def swap_in(spare: str, place: str) -> None:
    """Rename the folder `spare` to `place`, in place of a folder, a file or a link.

    When another writer of the same part was faster, its twin stays.
    """
    old = f"{spare}-old"
    try:
        os.rename(place, old)
    except FileNotFoundError:
        old = ""
    try:
        os.rename(spare, place)
    except OSError as error:
        if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
            raise
        shutil.rmtree(spare)
    if old:
        remove_all(old)


def settle(path: str) -> None:
    """Remove what killed writers left in a finished folder and push every file of it to the disk."""
    for leftover in Path(path).rglob("*.partial*"):
        remove_all(leftover, ignore_errors=True)
    found = [os.path.join(folder, name) for folder, _, names in os.walk(path) for name in (*names, ".")]
    with ThreadPoolExecutor(SYNC_THREADS) as threads:  # the disk joins requests that wait at the same time
        list(threads.map(sync_path, found))


def sync_path(path: str) -> None:
    """Push one file, or the names in one folder, to the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
