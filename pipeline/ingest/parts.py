"""The parts of a dataset as the user has them: training rows, and perhaps validation and test rows that come apart."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from pipeline.dataset import TEST, TRAIN, VALIDATION, Note
from pipeline.ingest.coded_source import CodedSource
from pipeline.ingest.errors import LabelsMissing, UnknownInput, check_columns, guarded
from pipeline.ingest.files import PathLike, expand, format_of, shards_below
from pipeline.ingest.images import ImageSource, beside, named_by_table
from pipeline.ingest.labels import Labels, LabelsLike, check_length, look_at_labels, read_labels
from pipeline.ingest.made_rows import IteratorStream, MadeRows, MadeStream
from pipeline.ingest.npy import from_array, listed
from pipeline.ingest.npz import from_sparse, is_sparse
from pipeline.ingest.readers import LOCATED, READERS, SHAPED
from pipeline.ingest.source import PIECE_BYTES, Source, check_alike
from pipeline.ingest.stream import Job, Tick, spooled
from pipeline.ingest.svmlight import open_svmlight
from pipeline.ingest.wide import refuse_text_tables
from tasks.errors import ParamError
from tasks.rows import Dense, Rows
from tasks.rows.base import Array
from tasks.rows.stack import stacked

if TYPE_CHECKING:
    from pipeline.ingest.coder import Coder
    from tasks.coded_rows import Coded

SourceLike = PathLike | Sequence[PathLike] | Array | Any  # Any: a scipy sparse matrix


@dataclass(frozen=True)
class Given:
    """One part as it was asked for."""

    part: int  # TRAIN, VALIDATION or TEST
    source: SourceLike
    labels: LabelsLike | None


@dataclass(frozen=True)
class Reading:
    """How files are to be read."""

    spool: Path  # a folder for what must be rewritten before rows can be taken from it
    max_bytes: int
    fmt: str | None = None
    index_base: int | None = None
    n_features: int | None = None
    rows_at: str | None = None
    labels_at: str | None = None
    raw_shape: str | None = None
    raw_dtype: str | None = None
    must_label: bool = True  # whether labels that nobody named are looked for in the files
    tick: Tick | None = None  # while rows are copied: rows done, rows in all (0: unknown)
    coder: Coder | None = None  # of rows that are encoded on the way in
    say: Callable[[str], None] | None = None  # called with a line about what an earlier attempt has left

    def job(self, number: int, labelled: bool) -> Job:
        """How source `number` is read; its folder has the same name in every attempt."""
        folder = self.spool / f"source-{number}"
        where = self.rows_at, self.labels_at, labelled, self.must_label
        how = self.n_features, self.raw_shape, self.raw_dtype, self.tick
        return Job(folder, self.max_bytes, *where, *how, self.coder, number == 0, self.say)


class Parts:
    """All source rows, numbered through: first those of training, then validation, then test.

    known  the labels of each part as far as they are known before `encode`, None where they come with the rows
    """

    def __init__(self, given: Sequence[Given], reading: Reading) -> None:
        self.sources = open_sources([item.source for item in given], reading, [item.labels is None for item in given])
        self.sources = [
            named_by_table(source, item.labels) if isinstance(source, ImageSource) else source
            for item, source in zip(given, self.sources, strict=True)
        ]
        check_alike(self.sources)
        if reading.coder is not None:
            first = self.sources[0]
            reading.coder.check(self.body, first.n_features, first.name)
            reading.coder.check_sample(first.n_features, first.known_rows)
        if reading.n_features is not None:
            check_columns(self.n_features, reading.n_features, self.sources[0].name)
        self.given = list(given)
        self.known = [_known_labels(item, source) for item, source in zip(given, self.sources, strict=True)]

    def encode(self) -> None:
        """Have rows encoded that are kept as codes alone; then their number is known, and all labels are."""
        for source in self.sources:
            if isinstance(source, CodedSource):
                source.encode()
        each = zip(self.known, self.given, self.sources, strict=True)
        self.labels = [_labels(item, source) if known is None else known for known, item, source in each]
        for labels, source in zip(self.labels, self.sources, strict=True):
            check_length(labels, source.n_rows, source.name)  # or the rows of the next part would have them
        self.offsets = np.cumsum([0, *(source.n_rows for source in self.sources)])
        self.n_rows = int(self.offsets[-1])

    @property
    def n_features(self) -> int:
        return self.sources[0].n_features

    @property
    def body(self) -> str:
        return self.sources[0].body

    @property
    def feature_names(self) -> tuple[str, ...] | None:
        """Those of the training rows; where other parts have some, they are the same."""
        return self.sources[0].feature_names

    @property
    def notes(self) -> list[Note]:
        return [note for source in self.sources for note in source.notes]

    def row_bytes(self) -> int:
        """Mean bytes of a row in float32."""
        total = sum(source.row_bytes * source.n_rows for source in self.sources)
        return max(1, total // max(1, self.n_rows))

    def take(self, index: Array, dtype: str) -> Rows:
        """Source rows at `index`, in its order."""
        return stacked([source.take(rows, dtype) for source, rows in self._runs(index)])

    def coded(self, index: Array, codebooks: Array) -> Coded:
        """Codes of the source rows at `index`, in its order; few rows are held as numbers at a time.

        The sums are those of rows that are encoded here; of others the sources have them.
        """
        from tasks.coded_rows import Coded, coded

        pieces: list[Coded] = []
        for source, rows in self._runs(index):
            if isinstance(source, CodedSource):
                pieces.append(Coded(source.codes[rows], 0.0, 0.0))
                continue
            halves = source.dtype.newbyteorder("=") == np.float16
            step = max(1, PIECE_BYTES // max(1, source.row_bytes))
            for start in range(0, len(rows), step):
                taken = source.take(rows[start : start + step], "float16" if halves else "float32")
                pieces.append(coded(cast(Dense, taken).values, codebooks))
        codes = np.concatenate([piece.codes for piece in pieces])
        return Coded(codes, sum(piece.error for piece in pieces), sum(piece.norm for piece in pieces))

    @property
    def coded_sums(self) -> list[tuple[float, float]]:
        """Squared error and squared norm of each source that holds codes alone."""
        return [source.sums for source in self.sources if isinstance(source, CodedSource)]

    def _runs(self, index: Array) -> Iterator[tuple[Source, Array]]:
        """Source rows as runs of rows of one source: it, and the rows as they are numbered in it."""
        owner = np.searchsorted(self.offsets, index, side="right") - 1
        for start, stop in pairwise(np.flatnonzero(np.diff(owner, prepend=-1, append=-1))):
            source = int(owner[start])
            yield self.sources[source], index[start:stop] - self.offsets[source]


def given_parts(train: Given, validation: Given | None, test: Given | None) -> list[Given]:
    """The parts that are there; labels without rows are refused."""
    return [train, *(part for part in (validation, test) if part is not None)]


def optional_part(name: str, part: int, source: SourceLike | None, labels: LabelsLike | None) -> Given | None:
    if source is None and labels is not None:
        raise ParamError(f"{name}_labels", labels, f"none without {name}_source", "there are no rows for these labels")
    return None if source is None else Given(part, source, labels)


NAMES = {TRAIN: "labels", VALIDATION: "validation_labels", TEST: "test_labels"}


def _known_labels(given: Given, source: Source) -> Labels | None:
    """The labels of a part before its rows are encoded; None where they, or their number, come with the rows."""
    if given.labels is None and isinstance(source, CodedSource) and source.brings_labels:
        return None
    if given.labels is not None and source.known_rows is None:
        if not isinstance(given.labels, Iterator):  # which gives them once
            look_at_labels(given.labels)
        return None
    return _labels(given, source)


def _labels(given: Given, source: Source) -> Labels:
    if given.labels is None or (isinstance(source, ImageSource) and source.named):
        if source.labels is None:
            option = NAMES[given.part].replace("_", "-")
            why = beside(source) if isinstance(source, ImageSource) else ""
            hint = f"move them, or give labels with --{option}" if why else f"give them with --{option}"
            raise LabelsMissing(why or "its rows come without labels", source.name, hint)
        return source.labels
    if isinstance(source, ImageSource):
        text = "labels that name no files are taken in the order of the files' paths"
        source.notes.append(Note("LabelsInOrder", f"{source.name}: {text}", "warning"))
    return read_labels(given.labels, source.n_rows, source.name)


def open_sources(
    sources: Sequence[SourceLike], reading: Reading, labelled: Sequence[bool] | None = None
) -> list[Source]:
    """One source for each; svmlight files are opened together, because only together they prove their index base.

    labelled  False for sources whose labels are not to be read from the file of the rows
    """
    own = [True] * len(sources) if labelled is None else labelled
    opened: list[Source | None] = [None] * len(sources)
    files = {i: expand(_paths(source)) for i, source in enumerate(sources) if not _is_in_memory(source)}
    for paths in files.values():
        if reading.fmt is None:
            refuse_text_tables(paths)
    formats = {i: format_of(paths, reading.fmt) for i, paths in files.items()}
    _refuse_idle(reading, set(formats.values()), own)
    texts = [i for i, fmt in formats.items() if fmt == "svmlight"]
    if reading.coder is not None and texts:
        reading.coder.refuse_body("csr", _all_names(files[texts[0]]))
    if texts:
        base, width = reading.index_base, reading.n_features
        jobs = [reading.job(i, own[i]) for i in texts]
        with guarded(_all_names([path for i in texts for path in files[i]])):
            read = open_svmlight([files[i] for i in texts], jobs, base, width)
        for i, rows in zip(texts, read, strict=True):
            opened[i] = rows
    for i, source in enumerate(sources):  # in this order: where rows are encoded, the first has the codebooks
        job = reading.job(i, own[i])
        if i not in files:
            opened[i] = _from_memory(source, job)
        elif i not in texts:
            with guarded(_all_names(files[i])):
                opened[i] = READERS[formats[i]](files[i], job)
    for i, found in enumerate(opened):
        if i in files and isinstance(found, CodedSource):
            found.where = _all_names(files[i])
        if i in files and found is not None:
            found.notes += _left_out(sources[i])
    return [source for source in opened if source is not None]


def _all_names(paths: Sequence[Path]) -> str:
    return str(paths[0]) if len(paths) == 1 else f"{paths[0]} .. {paths[-1]}"


def _left_out(source: Any) -> list[Note]:
    """A warning of sub-folders that hold more files of a folder's kind: only those in the folder itself are read."""
    found = shards_below(source)
    if not found:
        return []
    text = f"{os.fspath(source)}: files in its sub-folders are not read: {listed(found)}; name them with a pattern"
    return [Note("FilesLeftOut", text, "warning")]


