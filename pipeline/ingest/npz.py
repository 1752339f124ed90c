"""Sparse matrices as scipy.sparse.save_npz writes them, and dense ones that stand alone in an .npz file.

A member of the zip archive inflates in memory, so what it declares is checked against a limit before anything is read.
"""

from __future__ import annotations

import sys
import zipfile
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from pipeline.dataset import Note
from pipeline.ingest.candidates import ROWS_AT, one_of
from pipeline.ingest.errors import (
    CsrStructure,
    DamagedInput,
    DeclaredTooLarge,
    FeatureDtype,
    FeatureShape,
    UnknownInput,
)
from pipeline.ingest.labels import from_array as labels_of_array
from pipeline.ingest.npy import from_array
from pipeline.ingest.npy_file import declared_bytes, read_header, refuse_objects
from pipeline.ingest.source import CsrSource, Source
from pipeline.ingest.stream import MAX_FEATURES, REAL_KINDS, Job, sparse_dtype, take_labels
from tasks.errors import is_starved
from tasks.later import later
from tasks.rows.base import Array

if TYPE_CHECKING:
    from scipy import sparse
else:
    sparse = later("scipy.sparse")

INFLATING = 3  # arrays in memory at once, in units of the declared size: as read, and converted
LAYOUTS = ("csr", "csc", "coo")


def open_npz(paths: Sequence[Path], job: Job) -> Source:
    """A source over one .npz file; raises DeclaredTooLarge before reading more than the job's limit would hold.

    A file of several matrices: `rows_at` names one, `labels_at` the array of labels.
    """
    path = paths[0]
    if len(paths) > 1:
        raise UnknownInput(f"{len(paths)} .npz files for one part", str(paths[1]), "stack them first")
    arrays = _read(path, job.max_bytes)
    if _is_layout(arrays.get("format")):
        if job.rows_at is not None:
            raise UnknownInput("a sparse matrix alone has no names", f"{path}, {job.rows_at}", f"leave out {ROWS_AT}")
        return _from_scipy(arrays, path, job.max_bytes)
    name = one_of(_matrices(arrays), job.rows_at, "rows", ROWS_AT, str(path))
    source = from_array(arrays[name], f"{path.name}[{name}]")
    marks = [other for other, array in arrays.items() if array.ndim == 1 and array.dtype.kind in "iuUS"]
    fitting = [other for other in marks if arrays[other].size == source.n_rows]
    where, notes = job.place_of_labels(marks if job.labels_at is not None else fitting or marks, str(path))
    source.notes += notes
    if where is not None:
        take_labels(source, job, lambda: labels_of_array(arrays[where], f"{path.name}[{where}]"))
    return source


def _is_layout(array: Array | None) -> bool:
    """Whether it is the word that scipy names the layout of a sparse matrix with."""
    return array is not None and array.ndim == 0 and array.dtype.kind in "US"


def _matrices(arrays: Mapping[str, Array]) -> list[str]:
    """Names of matrices; of all arrays where there is none, so that the only one is refused for what it is."""
    found = [name for name, array in arrays.items() if array.ndim == 2]
    return found or list(arrays)


def _read(path: Path, max_bytes: int) -> dict[str, Array]:
    try:
        with zipfile.ZipFile(path) as archive:
            _check_declared(archive, path, max_bytes)
        with np.load(path, allow_pickle=False) as loaded:
            return {name: loaded[name] for name in loaded.files}
    except (zipfile.BadZipFile, zlib.error, EOFError, ValueError, RuntimeError) as error:
        if is_starved(error):
            raise
        raise DamagedInput(f"this is no readable .npz file ({error})", str(path), "save it again") from error


def _check_declared(archive: zipfile.ZipFile, path: Path, max_bytes: int) -> None:
    total = 0
    for member in archive.infolist():
        where = f"{path}, member {member.filename}"
        with archive.open(member) as file:
            shape, _, dtype = read_header(file, where)
        refuse_objects(dtype, where)
        needed = declared_bytes(shape, dtype)
        if needed > member.file_size:
            what = f"its header declares {needed:,} bytes, the archive {member.file_size:,}"
            raise DamagedInput(what, where, "save it again")
        total += member.file_size
    if total * INFLATING > max_bytes:
        what = f"{total:,} bytes when inflated, {INFLATING} times that while converting; the limit is {max_bytes:,}"
        hint = (
            "save a dense matrix as .npy (read from disk piece by piece), a sparse one in parts, or raise --max-bytes"
        )
        raise DeclaredTooLarge(what, str(path), hint)


