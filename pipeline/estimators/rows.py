"""Rows in whatever holds them: NumPy, SciPy, zarr and Dask arrays, as ingest takes them or as blocks to predict.

Dask and zarr are known by their verbs alone: whoever has such an array has imported them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse

from pipeline.estimators.errors import BadRows
from pipeline.estimators.refused import first_non_finite, refuse_masked
from pipeline.ingest.errors import readable
from tasks.files import disk_room
from tasks.rows import Csr, Dense, Rows
from tasks.rows.base import Array

SLAB_BYTES = 32 << 20  # of a zarr array, read at once


def is_dask(rows: Any) -> bool:
    """Whether these are a collection of Dask."""
    return hasattr(rows, "__dask_graph__") and (hasattr(rows, "map_blocks") or hasattr(rows, "to_dask_array"))


def is_zarr(rows: Any) -> bool:
    """Whether this is a zarr array."""
    return type(rows).__module__.partition(".")[0] == "zarr" and hasattr(rows, "shape") and hasattr(rows, "chunks")


def is_far(rows: Any) -> bool:
    """Whether rows are not in memory, so that they are read block by block."""
    return is_dask(rows) or is_zarr(rows)


def as_array(rows: Any) -> Any:
    """A Dask array with whole rows in every block; a Dask data frame as such an array; anything else as it is."""
    if not is_dask(rows):
        return rows
    rows = rows.to_dask_array() if hasattr(rows, "to_dask_array") else rows
    return rows.rechunk({1: -1}) if rows.ndim == 2 and len(rows.chunks[1]) > 1 else rows


def columns_of(rows: Any) -> Any:
    """What names the columns, as scikit-learn knows it: of a Dask data frame its empty pandas frame, else the rows."""
    return rows._meta if is_dask(rows) and hasattr(rows, "to_dask_array") else rows


def described(rows: Any, n_rows: int) -> str:
    """What a model's card says of where its rows came from."""
    body = "Dask array" if is_dask(rows) else "zarr array" if is_zarr(rows) else "rows in memory"
    return f"{body}, {n_rows:,} x {int(rows.shape[1]):,}"


