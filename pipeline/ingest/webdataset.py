"""Vectors in tar archives as webdataset writes them: members of one key make a sample, KEY.npy its vector.

An archive is read from front to back, nothing is extracted to a path, and only regular members count.
"""

from __future__ import annotations

import gzip
import io
import json
import re
import tarfile
import zlib
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np

from pipeline.dataset import Note
from pipeline.ingest.candidates import LABELS_AT, ROWS_AT, SHOWN, likely_first, listed, one_of
from pipeline.ingest.errors import (
    ColumnMismatch,
    DamagedInput,
    DeclaredTooLarge,
    FeatureDtype,
    FeatureShape,
    LabelDtype,
    LabelOutOfRange,
    LabelsMissing,
    RaggedEmbedding,
    SampleFormat,
    UnsafeFormat,
    UnsafePath,
)
from pipeline.ingest.files import GZIP_START, IMAGES, UNSAFE, first_bytes, stamp
from pipeline.ingest.labels import Labels, from_items, from_lines
from pipeline.ingest.npy import shard_order
from pipeline.ingest.npy_file import declared_bytes, read_header
from pipeline.ingest.source import SLAB_BYTES, Source
from pipeline.ingest.stream import Job, Stream, check_dtype, spooled, unread
from tasks.errors import InputError, LabelgroveError, ResourceError
from tasks.rows import Dense, Rows
from tasks.rows.base import Array

PICKLES = UNSAFE | {".pyd"}  # as webdataset names them
KEY = re.compile(r"((?:.*/|)[^./][^./]*)\.([^/]+)")  # as webdataset splits names: at the first dot after the last slash
BLOCK, PIECE = tarfile.BLOCKSIZE, 2**20
MAX_READ = 2**24  # bytes that one read may ask for: headers of members can declare any size
MAX_LABEL = 2**20  # bytes of a member with a label
CLASS = "cls"  # the ending that is taken when none is named
NO_LABELS = {"npy", "json", *(ending.lstrip(".") for ending in IMAGES)}  # endings that are no labels of their own


def open_webdataset(paths: Sequence[Path], job: Job) -> Source:
    """A source over tar archives of vectors, in the order given. Raises SampleFormat, RaggedEmbedding, UnsafePath."""
    first = ArchiveStream(paths[0], job, None)
    streams = [first, *(ArchiveStream(path, job, first) for path in paths[1:])]
    first.notes += shard_order(paths)
    return spooled(list[Stream](streams), job)


class Sample:
    """The members of one key that are wanted."""

    def __init__(self, key: str) -> None:
        self.key = key
        self.endings: list[str] = []
        self.vector: Array | None = None
        self.label: Any = None


