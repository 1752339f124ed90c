"""Files that give their rows only in order: what a reader of such files is, and how its rows become a source."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from pipeline.dataset import Note
from pipeline.ingest.candidates import UNREAD, labels_place, sought_labels
from pipeline.ingest.errors import (
    ColumnMismatch,
    CsrStructure,
    DeclaredTooLarge,
    FeatureDtype,
    FeatureShape,
    LengthMismatch,
)
from pipeline.ingest.labels import Labels, check_length, join_labels
from pipeline.ingest.npy_file import refuse_objects
from pipeline.ingest.source import CsrSource, DenseSource, Pieces, Source
from pipeline.ingest.spool import Spool
from tasks.errors import InputError, LabelgroveError
from tasks.later import later
from tasks.rows import Csr, Dense, Rows
from tasks.rows.base import Array

sparse = later("scipy.sparse")

if TYPE_CHECKING:
    from pipeline.ingest.coder import Coder

REAL_KINDS = "fiub"  # float, signed, unsigned, bool
MAX_FEATURES = 2**31 - 1
MERGED, UNSORTED = "merged", "unsorted"  # what `canonical` counts
Tick = Callable[[int, int], None]


@dataclass(frozen=True)
class Job:
    """How one source is read: where its copy goes, what is allowed, and what was asked for."""

    folder: Path  # of its own, the same in the next attempt after a kill
    max_bytes: int
    rows_at: str | None = None
    labels_at: str | None = None
    labelled: bool = True  # whether its own labels are wanted
    must_label: bool = True  # whether several candidates for the labels, or labels that nobody can read, are an error
    n_features: int | None = None
    raw_shape: str | None = None
    raw_dtype: str | None = None
    tick: Tick | None = None  # rows copied, rows in all (0: unknown)
    coder: Coder | None = None  # that makes codes of the rows
    learns: bool = False  # whether it may learn its codebooks from these rows
    say: Callable[[str], None] | None = None  # of what an earlier attempt has left

    @property
    def seeks_labels(self) -> bool:
        """Whether labels are taken where it is plain which they are, and done without elsewhere."""
        return self.labelled and not self.must_label and self.labels_at is None

    def place_of_labels(self, found: Sequence[str], where: str) -> tuple[str | None, list[Note]]:
        """Where among `found` the labels stand; None without labels. And what there is to say about it.

        Raises UnknownInput and LabelsMissing where labels must be found, or are not where they were said to be.
        """
        if not self.labelled:
            return None, []
        return sought_labels(found) if self.seeks_labels else (labels_place(found, self.labels_at, where), [])


class Stream(Protocol):
    """Rows of one file, from first to last, in bounded memory.

    dtype     of the values as they are given, in the byte order of this machine
    n_rows    None while nobody knows; known when `slabs` has come to its end
    rides     whether labels come with the rows, so that `slabs` must go through all of them
    about     what tells this content from another, as JSON values
    nbytes    that the rows will take when copied, where that is known
    """

    name: str
    dtype: np.dtype
    n_features: int
    notes: list[Note]
    about: list[Any]
    counts: Counter[str]

    @property
    def body(self) -> str: ...
    @property
    def n_rows(self) -> int | None: ...
    @property
    def rides(self) -> bool: ...
    @property
    def nbytes(self) -> int | None: ...

    def slabs(self, start: int) -> Iterator[Rows]:
        """Rows from row `start` on, some at a time."""
        ...

    def labels(self) -> Labels | None:
        """The labels of all rows, after the last slab; None when the file has none that were asked for."""
        ...


class Chain:
    """Several files of one kind, one below the other."""

    def __init__(self, streams: Sequence[Stream]) -> None:
        first = streams[0]
        for other in streams[1:]:
            if other.body != first.body:
                what = f"{first.name} is {first.body} and {other.name} is {other.body}"
                raise ColumnMismatch(what, other.name, "all files of a source have one kind of rows")
            if other.n_features != first.n_features:
                what = f"{first.name} has {first.n_features} columns and {other.name} has {other.n_features}"
                raise ColumnMismatch(what, other.name, "all files of a source have the same columns")
        self.streams = list(streams)
        self.body, self.n_features = first.body, first.n_features
        self.name = first.name if len(streams) == 1 else f"{first.name} .. {streams[-1].name}"
        self.dtype = np.result_type(*(stream.dtype for stream in streams))
        self.rides = any(stream.rides for stream in streams)
        self.about = [stream.about for stream in streams]
        self.carries_labels = bool(getattr(first, "carries_labels", False))  # beside the rows: of made rows
        sizes = [stream.nbytes for stream in streams if stream.nbytes is not None]
        self.nbytes = sum(sizes) if len(sizes) == len(self.streams) else None

    @property
    def n_rows(self) -> int | None:
        known = [stream.n_rows for stream in self.streams if stream.n_rows is not None]
        return sum(known) if len(known) == len(self.streams) else None

    @property
    def notes(self) -> list[Note]:
        return [note for stream in self.streams for note in stream.notes]

    @property
    def counts(self) -> Counter[str]:
        return sum((stream.counts for stream in self.streams), Counter())

    def slabs(self, start: int) -> Iterator[Rows]:
        for stream in self.streams:
            if not stream.rides and stream.n_rows is not None and start >= stream.n_rows:
                start -= stream.n_rows
                continue
            yield from stream.slabs(start)
            start = max(0, start - (stream.n_rows or 0))

    def labels(self) -> Labels | None:
        found = [_whole_labels(stream) for stream in self.streams]
        parts = [part for part in found if part is not None]
        filled = [part for part in parts if len(part)] or parts[:1]  # no label says neither integers nor names
        return join_labels(filled) if len(parts) == len(found) else None

    def pieces(self) -> Pieces:
        """Which file each row stands in, as far as the files are read: the last is then the one that is being read."""
        unread = next((i for i, stream in enumerate(self.streams) if stream.n_rows is None), len(self.streams))
        streams = self.streams[: unread + 1]
        return Pieces(self.name, [stream.name for stream in streams], [s.n_rows or 0 for s in streams])


def same_places(found: Sequence[str | None], paths: Sequence[Path], what: str) -> None:
    """Raise ColumnMismatch unless all files of a source have their rows, or their labels, under one name."""
    names = [name for name in found if name is not None]
    for path, name in zip(paths, found, strict=True):
        if name is not None and name != names[0]:
            said = f"{names[0]!r} in the files before and {name!r} in this one"
            raise ColumnMismatch(said, str(path), f"all files have one name for the {what}")


def _whole_labels(stream: Stream) -> Labels | None:
    """The labels of one file. Raises LengthMismatch: too many here would be those of the next file's rows."""
    found = stream.labels()
    if found is not None and stream.n_rows is not None:
        check_length(found, stream.n_rows, stream.name)
    return found


