"""Blocks of rows in zarr stores.

A rows store is one of
  dense   a zarr array (n_rows, n_features) float32 or float16, chunk = one block of rows x all features
  csr     a group, attrs {"labelgrove": "csr", "shape", "offsets"}; sub-group 00042 = data, indices, indptr of block 42
  pq      a group, attrs {"labelgrove": "pq"}; arrays codes (n_rows, n_subquantizers) uint8 chunked by block, codebooks
  onehot  a group, attrs {"labelgrove": "onehot", "n_codes"}; array codes (n_rows, n_hashes) uint8, uint16 or int32
  images  a group as of csr, {"labelgrove": "images"}; sub-group 00042 = data, offsets: bytes of image files
A dataset is a group with a rows store `X` and the columns `y`, `split`, `row_id` (n_rows,), chunked by block.

Every chunk has one writer, which writes it whole, so writing again is harmless. Every chunk carries a crc32c, and a
chunk that is not there is an error here, where zarr alone would read zeros. What has been read lately is cached per
process and shared: treat what comes out as read-only. Paths are those of a file system, or URLs of an object store.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import partial
from itertools import pairwise
from typing import Any, cast

import numpy as np

from tasks.cache import ROWS, SMALL
from tasks.digest import digest_arrays
from tasks.errors import LabelgroveError, ParamError, is_starved
from tasks.files import disk_room, swap_in
from tasks.held import HeldArray, HeldRows
from tasks.plain_chunks import is_plain, read_plain
from tasks.rows import Csr, Dense, Images, OneHot, PqCodes, Rows
from tasks.rows.base import Array
from tasks.rows.onehot import count_features
from tasks.stores import Block as Block
from tasks.stores import DamagedChunk as DamagedChunk
from tasks.stores import MissingChunk as MissingChunk
from tasks.stores import StoreFacts as StoreFacts
from tasks.stores import StoreMetadata as StoreMetadata
from tasks.urls import is_url
from tasks.versions import forget, version_of
from tasks.zarr_nodes import MAX_CHUNK_BYTES as MAX_CHUNK_BYTES
from tasks.zarr_nodes import check_block_rows, create_array, is_array, named_store, open_node, put_group
from tasks.zarr_nodes import configure_worker as configure_worker
from tasks.zarr_nodes import create_group as create_group
from tasks.zarr_nodes import ensure_group as ensure_group
from tasks.zarr_nodes import read_attrs as read_attrs
from tasks.zarr_nodes import write_attrs as write_attrs

FEATURES, LABELS, SPLIT, ROW_ID = "X", "y", "split", "row_id"
PARTS = {"csr": ("data", "indices", "indptr"), "images": ("data", "offsets")}  # of a block; where rows begin comes last


# ---- opening -----------------------------------------------------------------------------------------------------


def facts_of(store: str) -> StoreFacts:
    """Body and sizes of a rows store."""
    node = open_node(store)
    if isinstance(node, HeldRows):
        return node.facts
    if is_array(node):
        n_rows, n_features = node.shape
        return StoreFacts("dense", n_rows, n_features, node.chunks[0], str(node.dtype))
    kind = node.attrs.get("labelgrove")
    if kind in PARTS:
        offsets, shape = node.attrs["offsets"], node.attrs["shape"]
        widest = max((stop - start for start, stop in pairwise(offsets)), default=1)
        return StoreFacts(kind, shape[0], shape[1], widest, node.attrs["dtype"])
    if kind == "pq":
        codes, books = open_node(f"{store}/codes"), open_node(f"{store}/codebooks")
        return StoreFacts("pq", codes.shape[0], books.shape[0] * books.shape[2], codes.chunks[0], "uint8")
    if kind == "onehot":
        codes = open_node(f"{store}/codes")
        return StoreFacts(
            "onehot", codes.shape[0], codes.shape[1] * n_codes_of(store), codes.chunks[0], str(codes.dtype)
        )
    raise StoreMetadata(f"it is no store of rows (kind {kind!r})", store, "a dataset's rows are in its X")


def n_codes_of(store: str) -> int:
    """How many codes a hash of a store of one-hot codes can give."""
    n_codes = read_attrs(store).get("n_codes")
    if not isinstance(n_codes, int) or n_codes < 1:
        raise StoreMetadata(f"it does not say how many codes there are ({n_codes!r})", store, "make it again")
    return n_codes


def nonzeros_of(store: str) -> list[int]:
    """Stored values of each block of a CSR store, bytes of one of images; read from metadata alone."""
    held = open_node(store)
    if isinstance(held, HeldRows):
        return [held.nonzeros[block.index] for block in blocks_of(store)]
    return [int(open_node(f"{_part_path(block)}/data").shape[0]) for block in blocks_of(store)]


def blocks_of(store: str) -> list[Block]:
    """All blocks of a rows store, in order."""
    facts, node = facts_of(store), open_node(store)
    if isinstance(node, HeldRows):
        offsets = node.offsets
    elif facts.body in PARTS:
        offsets = node.attrs["offsets"]
    else:
        offsets = [*range(0, facts.n_rows, facts.block_rows), facts.n_rows]
    return [Block(store, i, start, stop) for i, (start, stop) in enumerate(pairwise(offsets))]


# ---- creating ----------------------------------------------------------------------------------------------------


def create_dense(path: str, n_rows: int, n_features: int, block_rows: int, dtype: str = "float32") -> list[Block]:
    """An empty dense store in place of whatever stood at `path`; returns its blocks."""
    if dtype not in ("float32", "float16"):
        raise ParamError("dtype", dtype, "float32 or float16", "dense rows are stored so")
    create_array(path, (n_rows, n_features), (block_rows, n_features), dtype, packed=dtype == "float32")
    return blocks_of(path)


def create_csr(path: str, n_rows: int, n_features: int, block_rows: int, dtype: str = "float32") -> list[Block]:
    """An empty CSR store in place of whatever stood at `path`; returns its blocks."""
    return _create_parted(path, "csr", (n_rows, n_features), block_rows, dtype)


def create_images(path: str, n_rows: int, block_rows: int, longest_side: int) -> list[Block]:
    """An empty store of image files in place of whatever stood at `path`; returns its blocks.

    longest_side   of any image, pixels: bounds what describing them takes
    """
    return _create_parted(path, "images", (n_rows, 0), block_rows, "uint8", {"longest_side": longest_side})


def longest_side_of(store: str) -> int:
    """Pixels that no image of a store of images exceeds in height or width."""
    return int(read_attrs(store)["longest_side"])


def _create_parted(
    path: str, body: str, shape: tuple[int, int], block_rows: int, dtype: str, more: Mapping[str, Any] | None = None
) -> list[Block]:
    check_block_rows(block_rows)
    offsets = [*range(0, shape[0], block_rows), shape[0]]
    facts = {"labelgrove": body, "shape": list(shape), "offsets": offsets, "dtype": dtype}
    create_group(path, facts | dict(more or {}))
    return blocks_of(path)


def create_codes(path: str, n_rows: int, n_subquantizers: int, block_rows: int, codebooks: Array) -> list[Block]:
    """An empty store of PQ codes in place of whatever stood at `path`; returns its blocks.

    codebooks   (n_subquantizers, n_centroids <= 256, width) float32
    """
    if codebooks.ndim != 3 or codebooks.shape[0] != n_subquantizers or not 1 <= codebooks.shape[1] <= 256:
        accepted = f"({n_subquantizers}, 1 to 256, width)"
        raise ParamError("codebooks.shape", codebooks.shape, accepted, "a code is one byte that names a centroid")
    create_group(path, {"labelgrove": "pq"})
    books = create_array(f"{path}/codebooks", codebooks.shape, codebooks.shape, "float32", packed=True)
    with disk_room(path, codebooks.nbytes), named_store(path):
        books[...] = codebooks.astype(np.float32)
    create_array(f"{path}/codes", (n_rows, n_subquantizers), (block_rows, n_subquantizers), "uint8", packed=False)
    return blocks_of(path)


def create_onehot(path: str, n_rows: int, n_hashes: int, block_rows: int, dtype: str, n_codes: int) -> list[Block]:
    """An empty store of one-hot codes in place of whatever stood at `path`; returns its blocks.

    dtype   uint8, uint16 or int32, wide enough for 0..n_codes - 1 and a sentinel (`CodeParams.dtype`)
    Raises ParamError when the codes stand for more features than int32 can number.
    """
    count_features(n_hashes, n_codes)
    create_group(path, {"labelgrove": "onehot", "n_codes": n_codes})
    create_array(f"{path}/codes", (n_rows, n_hashes), (block_rows, n_hashes), dtype, packed=False)
    return blocks_of(path)


def create_column(dataset: str, name: str, n_rows: int, block_rows: int, dtype: str) -> None:
    """An empty column (n_rows,) of a dataset, chunked by block."""
    create_array(f"{dataset}/{name}", (n_rows,), (block_rows,), dtype, packed=True)


# ---- writing -----------------------------------------------------------------------------------------------------


def write_dense(block: Block, values: Array) -> str:
    """Write the rows (n_rows, n_features) of a block of a dense store; returns their content digest."""
    return _write_chunk(block.store, block.start, block.stop, values)


def write_codes(block: Block, codes: Array) -> str:
    """Write the codes (n_rows, codes of a row) of a block of PQ or one-hot codes; returns their content digest."""
    return _write_chunk(f"{block.store}/codes", block.start, block.stop, codes)


def write_column(dataset: str, name: str, start: int, values: Array) -> str:
    """Write one chunk of a column, from row `start` on; returns its content digest."""
    return _write_chunk(f"{dataset}/{name}", start, start + len(values), values)


def _write_chunk(path: str, start: int, stop: int, values: Array) -> str:
    array = open_node(path)
    whole = start % array.chunks[0] == 0 and stop == min(start + array.chunks[0], array.shape[0])
    expected = (stop - start, *array.shape[1:])
    if not whole or values.shape != expected or values.dtype != array.dtype:
        wanted = f"{array.dtype} {expected} filling chunks of {array.chunks[0]} rows"
        given = f"{values.dtype} {values.shape} at rows {start}..{stop - 1}"
        raise ValueError(f"{path}: a writer writes one whole chunk: {wanted}, not {given}")
    with disk_room(path, values.nbytes), named_store(path):
        array[start:stop] = values
    forget(os.path.join(path, _chunk_key(array, start)))
    return digest_arrays(values)


def write_csr(block: Block, data: Array, indices: Array, indptr: Array) -> str:
    """Write the rows of a block of a CSR store; returns their content digest.

    data (nnz,), indices (nnz,) int32 ascending in each row, indptr (n_rows + 1,) int64 from 0 to nnz. The part is made
    beside its place and renamed, so it is there whole or not at all.
    """
    attrs = read_attrs(block.store)
    if indptr.shape != (block.n_rows + 1,) or indptr[0] != 0 or indptr[-1] != len(data) or len(data) != len(indices):
        raise ValueError(f"{block.store}: data, indices and indptr do not describe {block.n_rows} rows")
    parts = (data.astype(attrs["dtype"]), indices.astype(np.int32), indptr.astype(np.int64))
    kind = {"encoding-type": "csr_matrix", "encoding-version": "0.1.0", "shape": [block.n_rows, attrs["shape"][1]]}
    return _write_parts(block, "csr", parts, kind)


def write_images(block: Block, images: Images) -> str:
    """Write the files of a block of a store of images, whole or not at all; returns their content digest."""
    if images.n_rows != block.n_rows:
        raise ValueError(f"{block.store}: {images.n_rows} images for {block.n_rows} rows")
    return _write_parts(block, "images", (images.data, images.offsets), {"encoding-type": "labelgrove-images"})


def _write_parts(block: Block, body: str, parts: Sequence[Array], kind: dict[str, Any]) -> str:
    """Beside their place, then by rename; in an object store pointers last. Files of images are compressed already."""
    place = _part_path(block)
    if is_url(place):
        named_parts = zip(PARTS[body], parts, strict=True)
        put_group(place, kind, [(name, part, part.dtype != np.uint8) for name, part in named_parts])
        return digest_arrays(*parts)
    spare = f"{place}.{uuid.uuid4().hex}.partial"
    create_group(spare, kind)
    for name, part in zip(PARTS[body], parts, strict=True):
        packed = part.dtype != np.uint8
        array = create_array(f"{spare}/{name}", part.shape, (max(part.size, 1),), str(part.dtype), packed=packed)
        with disk_room(spare, part.nbytes):
            array[...] = part
    swap_in(spare, place)
    return digest_arrays(*parts)


def rows_digest(rows: Rows) -> str:
    """Content digest of a block's rows: what the write functions return, and what a re-reading must give."""
    if isinstance(rows, Csr):
        return digest_arrays(rows.data, rows.indices, rows.indptr)
    if isinstance(rows, Images):
        return digest_arrays(rows.data, rows.offsets)
    return digest_arrays(rows.codes if isinstance(rows, PqCodes | OneHot) else cast(Dense, rows).values)


