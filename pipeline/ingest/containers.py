"""Files of many named arrays, HDF5 and zarr alike: how arrays and sparse groups in them are found and read in order."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Protocol, Self

import numpy as np

from pipeline.dataset import Note
from pipeline.ingest.errors import (
    CsrStructure,
    DamagedInput,
    DeclaredTooLarge,
    FeatureDtype,
    FeatureShape,
    LabelDtype,
    UnknownInput,
    readable,
)
from pipeline.ingest.files import stamp
from pipeline.ingest.label_parts import LabelParts
from pipeline.ingest.labels import Labels
from pipeline.ingest.npy_file import declared_bytes
from pipeline.ingest.source import SLAB_BYTES
from pipeline.ingest.stream import (
    MAX_FEATURES,
    REAL_KINDS,
    Job,
    canonical,
    check_dtype,
    check_matrix,
    check_pointers,
    sparse_dtype,
)
from tasks.rows import Dense, Rows
from tasks.rows.base import Array

ARRAY, GROUP = "array", "group"
CSR_PARTS = ("data", "indices", "indptr")
MAX_NODES, MAX_DEPTH = 10_000, 8  # looked at for candidates
LABEL_ROWS = 1 << 16  # read at a time
LABEL_BYTES = 1 << 30  # of one chunk of labels, and of the categories of a column
TALL_BYTES = 2**29  # rows held at once where chunks are taller than that; every chunk is then read more than once


class Node(Protocol):
    """One array of a container."""

    where: str
    shape: tuple[int, ...]
    dtype: np.dtype
    chunk_rows: int  # rows of a chunk; 1 where there are no chunks
    chunk_bytes: int

    def read(self, start: int, stop: int) -> Array:
        """Elements start..stop of the first axis. Text comes as an array of str or bytes, or of objects that are."""
        ...

    def absent(self) -> tuple[int, int]:
        """Chunks that are not there, and chunks in all."""
        ...


class Container(Protocol):
    """One open file or folder. Names are paths within it, "" for its root."""

    path: Path

    def __enter__(self) -> Self: ...
    def __exit__(self, *_: object) -> None: ...
    def kind(self, name: str) -> str:
        """ARRAY, GROUP, or "" where there is nothing."""
        ...

    def children(self, name: str) -> list[str]:
        """Names within a group, in the order of the alphabet."""
        ...

    def attrs(self, name: str) -> dict[str, Any]: ...
    def array(self, name: str) -> Node: ...


Opener = Callable[[], AbstractContextManager[Container]]


def place(container: Container, name: str) -> str:
    return f"{container.path}, {name or '/'}"


# ---- looking around ----------------------------------------------------------------------------------------------


def all_names(container: Container) -> Iterator[str]:
    """Every array, and every group that is a sparse matrix, of a container that may be deep."""
    waiting, seen = [""], 0
    while waiting and seen < MAX_NODES:
        name = waiting.pop()
        seen += 1
        if container.kind(name) == ARRAY or is_sparse(container, name):
            yield name
        elif container.kind(name) == GROUP and name.count("/") < MAX_DEPTH:
            waiting += [f"{name}/{child}".lstrip("/") for child in reversed(container.children(name))]


def is_sparse(container: Container, name: str) -> bool:
    return container.kind(name) == GROUP and set(CSR_PARTS) <= set(container.children(name))


def row_places(container: Container) -> list[str]:
    """Where rows may stand: matrices of numbers, and sparse groups; an array that stands alone, whatever it is."""
    found: list[str] = []
    others: list[str] = []
    for name in all_names(container):
        node = container.array(name) if container.kind(name) == ARRAY else None
        fits = node is None or (len(node.shape) == 2 and node.dtype.kind in REAL_KINDS)
        (found if fits else others).append(name or "/")
    return found if found or len(others) > 1 else others


def label_places(container: Container, n_rows: int | None = None) -> list[str]:
    """Where labels may stand: integers or text, one a row of so many."""
    found = []
    for name in all_names(container):
        if container.kind(name) == ARRAY:
            node = container.array(name)
            fits = len(node.shape) == 1 if n_rows is None else node.shape == (n_rows,)
            if fits and node.dtype.kind in "iuUSOT":
                found.append(name)
    return found


def normal_name(name: str) -> str:
    """A path within a file: /rows/x and rows/x are one. Raises UnknownInput for one that leads elsewhere."""
    words = [word for word in name.split("/") if word]
    if any(word in (".", "..") for word in words):
        raise UnknownInput(f"{name!r} is no name within a file", name, "name it from the root, such as group/rows")
    return "/".join(words)


# ---- rows --------------------------------------------------------------------------------------------------------


class MatrixStream:
    """A matrix of any chunking, read in whole rows of chunks where they are not too tall for that."""

    body, rides = "dense", False

    def __init__(self, opener: Opener, name: str, job: Job) -> None:
        self.opener, self.at, self.job = opener, name, job
        self.counts: Counter[str] = Counter()
        with opener() as container:
            node = container.array(name)
            check_matrix(node.shape, node.dtype, node.where)
            self.name = container.path.name
            self.about: list[Any] = [*stamp(container.path), name]
            self.notes = _absent_notes(node)
        self.dtype = node.dtype.newbyteorder("=")
        self.n_rows, self.n_features = int(node.shape[0]), int(node.shape[1])
        self.row_bytes = self.n_features * self.dtype.itemsize
        self.nbytes = self.n_rows * self.row_bytes
        _check_declared(max(node.chunk_bytes, self.row_bytes), job.max_bytes, node.where)
        self.step = self._step(node)

    def _step(self, node: Node) -> int:
        wanted = max(1, SLAB_BYTES // self.row_bytes)
        most = max(1, min(TALL_BYTES, self.job.max_bytes // 4) // self.row_bytes)
        if node.chunk_rows <= most:
            return node.chunk_rows * max(1, wanted // node.chunk_rows)
        times = -(-node.chunk_rows // most)
        text = f"{node.where}: chunks of {node.chunk_rows:,} rows are too tall to be held; each is read {times} times"
        self.notes.append(Note("TallChunks", text, "warning"))
        return most

    def slabs(self, start: int) -> Iterator[Rows]:
        with self.opener() as container:
            node = container.array(self.at)
            while start < self.n_rows:
                stop = min((start // self.step + 1) * self.step, self.n_rows)
                with readable(f"{node.where}, rows {start} to {stop - 1}"):
                    values = node.read(start, stop)
                if values.shape != (stop - start, self.n_features):
                    raise DamagedInput(
                        f"rows of shape {values.shape} came", f"{node.where}, row {start}", "copy it again"
                    )
                yield Dense(values)
                start = stop

    def labels(self) -> Labels | None:
        return None


class CsrStream:
    """A sparse matrix as AnnData and others keep it: a group of data, indices and indptr."""

    body, rides = "csr", False

    def __init__(self, opener: Opener, name: str, job: Job) -> None:
        self.opener, self.at, self.job = opener, name, job
        self.counts: Counter[str] = Counter()
        with opener() as container:
            self.where = place(container, name)
            self.name = container.path.name
            self.about: list[Any] = [*stamp(container.path), name]
            nodes = [container.array(f"{name}/{part}".lstrip("/")) for part in CSR_PARTS]
            self.n_rows, self.n_features = _sparse_shape(container, name, nodes, job.n_features)
            self.notes = [note for node in nodes for note in _absent_notes(node)]
        data, indices, indptr = nodes
        check_dtype(data.dtype, data.where)
        if any(len(node.shape) != 1 for node in nodes) or any(node.dtype.kind not in "iu" for node in nodes[1:]):
            what = "data, indices and indptr must be one-dimensional, the last two integers"
            raise CsrStructure(what, self.where, "write the matrix again")
        if data.shape != indices.shape or indptr.shape[0] != self.n_rows + 1:
            what = f"{data.shape[0]:,} values, {indices.shape[0]:,} columns, {indptr.shape[0]:,} row pointers"
            raise CsrStructure(f"{what} for {self.n_rows:,} rows", self.where, "write the matrix again")
        for node in nodes:
            _check_declared(node.chunk_bytes, job.max_bytes, node.where)
        self.entries, self.dtype = int(data.shape[0]), sparse_dtype(data.dtype)
        self.nbytes = self.entries * (self.dtype.itemsize + 4) + 8 * (self.n_rows + 1)

    def slabs(self, start: int) -> Iterator[Rows]:
        with self.opener() as container:
            data, indices, pointers = (container.array(f"{self.at}/{part}".lstrip("/")) for part in CSR_PARTS)
            most = max(1, SLAB_BYTES // (self.dtype.itemsize + data.dtype.itemsize + 8))
            while start < self.n_rows:
                indptr = self._pointers(pointers, start)
                n_rows = max(1, int(np.searchsorted(indptr, indptr[0] + most, side="right")) - 1)
                first, last = int(indptr[0]), int(indptr[n_rows])
                _check_declared(
                    (last - first) * (self.dtype.itemsize + 8), self.job.max_bytes, f"{self.where}, row {start}"
                )
                with readable(f"{self.where}, rows {start} to {start + n_rows - 1}"):
                    values, columns = data.read(first, last), indices.read(first, last)
                values = values.astype(self.dtype, copy=False)
                local = indptr[: n_rows + 1] - first
                yield canonical(values, columns, local, self.n_features, self.where, start, self.counts)
                start += n_rows

    def _pointers(self, node: Node, start: int) -> Array:
        """Row pointers (n + 1,) int64 from row `start` on, of some rows."""
        with readable(f"{node.where}, row {start}"):
            found = node.read(start, min(start + LABEL_ROWS, self.n_rows) + 1).astype(np.int64)
        check_pointers(found, self.entries, self.where, start)
        if start == 0 and found[0] != 0:
            raise CsrStructure(f"row pointers that start at {found[0]}", f"{self.where}, row 0", "write it again")
        if start + found.size - 1 == self.n_rows and found[-1] != self.entries:
            what = f"row pointers that end at {found[-1]:,} with {self.entries:,} values"
            raise CsrStructure(what, self.where, "write the matrix again")
        return found

    def labels(self) -> Labels | None:
        return None


def _sparse_shape(container: Container, name: str, nodes: list[Node], n_features: int | None) -> tuple[int, int]:
    """Rows and columns that a sparse group declares; CsrStructure for columns instead of rows."""
    attrs = container.attrs(name)
    kind = text_attr(attrs, "encoding-type") or text_attr(attrs, "h5sparse_format") or "csr"
    pointers = nodes[2].shape[0] - 1 if nodes[2].shape else -1
    shape = attrs.get("shape", attrs.get("h5sparse_shape"))
    if shape is None and "shape" in container.children(name):
        with readable(f"{place(container, name)}/shape"):
            shape = container.array(f"{name}/shape".lstrip("/")).read(0, 2)
    if shape is None and n_features is not None:
        shape = (pointers, n_features)
    where = place(container, name)
    if shape is None:
        raise CsrStructure("it does not say how many columns there are", where, "state it: --features N")
    sizes = _whole_numbers(shape, where)
    if len(sizes) != 2 or not 1 <= sizes[1] <= MAX_FEATURES or sizes[0] < 0:
        raise FeatureShape(f"a sparse matrix of shape {tuple(sizes)}", where, "rows x features is expected")
    if kind.startswith("csc") or (pointers == sizes[1] != sizes[0]):
        hint = "CSC cannot be read row by row: convert it (X.tocsr()) and write it again"
        raise UnknownInput("it is sorted by column (CSC), not by row (CSR)", where, hint)
    return sizes[0], sizes[1]


def _whole_numbers(shape: Any, where: str) -> list[int]:
    """Sizes as an attribute or an array gives them; FeatureShape for what is no list of whole numbers."""
    try:
        found = [(size, int(size)) for size in np.asarray(shape).ravel().tolist()]
    except (TypeError, ValueError, OverflowError):
        found = [(None, 0)]
    if not found or any(size != whole or isinstance(size, bool) for size, whole in found):
        raise FeatureShape(f"a sparse matrix of shape {shape!r}", where, "two whole numbers are expected")
    return [whole for _, whole in found]


def text_attr(attrs: dict[str, Any], name: str) -> str:
    """An attribute that is text; "" where there is none, or it is of another kind."""
    value = attrs.get(name, "")
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value if isinstance(value, str) else ""


def _check_declared(nbytes: int, limit: int, where: str) -> None:
    if 2 * nbytes > limit:
        what = f"{nbytes:,} bytes must be held at once, twice that while decoding; the limit is {limit:,}"
        raise DeclaredTooLarge(what, where, "write it in smaller chunks, or raise --max-bytes")


def _absent_notes(node: Node) -> list[Note]:
    absent, total = node.absent()
    if not absent:
        return []
    text = f"{node.where}: {absent:,} of {total:,} chunks are not there and read as its fill value"
    return [Note("AbsentChunks", text, "warning")]


# ---- labels ------------------------------------------------------------------------------------------------------


def labels_of(container: Container, name: str) -> Labels:
    """Labels of an array of integers or text, of a categorical column, or of one with a mask."""
    found = LabelParts(f"{container.path.name}:{name}")
    if container.kind(name) == GROUP:
        _labels_of_group(container, name, found)
        return found.labels()
    if "categories" in container.attrs(name):
        hint = "read the file with a current anndata and write it again"
        raise UnknownInput("this column of names is in an old layout", place(container, name), hint)
    node = _column(container, name)
    for start in range(0, node.shape[0], LABEL_ROWS):
        values = _read_labels(node, start, min(start + LABEL_ROWS, node.shape[0]))
        if values.dtype.kind in "iu":
            found.integers(values)
        else:
            found.words(texts(values, found.source, start))
    return found.labels()


def label_rows(container: Container, name: str) -> int:
    """How many labels there are, as the file declares it. Raises LabelDtype for what is no column."""
    if container.kind(name) == GROUP:
        children = container.children(name)
        part = next((part for part in ("codes", "values") if part in children), None)
        if part is None:
            raise UnknownInput("it is a group, and a column is expected", place(container, name), "name a column in it")
        name = f"{name}/{part}"
    return int(_column(container, name).shape[0])


def _column(container: Container, name: str) -> Node:
    """An array of one axis. A part of it that was never written is no label: as such its fill value would be class 0.

    Raises LabelDtype, and DamagedInput for chunks that are not there.
    """
    node = container.array(name)
    if len(node.shape) != 1:
        what = f"labels of shape {node.shape}: one label a row is expected"
        raise LabelDtype(what, node.where, "write one column of integers or names")
    if node.chunk_bytes > LABEL_BYTES:
        what = f"{node.chunk_bytes:,} bytes in one chunk; the limit for labels is {LABEL_BYTES:,}"
        raise DeclaredTooLarge(what, node.where, "write the labels in smaller chunks, or into a file of their own")
    absent, total = node.absent()
    if absent:
        what = f"{absent:,} of {total:,} chunks of the labels are not there; the fill value is no label"
        hint = "copy it again; zarr leaves out chunks of zeros unless it writes with write_empty_chunks"
        raise DamagedInput(what, node.where, f"{hint}; or give the labels in a file of their own (--labels)")
    return node


def _read_labels(node: Node, start: int, stop: int) -> Array:
    with readable(f"{node.where}, rows {start} to {stop - 1}"):
        values = node.read(start, stop)
    if values.dtype.kind not in "iuUSOT":
        raise LabelDtype(f"labels of type {values.dtype}", node.where, "convert them to integers, or names")
    return values


def texts(values: Array, source: str, first: int = 0) -> list[str]:
    """Text of an array of str, bytes in UTF-8, or objects that are; raises LabelDtype with the row."""
    found = []
    for row, item in enumerate(values.tolist(), first):
        try:
            word = item.decode("utf-8") if isinstance(item, bytes) else item
        except UnicodeDecodeError as error:
            raise LabelDtype(f"label {item!r} is no UTF-8 text", f"{source}, row {row}", "save it as UTF-8") from error
        if not isinstance(word, str):
            raise LabelDtype(
                f"label {item!r} of type {type(item).__name__}", f"{source}, row {row}", "give names as text"
            )
        found.append(word)
    return found


def _labels_of_group(container: Container, name: str, found: LabelParts) -> None:
    children = container.children(name)
    if {"codes", "categories"} <= set(children):
        codes, words = (_column(container, f"{name}/{part}") for part in ("codes", "categories"))
        if declared_bytes(words.shape, words.dtype) > LABEL_BYTES:
            what = f"{words.shape[0]:,} categories"
            raise DeclaredTooLarge(what, words.where, "leave out those of no row, and write the column again")
        _categorical(codes, _read_labels(words, 0, words.shape[0]), found)
    elif {"values", "mask"} <= set(children):
        values, mask = _column(container, f"{name}/values"), container.array(f"{name}/mask")
        if mask.shape != values.shape:
            what = f"a mask of shape {mask.shape} for values of shape {values.shape}"
            raise DamagedInput(what, mask.where, "write the column again")
        with readable(mask.where):
            nulls = np.flatnonzero(mask.read(0, mask.shape[0]))
        if nulls.size:
            found.refuse_null(int(nulls[0]))
        labels = _read_labels(values, 0, values.shape[0])
        if labels.dtype.kind in "iu":
            found.integers(labels)
        else:
            found.words(texts(labels, found.source))
    else:
        raise UnknownInput("it is a group, and a column is expected", place(container, name), "name a column in it")


def _categorical(node: Node, words: Array, found: LabelParts) -> None:
    numbers = words.dtype.kind in "iu"
    names = [] if numbers else texts(words, f"{found.source}, categories")
    for start in range(0, node.shape[0], LABEL_ROWS):
        codes = _read_labels(node, start, min(start + LABEL_ROWS, node.shape[0]))
        if codes.dtype.kind not in "iu":
            raise LabelDtype(f"codes of type {codes.dtype}", node.where, "write the column again")
        null = np.flatnonzero(codes < 0)
        if null.size:
            found.refuse_null(int(null[0]))
        if codes.size and int(codes.max()) >= words.size:
            row = start + int(codes.argmax())
            what = f"code {codes.max()} of {words.size} categories"
            raise DamagedInput(what, f"{found.source}, row {row}", "write the column again")
        if numbers:
            found.integers(words[codes])
        else:
            found.names(codes.astype(np.int64), names)


def no_text(node: Node) -> None:
    """Refuse rows of text in words of their own: a variable length is no pickle."""
    if node.dtype.kind in "OT":
        raise FeatureDtype("values are text, no real numbers", node.where, "name an array of numbers")
