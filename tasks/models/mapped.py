"""Tensors of a large file, memory-mapped, and given back when a pass over them is done.

Pages of a mapped file count as memory of the process that has touched them, so whoever goes through a large model
releases each part: what is read again comes from the file, or from the system's cache of it.
"""

from __future__ import annotations

import json
import mmap
from pathlib import Path
from typing import Any

import numpy as np

from tasks.rows.base import Array

DTYPES = {
    "F64": "<f8", "F32": "<f4", "F16": "<f2", "I64": "<i8", "I32": "<i4", "I16": "<i2", "I8": "<i1",
    "U64": "<u8", "U32": "<u4", "U16": "<u2", "U8": "|u1", "BOOL": "|b1",
}  # fmt: skip
CODES = {np.dtype(dtype): code for code, dtype in DTYPES.items()}
ALIGNED = 64  # bytes: where the numbers of a file that we write begin
MOST_HEADER_BYTES = 100 << 20


def read_mapped(path: Path) -> dict[str, Array]:
    """The tensors of a safetensors file, read-only views of one mapping. Raises ValueError when it is none."""
    size = path.stat().st_size
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        if length > min(size - 8, MOST_HEADER_BYTES):
            raise ValueError("its header is longer than the file")
        header = json.loads(file.read(length))
        if not isinstance(header, dict):
            raise ValueError("its header is no table")
        header.pop("__metadata__", None)
        mapping = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    return {name: _view(mapping, said, 8 + length, size) for name, said in header.items()}


def _view(mapping: mmap.mmap, said: Any, start: int, size: int) -> Array:
    try:
        dtype, shape = np.dtype(DTYPES[said["dtype"]]), tuple(int(n) for n in said["shape"])
        first, last = (start + int(place) for place in said["data_offsets"])
    except (KeyError, TypeError) as error:
        raise ValueError(f"its header is incomplete ({error})") from None
    count = int(np.prod(shape, dtype=object)) if shape else 1
    if not start <= first <= last <= size or min(shape, default=0) < 0 or count * dtype.itemsize != last - first:
        raise ValueError("sizes in its header do not add up")
    return np.frombuffer(mapping, dtype, count, first).reshape(shape)


def write_streamed(path: Path, tensors: dict[str, Array]) -> None:
    """A safetensors file of tensors in C order, little-endian, of which none is held a second time."""
    header: dict[str, Any] = {}
    end = 0
    for name, values in tensors.items():
        code = CODES[values.dtype.newbyteorder("<")]
        header[name] = {"dtype": code, "shape": list(values.shape), "data_offsets": [end, end + values.nbytes]}
        end += values.nbytes
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-(8 + len(text)) % ALIGNED)
    with path.open("wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for values in tensors.values():
            file.write(values.reshape(-1).view(np.uint8).data)
            release(values)


def release(array: Array) -> None:
    """Forget the pages of a mapped file that this process has touched through `array`; of other arrays nothing."""
    owner: Any = array
    while isinstance(owner, np.ndarray):
        owner = owner.base
    if isinstance(owner, memoryview):
        owner = owner.obj
    if isinstance(owner, mmap.mmap) and hasattr(mmap, "MADV_DONTNEED"):
        owner.madvise(mmap.MADV_DONTNEED)
