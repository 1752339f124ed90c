"""Where files are: in a folder of a disk, or in an object store at a URL; both by one set of verbs.

`at` turns a text into something with the verbs of `pathlib.Path`; tasks carry texts and make places of them. On a
disk a file is written beside its place, then renamed. **In an object store every object is put whole, and what is
there is judged by a mark (DONE.json, SHA256SUMS, attributes with a digest) that is put last**: there is nothing to
rename, and a writer that is killed leaves objects that nothing speaks of.
"""

from __future__ import annotations

import io
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, Literal, TypeGuard, cast

import numpy as np

from tasks.files import beside, disk_room, make_folder, remove_all, remove_file, replace_file, swap_in
from tasks.rows.base import Array
from tasks.spool import SPOOL
from tasks.urls import PER_PROCESS, UrlRefused, check_url, is_url
from tasks.versions import forget, told_of


def at(where: str | os.PathLike[str]) -> Path:
    """A `Path`, or what has its verbs at a URL (typed alike). Raises UrlRefused, PackageMissing."""
    if not is_url(where):
        return where if isinstance(where, Path) or is_remote(where) else Path(where)
    return _place_of(check_url(str(where)))


def _place_of(checked: str) -> Path:
    if not is_url(checked):
        return Path(checked)
    from tasks.remote_path import RemotePath

    return cast(Path, RemotePath.of(checked))


def is_remote(path: object) -> TypeGuard[Any]:
    """Whether a place, or the text of one, is at a URL."""
    return is_url(path) if isinstance(path, str) else hasattr(path, "files_below")


def refuse_per_process(*paths: Path) -> None:
    """Raises UrlRefused for places that other processes do not see."""
    for path in paths:
        if is_remote(path) and path.protocol in PER_PROCESS:
            hint = "--scheduler serial, or a store that workers see"
            raise UrlRefused(f"{path.protocol}:// is of one process alone", str(path), hint)


# ---- writing -----------------------------------------------------------------------------------------------------


@contextmanager
def whole_path(path: Path) -> Iterator[Path]:
    """A local path to write at; the file is at `path` after the block, whole or, when anything fails, not at all."""
    if not is_remote(path):
        spare = beside(path)
        try:
            yield spare
            replace_file(spare, path)
        finally:
            spare.unlink(missing_ok=True)
        return
    with tempfile.TemporaryDirectory(prefix="labelgrove-put-") as folder:
        local = Path(folder, path.name)
        yield local
        put_file(local, path)


@contextmanager
def whole_file(path: Path) -> Iterator[IO[bytes]]:
    """The same as a file that is open for writing and reading."""
    with whole_path(path) as local, open(local, "w+b") as file:
        yield file
        file.flush()


def write_whole(path: Path, data: bytes) -> None:
    """Write a file, whole or not at all; its folder is made. Raises DiskFull."""
    if is_remote(path):
        path.write_bytes(data)
        forget(str(path))
        return
    with disk_room(str(path), len(data)):
        path.parent.mkdir(parents=True, exist_ok=True)
        with whole_file(path) as file:
            file.write(data)


def put_file(local: Path, path: Path) -> None:
    """Put a local file at a place of either kind, whole."""
    if is_remote(path):
        path.put_file(str(local))
        forget(str(path))
        return
    with whole_path(path) as spare:
        shutil.copyfile(local, spare)


def put_folder(local: Path, folder: Path, last: str) -> None:
    """Put a local folder in place of what stood at `folder`; the file `last`, by which it is judged, goes last.

    On a disk by renaming; `local` is gone then. In an object store the old mark goes first, so that a reader finds the
    old folder, none, or the new one.
    """
    if not is_remote(folder):
        swap_in(str(local), str(folder))
        return
    old = set(folder.files_below())
    if last in old:
        (folder / last).unlink(missing_ok=True)
    names = sorted(found.relative_to(local).as_posix() for found in local.rglob("*") if found.is_file())
    for name in [*(name for name in names if name != last), last]:
        put_file(local / name, folder / name)
    for name in sorted(old - set(names)):
        (folder / name).unlink(missing_ok=True)


def copy_file(source: Path, target: Path) -> None:
    """Within one store by the store itself; otherwise through this machine."""
    if is_remote(source) and is_remote(target) and source.protocol == target.protocol:
        source.copy_to(target)
        forget(str(target))
    else:
        put_file(local_copy(source), target)


# ---- reading -----------------------------------------------------------------------------------------------------


def local_copy(path: Path) -> Path:
    """A local file with the content of a place: itself on a disk, otherwise fetched once per process and version."""
    return SPOOL.file(path) if is_remote(path) else path


def local_folder(folder: Path, mark: str) -> Path:
    """The same of a folder, by the version of its file `mark`. Raises FileNotFoundError when that is not there."""
    return SPOOL.folder(folder, mark) if is_remote(folder) else folder


def open_array(path: Path) -> Array:
    """A .npy file, memory-mapped. Raises OSError, ValueError."""
    return _loaded(local_copy(path), "r")


def read_array(path: Path) -> Array:
    """A .npy file, in memory. Raises OSError, ValueError."""
    source = io.BytesIO(path.read_bytes()) if is_remote(path) else path
    return _loaded(source)


def _loaded(source: Path | IO[bytes], mode: Literal["r"] | None = None) -> Array:
    try:
        loaded: Array = np.load(source, mode, allow_pickle=False)
    except (OSError, ValueError, MemoryError):
        raise
    except Exception as error:  # an empty file is an EOFError to numpy; a damaged header makes its parser raise others
        raise ValueError(f"{type(error).__name__}: {error}"[:200]) from error
    return loaded


@contextmanager
def reading(path: Path) -> Iterator[IO[bytes]]:
    """A file that is open for reading; of a store one request, and held in memory."""
    with io.BytesIO(path.read_bytes()) if is_remote(path) else open(path, "rb") as file:
        yield file


# ---- folders -----------------------------------------------------------------------------------------------------


def remove_folder(folder: Path) -> None:
    """Remove all below a place, and what stands at it; what cannot be removed stays. A link is not followed."""
    if is_remote(folder):
        folder.remove_below()
    else:
        remove_all(folder, ignore_errors=True)


def remove_at(path: Path) -> None:
    """Remove the file at a place, if there is one. Raises InTheWay for a folder that is not empty."""
    if is_remote(path):
        path.unlink(missing_ok=True)
    else:
        remove_file(path)


def make_own_folder(folder: Path) -> None:
    """A folder of ours, in place of a file or a link; in an object store there is nothing to make."""
    if not is_remote(folder):
        make_folder(folder)


def remove_files(folder: Path, pattern: str) -> None:
    """Remove the files right in a folder that a pattern names."""
    found = list(folder.glob(pattern))
    if is_remote(folder):
        folder.remove_all(found)
        return
    for path in found:
        path.unlink()


def told_below(folder: Path) -> dict[str, str]:
    """Versions of the objects below a place as its store tells them, by relative name; nothing of a disk's files."""
    return {name: told_of(info) for name, info in folder.files_below().items()} if is_remote(folder) else {}


def sizes_below(folder: Path) -> dict[str, int]:
    """Bytes of the files below a folder by relative name, in order; links to files count as files."""
    if is_remote(folder):
        return {name: int(info["size"]) for name, info in folder.files_below().items()}
    files = (path for path in sorted(folder.rglob("*")) if path.is_file())
    return {path.relative_to(folder).as_posix(): path.stat().st_size for path in files}
