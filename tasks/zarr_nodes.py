"""Zarr arrays and groups as this project has them: opened once per process, every chunk whole and with a crc32c."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import numcodecs.blosc
import numpy as np
import zarr
from zarr.codecs import BloscCodec, Crc32cCodec

from tasks.cache import ByteCache
from tasks.errors import ParamError
from tasks.files import disk_room, version_of
from tasks.stores import StoreMetadata

MAX_CHUNK_BYTES = 2**31 - 2**16  # blosc refuses larger buffers
OPEN_BYTES = 4096  # opened arrays and groups kept, each counted as one byte
_OPEN = ByteCache(OPEN_BYTES)


def configure_worker() -> None:
    """Zarr and blosc as they should be where each process runs one task at a time."""
    zarr.config.set({"async.concurrency": 4, "threading.max_workers": 2})
    numcodecs.blosc.use_threads = False


def open_node(path: str) -> Any:
    """The zarr array or group at `path`, opened once per process while its zarr.json stays the same."""
    try:
        version = version_of(os.path.join(path, "zarr.json"))
        return _OPEN.fetch(path, version, lambda: _opened(path), lambda _: 1)
    except (FileNotFoundError, NotADirectoryError):
        raise StoreMetadata("there is no store of rows or labels", path, "was the step that makes it run?") from None
    except OSError:
        raise
    except Exception as error:
        raise StoreMetadata(f"its metadata cannot be read ({error})", path, "make it again") from error


def _opened(path: str) -> Any:
    node = zarr.open(path, mode="r+", zarr_format=3)
    if not isinstance(node, zarr.Array):
        return node
    if min(node.chunks) < 1:
        raise ValueError(f"chunks of shape {node.chunks}")
    return node.with_config({"write_empty_chunks": True})


def read_attrs(path: str) -> dict[str, Any]:
    """The attributes of the array or group at `path`."""
    return dict(open_node(path).attrs)


def write_attrs(path: str, attrs: dict[str, Any]) -> None:
    """Put `attrs` (plain JSON values) beside those that the array or group at `path` has."""
    open_node(path).attrs.update(attrs)


def is_array(node: Any) -> bool:
    """Whether what was opened is an array, and no group."""
    return isinstance(node, zarr.Array)


def create_group(path: str, attrs: dict[str, Any]) -> None:
    """An empty group in place of whatever stood at `path`."""
    with disk_room(path, 0):
        zarr.open_group(path, mode="w", zarr_format=3, attributes=attrs)


def ensure_group(path: str) -> None:
    """A group at `path`, an empty one unless it is there; files and folders that stand there stay."""
    with disk_room(path, 0):
        zarr.open_group(path, mode="a", zarr_format=3)


def check_block_rows(block_rows: int) -> None:
    if block_rows < 1:
        raise ParamError("block_rows", block_rows, "at least 1", "a block is a run of rows")


def create_array(path: str, shape: Sequence[int], chunks: Sequence[int], dtype: str, *, packed: bool) -> Any:
    check_block_rows(chunks[0])
    nbytes = int(np.prod(chunks, dtype=object)) * np.dtype(dtype).itemsize
    if nbytes > MAX_CHUNK_BYTES:
        raise ParamError("block_rows", chunks[0], f"blocks of at most {MAX_CHUNK_BYTES:,} bytes", "a block is a chunk")
    blosc = (BloscCodec(cname="lz4", clevel=5, shuffle="shuffle", typesize=np.dtype(dtype).itemsize),)
    with disk_room(path, 0):
        return zarr.create_array(
            store=path,
            shape=tuple(shape),
            chunks=tuple(chunks),
            dtype=dtype,
            compressors=((*blosc, Crc32cCodec()) if packed else (Crc32cCodec(),)),
            fill_value=0,
            overwrite=True,
            zarr_format=3,
            config={"write_empty_chunks": True},
        )
