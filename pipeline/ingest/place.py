"""The folder that a dataset is made in: beside its place, renamed when whole, removed when anything fails.

A process that is killed or interrupted leaves it behind, signed with what it was asked for: the next one that is asked
for the same takes it over, and any other removes it. Rows that are encoded, for hours maybe, are left behind by a full
disk or an error of the user's own function, too.
"""

from __future__ import annotations

import contextlib
import os
import re
import socket
import tempfile
import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil

from pipeline.dataset import FORMAT
from pipeline.event_log import forget_log
from pipeline.ingest.errors import DatasetExists, DeclaredTooLarge
from pipeline.outputs import OutputExists
from tasks import io
from tasks.errors import ArtefactError, InputError, LabelgroveError, UsageError
from tasks.files import disk_room, remove_all, settle, swap_in, sync_path
from tasks.places import is_remote, remove_folder

OWNER = "owner.partial"  # names the machine, because a process id means nothing on another one, and when it began
REQUEST = "request.partial"  # what the process in whose folder it stands was asked for
MET_AGAIN = (InputError, UsageError, DeclaredTooLarge)  # by the same request, however often: nothing is worth keeping
SAME_SECONDS = 1.0  # between two readings of when a process began


@contextmanager
def made_whole(dataset: Path, force: bool, request: str | None = None, dear: bool = False) -> Iterator[Path]:
    """A folder to write in, which becomes `dataset` at the end of the block, or nothing at all.

    request  what is asked for: the folder of an interrupted process that was asked for the same is continued, and this
             one stays when this process is interrupted; None: it never does
    dear     whether it stays, too, when this process fails otherwise than by MET_AGAIN with something done

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
    except MET_AGAIN:
        raise
    except Exception:  # a full disk, the user's own function
        stays = dear and request is not None and _holds_anything(partial)
        raise
    except BaseException:  # Ctrl-C
        stays = request is not None
        raise
    finally:
        if not stays:
            remove_all(partial, ignore_errors=True)


def _holds_anything(partial: Path) -> bool:
    """Whether there is any file beside what it is signed with."""
    found = (path for path in partial.rglob("*") if path.name not in (OWNER, REQUEST))
    return any(path.is_file() and path.stat().st_size for path in found)


@contextmanager
def scratch_beside(target: Path, far: bool = False, alone: bool = True) -> Iterator[Path]:
    """A folder for the pieces of `target`, on its file system; removed at the end, or by the next one after a kill.

    Of a target at a URL a folder of temporary files; or, where workers elsewhere write it (`far`), one in the store.

    alone  whether nobody else may make the same target meanwhile; False: whoever does writes the same

    Raises OutputExists while a process of this machine, or a thread of this one, is making the same target alone. A
    folder `NAME-old` in what a killed process left is what it was replacing: it is put back.
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
    made = [place for place in (parent, *parent.parents) if not place.exists()]
    parent.mkdir(parents=True, exist_ok=True)
    try:
        folder = parent / f".{target.name}.partial-{os.getpid()}"
        with _named_as(target, folder), _scratch(folder, target, alone):
            yield folder
    finally:
        with contextlib.suppress(OSError):  # what came to nothing leaves no empty folders behind
            for place in made:
                place.rmdir()


_HERE: set[str] = set()  # folders that threads of this process are writing in
_HERE_LOCK = threading.Lock()


@contextmanager
def _scratch(folder: Path, target: Path, alone: bool) -> Iterator[None]:
    key = os.path.realpath(folder)
    with _HERE_LOCK:
        _sweep_scratch(folder.parent, target, alone)
        folder.mkdir()
        _HERE.add(key)
    try:
        _sign(folder, None)
        yield
    finally:
        with _HERE_LOCK:
            remove_all(folder, ignore_errors=True)
            _HERE.discard(key)


def _sweep_scratch(parent: Path, target: Path, alone: bool) -> None:
    """Remove what killed processes left of `target`. Raises OutputExists when somebody is making it alone."""
    for folder, _, alive in _partials(parent, f".{target.name}"):
        if alive and (alone or os.path.realpath(folder) in _HERE):
            what = f"process {folder.name.rpartition('-')[2]} is writing it at this moment"
            raise OutputExists(what, str(target), "wait until it has ended, or choose another name")
        if alive is False:
            replaced = folder / f"{target.name}-old"
            if os.path.lexists(replaced) and not os.path.lexists(target):
                os.rename(replaced, target)
            remove_all(folder, ignore_errors=True)


@contextmanager
def _named_as(target: Path, folder: Path) -> Iterator[None]:
    """Errors within the block are of `target`: nobody has asked for the folder."""
    try:
        yield
    except LabelgroveError as error:
        if error.where.startswith(str(folder)):
            error.where = str(target)
        raise
    except OSError as error:
        if isinstance(error.filename, str) and error.filename.startswith(str(folder)):
            error.filename = str(target)
        raise


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
    return ((folder, replaced) for folder, replaced, alive in _partials(parent, name) if alive is False)


def _partials(parent: Path, name: str) -> Iterator[tuple[Path, bool, bool | None]]:
    """Folders NAME.partial-PID: whether each is what a process was replacing (-old), and whether that process lives;
    None of those of other machines, of which nobody here knows."""
    pattern = re.compile(re.escape(name) + r"\.partial-(\d+)(-old)?")
    for folder in sorted(parent.iterdir()) if parent.is_dir() else []:
        match = pattern.fullmatch(folder.name)
        if match is None:
            continue
        host, began = _owner(folder)
        here = host in ("", socket.gethostname())
        alive = os.path.realpath(folder) in _HERE or _alive(int(match[1]), began)
        yield folder, match[2] is not None, alive if here else None


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
        return False  # it is none of _HERE, and one dataset is made at a time: it is of an earlier one with this number
    try:
        process = psutil.Process(pid)
        same = not began or abs(process.create_time() - began) < SAME_SECONDS
        return bool(same and process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False
    except psutil.Error:
        return True
