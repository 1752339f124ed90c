"""What an ingest was asked for, as one digest: an interrupted one is continued by the same request alone."""

from __future__ import annotations

import glob
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from pipeline.ingest.errors import SourceMissing
from pipeline.ingest.made_rows import MadeRows
from pipeline.ingest.npz import is_sparse
from pipeline.ingest.remote import is_url, shown, split_column, state_of
from tasks.digest import combine, digest_arrays, digest_text

VERSION = 2  # raise it when the same request comes to be read or written in another way
SOURCES = ("source", "test_source", "validation_source")
WITHOUT_EFFECT = {"dataset", "force", "progress", "copying", "say", "max_bytes"}  # on what is made


def request_of(asked: Mapping[str, Any]) -> str | None:
    """A digest of the arguments of `ingest`, and of path, size and time of change of every file that they name.

    None when it cannot be told whether the input is the same: rows in memory, or made by a function that says nothing
    about them, or at a URL whose store tells no version.
    Raises the errors of asking such a store.
    """
    if any(not _in_files(asked.get(name)) for name in SOURCES):
        return None
    try:
        parts = [f"{name}={_digest(asked[name])}" for name in sorted(asked) if name not in WITHOUT_EFFECT]
    except (TypeError, _Untold):  # a value that is no plain one
        return None
    return digest_text(str(VERSION), *parts)


class _Untold(Exception):
    """A store that tells no versions of its files."""


def _in_files(source: Any) -> bool:
    if source is None or isinstance(source, str | os.PathLike):
        return True
    if isinstance(source, MadeRows):
        return source.about is not None
    in_memory = isinstance(source, np.ndarray) or is_sparse(source)
    return not in_memory and isinstance(source, Sequence) and all(map(_in_files, source))


def _digest(value: Any) -> str:
    """Of an argument: a text with the files that it may name, content of anything else."""
    if is_url(value):
        return digest_text(_remote_state(value))
    if isinstance(value, str | os.PathLike):
        return digest_text(os.fspath(value), *(f"{path} {_state(path)}" for path in _files(os.fspath(value))))
    if isinstance(value, MadeRows):
        value = value.told()
    if isinstance(value, np.ndarray):
        return digest_arrays(value) if value.dtype.kind != "O" else _digest(value.tolist())
    if isinstance(value, list | tuple):
        paths = [item for item in value if isinstance(item, os.PathLike) or (isinstance(item, str) and _is_there(item))]
        words = [shown(item) if isinstance(item, str) else str(item) for item in value]
        return combine([digest_text(json.dumps(words)), *map(_digest, paths)])
    return digest_text(json.dumps(value, sort_keys=True))


def _remote_state(url: str) -> str:
    """As `state_of`; a URL of a side file may end in :COLUMN."""
    column = ""
    try:
        found = state_of(url)
    except SourceMissing:
        plain, _, column = split_column(url)
        if not column:
            raise
        found = state_of(plain)
    if found is None:
        raise _Untold
    return f"{found}\n{column}"


def _is_there(name: str) -> bool:
    """Whether a name in a list, which may be as long as there are rows, is one of a file; words seldom have a dot."""
    return is_url(name) or ("." in name and os.path.exists(name))


def _files(name: str) -> Iterator[str]:
    """All files that a source, or FILE:COLUMN, may stand for: itself, those in it, or those that fit the pattern."""
    found = [name] if os.path.exists(name) else sorted(glob.glob(name))
    before, colon, _ = name.rpartition(":")
    if not found and colon and os.path.exists(before):
        found = [before]
    for path in found:
        if not os.path.isdir(path):
            yield path
            continue
        for folder, below, names in os.walk(path):
            below.sort()
            yield from (os.path.join(folder, one) for one in sorted(names))


def _state(path: str) -> str:
    """Size and time of change; the folder counts as well, since the same command may be typed somewhere else."""
    try:
        found = os.stat(path)
    except OSError as error:
        return str(error.errno)
    return f"{os.path.abspath(path)} {found.st_size} {found.st_mtime_ns}"