def _part_path(block: Block) -> str:
    return os.path.join(block.store, f"{block.index:05d}")


# ---- reading -----------------------------------------------------------------------------------------------------


def read_rows(block: Block) -> Rows:
    """The rows of a block, from this process's cache when it has them.

    Raises MissingChunk and DamagedChunk, naming array, chunk and rows; StoreMetadata when there is no such store.
    """
    version, load = _reader(block)
    rows: Rows = ROWS.fetch(block, version, load, _nbytes)
    return rows


def take_rows(block: Block, index: Array) -> Array:
    """Some rows of a block, (index.size, n_features) float32 or, as at rest, float16; kept apart from the block.

    A sample that is read again and again is far smaller than its blocks, and stays when they have to give way.

    index  (n,) int64, from the start of the block
    """
    version, _ = _reader(block)
    key = (block, index.tobytes())
    found: Array = ROWS.fetch(key, version, lambda: _taken(read_rows(block).take(index)), _nbytes)
    return found


def _taken(rows: Rows) -> Array:
    return rows.values if isinstance(rows, Dense) else rows.to_array()


def load_rows(block: Block) -> Rows:
    """The rows of a block, read from the store even when this process has them: for checks of the store itself."""
    return _reader(block)[1]()


def _reader(block: Block) -> tuple[Hashable, Callable[[], Rows]]:
    """Version of a block as it stands in its store, and the call that loads it."""
    node = open_node(block.store)
    if isinstance(node, HeldRows):
        return node.version, partial(node.load, block.start, block.stop)
    if is_array(node):
        version = _chunk_version(block.store, node, block.start, block.stop)
        return version, partial(_load_dense, block, node)
    body = facts_of(block.store).body
    if body in PARTS:
        return _parts_version(block, body), partial(_load_parts, block, body)
    codes = open_node(f"{block.store}/codes")
    version = _chunk_version(f"{block.store}/codes", codes, block.start, block.stop)
    return version, partial(_load_codes, block, codes)


