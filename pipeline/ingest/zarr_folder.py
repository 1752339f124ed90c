"""Rows in zarr arrays, format 2 or 3, of any chunking; or in a group as a sparse matrix.

The metadata is looked at before zarr opens an array: codecs that unpickle are refused, never tried.
"""

from __future__ import annotations

import json
import math
import re
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np
import zarr

from pipeline.dataset import FORMAT
from pipeline.ingest.containers import ARRAY, GROUP, Node
from pipeline.ingest.errors import DamagedInput, SourceMissing, UnknownInput, UnsafeFormat, readable
from pipeline.ingest.named_arrays import open_named
from pipeline.ingest.npy_file import declared_bytes
from pipeline.ingest.source import Source
from pipeline.ingest.stream import Job
from tasks.rows.base import Array

SMALL_CHUNK = 2**25  # bytes; several such chunks are decoded at a time
META = "zarr.json"  # of format 3; format 2 has others
MAX_META = 2**26  # bytes of metadata


def open_zarr(paths: Sequence[Path], job: Job) -> Source:
    """A source over zarr arrays, one below the other. Raises UnknownInput, UnsafeFormat, DamagedInput, ..."""
    for path in paths:
        with ZarrFolder(path) as folder:
            if folder.attrs("").get("format") == FORMAT and job.rows_at is None:
                raise UnknownInput("this is a dataset already", str(path), "give it to `run` or `predict` as it is")
    return open_named(paths, ZarrFolder, job)


class ZarrNode:
    """One zarr array."""

    def __init__(self, array: Any, folder: Path, where: str) -> None:
        self.array, self.folder, self.where = array, folder, where
        self.shape: tuple[int, ...] = tuple(array.shape)
        self.dtype: np.dtype = np.dtype(array.dtype)
        if min(array.chunks, default=1) < 1 or min(self.shape, default=0) < 0:
            raise DamagedInput(f"shape {self.shape} in chunks of {array.chunks}", where, "write the array again")
        self.chunk_rows = array.chunks[0] if array.chunks else 1
        self.chunk_bytes = declared_bytes(array.chunks, self.dtype)

    def read(self, start: int, stop: int) -> Array:
        with zarr.config.set({"async.concurrency": 4 if self.chunk_bytes <= SMALL_CHUNK else 1}):
            return np.asarray(self.array[start:stop])

    def absent(self) -> tuple[int, int]:
        """By the number of files: zarr would make a list of all chunks, of which there may be any number."""
        sizes = self.array.shards or self.array.chunks
        grid = [-(-n // size) for n, size in zip(self.shape, sizes, strict=True)]
        total = math.prod(grid)
        there = sum(1 for path in self.folder.rglob("*") if self._is_chunk(path, grid))
        return max(0, total - there), total

    def _is_chunk(self, path: Path, grid: Sequence[int]) -> bool:
        """Whether a file is one of the grid: others, and those of an earlier shape, lie beside them."""
        key = path.relative_to(self.folder).as_posix()
        place = tuple(int(word) for word in re.findall(r"[0-9]{1,18}", key))
        inside = len(place) == len(grid) and all(i < n for i, n in zip(place, grid, strict=True))
        return inside and key == self.array.metadata.encode_chunk_key(place) and path.is_file()


class ZarrFolder:
    """A zarr array or group in a folder."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __enter__(self) -> Self:
        if not self.kind(""):
            hint = f"the folder of a zarr array or group holds {META}, .zarray or .zgroup"
            raise SourceMissing("this is no zarr array and no zarr group", str(self.path), hint)
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def kind(self, name: str) -> str:
        folder = self.path / name
        if (folder / META).is_file():
            found = str(self._json(folder / META).get("node_type", ""))
            return found if found in (ARRAY, GROUP) else ""
        if (folder / ".zarray").is_file():
            return ARRAY
        return GROUP if (folder / ".zgroup").is_file() else ""

    def _json(self, path: Path) -> dict[str, Any]:
        with readable(str(path)):
            if path.stat().st_size > MAX_META:
                raise ValueError(f"{path.stat().st_size:,} bytes of metadata")
            found = json.loads(path.read_text(encoding="utf-8"))
            if not isinstance(found, dict):
                raise ValueError("no object")
        return found

    def children(self, name: str) -> list[str]:
        folder = self.path / name
        inner = [child for child in folder.iterdir() if child.is_dir()] if folder.is_dir() else []
        return sorted(child.name for child in inner if self.kind(f"{name}/{child.name}".lstrip("/")))

    def attrs(self, name: str) -> dict[str, Any]:
        folder = self.path / name
        if (folder / META).is_file():
            found = self._json(folder / META).get("attributes") or {}
        else:
            found = self._json(folder / ".zattrs") if (folder / ".zattrs").is_file() else {}
        return found if isinstance(found, dict) else {}

    def array(self, name: str) -> Node:
        folder, where = self.path / name, f"{self.path}, {name or '/'}"
        if self.kind(name) != ARRAY:
            raise UnknownInput("it is no array", where, "name an array")
        self._refuse_pickles(folder, where)
        with readable(where), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ZarrNode(zarr.open_array(str(folder), mode="r"), folder, where)

    def _refuse_pickles(self, folder: Path, where: str) -> None:
        meta = self._json(folder / META if (folder / META).is_file() else folder / ".zarray")
        parts = [meta.get(key) for key in ("codecs", "filters", "compressor", "data_type", "storage_transformers")]
        if "pickle" in json.dumps(parts).lower():
            hint = "save the values as numbers or as text"
            raise UnsafeFormat("its values are pickles, which can run code when they are read", where, hint)