TEXTS = {"svmlight"}  # formats whose columns may count from 0 or from 1


def _refuse_idle(reading: Reading, formats: set[str], own: Sequence[bool]) -> None:
    """Options that would be without effect are refused: nobody should believe that they had one."""
    for names, values, known in (
        (("rows_at", "labels_at"), (reading.rows_at, reading.labels_at), LOCATED),
        (("raw_shape", "raw_dtype"), (reading.raw_shape, reading.raw_dtype), SHAPED),
        (("index_base",), (reading.index_base,), TEXTS),
    ):
        for name, value in zip(names, values, strict=True):
            if value is not None and not formats & known:
                accepted = f"none for {', '.join(sorted(formats)) or 'rows in memory'}"
                raise ParamError(name, value, accepted, f"it is for {', '.join(sorted(known))}")
    if reading.labels_at is not None and not any(own):
        raise ParamError("labels_at", reading.labels_at, "none beside labels", "labels are given in files of their own")


def _is_in_memory(source: SourceLike) -> bool:
    return isinstance(source, MadeRows | Iterator | np.ndarray) or is_sparse(source)


def _from_memory(source: SourceLike, job: Job) -> Source:
    if isinstance(source, MadeRows | Iterator):
        stream = MadeStream(source) if isinstance(source, MadeRows) else IteratorStream(source)
        if stream.carries_labels and job.must_label and not job.labelled:
            why = f"those that come with the rows ({stream.name}) would be lost"
            raise ParamError("labels", "given apart", "none beside rows that come with labels", why)
        return spooled([stream], job)
    return from_array(source, "array") if isinstance(source, np.ndarray) else from_sparse(source, "matrix")


def _paths(source: Any) -> PathLike | Sequence[PathLike]:
    if isinstance(source, str | os.PathLike):
        return source
    if not isinstance(source, Sequence) or not source:
        raise UnknownInput(
            f"{type(source).__name__} is no source of rows", "", "give files, an array, a sparse matrix, or made rows"
        )
    wrong = next((type(one).__name__ for one in source if not isinstance(one, str | os.PathLike)), None)
    if wrong is not None:
        hint = "give such rows alone, not in a list; of several arrays an iterator: iter([...])"
        raise UnknownInput(f"a list of {wrong} is no source of rows", "", hint)
    return source
