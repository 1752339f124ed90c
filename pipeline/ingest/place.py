"""The folder that a dataset is made in: beside its place, renamed when whole, removed when anything fails."""

from __future__ import annotations

import os
import re
import shutil
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pipeline.dataset import FORMAT
from pipeline.ingest.errors import DatasetExists
from tasks import io
from tasks.errors import ArtefactError
from tasks.files import disk_room, settle, swap_in, sync_path

OWNER = "owner.partial"  # names the machine, because a process id means nothing on another one


@contextmanager
def made_whole(dataset: Path, force: bool) -> Iterator[Path]:
    """A folder to write in, which becomes `dataset` at the end of the block, or nothing at all.

    Raises DatasetExists before and, should another process be faster, at the end.
    """
    if dataset.is_symlink():  # it stays, and what it points at is made or replaced
        dataset = Path(os.path.realpath(dataset))
    if not dataset.name:
        raise DatasetExists("this names no new folder", str(dataset), "give the dataset a name: NAME.zarr")
    sweep(dataset)
    _refuse_existing(dataset, force)
    partial = dataset.with_name(f"{dataset.name}.partial-{os.getpid()}")
    partial.mkdir(parents=True)
    try:
        with disk_room(str(partial), 0):
            (partial / OWNER).write_text(socket.gethostname())
        yield partial
        settle(str(partial))
        _move_in(partial, dataset, force)
    finally:
        shutil.rmtree(partial, ignore_errors=True)


@contextmanager
def scratch_beside(target: Path) -> Iterator[Path]:
    """A folder for the pieces of `target`, on its file system; removed at the end, or by the next one after a kill."""
    parent = target.absolute().parent
    parent.mkdir(parents=True, exist_ok=True)
    folder = parent / f".{target.name}.partial-{os.getpid()}"
    for left, _ in _abandoned(parent, f".{target.name}"):
        shutil.rmtree(left, ignore_errors=True)
    folder.mkdir()
    try:
        with disk_room(str(folder), 0):
            (folder / OWNER).write_text(socket.gethostname())
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _refuse_existing(dataset: Path, force: bool) -> None:
    if not dataset.exists() or (dataset.is_dir() and not any(dataset.iterdir())):
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


def sweep(dataset: Path) -> None:
    """Remove what killed processes of this machine left beside `dataset`, and put back what one was replacing."""
    for folder, replaced in _abandoned(dataset.absolute().parent, dataset.name):
        if replaced and not dataset.exists():
            os.rename(folder, dataset)
        else:
            shutil.rmtree(folder, ignore_errors=True)


def _abandoned(parent: Path, name: str) -> Iterator[tuple[Path, bool]]:
    """Folders NAME.partial-PID of dead processes of this machine, and whether each is what one was replacing (-old)."""
    pattern = re.compile(re.escape(name) + r"\.partial-(\d+)(-old)?")
    for folder in sorted(parent.iterdir()) if parent.is_dir() else []:
        match = pattern.fullmatch(folder.name)
        if match is not None and not _alive(int(match[1])) and _made_here(folder):
            yield folder, match[2] is not None


def _made_here(folder: Path) -> bool:
    owner = folder / OWNER
    return not owner.exists() or owner.read_text() == socket.gethostname()


def _alive(pid: int) -> bool:
    if pid == os.getpid():
        return False  # this process makes one dataset at a time, so the folder is of an earlier one with this number
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
