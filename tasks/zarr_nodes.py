"""Zarr arrays and groups as this project has them: opened once per process, every chunk whole and with a crc32c.

On a disk or in an object store at a URL. There an array is written chunk by chunk, each one object; a group of arrays
that belong together is made in memory and put object by object, what it is judged by last (`put_group`).
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Sequence
from importlib import import_module
from typing import Any

import numpy as np

from tasks.cache import ByteCache
from tasks.errors import LabelgroveError, ParamError, is_starved
from tasks.files import disk_room
from tasks.held import HeldArray, HeldGroup, HeldRows, held_node, is_held, new_array, put_node
from tasks.later import later
from tasks.stores import StoreMetadata
from tasks.urls import check_url, is_url, named
from tasks.versions import forget, version_of

zarr, codecs, storage = later("zarr"), later("zarr.codecs"), later("zarr.storage")

MAX_CHUNK_BYTES = 2**31 - 2**16  # blosc refuses larger buffers
OPEN_BYTES = 4096  # opened arrays and groups kept, each counted as one byte
_OPEN = ByteCache(OPEN_BYTES)


def configure_worker() -> None:
    """Zarr and blosc as they should be where each process runs one task at a time."""
    zarr.config.set({"async.concurrency": 4, "threading.max_workers": 2})
    blosc: Any = import_module("numcodecs.blosc")
    blosc.use_threads = False


def store_at(path: str, *, read_only: bool = False) -> Any:
    """What zarr takes for a place: its path, or a store of objects. Raises UrlRefused, PackageMissing."""
    if not is_url(path):
        return path
    from tasks.remote_path import opened, options_of

    url = check_url(path)
    if not is_url(url):
        return url
    opened(url)  # names what is wrong with its protocol
    protocol = url.split("://")[0]
    with named(url):
        return storage.FsspecStore.from_url(url, storage_options=options_of(protocol), read_only=read_only)


@contextlib.contextmanager
def named_store(path: str) -> Iterator[None]:
    """At a URL: whatever the store answers becomes a named error."""
    if not is_url(path):
        yield
        return
    with named(path):
        yield


def open_node(path: str) -> Any:
    """The array or group at `path`: one of this process, or of zarr, opened once while its zarr.json is the same."""
    held = held_node(path)
    if held is not None:
        return held
    try:
        version = version_of(os.path.join(path, "zarr.json"))
        return _OPEN.fetch(path, version, lambda: _opened(path), lambda _: 1)
    except (FileNotFoundError, NotADirectoryError):
        raise StoreMetadata("there is no store of rows or labels", path, "was the step that makes it run?") from None
    except (OSError, LabelgroveError):
        raise
    except Exception as error:
        if is_starved(error):
            raise
        raise StoreMetadata(f"its metadata cannot be read ({error})", path, "make it again") from error


def _opened(path: str) -> Any:
    with named_store(path):
        node = zarr.open(store_at(path), mode="r+", zarr_format=3)
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
    with named_store(path):
        open_node(path).attrs.update(attrs)
    forget(os.path.join(path, "zarr.json"))


def is_array(node: Any) -> bool:
    """Whether what was opened is an array, and no group."""
    if isinstance(node, HeldArray | HeldGroup | HeldRows):
        return isinstance(node, HeldArray)
    return isinstance(node, zarr.Array)


def create_group(path: str, attrs: dict[str, Any]) -> None:
    """An empty group in place of whatever stood at `path`."""
    if is_held(path):
        put_node(path, HeldGroup(dict(attrs)))
        return
    with disk_room(path, 0), named_store(path):
        zarr.open_group(store_at(path), mode="w", zarr_format=3, attributes=attrs)
    forget(os.path.join(path, "zarr.json"))


def ensure_group(path: str) -> None:
    """A group at `path`, an empty one unless it is there; files and folders that stand there stay."""
    if is_held(path):
        if held_node(path) is None:
            put_node(path, HeldGroup({}))
        return
    with disk_room(path, 0), named_store(path):
        zarr.open_group(store_at(path), mode="a", zarr_format=3)
    forget(os.path.join(path, "zarr.json"))


def check_block_rows(block_rows: int) -> None:
    if block_rows < 1:
        raise ParamError("block_rows", block_rows, "at least 1", "a block is a run of rows")


def create_array(path: str, shape: Sequence[int], chunks: Sequence[int], dtype: str, *, packed: bool) -> Any:
    """An empty array in place of whatever stood at `path`. Raises ParamError."""
    check_block_rows(chunks[0])
    nbytes = int(np.prod(chunks, dtype=object)) * np.dtype(dtype).itemsize
    if nbytes > MAX_CHUNK_BYTES:
        raise ParamError("block_rows", chunks[0], f"blocks of at most {MAX_CHUNK_BYTES:,} bytes", "a block is a chunk")
    if is_held(path):
        return put_node(path, new_array(shape, chunks, dtype))
    with disk_room(path, 0), named_store(path):
        array = _create(store_at(path), shape, chunks, dtype, packed)
    forget(os.path.join(path, "zarr.json"))
    return array


def _create(store: Any, shape: Sequence[int], chunks: Sequence[int], dtype: str, packed: bool, name: str = "") -> Any:
    blosc = (codecs.BloscCodec(cname="lz4", clevel=5, shuffle="shuffle", typesize=np.dtype(dtype).itemsize),)
    return zarr.create_array(
        store=store,
        **({"name": name} if name else {}),
        shape=tuple(shape),
        chunks=tuple(chunks),
        dtype=dtype,
        compressors=((*blosc, codecs.Crc32cCodec()) if packed else (codecs.Crc32cCodec(),)),
        fill_value=0,
        overwrite=True,
        zarr_format=3,
        config={"write_empty_chunks": True},
    )


def put_group(path: str, attrs: dict[str, Any], arrays: Sequence[tuple[str, Any, bool]]) -> None:
    """Put a group of arrays at a URL: its objects one by one, the values of the last array last.

    arrays  (name, values in one chunk, whether to pack) of each. An object that is there is replaced by its twin, never
    removed: another writer of the same block, or its reader, finds it whole at any time.
    """
    from tasks.places import at

    objects: dict[str, Any] = {}
    zarr.open_group(storage.MemoryStore(objects), mode="w", zarr_format=3, attributes=attrs)
    for name, values, packed in arrays:
        shape = (max(values.size, 1),)
        array = _create(storage.MemoryStore(objects), values.shape, shape, str(values.dtype), packed, name)
        array[...] = values
    folder, last = at(path), f"{arrays[-1][0]}/c/0"
    for key in sorted(objects, key=lambda key: (key == last, key)):
        (folder / key).write_bytes(objects[key].to_bytes())
        forget(f"{path}/{key}")
