"""Files of numbers and nothing else, as numpy's tofile or memmap leave them: shape and type are stated."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from pipeline.dataset import Note
from pipeline.ingest.errors import DamagedInput
from pipeline.ingest.npy import changed, shard_order
from pipeline.ingest.source import DenseSource
from pipeline.ingest.stream import Job, check_matrix
from tasks.errors import ParamError, UsageError

SHAPE = '"1000x256" (rows x columns) or "x256" (as many rows as there are)'


def open_raw(paths: Sequence[Path], job: Job) -> DenseSource:
    """A source over raw files, row-major, one below the other, memory-mapped.

    Raises UsageError where shape or type is not stated, ParamError where it is none, DamagedInput where a file holds
    no whole number of rows, or another number than stated.
    """
    if job.raw_shape is None or job.raw_dtype is None:
        raise UsageError(_unstated(job), str(paths[0]), STATE)
    rows, columns = _shape(job.raw_shape)
    dtype = _dtype(job.raw_dtype)
    check_matrix((rows or 0, columns), dtype, str(paths[0]))
    row_bytes, parts, total = columns * dtype.itemsize, [], 0
    for path in paths:
        size = path.stat().st_size
        if size % row_bytes:
            what = f"{size:,} bytes are no whole number of rows of {columns} x {dtype} ({row_bytes:,} bytes)"
            raise DamagedInput(what, str(path), "check shape and type; was the file cut short?")
        shape = (size // row_bytes, columns)
        mapped = np.memmap(path, dtype, mode="r", shape=shape) if size else np.empty(shape, dtype)
        parts.append((path.name, mapped))
        total += shape[0]
    if rows is not None and total != rows:
        what = f"{total:,} rows of {columns} x {dtype} are there where {rows:,} are stated"
        raise DamagedInput(what, str(paths[0]), f'check shape and type; "x{columns}" takes as many as there are')
    name = paths[0].name if len(paths) == 1 else f"{paths[0].name} .. {paths[-1].name}"
    said = changed(parts[0][1])
    notes = [*shard_order(paths), *([Note("Converted", f"{name}: {said}")] if said else [])]
    return DenseSource(name, parts, notes)


def _unstated(job: Job) -> str:
    wanted = {"shape": job.raw_shape, "type": job.raw_dtype}
    missing = " and ".join(name for name, value in wanted.items() if value is None)
    return f"a file of numbers without a header does not say its {missing}"


STATE = "state both: --raw-shape x256 (256 columns, as many rows as there are) --raw-dtype float32"


def _shape(stated: str) -> tuple[int | None, int]:
    found = re.fullmatch(r"([0-9]{0,18})x([0-9]{1,12})", stated.strip().lower())
    if found is None or int(found[2]) < 1:
        raise ParamError("--raw-shape", stated, SHAPE, "the file does not say it")
    return (int(found[1]) if found[1] else None), int(found[2])


def _dtype(stated: str) -> np.dtype:
    try:
        return np.dtype(stated)
    except (TypeError, ValueError, SyntaxError):
        accepted = 'float32, float16, float64, int8 or the like; ">f4" for the other byte order'
        raise ParamError("--raw-dtype", stated, accepted, "the file does not say it") from None
