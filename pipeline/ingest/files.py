"""Which files a source names, and whether they may be opened at all."""

from __future__ import annotations

import csv
import glob
import io
import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TypeVar

from pipeline.ingest.errors import DamagedInput, SourceMissing, UnknownInput, UnsafeFormat

UNSAFE = {".pkl", ".pickle", ".joblib", ".pt", ".pth", ".ckpt", ".dill", ".cloudpickle", ".sav"}
FORMATS = {
    ".npy": "npy",
    ".npz": "npz",
    ".svm": "svmlight",
    ".svmlight": "svmlight",
    ".libsvm": "svmlight",
    ".parquet": "parquet",
    ".pq": "parquet",
    ".h5": "hdf5",
    ".hdf5": "hdf5",
    ".h5ad": "anndata",
    ".zarr": "zarr",
    ".tar": "webdataset",
    ".tgz": "webdataset",
    ".raw": "raw",
    ".bin": "raw",
    ".dat": "raw",
}
SHARDS = {  # endings of which a folder may hold many files -> what they are called
    ".npy": ".npy",
    ".parquet": ".parquet",
    ".pq": ".parquet",
    ".tar": ".tar",
    ".tar.gz": ".tar",
    ".tgz": ".tar",
}
FOLDERS = frozenset(("zarr", "anndata", "images"))  # formats that a folder may be
IMAGES = frozenset(
    (".jpg", ".jpeg", ".png", ".bmp", ".webp", ".tif", ".tiff", ".ppm", ".pgm", ".pnm", ".gif", ".jp2", ".avif")
)
ZARR_FILES = ("zarr.json", ".zarray", ".zgroup")
PICKLE_STARTS = tuple(b"\x80" + bytes([protocol]) for protocol in range(2, 6))
GZIP_START = b"\x1f\x8b"

PathLike = str | os.PathLike[str]
T = TypeVar("T", bound=Sequence[str])


def expand(source: PathLike | Sequence[PathLike]) -> list[Path]:
    """The files of a source: a path, a list, a pattern such as shards/*.npy, or a folder of .npy, .parquet or .tar.

    In the order of their names, numbers by their value: rows-2 before rows-10. A list keeps its own order. A folder
    that is one thing, such as a zarr array, stays one path. Raises SourceMissing, UnknownInput.
    """
    if not isinstance(source, str | os.PathLike):
        return [path for item in source for path in expand(item)]
    path = Path(source)
    if path.is_dir():
        return [path] if folder_format(path) else _shards(path)
    if path.exists():
        return [path]
    names = glob.glob(os.fspath(source))
    if not names and path.parent.is_dir():  # the folder's own name may have brackets in it
        names = glob.glob(os.path.join(glob.escape(os.fspath(path.parent)), path.name))
    found = sorted(map(Path, names), key=by_number)
    if not found:
        raise SourceMissing("there is no such file", os.fspath(source), "check the path; relative paths start here")
    return found


def folder_format(folder: Path) -> str | None:
    """The format of a folder that is one thing; None when it holds files that are read one by one.

    Here stands every format that is a folder.
    """
    if any((folder / name).is_file() for name in ZARR_FILES):
        return "zarr"
    if not any(_shard_kind(file) for file in folder.iterdir()) and holds_image(folder):
        return "images"
    return None


def files_below(root: Path) -> Iterator[str]:
    """Paths within a folder of the files in it and in its sub-folders, which may be links; hidden ones do not count."""
    seen: set[tuple[int, int]] = set()
    for folder, names, files in os.walk(root, followlinks=True):
        state = os.stat(folder)
        if (state.st_dev, state.st_ino) in seen:  # a link that leads back, or to a folder that was there already
            names[:] = []
            continue
        seen.add((state.st_dev, state.st_ino))
        names[:] = sorted(name for name in names if not name.startswith("."))
        for file in sorted(files):
            if not file.startswith("."):
                yield os.path.relpath(os.path.join(folder, file), root)


def is_image(path: str) -> bool:
    """By the ending of its name."""
    return os.path.splitext(path)[1].lower() in IMAGES


def holds_image(folder: Path) -> bool:
    """Whether there is one: looks no further than the first."""
    return any(is_image(path) for path in files_below(folder))


def _shards(folder: Path) -> list[Path]:
    """The files of a folder, which must be of one kind."""
    found: dict[str, list[Path]] = {}
    for path in sorted(folder.iterdir(), key=by_number):
        if kind := _shard_kind(path):
            found.setdefault(kind, []).append(path)
    kinds = sorted(found)
    if len(kinds) > 1:
        what = f"the folder holds files of several formats: {', '.join(kinds)}"
        raise UnknownInput(what, str(folder), f"name those that are meant: {folder}/*{kinds[0]}")
    if not kinds:
        known = ", ".join(dict.fromkeys(SHARDS.values()))
        what = f"the folder holds no {known} files and no images"
        raise SourceMissing(what, str(folder), "name the files, or a pattern")
    return found[kinds[0]]


def _shard_kind(path: Path) -> str:
    """What a file of a folder is called; "" for no shard. As Spark and others write them, names that begin with a dot
    or a low line are no data."""
    name = path.name.lower()
    if name.startswith((".", "_")):
        return ""
    return next((kind for ending, kind in SHARDS.items() if name.endswith(ending)), "")


