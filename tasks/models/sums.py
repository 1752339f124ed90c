"""SHA256SUMS of a model folder: which files there are, that they are inside it, and that their bytes are as written."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path, PurePosixPath, PureWindowsPath

from tasks.models.errors import ModelDamaged, ModelMissing, UnsafePath
from tasks.models.tensors import refuse_unsafe_name

HEADER, WEIGHTS, CLASSES, CARD, SUMS = "model.json", "weights.safetensors", "classes.parquet", "README.md", "SHA256SUMS"
NEEDED = (HEADER, WEIGHTS, CLASSES)
MAX_SUMS_BYTES = 1 << 20
_LINE = re.compile(r"([0-9a-f]{64}) [ *](.+)")


def sha256_of(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def sums_text(folder: Path) -> str:
    """SHA256SUMS of every other file of a folder, names in order."""
    names = sorted(path.name for path in folder.iterdir() if path.name != SUMS)
    return "".join(f"{sha256_of(folder / name)}  {name}\n" for name in names)


def check_folder(folder: Path) -> None:
    """Raises UnsafeFormat, UnsafePath, ModelMissing or ModelDamaged unless all files are there and as written."""
    refuse_unsafe_name(folder.name, str(folder))
    if not folder.is_dir():
        kind = "a file, and a model is a folder" if folder.exists() else "not there"
        raise ModelMissing(f"the model is {kind}", str(folder), "give the folder that holds model.json")
    listed = listed_in(folder)
    for name in NEEDED:
        if name not in listed:
            raise ModelMissing(f"{SUMS} does not list {name}", str(folder / SUMS), "restore the folder")
    for name, expected in listed.items():
        _check_file(folder / name, expected)


def listed_in(folder: Path) -> dict[str, str]:
    """Name and sha256 of every file that SHA256SUMS lists. Raises UnsafePath, ModelMissing, ModelDamaged."""
    path = folder / SUMS
    _refuse_link(path)
    if not path.is_file():
        raise ModelMissing(f"there is no {SUMS}: this is no model folder", str(path), "give the folder of a model")
    if path.stat().st_size > MAX_SUMS_BYTES:
        raise ModelDamaged(f"{SUMS} is larger than {MAX_SUMS_BYTES:,} bytes", str(path), "restore the folder")
    listed = {}
    for line in path.read_text("utf-8", "replace").splitlines():
        found = _LINE.fullmatch(line)
        if found is None:
            raise ModelDamaged(f"{line[:80]!r} is no line of {SUMS}", str(path), "restore the folder")
        check_entry(found[2], str(path))
        listed[found[2]] = found[1]
    return listed


def check_entry(name: str, where: str) -> None:
    """Raises UnsafePath unless `name` is the plain name of an entry of its folder; UnsafeFormat for pickles."""
    posix, windows = PurePosixPath(name), PureWindowsPath(name)
    if name in ("", ".", "..") or "\0" in name or len(posix.parts) != 1 or len(windows.parts) != 1 or windows.anchor:
        raise UnsafePath(f"the entry name {name!r} leaves its folder", where, "do not use this model")
    refuse_unsafe_name(name, where)


def _refuse_link(path: Path) -> None:
    if path.is_symlink():
        raise UnsafePath("an entry of a model is a link", str(path), "copy the folder with its links followed")


def _check_file(path: Path, expected: str) -> None:
    _refuse_link(path)
    if not path.is_file():
        raise ModelMissing("a file of the model is missing", str(path), "restore the folder")
    actual = sha256_of(path)
    if actual != expected:
        what = f"the file is not what was written (sha256 {actual[:12]}..., {SUMS} says {expected[:12]}...)"
        raise ModelDamaged(what, str(path), "restore the folder from where it came, or train again")
