"""Whether every worker sees the files that this process sees, and may write where they are to write."""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from pipeline.store import bytes_digest
from tasks.errors import LabelgroveError, UsageError
from tasks.places import at, is_remote, write_whole

AskWorkers = Callable[..., Mapping[str, Any]]  # (function, *values) -> address: its result there, or the exception
MOUNT = "mount the same folder at the same path on every worker and here, or use a URL that all can reach"
OWNER = "start workers and drivers as the same user, or let both write there"


class PathNotShared(UsageError):
    """A file of the run is not there, or is another one, on a worker: dataset and run folder must be seen by all."""


def check_shared(ask: AskWorkers, folder: Path, files: Mapping[str, Path]) -> None:
    """Every worker must read the same bytes as this process, also of a file that is written now, and write beside it.

    ask     puts a question to all workers of now, since any of them may get any task
    folder  within the run's, where nothing else lies under such names; it is left as it was found
    files   what they must see beside it: what it is -> path

    Raises PathNotShared, and the errors of a folder that this process cannot write.
    """
    made = _missing_folders(folder)
    probe = folder / f"seen-{uuid.uuid4().hex[:8]}"
    try:
        write_whole(probe, probe.name.encode())
        what_of = {str(path): what for what, path in files.items()} | {str(probe): "the run folder"}
        digests = {str(path): bytes_digest(path.read_bytes()) for path in (*files.values(), probe)}
        _raise_wrong(ask, ask(unseen, digests), what_of, MOUNT)
        _raise_wrong(ask, ask(unwritten, str(folder)), {str(folder): "the run folder"}, OWNER)
    finally:
        with contextlib.suppress(OSError):
            probe.unlink(missing_ok=True)
            for place in made:
                place.rmdir()


def unseen(files: dict[str, str]) -> dict[str, str]:
    """Run on a worker: path -> what is wrong, of files that are not there as the driver has them (path -> digest)."""
    wrong = {}
    for path, digest in files.items():
        try:
            if bytes_digest(at(path).read_bytes()) != digest:
                wrong[path] = "has another content there"
        except (OSError, LabelgroveError) as error:
            wrong[path] = f"cannot be read there ({_why(error)})"
    return wrong


def unwritten(folder: str) -> dict[str, str]:
    """Run on a worker: the folder -> what is wrong, when no file can be written and removed there."""
    probe = at(folder) / f"written-{uuid.uuid4().hex[:8]}"
    try:
        write_whole(probe, b"seen")
        probe.unlink()
    except (OSError, LabelgroveError) as error:
        return {folder: f"cannot be written there ({_why(error)})"}
    return {}


def _why(error: Exception) -> str:
    return str(getattr(error, "strerror", None) or getattr(error, "what", "") or type(error).__name__)


def _raise_wrong(ask: AskWorkers, answers: Mapping[str, Any], what_of: Mapping[str, str], hint: str) -> None:
    for address, wrong in sorted(answers.items()):
        if isinstance(wrong, OSError):
            continue  # it has gone meanwhile
        if isinstance(wrong, BaseException):
            worker = _called(ask, address)
            raise PathNotShared(f"{worker} cannot look: {wrong}", worker, "is labelgrove installed there?")
        for path, why in wrong.items():
            raise PathNotShared(f"{what_of[path]}, {path}, {why}", _called(ask, address), hint)


def _called(ask: AskWorkers, address: str) -> str:
    """A worker as its owner knows it: by the name that it was started with, and by its address."""
    named = ""
    with contextlib.suppress(OSError, LabelgroveError):  # nobody answers any more
        named = ask(_namer()).get(address, "")
    known = isinstance(named, str) and named not in ("", address)
    return f"worker {named}, {address}" if known else f"worker {address}"


def _namer() -> Callable[..., str]:
    """Travels by value, since it is also asked where our packages are not."""

    def name(dask_worker: Any = None) -> str:
        return str(getattr(dask_worker, "name", ""))

    return name


def _missing_folders(folder: Path) -> list[Path]:
    """Which folders down to this one are not there yet, the innermost first."""
    return [] if is_remote(folder) else [place for place in (folder, *folder.parents) if not place.exists()]
