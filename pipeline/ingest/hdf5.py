"""Rows in HDF5 files: a matrix of any chunking, or a sparse matrix as a group of data, indices and indptr."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

import h5py
import numpy as np

from pipeline.dataset import Note
from pipeline.ingest.containers import ARRAY, GROUP, Node
from pipeline.ingest.errors import UnknownInput, readable
from pipeline.ingest.named_arrays import open_named
from pipeline.ingest.npy_file import declared_bytes
from pipeline.ingest.source import DenseSource, Source
from pipeline.ingest.stream import Job, check_matrix, converted
from tasks.rows.base import Array

ELSEWHERE = "copy it into one file of its own (h5repack, or h5py)"


def open_hdf5(paths: Sequence[Path], job: Job) -> Source:
    """A source over HDF5 files, one below the other. Raises UnknownInput, DamagedInput, DeclaredTooLarge."""
    return open_named(paths, H5File, job, mapped)


class H5Node:
    """One dataset of an HDF5 file."""

    def __init__(self, dataset: Any, where: str) -> None:
        self.dataset, self.where = dataset, where
        self.shape: tuple[int, ...] = dataset.shape or ()
        text = h5py.check_string_dtype(dataset.dtype) is not None
        self.dtype: np.dtype = np.dtype(object) if text else dataset.dtype
        chunks = dataset.chunks
        self.chunk_rows = chunks[0] if chunks else 1
        self.chunk_bytes = declared_bytes(chunks, dataset.dtype) if chunks else 0

    def read(self, start: int, stop: int) -> Array:
        values: Array = self.dataset[start:stop]
        return values

    def absent(self) -> tuple[int, int]:
        with readable(self.where):
            if not self.dataset.chunks:  # one piece, which stands in the file when something was written
                return int(bool(self.dataset.size) and not self.dataset.id.get_storage_size()), 1
            total = math.prod(-(-n // size) for n, size in zip(self.shape, self.dataset.chunks, strict=True))
            return max(0, total - int(self.dataset.id.get_num_chunks())), total


class H5File:
    """An open HDF5 file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __enter__(self) -> Self:
        with readable(str(self.path)):
            self.file = h5py.File(self.path, "r")
        return self

    def __exit__(self, *_: object) -> None:
        self.file.close()

    def kind(self, name: str) -> str:
        with readable(f"{self.path}, {name}"):
            if name and not self._own(name):
                return ""
            kind = h5py.Group if not name else self.file.get(name, getclass=True)
        return {h5py.Group: GROUP, h5py.Dataset: ARRAY}.get(kind, "")

    def _own(self, name: str) -> bool:
        """Whether every step of a path is a link within this file, to something that is there."""
        group, words = self.file, name.split("/")
        for depth, word in enumerate(words):
            link = group.get(word, getlink=True)
            if isinstance(link, h5py.ExternalLink):
                raise UnknownInput(f"{word!r} is a link to another file", f"{self.path}, {name}", ELSEWHERE)
            found = group.get(word)
            if found is None:
                return False
            if depth < len(words) - 1 and not isinstance(found, h5py.Group):
                return False
            group = found
        return True

    def children(self, name: str) -> list[str]:
        with readable(f"{self.path}, {name}"):
            group = self.file[name] if name else self.file
            links = {word: group.get(word, getlink=True) for word in group}
            return sorted(word for word, link in links.items() if not isinstance(link, h5py.ExternalLink))

    def attrs(self, name: str) -> dict[str, Any]:
        with readable(f"{self.path}, {name}"):
            return dict((self.file[name] if name else self.file).attrs)

    def array(self, name: str) -> Node:
        where = f"{self.path}, {name or '/'}"
        with readable(where):
            dataset = self.file[name]
            if not isinstance(dataset, h5py.Dataset):
                raise UnknownInput("it is a group, and an array is expected", where, "name an array in it")
            if dataset.is_virtual or dataset.external or dataset.file.filename != self.file.filename:
                raise UnknownInput("its values stand in other files", where, ELSEWHERE)
            for number in range(dataset.id.get_create_plist().get_nfilters()):
                code, _, _, title = dataset.id.get_create_plist().get_filter(number)
                if not h5py.h5z.filter_avail(code):
                    what = f"it is packed by filter {code} ({title.decode('utf-8', 'replace')}), which is not installed"
                    raise UnknownInput(what, where, "write it again with gzip or without compression (h5repack)")
            return H5Node(dataset, where)


def mapped(container: Any, name: str) -> Source | None:
    """Rows as they lie in the file, memory-mapped; None where they are in chunks or packed."""
    node = container.array(name)
    offset = node.dataset.id.get_offset()
    if node.dataset.chunks or offset is None or not node.shape or not node.shape[0]:
        return None
    check_matrix(node.shape, node.dtype, node.where)
    if node.dataset.id.get_type() != h5py.h5t.py_create(node.dtype):
        return None  # integers of fewer bits, floats of another layout: HDF5 converts them
    needed = declared_bytes(node.shape, node.dtype)
    if offset + needed > container.path.stat().st_size:
        return None  # reading it in order says what is wrong
    matrix = np.memmap(container.path, node.dtype, mode="r", offset=offset, shape=node.shape)
    if not _alike(node.read(0, 1), matrix[:1]) or not _alike(node.read(node.shape[0] - 1, node.shape[0]), matrix[-1:]):
        return None
    notes: list[Note] = converted(container.path.name, node.dtype.newbyteorder("="))
    return DenseSource(container.path.name, [(container.path.name, matrix)], notes)


def _alike(read: Array, seen: Array) -> bool:
    return bool(read.tobytes() == np.ascontiguousarray(seen, read.dtype).tobytes())