def _nbytes(held: Any) -> int:
    return int(held.nbytes)


def _load_dense(block: Block, array: Any) -> Rows:
    return Dense(_read_chunk(block.store, array, block.start, block.stop))


def _load_codes(block: Block, codes: Any) -> Rows:
    chunk = _read_chunk(f"{block.store}/codes", codes, block.start, block.stop)
    if read_attrs(block.store)["labelgrove"] == "onehot":
        return OneHot(chunk, n_codes_of(block.store))
    return PqCodes(chunk, read_codebooks(block.store))


def read_codebooks(store: str) -> Array:
    """The codebooks (n_subquantizers, n_centroids, width) float32 of a PQ store: one copy per process."""
    path = f"{store}/codebooks"
    books = open_node(path)
    version = _chunk_version(path, books, 0, books.shape[0])
    return SMALL.fetch(path, version, lambda: _read_chunk(path, books, 0, books.shape[0]), _nbytes)


def load_codebooks(store: str) -> Array:
    """As `read_codebooks`, read from the store even when this process has them: for checks of the store itself."""
    path = f"{store}/codebooks"
    books = open_node(path)
    _chunk_version(path, books, 0, books.shape[0])
    return _read_chunk(path, books, 0, books.shape[0])


def _parts_version(block: Block, body: str) -> Hashable:
    """A block is swapped in whole, so its pointers stand for it; a lost or damaged sibling shows when it is loaded."""
    pointers = f"{_part_path(block)}/{PARTS[body][-1]}"
    try:
        return version_of(os.path.join(pointers, "c", "0"))
    except FileNotFoundError:
        raise _missing(pointers, "c/0", block.start, block.stop) from None