def spooled(streams: Sequence[Stream], job: Job) -> Source:
    """Copy the rows of these files into raw files of the job's folder, and map them as a source; with their labels.

    Where codes are asked for, and there will be what they are made with, nothing is copied: the source is still to be
    encoded.

    An attempt that was killed is continued. Raises DiskFull and whatever the streams do.
    """
    chain = Chain(streams)
    if job.coder is not None:
        job.coder.refuse_body(chain.body, chain.name)
        if job.learns:  # others must be as wide as these, which is said in other words
            job.coder.check(chain.body, chain.n_features, chain.name)
        if job.learns or job.coder.learns_as_they_come:
            return _to_be_coded(chain, job, job.coder)
    sparse = chain.body == Csr.body
    columns = {"values": chain.dtype}
    if sparse:
        columns |= {"columns": np.dtype(np.int32), "ends": np.dtype(np.int64)}
    with spool_of(chain, job, columns, chain.body) as spool:
        if chain.nbytes is not None:
            spool.need(chain.nbytes)
        if sparse and not spool.sizes["ends"]:
            spool.append(0, ends=np.zeros(1, np.int64))
        _copy(chain, spool, job.tick)
    check_rows_came(chain, spool)
    source = _mapped(chain, spool)
    source.placed = chain.pieces().place
    source.notes += merged_notes(chain.name, Counter(spool.state))
    if chain.carries_labels:
        source.labels = Labels(chain.name, spool.column("labels"))
    else:
        take_labels(source, job, chain.labels)
    return source


def spool_of(chain: Chain, job: Job, columns: dict[str, np.dtype], body: str, **more: str) -> Spool:
    """The spool of these rows, begun or to be continued. more: what else tells it from others"""
    if chain.carries_labels:
        columns = columns | {"labels": np.dtype(np.int64)}
    about = {"body": body, "n_features": chain.n_features, "of": chain.about, **more}
    spool = Spool(job.folder, columns, about)
    if spool.damaged and job.say:
        job.say(f"what an earlier attempt has kept of {chain.name} is damaged: it is begun again")
    return spool


def check_rows_came(chain: Chain, spool: Spool) -> None:
    """Raises LengthMismatch."""
    if chain.n_rows is not None and chain.n_rows != spool.rows:
        what = f"{spool.rows:,} rows came where {chain.n_rows:,} are declared"
        raise LengthMismatch(what, chain.name, "write the file again")


def _to_be_coded(chain: Chain, job: Job, coder: Coder) -> Source:
    """A source whose rows are still to be encoded; labels that do not come with them are read at once."""
    from pipeline.ingest.coded_source import CodedSource  # of images, which are no streams

    source = CodedSource(chain, job, coder)
    coder.learns_as_they_come = True
    if not source.brings_labels:
        take_labels(source, job, chain.labels)
    return source


def take_labels(source: Source, job: Job, read: Callable[[], Labels | None]) -> None:
    """Give a source the labels that `read` finds. Raises its errors and LengthMismatch; of labels that were only
    sought these are a note.
    """
    try:
        found = read()
        if found is not None:
            check_length(found, source.n_rows, source.name)
        source.labels = found
    except (InputError, DeclaredTooLarge) as error:
        if not job.seeks_labels:
            raise
        source.notes.append(unread(error))