def shards_below(source: PathLike | Sequence[PathLike]) -> list[str]:
    """Sub-folders with shards that are not read, of a source that is a folder of shards."""
    if not isinstance(source, str | os.PathLike) or not Path(source).is_dir() or folder_format(Path(source)):
        return []
    found = [Path(path) for path in files_below(Path(source))]
    return sorted({path.parts[0] for path in found if len(path.parts) > 1 and _shard_kind(path)})


def stamp(path: Path) -> list[str | int]:
    """Name, bytes and time of change of a file, or of all files of a folder together: what tells its content."""
    if not path.is_dir():
        facts = path.stat()
        return [path.name, facts.st_size, facts.st_mtime_ns]
    files = [file.stat() for file in path.rglob("*") if file.is_file()]
    newest = max((file.st_mtime_ns for file in files), default=0)
    return [path.name, len(files), sum(file.st_size for file in files), newest]


def by_number(path: Path) -> tuple[list[str | int], str]:
    """A key that sorts rows-2 before rows-10."""
    name = os.fspath(path)
    words: list[str | int] = [int(part) if i % 2 else part for i, part in enumerate(re.split(r"([0-9]+)", name))]
    return words, name


def format_of(paths: Sequence[Path], fmt: str | None) -> str:
    """The format of files, as stated or by the ending of their names; refuses what would run code."""
    for path in paths:
        if not path.is_dir():
            refuse_unsafe(path)
    if fmt is not None:
        if fmt not in known_formats():
            known = ", ".join(sorted(known_formats()))
            raise UnknownInput(f"no reader is called {fmt!r}", str(paths[0]), f"known formats: {known}")
        return _no_folders(paths, fmt)
    formats = {_by_ending(path) for path in paths}
    if len(formats) > 1:
        raise UnknownInput(f"files of several formats: {', '.join(sorted(formats))}", str(paths[0]), "give one format")
    return _no_folders(paths, formats.pop())


def _no_folders(paths: Sequence[Path], fmt: str) -> str:
    folder = next((path for path in paths if path.is_dir()), None)
    if folder is not None and fmt not in FOLDERS:
        raise UnknownInput(f"this is a folder, which is no {fmt} file", str(folder), "name the files that are meant")
    return fmt


def known_formats() -> set[str]:
    """What --format takes."""
    return {*FORMATS.values(), "images"}


def _by_ending(path: Path) -> str:
    whole = folder_format(path) if path.is_dir() else None
    if whole:
        return whole
    ending = path.suffixes[-2] if path.suffix == ".gz" and len(path.suffixes) > 1 else path.suffix
    if ending.lower() in IMAGES:
        return "images"
    if ending.lower() not in FORMATS:
        known = " ".join(FORMATS)
        names = ", ".join(dict.fromkeys(FORMATS.values()))
        hint = f"endings that say the format: {known}; for any other name, state it (--format {names})"
        raise UnknownInput(f"the ending {path.suffix!r} does not say what it is", str(path), hint)
    return FORMATS[ending.lower()]


def refuse_unsafe(path: Path) -> None:
    """Raise UnsafeFormat for pickle and its kin, by name and by the first bytes."""
    hint = "save the values with numpy.save (arrays of numbers), scipy.sparse.save_npz, or as Parquet"
    if path.suffix.lower() in UNSAFE:
        raise UnsafeFormat(f"{path.suffix} files can run code when they are read", str(path), hint)
    if first_bytes(path, 2).startswith(PICKLE_STARTS):
        raise UnsafeFormat("this is a pickle, which can run code when it is read", str(path), hint)


def first_bytes(path: Path, count: int) -> bytes:
    if path.exists() and not path.is_file():  # opening a pipe would wait for ever
        raise SourceMissing("it is no regular file", str(path), "write it to a file first: it is read more than once")
    try:
        with open(path, "rb") as file:
            return file.read(count)
    except OSError as error:
        raise SourceMissing(f"it cannot be read ({error.strerror})", str(path), "check the path") from error


def read_text(path: PathLike) -> str:
    """A text file in UTF-8, with or without a byte order mark; DamagedInput names the byte that is not."""
    refuse_unsafe(Path(path))
    with open(path, "rb") as file:
        data = file.read()
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        raise DamagedInput("this is no UTF-8 text", f"{path}, line {line}", "save it as UTF-8") from error


def text_lines(path: PathLike) -> list[str]:
    """Lines of a text file, ended by LF or CR LF (other separators may be part of a name); by CR where no LF is."""
    text = read_text(path)
    lines = [line.removesuffix("\r") for line in text.split("\n" if "\n" in text else "\r")]
    return lines[:-1] if lines and not lines[-1] else lines


def table_rows(path: PathLike) -> list[list[str]]:
    """Fields of the lines of a .csv file, or of a text with tabs between; an empty line of a .csv has none."""
    if Path(path).suffix.lower() == ".csv":
        try:
            return list(csv.reader(io.StringIO(read_text(path), newline="")))
        except csv.Error as error:
            raise DamagedInput(f"this is no .csv file ({error})", str(path), "save it as .tsv or .txt") from error
    return [line.split("\t") for line in text_lines(path)]


def without_blank_end(lines: list[T], keep: int = 0) -> list[T]:
    """Lines (or their fields) without the blank ones at the end; the first `keep` of them stay whatever they are."""
    stop = len(lines)
    while stop > keep and not "".join(lines[stop - 1]).strip():
        stop -= 1
    return lines[:stop]