def _load_parts(block: Block, body: str) -> Rows:
    place, parts = _part_path(block), []
    for name in PARTS[body]:
        array = open_node(f"{place}/{name}")
        if array.size:
            _chunk_version(f"{place}/{name}", array, 0, array.shape[0], rows=(block.start, block.stop))
        parts.append(_read_chunk(f"{place}/{name}", array, 0, array.shape[0], rows=(block.start, block.stop)))
    *values, pointers = parts
    if pointers.size != block.n_rows + 1 or any(pointers[-1] != part.size for part in values):
        raise _damaged(place, PARTS[body][-1], block.start, block.stop, "its parts do not fit together")
    if body == "images":
        return Images(parts[0], parts[1])
    data, indices, indptr = parts
    return Csr(data, indices, indptr, read_attrs(block.store)["shape"][1])


def _chunk_key(array: Any, start: int) -> str:
    if isinstance(array, HeldArray):
        return f"c/{start // array.chunks[0]}"
    coordinates = (start // array.chunks[0], *(0 for _ in array.shape[1:]))
    return str(array.metadata.encode_chunk_key(coordinates))


def _chunk_version(path: str, array: Any, start: int, stop: int, rows: tuple[int, int] | None = None) -> Any:
    """Version of the chunk that holds rows start..stop of an array; MissingChunk when its file is not there."""
    key = _chunk_key(array, start)
    try:
        if isinstance(array, HeldArray):
            return array.version(start)
        return version_of(os.path.join(path, key))
    except (FileNotFoundError, KeyError):
        raise _missing(path, key, *(rows or (start, stop))) from None


def _read_chunk(path: str, array: Any, start: int, stop: int, rows: tuple[int, int] | None = None) -> Array:
    """Rows start..stop of an array, all of them in one chunk; DamagedChunk when it cannot be decoded."""
    try:
        if not isinstance(array, HeldArray) and is_plain(path, array):
            return read_plain(path, _chunk_key(array, start), array, start, stop)
        with named_store(path):
            return np.asarray(array[start:stop])
    except (OSError, LabelgroveError):
        raise
    except Exception as error:  # zarr has no common base: crc mismatch, short buffer and bad blosc header differ
        if is_starved(error):
            raise
        raise _damaged(path, _chunk_key(array, start), *(rows or (start, stop)), str(error)) from error


def _missing(path: str, key: str, start: int, stop: int) -> MissingChunk:
    where = f"{path}, chunk {key}, rows {start}..{stop - 1}"
    return MissingChunk("a chunk that should be there is missing", where, "make the store again, or run again")


def _damaged(path: str, key: str, start: int, stop: int, why: str) -> DamagedChunk:
    where = f"{path}, chunk {key}, rows {start}..{stop - 1}"
    return DamagedChunk(f"a chunk is not what was written ({why})", where, "make the store again, or run again")


# ---- columns of a dataset ----------------------------------------------------------------------------------------


def read_labels(dataset: str, start: int, stop: int) -> Array:
    """Classes (stop - start,) int32 of rows start..stop of a dataset."""
    return read_column(dataset, LABELS, start, stop)


def read_split(dataset: str, start: int, stop: int) -> Array:
    """Parts (stop - start,) uint8 of rows start..stop: 0 train, 1 validation, 2 test."""
    return read_column(dataset, SPLIT, start, stop)


def read_row_ids(dataset: str, start: int, stop: int) -> Array:
    """Source rows (stop - start,) int64 of rows start..stop."""
    return read_column(dataset, ROW_ID, start, stop)


def column_length(dataset: str, name: str) -> int:
    """Number of values of a column, from its metadata."""
    return int(open_node(os.path.join(dataset, name)).shape[0])


def read_column(dataset: str, name: str, start: int = 0, stop: int | None = None, *, cached: bool = True) -> Array:
    """Values (stop - start,) of a column, over as many chunks as it takes; a copy that the caller may change."""
    path = os.path.join(dataset, name)
    column = open_node(path)
    stop = column.shape[0] if stop is None else stop
    if not 0 <= start <= stop <= column.shape[0]:
        raise ValueError(f"{path}: rows {start}..{stop} of {column.shape[0]}")
    size = column.chunks[0]
    firsts = range(start // size * size, stop, size)
    read = _cached_chunk if cached else _checked_chunk
    chunks = [read(path, column, first, min(first + size, column.shape[0])) for first in firsts]
    if not chunks:
        return np.empty(0, column.dtype)
    joined = np.concatenate(chunks)
    return joined[start - firsts[0] : stop - firsts[0]]


def _checked_chunk(path: str, column: Any, start: int, stop: int) -> Array:
    _chunk_version(path, column, start, stop)
    return _read_chunk(path, column, start, stop)


def _cached_chunk(path: str, column: Any, start: int, stop: int) -> Array:
    version = _chunk_version(path, column, start, stop)
    return SMALL.fetch((path, start), version, lambda: _read_chunk(path, column, start, stop), _nbytes)