def unread(error: LabelgroveError) -> Note:
    return Note(UNREAD, f"labels are not read: {error.what} [{error.where}]")


def _copy(chain: Chain, spool: Spool, tick: Tick | None) -> None:
    before = Counter(spool.state)
    for rows in chain.slabs(spool.rows):
        if isinstance(rows, Csr):
            ends = rows.indptr[1:] + spool.sizes["values"] // chain.dtype.itemsize
            spool.append(rows.n_rows, values=rows.data, columns=rows.indices, ends=ends)
        else:
            assert isinstance(rows, Dense)
            labels = {"labels": rows.labels} if hasattr(rows, "labels") else {}
            spool.append(rows.n_rows, values=rows.values, **labels)
        spool.state = dict(before + chain.counts)
        if spool.due():
            spool.mark()
        if tick:
            tick(spool.rows, chain.n_rows or 0)
    if not spool.whole:
        spool.mark(whole=True)


def _mapped(chain: Chain, spool: Spool) -> Source:
    values = spool.column("values")
    notes = [*chain.notes, *converted(chain.name, chain.dtype)]
    if chain.body == Csr.body:
        columns, ends = spool.column("columns"), spool.column("ends")
        return CsrSource(chain.name, values, columns, ends, chain.n_features, notes)
    return DenseSource(chain.name, [(chain.name, values.reshape(-1, chain.n_features))], notes)


# ---- what all readers check --------------------------------------------------------------------------------------


def check_matrix(shape: tuple[int, ...], dtype: np.dtype, where: str) -> None:
    """Refuse what is no matrix of real numbers with at least one column."""
    check_dtype(dtype, where)
    if len(shape) != 2 or shape[1] == 0:
        hint = "rows x features is expected; reshape it, for one feature to (n_rows, 1)"
        raise FeatureShape(f"the array has shape {shape}", where, hint)


def check_dtype(dtype: np.dtype, where: str) -> None:
    refuse_objects(dtype, where)
    if dtype.kind not in REAL_KINDS:
        raise FeatureDtype(f"values of type {dtype} are no real numbers", where, "convert them to float32")


def converted(name: str, dtype: np.dtype) -> list[Note]:
    """A note of the type that values change to when they are stored; float16 stays."""
    if dtype in (np.dtype(np.float32), np.dtype(np.float16)):
        return []
    return [Note("Converted", f"{name}: {dtype} values are stored as float32")]


# ---- sparse rows -------------------------------------------------------------------------------------------------


def sparse_dtype(dtype: np.dtype) -> np.dtype:
    """In which type sparse values are kept: repeated entries are added up in it, which float16 and bool cannot."""
    native = dtype.newbyteorder("=")
    if native.kind == "b" or native.itemsize < 4:
        return np.result_type(native, np.float32)
    return native


def check_pointers(indptr: Array, entries: int, where: str, first_row: int = 0) -> None:
    """Raise CsrStructure where row pointers (n + 1,) go back or beyond the `entries` values that are there."""
    back = np.flatnonzero(np.diff(indptr) < 0)
    if back.size:
        row = first_row + int(back[0])
        raise CsrStructure("row pointers that go back", f"{where}, row {row}", "write the matrix again")
    if indptr.size and not 0 <= indptr[0] <= indptr[-1] <= entries:
        what = f"row pointers from {indptr[0]} to {indptr[-1]} for {entries:,} values"
        raise CsrStructure(what, where, "write the matrix again")


def canonical(
    data: Array, indices: Array, indptr: Array, n_features: int, where: str, first_row: int, counts: Counter[str]
) -> Csr:
    """Rows with ascending columns, each once: columns out of order are sorted, repeated entries added up and counted.

    indptr  (n + 1,) int64 from 0. Raises CsrStructure with the row for a column outside the matrix.
    """
    if indices.size and (indices.min() < 0 or indices.max() >= n_features):
        entry = int(np.flatnonzero((indices < 0) | (indices >= n_features))[0])
        row = first_row + int(np.searchsorted(indptr, entry, side="right")) - 1
        what = f"column {indices[entry]} of a matrix of {n_features} columns"
        raise CsrStructure(what, f"{where}, row {row}", "columns count from 0; is the shape right?")
    matrix = sparse.csr_matrix((data, indices.astype(np.int32), indptr), shape=(indptr.size - 1, n_features))
    if not matrix.has_canonical_format:
        entries = matrix.nnz
        matrix.sum_duplicates()
        counts[UNSORTED] += 1
        counts[MERGED] += entries - matrix.nnz
    return Csr(matrix.data, matrix.indices.astype(np.int32), matrix.indptr.astype(np.int64), n_features)


def merged_notes(name: str, counts: Counter[str]) -> list[Note]:
    if not counts[UNSORTED]:
        return []
    text = f"{name}: columns sorted in each row; {counts[MERGED]} repeated entries added up"
    return [Note("Converted", text)]