def _from_scipy(arrays: Mapping[str, Array], path: Path, max_bytes: int) -> CsrSource:
    layout = arrays["format"].item()
    layout = layout.decode("ascii", "replace") if isinstance(layout, bytes) else str(layout)
    if layout not in LAYOUTS:
        raise UnknownInput(f"sparse layout {layout!r}", str(path), f"convert to CSR (known: {', '.join(LAYOUTS)})")
    try:
        shape = tuple(int(size) for size in arrays["shape"])
        if len(shape) != 2 or min(shape) < 0:
            raise ValueError(f"shape {shape}")
        if 8 * INFLATING * shape[0] > max_bytes:
            what = f"row pointers of {shape[0]:,} rows take {8 * shape[0]:,} bytes; the limit is {max_bytes:,}"
            raise DeclaredTooLarge(what, str(path), "check the shape, or raise --max-bytes")
        matrix = _scipy_matrix(layout, arrays, shape)
    except (KeyError, ValueError, TypeError, IndexError, OverflowError) as error:
        raise CsrStructure(f"its arrays describe no matrix ({error})", str(path), "save it again") from error
    notes = [Note("Converted", f"{path.name}: {layout} is stored as csr")] if layout != "csr" else []
    return from_sparse(matrix, path.name, notes)


def _scipy_matrix(layout: str, arrays: Mapping[str, Array], shape: tuple[int, ...]) -> sparse.spmatrix:
    if layout == "coo":
        if any(arrays[name].dtype.kind not in "iu" for name in ("row", "col")):
            raise ValueError("row and col must be integers")
        return sparse.coo_matrix((arrays["data"], (arrays["row"], arrays["col"])), shape=shape)
    parts = tuple(arrays[name] for name in ("data", "indices", "indptr"))
    if any(part.ndim != 1 for part in parts) or any(part.dtype.kind not in "iu" for part in parts[1:]):
        raise ValueError("data, indices and indptr must be one-dimensional, the last two integers")
    kind = sparse.csr_matrix if layout == "csr" else sparse.csc_matrix
    matrix = kind(parts, shape=shape)
    matrix.check_format(full_check=True)
    if np.any(np.diff(matrix.indptr) < 0):
        raise ValueError("row pointers that go back")
    return matrix


def is_sparse(source: object) -> bool:
    """Whether it is a sparse matrix of scipy's; who has one has loaded scipy."""
    return "scipy.sparse" in sys.modules and bool(sparse.issparse(source))


def from_sparse(matrix: sparse.spmatrix, name: str, notes: list[Note] | None = None) -> CsrSource:
    """A source over a scipy sparse matrix: CSR with ascending columns and no column twice in a row."""
    said = list(notes or ())
    if matrix.dtype.kind not in REAL_KINDS:
        raise FeatureDtype(f"values of type {matrix.dtype} are no real numbers", name, "convert them to float32")
    if matrix.ndim != 2 or not 1 <= matrix.shape[1] <= MAX_FEATURES:
        raise FeatureShape(f"the matrix has shape {matrix.shape}", name, "rows x features is expected")
    rows = matrix.tocsr()
    stored = rows.dtype.newbyteorder("=")
    rows = rows.astype(sparse_dtype(rows.dtype), copy=False)
    if not rows.has_canonical_format:
        entries = rows.nnz
        rows = rows.copy()
        rows.sum_duplicates()
        merged = entries - rows.nnz
        said.append(Note("Converted", f"{name}: columns sorted in each row; {merged} repeated entries added up"))
    if stored != np.dtype(np.float32):
        said.append(Note("Converted", f"{name}: {stored} values are stored as float32"))
    return CsrSource(name, rows.data, rows.indices, rows.indptr.astype(np.int64), rows.shape[1], said)