def refuse_absent(array: Any) -> None:
    """Raises BadRows for a zarr array of which chunks were never written: they would read as fill values."""
    there, total = int(array.nchunks_initialized), int(math.prod(array.cdata_shape))
    shards = getattr(array, "shards", None)
    if shards is not None:
        total = math.prod(-(-n // size) for n, size in zip(array.shape, shards, strict=True))
    if there < total:
        what = f"{total - there:,} of {total:,} chunks of the zarr array were never written"
        hint = (
            "write them; chunks that hold fill values alone are kept with "
            'zarr.create_array(..., config={"write_empty_chunks": True})'
        )
        raise BadRows(what, _place_of(array, "X"), hint)


def blocks_of(rows: Any) -> Iterator[Any]:
    """The blocks of a Dask or zarr array, in order: NumPy arrays or SciPy matrices.

    Raises BadRows for a block that cannot be computed or read, with its rows; what was raised there is the cause.
    """
    start = 0
    if is_dask(rows):
        total = rows.numblocks[0]
        for i in range(total):
            size = rows.chunks[0][i]
            known = f"rows {start:,} to {start + size - 1:,}" if size == size else f"from row {start:,} on"
            with _named_block(f"block {i} of {total} of the Dask array ({known}) cannot be computed", "X"):
                block = rows.blocks[i].compute()
            refuse_masked(block, "X", start)
            start += len(block) if not scipy.sparse.issparse(block) else int(block.shape[0])
            yield block
        return
    row_bytes = max(1, rows.dtype.itemsize * math.prod(rows.shape[1:]))
    chunk = max(1, rows.chunks[0])
    step = max(1, SLAB_BYTES // (row_bytes * chunk)) * chunk
    for start in range(0, rows.shape[0], step):
        stop = min(start + step, rows.shape[0])
        with _named_block(f"the zarr array (rows {start:,} to {stop - 1:,}) cannot be read", _place_of(rows, "X")):
            block = np.asarray(rows[start:stop])
        yield block


def _named_block(what: str, where: str) -> AbstractContextManager[None]:
    """What others' code raises is a BadRows of this block."""
    return readable(where, what, BadRows, "compute this block alone to see the whole error, mend it, then call again")


def _place_of(array: Any, name: str) -> str:
    return str(getattr(array, "store_path", name))


def column_of(labels: Any) -> Any:
    """Labels of a zarr or Dask array in memory, as an array or a column: they are few bytes a row. Raises BadRows."""
    if is_zarr(labels):
        refuse_absent(labels)
        with _named_block("the zarr array of labels cannot be read", _place_of(labels, "y")):
            return np.asarray(labels[:])
    with _named_block("the labels of Dask cannot be computed", "y"):
        return labels.compute()


def spooled(rows: Any, folder: Path) -> Any:
    """A Dask or zarr array as what ingest takes rows from: a mapped file, or a sparse matrix over mapped files.

    Held at once: a block. Raises BadRows when blocks do not fit together, when there is no row, DiskFull.
    """
    if is_zarr(rows):
        refuse_absent(rows)
    width = int(rows.shape[1])
    with disk_room(str(folder / "rows.raw"), 0):
        return _copied(rows, folder, width)


def _copied(rows: Any, folder: Path, width: int) -> Any:
    dtype: np.dtype[Any] = np.dtype(np.float32)
    sparse, n_rows, n_values = None, 0, 0
    pointers: list[Array] = [np.zeros(1, np.int64)]  # of sparse rows: ends among the values
    with open(folder / "rows.raw", "wb") as values, open(folder / "indices.raw", "wb") as indices:
        for block in blocks_of(rows):
            kind = bool(scipy.sparse.issparse(block))
            if sparse not in (None, kind) or block.ndim != 2 or block.shape[1] != width:
                raise BadRows(f"a block of shape {block.shape} does not continue those before it", "X", "rechunk X")
            if sparse is None and block.dtype == np.float16 and not kind:
                dtype = np.dtype(np.float16)
            sparse, n_rows = kind, n_rows + int(block.shape[0])
            if not kind:
                values.write(np.ascontiguousarray(numbers(block), dtype).data)
                continue
            refuse_broken(block)
            matrix = block.tocsr()
            matrix.sum_duplicates()
            pointers.append(n_values + matrix.indptr[1:].astype(np.int64))
            n_values += int(matrix.nnz)
            values.write(np.ascontiguousarray(matrix.data, np.float32).data)
            indices.write(np.ascontiguousarray(matrix.indices, np.int32).data)
    if not n_rows:
        raise BadRows("there are no rows: X has 0 samples", "X", "give at least one row a class")
    if not sparse:
        return np.memmap(folder / "rows.raw", dtype, "r", shape=(n_rows, width))
    kinds = {"rows": np.float32, "indices": np.int32}
    held = [
        np.memmap(folder / f"{name}.raw", kind, "r") if n_values else np.empty(0, kind) for name, kind in kinds.items()
    ]
    return scipy.sparse.csr_matrix((*held, np.concatenate(pointers)), shape=(n_rows, width), copy=False)


def refuse_broken(matrix: Any) -> None:
    """Raises BadRows for a SciPy matrix whose indices point outside of it: compiled code would follow them.

    To be asked before anything converts or sorts it; dense rows and formats of Python objects pass.
    """
    try:
        if getattr(matrix, "format", "") in ("csr", "csc", "bsr"):
            matrix.check_format(full_check=True)
        elif getattr(matrix, "format", "") == "coo":
            for places, size in zip((matrix.row, matrix.col), matrix.shape, strict=True):
                if len(places) and not (int(places.min()) >= 0 and int(places.max()) < size):
                    raise ValueError(f"indices {places.min()} to {places.max()} of {size}")
    except ValueError as error:
        raise BadRows(f"CsrStructure: its arrays describe no matrix ({error})", "X", "make the matrix again") from error


def numbers(block: Any) -> Array:
    """An array of real numbers. Raises BadRows."""
    refuse_masked(block, "X")
    values = np.asarray(block)
    if values.dtype.kind not in "fiub":
        raise BadRows(f"values of type {values.dtype} are no real numbers", "X", "convert them to float32")
    return values


def rows_of(block: Any) -> Rows:
    """Checked rows in memory as a model takes them: float32. Raises BadRows where they do not fit into it."""
    if scipy.sparse.issparse(block):
        refuse_broken(block)
        matrix = block.tocsr()
        if not matrix.has_canonical_format:
            matrix = matrix.copy()
            matrix.sum_duplicates()
        data = _single(matrix.data, matrix)
        return Csr(data, matrix.indices.astype(np.int32), matrix.indptr.astype(np.int64), int(matrix.shape[1]))
    values = numbers(block)
    return Dense(np.ascontiguousarray(_single(values, values)))


def _single(values: Array, block: Any) -> Array:
    """Values of a block in float32. Raises BadRows, with the first place."""
    with np.errstate(over="ignore"):
        single = values.astype(np.float32, copy=False)
    if not np.isfinite(single).all():
        what = "X contains NaN, infinity or a value too large for dtype('float32')"
        place = f"X, {first_non_finite(block, np.float32)} of these {block.shape[0]:,} rows"
        raise BadRows(what, place, "correct or leave out such rows")
    return single
