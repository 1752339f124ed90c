"""Matrices in .npy files: one, or many shards in name order; memory-mapped, never unpickled."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from pipeline.dataset import Note
from pipeline.ingest.errors import ColumnMismatch, FeatureShape
from pipeline.ingest.files import by_number
from pipeline.ingest.npy_file import open_array, write_array
from pipeline.ingest.source import SLAB_BYTES, DenseSource
from pipeline.ingest.stream import check_matrix
from tasks.files import beside, sync_path
from tasks.rows.base import Array

SHOWN_SHARDS = 3  # names in a message


def open_npy(paths: Sequence[Path], folder: Path) -> DenseSource:
    """A source over .npy files. Matrices in Fortran order are first copied row by row into the folder `folder`."""
    parts: list[tuple[str, Array]] = []
    notes = shard_order(paths)
    changes: dict[str, list[str]] = {}  # what is changed -> in which files
    empty: list[str] = []
    for i, path in enumerate(paths):
        matrix = open_array(path)
        check_matrix(matrix.shape, matrix.dtype, str(path))
        if parts and matrix.shape[1] != parts[0][1].shape[1]:
            what = f"{paths[0].name} has {parts[0][1].shape[1]} columns and {path.name} has {matrix.shape[1]}"
            raise ColumnMismatch(what, str(path), "all shards have the same columns")
        if not matrix.shape[0] and len(paths) > 1:
            empty.append(path.name)
            continue
        changes.setdefault(changed(matrix), []).append(path.name)
        if not matrix.flags.c_contiguous:
            matrix = _row_major(matrix, folder / f"rows-{i}.npy")
        parts.append((path.name, matrix))
    name = paths[0].name if len(paths) == 1 else f"{paths[0].name} .. {paths[-1].name}"
    if not parts:
        raise FeatureShape("no shard has any rows", name, "check how the shards were written")
    notes += [Note("Converted", f"{listed(names)}: {said}") for said, names in changes.items() if said]
    if empty:
        notes.append(Note("EmptyShard", f"{listed(empty)}: no rows, skipped"))
    return DenseSource(name, parts, notes)


def listed(names: Sequence[str]) -> str:
    """The first names of a list, and how many more there are."""
    more = f" and {len(names) - SHOWN_SHARDS} more" if len(names) > SHOWN_SHARDS else ""
    return ", ".join(names[:SHOWN_SHARDS]) + more


def shard_order(paths: Sequence[Path]) -> list[Note]:
    """A warning when shards are read by the numbers in their names, and a plain sort would order them otherwise."""
    plain = sorted(paths, key=str)
    if list(paths) == plain or list(paths) != sorted(paths, key=by_number):
        return []
    names = [path.name for path in paths[:SHOWN_SHARDS]]
    text = f"shards are read by the numbers in their names: {', '.join(names)} ...; labels go in the same order"
    return [Note("ShardOrder", text, "warning")]


def from_array(matrix: Array, name: str) -> DenseSource:
    """A source over an array in memory."""
    check_matrix(matrix.shape, matrix.dtype, name)
    said = changed(matrix)
    return DenseSource(name, [(name, matrix)], [Note("Converted", f"{name}: {said}")] if said else [])


def changed(matrix: Array) -> str:
    """What will be changed about a matrix when it is stored, said beforehand."""
    said = []
    if matrix.dtype.newbyteorder("=") not in (np.dtype(np.float32), np.dtype(np.float16)):
        said.append(f"{matrix.dtype.newbyteorder('=')} values are stored as float32")
    if not matrix.dtype.isnative:
        said.append("big-endian values are stored little-endian")
    if not matrix.flags.c_contiguous:
        said.append("Fortran order is stored row by row")
    return "; ".join(said)


def _row_major(matrix: Array, path: Path) -> Array:
    """A copy in C order on disk, made slab by slab: rows of a Fortran matrix lie all over its file.

    One that an attempt before this one has finished is taken as it is.
    """
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        for left in path.parent.glob(f".{path.name}.partial-*"):  # by an attempt that was killed
            left.unlink()
        spare = beside(path)
        write_array(spare, matrix, max(1024, SLAB_BYTES // (matrix.shape[1] * matrix.dtype.itemsize)))
        sync_path(str(spare))
        os.replace(spare, path)
    return open_array(path)
