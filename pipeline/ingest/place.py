"""The folder that a dataset is made in: beside its place, renamed when whole, removed when anything fails.

A process that is killed or interrupted leaves it behind, signed with what it was asked for: the next one that is asked
for the same takes it over, and any other removes it.
"""

from __future__ import annotations

import contextlib
import os
import re
import socket
import tempfile
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil

from pipeline.dataset import FORMAT
from pipeline.event_log import forget_log
from pipeline.ingest.errors import DatasetExists
from tasks import io
from tasks.errors import ArtefactError
from tasks.files import disk_room, remove_all, settle, swap_in, sync_path
from tasks.places import is_remote, remove_folder

OWNER = "owner.partial"  # names the machine, because a process id means nothing on another one, and when it began
REQUEST = "request.partial"  # what the process in whose folder it stands was asked for
SAME_SECONDS = 1.0  # between two readings of when a process began


@contextmanager
def made_whole(dataset: Path, force: bool, request: str | None = None) -> Iterator[Path]:
    """A folder to write in, which becomes `dataset` at the end of the block, or nothing at all.

    request  what is asked for: the folder of an interrupted process that was asked for the same is continued, and this
             one stays when this process is interrupted; None: it never does

    Raises DatasetExists before and, should another process be faster, at the end.
    """
    if dataset.is_symlink():  # it stays, and what it points at is made or replaced
        dataset = Path(os.path.realpath(dataset))
    if not dataset.name:
        raise DatasetExists("this names no new folder", str(dataset), "give the dataset a name: NAME.zarr")
    sweep(dataset, request)
    _refuse_existing(dataset, force)
    partial = dataset.with_name(f"{dataset.name}.partial-{os.getpid()}")
    if request is None or not _taken_over(dataset, partial, request):
        partial.mkdir(parents=True)
    stays = False
    try:
        _sign(partial, request)
        yield partial
        settle(str(partial))
        _move_in(partial, dataset, force)
    except Exception:
        raise
    except BaseException:  # Ctrl-C
        stays = request is not None
        raise
    finally:
        if not stays:
            remove_all(partial, ignore_errors=True)


@contextmanager
def scratch_beside(target: Path, far: bool = False) -> Iterator[Path]:
    """A folder for the pieces of `target`, on its file system; removed at the end, or by the next one after a kill.

    Of a target at a URL a folder of temporary files; or, where workers elsewhere write it (`far`), one in the store.
    """
    if is_remote(target) and far:
        folder = target.with_name(f".{target.name}.partial-{uuid.uuid4().hex[:12]}")
        try:
            yield folder
        finally:
            forget_log(folder / "events.jsonl")
            remove_folder(folder)
        return
    if is_remote(target):
        with tempfile.TemporaryDirectory(prefix="labelgrove-") as here:
            yield Path(here)
        return
    parent = target.absolute().parent
    parent.mkdir(parents=True, exist_ok=True)
    folder = parent / f".{target.name}.partial-{os.getpid()}"
    for left, _ in _abandoned(parent, f".{target.name}"):
        remove_all(left, ignore_errors=True)
    folder.mkdir()
    try:
        _sign(folder, None)
        yield folder
    finally:
        remove_all(folder, ignore_errors=True)


def _refuse_existing(dataset: Path, force: bool) -> None:
    link = dataset.is_symlink()  # what is left of those is one that leads to itself
    if not link and (not dataset.exists() or (dataset.is_dir() and not any(dataset.iterdir()))):
        return
    if not force:
        raise DatasetExists("something is there already", str(dataset), "choose another name, or --force to replace it")
    try:
        ours = io.read_attrs(str(dataset)).get("format") == FORMAT
    except ArtefactError:
        ours = False
    if not ours:
        hint = "only a dataset is ever replaced; choose another name"
        raise DatasetExists("what is there is no dataset", str(dataset), hint)


def _move_in(partial: Path, dataset: Path, force: bool) -> None:
    if force:
        swap_in(str(partial), str(dataset))
    else:
        try:
            os.rename(partial, dataset)
        except OSError as error:
            if not dataset.exists():
                raise
            hint = "another process has made it meanwhile; --force to replace it"
            raise DatasetExists("something is there already", str(dataset), hint) from error
    sync_path(str(dataset.absolute().parent))


def sweep(dataset: Path, request: str | None = None) -> None:
    """Remove what killed processes of this machine left beside `dataset`, and put back what one was replacing.

    request  what is left of the same one stays
    """
    for folder, replaced in _abandoned(dataset.absolute().parent, dataset.name):
        if replaced and not dataset.exists():
            os.rename(folder, dataset)
        elif replaced or request is None or _request_of(folder) != request:
            remove_all(folder, ignore_errors=True)


def _taken_over(dataset: Path, partial: Path, request: str) -> bool:
    """Whether what an interrupted process left of this request is now at `partial`; of two takers one gets it."""
    left = [folder for folder, old in _abandoned(dataset.absolute().parent, dataset.name) if not old]
    mine = False
    for folder in sorted((one for one in left if _request_of(one) == request), key=_age):
        if mine:
            remove_all(folder, ignore_errors=True)
            continue
        with contextlib.suppress(OSError):
            os.rename(folder, partial)  # by its own name it stays what it is
            mine = True
    return mine


def _age(folder: Path) -> int:
    """Those changed last come first."""
    try:
        return -(folder / REQUEST).stat().st_mtime_ns
    except OSError:
        return 0


def _abandoned(parent: Path, name: str) -> Iterator[tuple[Path, bool]]:
    """Folders NAME.partial-PID of dead processes of this machine, and whether each is what one was replacing (-old)."""
    pattern = re.compile(re.escape(name) + r"\.partial-(\d+)(-old)?")
    for folder in sorted(parent.iterdir()) if parent.is_dir() else []:
        match = pattern.fullmatch(folder.name)
        if match is None:
            continue
        host, began = _owner(folder)
        if host in ("", socket.gethostname()) and not _alive(int(match[1]), began):
            yield folder, match[2] is not None


def _sign(folder: Path, request: str | None) -> None:
    """Say whose folder it is. Raises DiskFull."""
    with disk_room(str(folder), 0):
        (folder / OWNER).write_text(f"{socket.gethostname()}\n{psutil.Process().create_time()}\n")
        if request is not None:
            (folder / REQUEST).write_text(request)


def _owner(folder: Path) -> tuple[str, float]:
    """Machine and time at which its process began; "" and 0 where that is not known."""
    try:
        host, *began = (folder / OWNER).read_text().splitlines() or [""]
        return host, float(began[0]) if began else 0.0
    except (OSError, ValueError):
        return "", 0.0


def _request_of(folder: Path) -> str | None:
    try:
        return (folder / REQUEST).read_text()
    except (OSError, ValueError):
        return None


def _alive(pid: int, began: float = 0.0) -> bool:
    """Whether a process runs under this number, and is the one that began then, where that is known."""
    if pid == os.getpid():
        return False  # this process makes one dataset at a time, so the folder is of an earlier one with this number
    try:
        process = psutil.Process(pid)
        same = not began or abs(process.create_time() - began) < SAME_SECONDS
        return bool(same and process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False
    except psutil.Error:
        return True