class ArchiveStream:
    """The samples of one archive. `like` is the first archive: places, width and type are as there."""

    body, rides, nbytes = "dense", True, None
    n_features: int
    dtype: np.dtype
    rows_at: str
    labels_at: str | None

    def __init__(self, path: Path, job: Job, like: ArchiveStream | None) -> None:
        self.path, self.name, self.job = path, path.name, job
        self.n_rows: int | None = None
        self.notes: list[Note] = []
        self.counts: Counter[str] = Counter()
        self._found: list[Any] = []
        self._header, self._length = b"", 0  # of the vector before: all are alike, and parsing takes long
        self.n_features, self.dtype = (0, np.dtype(np.float32)) if like is None else (like.n_features, like.dtype)
        self.rows_at, self.labels_at = ("", None) if like is None else (like.rows_at, like.labels_at)
        if like is None:
            self._look()
        self.about: list[Any] = [*stamp(path), self.rows_at, self.labels_at]

    def _look(self) -> None:
        """Places, width and type from the first sample."""
        sample = next(self._samples(names_only=True), None)
        if sample is None:
            raise FeatureShape("there are no samples", str(self.path), "members are named KEY.npy, KEY.cls and so on")
        where = f"{self.path}, key {sample.key!r}"
        vectors = [ending for ending in sample.endings if ending == "npy" or ending.endswith(".npy")]
        if not vectors and self.job.rows_at is None:
            found = listed(sample.endings)
            raise SampleFormat(f"no vector: its members are {found}", where, "vectors are members KEY.npy")
        asked = self.job.rows_at
        self.rows_at = one_of(vectors, asked.lstrip(".").lower() if asked else None, "rows", ROWS_AT, where)
        self.labels_at = self._label_place(sample, where)
        sample = next(self._samples())
        assert sample.vector is not None
        self.n_features, self.dtype = sample.vector.size, sample.vector.dtype

    def _label_place(self, sample: Sample, where: str) -> str | None:
        """An ending, or json:KEY."""
        endings = sample.endings
        if not self.job.labelled:
            return None
        asked = self.job.labels_at
        others = [ending for ending in endings if ending.rpartition(".")[2] not in NO_LABELS]
        if asked is None:
            if CLASS in endings or self.job.seeks_labels:
                return CLASS if CLASS in endings else None
            offered = likely_first([*(f"json:{key}" for key in self._json_keys(sample)), *others])
            if not offered:
                return None
            more = f" (or {', '.join(offered[1:SHOWN])})" if offered[1:] else ""
            hint = f"say where the labels are: {LABELS_AT} {offered[0]}{more}"
            raise LabelsMissing(f"no label: no member ends in {CLASS!r}", where, hint)
        asked = asked.lstrip(".")
        if asked.startswith("json:") or asked in endings:
            return asked
        if "json" in endings:
            return f"json:{asked}"
        hint = f"{LABELS_AT} takes an ending ({listed([e for e in endings if e != self.rows_at])}) or json:KEY"
        raise LabelsMissing(f"no member ends in {asked!r}", where, hint)

    def _json_keys(self, sample: Sample) -> list[str]:
        """Keys of the first sample's JSON whose values can be labels."""
        if "json" not in sample.endings:
            return []
        with self._archive() as archive:
            for member in _members(archive, self.path):
                if self._named(member) == (sample.key, "json") and member.size <= MAX_LABEL:
                    found = _json(_content(archive, member, f"{self.path}, member {member.name!r}"))
                    labels = found if isinstance(found, dict) else {}
                    return sorted(key for key, value in labels.items() if _is_label(value))
        return []

    # ---- reading -------------------------------------------------------------------------------------------------

    def slabs(self, start: int) -> Iterator[Rows]:
        size = max(1, SLAB_BYTES // (self.n_features * self.dtype.itemsize))
        held: list[Array] = []
        self._found, n_rows = [], 0
        for sample in self._samples(skip=start):
            if sample.vector is not None:
                held.append(sample.vector)
            if self.labels_at is not None:
                self._found.append(sample.label)
            n_rows += 1
            if len(held) == size:
                yield Dense(np.stack(held))
                held = []
        if held:
            yield Dense(np.stack(held))
        self.n_rows = n_rows

    def _samples(self, names_only: bool = False, skip: int = 0) -> Iterator[Sample]:
        """Samples in order, each when its last member is read; of the first `skip` no vectors."""
        seen: set[bytes] = set()
        sample: Sample | None = None
        count = 0
        with self._archive() as archive:
            for member in _members(archive, self.path):
                key, ending = self._named(member)
                if not ending:
                    continue
                if sample is None or key != sample.key:
                    if sample is not None:
                        yield self._whole(sample, names_only, count <= skip)
                    count += 1
                    sample = self._begin(key, seen)
                if ending in sample.endings:
                    raise SampleFormat(
                        f"two members end in {ending!r}", self._where(sample), "give each sample its key"
                    )
                sample.endings.append(ending)
                if not names_only:
                    self._take(archive, member, ending, sample, count > skip, count == 1)
            if sample is not None:
                yield self._whole(sample, names_only, count <= skip)

    def _named(self, member: tarfile.TarInfo) -> tuple[str, str]:
        """Key and ending of a member; no ending for one that is no part of a sample."""
        where = f"{self.path}, member {member.name!r}"
        if member.isdir():
            return "", ""
        if not member.isreg() or member.issparse():
            raise UnsafePath("this member is a link or a device", where, "write the archive with files only (tar -h)")
        found = KEY.fullmatch(member.name)
        if found is None:
            return "", ""
        ending = found[2].lower()
        if f".{ending.rpartition('.')[2]}" in PICKLES:
            raise UnsafeFormat("pickles can run code when they are read", where, "save vectors as .npy members")
        return found[1], ending

    def _begin(self, key: str, seen: set[bytes]) -> Sample:
        sample = Sample(key)
        short = blake2b(key.encode("utf-8", "surrogateescape"), digest_size=12).digest()
        if short in seen:
            raise SampleFormat("this key was there before", self._where(sample), "members of a sample stand together")
        seen.add(short)
        return sample

    def _where(self, sample: Sample) -> str:
        return f"{self.path}, key {sample.key!r}"

    def _take(
        self, archive: tarfile.TarFile, member: tarfile.TarInfo, ending: str, sample: Sample, wanted: bool, first: bool
    ) -> None:
        where = f"{self._where(sample)}, member .{ending}"
        place = self.labels_at or ""
        if ending == self.rows_at and wanted:
            sample.vector = self._vector(archive, member, where, first)
        elif place and ending == (place.split(":", 1)[0] if place.startswith("json:") else place):
            try:
                sample.label = self._label(archive, member, place, where)
            except (InputError, ResourceError) as error:
                self._do_without(error)

    def _label(self, archive: tarfile.TarFile, member: tarfile.TarInfo, place: str, where: str) -> Any:
        if member.size > MAX_LABEL:
            what = f"{member.size:,} bytes for a label; the limit is {MAX_LABEL:,}"
            raise DeclaredTooLarge(what, where, "give labels in a file of their own (--labels)")
        return _label(_content(archive, member, where), place, where)

    def _do_without(self, error: LabelgroveError) -> None:
        """Labels that were only sought are left out when they cannot be read. Raises the error of others."""
        if not self.job.seeks_labels:
            raise error
        self.labels_at = None
        self.notes.append(unread(error))

    def _vector(self, archive: tarfile.TarFile, member: tarfile.TarInfo, where: str, first: bool) -> Array:
        if 2 * member.size > self.job.max_bytes:
            what = f"a vector of {member.size:,} bytes; the limit is {self.job.max_bytes:,} for two"
            raise DeclaredTooLarge(what, where, "raise --max-bytes")
        content = _content(archive, member, where)
        if self._header and len(content) == self._length and content.startswith(self._header):
            return np.frombuffer(content, self.dtype, offset=len(self._header))  # as the one before it
        file = io.BytesIO(content)
        shape, _, dtype = read_header(file, where)
        check_dtype(dtype, where)
        size = declared_bytes(shape, dtype)
        if size != member.size - file.tell():
            what = f"the header declares {size:,} bytes of values and {member.size - file.tell():,} are there"
            raise DamagedInput(what, where, "write the archive again")
        if len(shape) not in (1, 2) or (len(shape) == 2 and shape[0] != 1) or not size:
            raise FeatureShape(f"the array has shape {shape}", where, "a vector, one row of values, is expected")
        self._check_alike(shape[-1], dtype, where, first)
        if dtype.isnative and self.n_features:
            self._header, self._length = content[: file.tell()], len(content)
        return np.frombuffer(content, dtype, offset=file.tell()).astype(dtype.newbyteorder("="))

    def _check_alike(self, width: int, dtype: np.dtype, where: str, first: bool) -> None:
        if not self.n_features:
            return
        what = f"{width} values where the first vector has {self.n_features}"
        if width != self.n_features:
            error = ColumnMismatch if first else RaggedEmbedding
            raise error(what, where, "every sample has a vector of one length; leave the others out")
        if dtype.newbyteorder("=") != self.dtype:
            raise FeatureDtype(
                f"{dtype} values where the first vector has {self.dtype}", where, "write all in one type"
            )

    def _whole(self, sample: Sample, names_only: bool, skipped: bool) -> Sample:
        """The sample, when it has its vector and its label."""
        if names_only:
            return sample
        if self.rows_at not in sample.endings:
            raise SampleFormat(f"no vector: no member ends in {self.rows_at!r}", self._where(sample), "leave it out")
        assert skipped or sample.vector is not None
        if self.labels_at is not None and sample.label is None:
            what = f"no label: no member for {self.labels_at!r}"
            hint = "every row has a label; leave the sample out"
            self._do_without(LabelOutOfRange(what, self._where(sample), hint))
        return sample

    @contextmanager
    def _archive(self) -> Iterator[tarfile.TarFile]:
        packed = first_bytes(self.path, 2) == GZIP_START
        with readable_tar(self.path), gzip.open(self.path) if packed else open(self.path, "rb") as file:
            bounded: Any = _Bounded(file)
            with tarfile.open(fileobj=bounded, mode="r:") as archive:
                yield archive

    def labels(self) -> Labels | None:
        """Text is read as a file of labels is: integers when all of it is; JSON values stay what they are."""
        if self.labels_at is None:
            return None
        if self.labels_at.startswith("json:"):
            return from_items(self._found, f"{self.name}:{self.labels_at}")
        return from_lines(self._found, f"{self.name}:.{self.labels_at}")


class _Bounded:
    """A file that refuses to read very much at once, and remembers what it read last."""

    def __init__(self, file: Any) -> None:
        self.file, self.last = file, b""
        self.seek, self.tell, self.close = file.seek, file.tell, lambda: None

    def read(self, size: int) -> bytes:
        if size > MAX_READ:
            raise DeclaredTooLarge(f"a header of {size:,} bytes", "", "write the archive again with plain names")
        self.last = self.file.read(size)
        return self.last


@contextmanager
def readable_tar(path: Path) -> Iterator[None]:
    try:
        yield
    except LabelgroveError as error:
        if not error.where:
            error.where = str(path)
        raise
    except (tarfile.TarError, EOFError, zlib.error, OSError, ValueError, OverflowError) as error:
        raise DamagedInput(f"this is no readable tar archive ({error})", str(path), "copy it again") from error


def _members(archive: Any, path: Path) -> Iterator[tarfile.TarInfo]:
    """Members in order; raises DamagedInput where the archive ends otherwise than with its end mark."""
    while (member := archive.next()) is not None:
        archive.members.clear()  # or every header of the archive would be kept
        yield member
    file: Any = archive.fileobj
    if len(file.last) != BLOCK or any(file.last):
        what = f"no header and no end mark at byte {archive.offset:,}"
        raise DamagedInput(what, str(path), "copy it again, it may have been cut short")
    while piece := file.read(PIECE):
        if piece.strip(b"\0"):
            hint = "archives that were written one after the other are read as files of their own"
            raise DamagedInput("there is more after its end mark", str(path), hint)


def _content(archive: Any, member: tarfile.TarInfo, where: str) -> bytes:
    file, found = archive.fileobj, bytearray()
    if file.tell() != member.offset_data:
        file.seek(member.offset_data)
    while len(found) < member.size:
        piece = file.read(min(PIECE, member.size - len(found)))
        if not piece:
            raise DamagedInput(f"{len(found):,} of {member.size:,} bytes are there", where, "copy the archive again")
        found += piece
    return bytes(found)


def _label(content: bytes, place: str, where: str) -> Any:
    try:
        text = content.decode("utf-8").strip("\n\r")
    except UnicodeDecodeError as error:
        raise LabelDtype("the label is no UTF-8 text", where, "save it as UTF-8") from error
    if not place.startswith("json:"):
        return text
    key = place.split(":", 1)[1]
    found = _json(text)
    if not isinstance(found, dict):
        raise LabelDtype("this is no JSON object", where, "give labels as .cls members")
    if key not in found:
        keys = listed(likely_first(sorted(found)))
        raise LabelsMissing(f"no key {key!r}; keys: {keys}", where, f"{LABELS_AT} json:KEY")
    if found[key] is None:
        raise LabelOutOfRange("the label is null", where, "every row has a label; leave the sample out")
    if not _is_label(found[key]):
        raise LabelDtype(f"label {found[key]!r} of type {type(found[key]).__name__}", where, "integers, or names")
    return found[key]


def _json(text: str | bytes) -> Any:
    """What it says; None where it is no JSON."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _is_label(value: Any) -> bool:
    return isinstance(value, int | str) and not isinstance(value, bool)
