"""Chunks that are their numbers and a crc32c, nothing else, read from a disk: a file, a sum and a view of it.

Zarr reads the same in twice the time, in a loop and threads of its own, which large rows notice: a tree goes over them
many times. What is compressed, or in an object store, zarr reads.
"""

from __future__ import annotations

import os
import sys
from typing import Any

import numpy as np

from tasks.later import later
from tasks.rows.base import Array
from tasks.urls import is_url

crc32c = later("google_crc32c")  # what zarr sums up with

SUM_BYTES = 4  # of the crc32c behind the numbers, little-endian


def is_plain(path: str, array: Any) -> bool:
    """Whether chunks of the array at `path` can be read by `read_plain`: whole rows on a disk, as `create_array` of
    `tasks.zarr_nodes` makes them without packing."""
    if is_url(path) or sys.byteorder != "little" or not array.size:  # an empty array has no chunk
        return False
    found = [codec.to_dict() for codec in array.metadata.codecs]  # as they stand in zarr.json
    if [codec["name"] for codec in found] != ["bytes", "crc32c"]:
        return False
    little = found[0].get("configuration", {}).get("endian", "little") == "little" and array.dtype.byteorder in "<=|"
    return bool(little and array.chunks[1:] == array.shape[1:])


def read_plain(path: str, key: str, array: Any, start: int, stop: int) -> Array:
    """Rows start..stop of an array, all of them in the chunk `key`: a view of the chunk, where it is most of it.

    Raises OSError, and ValueError where the file has not the size of a chunk or another sum.
    """
    n_bytes = int(np.prod(array.chunks)) * array.dtype.itemsize
    chunk = np.fromfile(os.path.join(path, key), np.uint8, n_bytes + SUM_BYTES + 1)
    if chunk.size != n_bytes + SUM_BYTES:
        raise ValueError(f"{chunk.size:,} bytes, or more, where {n_bytes + SUM_BYTES:,} were written")
    chunk.setflags(write=False)  # it takes no other
    if crc32c.value(chunk[:n_bytes]) != int.from_bytes(chunk[n_bytes:].tobytes(), "little"):
        raise ValueError("its checksum is another")
    chunk.setflags(write=True)
    first = start // array.chunks[0] * array.chunks[0]
    rows: Array = chunk[:n_bytes].view(array.dtype).reshape(array.chunks)[start - first : stop - first]
    return rows if 2 * rows.nbytes >= n_bytes else rows.copy()  # a cache counts what it is given
