"""A source over files of named arrays: which array holds the rows, which the labels, and whether they are copied."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from pipeline.dataset import Note
from pipeline.ingest.anndata import column_text, is_anndata, obs_places, open_obs, x_places
from pipeline.ingest.anndata_names import var_names
from pipeline.ingest.candidates import LABELS_AT, ROWS_AT, SHOWN, labels_place, likely_first, one_of
from pipeline.ingest.containers import (
    ARRAY,
    Container,
    CsrStream,
    MatrixStream,
    is_sparse,
    label_places,
    label_rows,
    labels_of,
    no_text,
    normal_name,
    place,
    row_places,
)
from pipeline.ingest.errors import DeclaredTooLarge, LengthMismatch, UnknownInput
from pipeline.ingest.labels import Labels
from pipeline.ingest.source import Source, same_names
from pipeline.ingest.stream import Job, same_places, spooled, take_labels, unread
from tasks.errors import InputError

Mapped = Callable[[Any, str], Source | None]


def open_named(
    paths: Sequence[Path], kind: Callable[[Path], Container], job: Job, mapped: Mapped | None = None
) -> Source:
    """A source over files of named arrays, one below the other; a single plain matrix may be mapped where it lies."""
    if len(paths) == 1 and mapped is not None:
        with kind(paths[0]) as container:
            name = rows_at(container, job.rows_at)
            direct = mapped(container, name) if container.kind(name) == ARRAY else None
            if direct is not None:
                direct.notes += _labels_at(container, job, direct.n_rows)[1]
                direct.feature_names, notes = var_names(container, name, direct.n_features)
                direct.notes += notes
                take_labels(direct, job, partial(_labels, container, job, direct.n_rows))
                return direct
    streams = [_stream(partial(kind, path), job) for path in paths]
    same_places([stream.at for stream in streams], paths, f"rows ({ROWS_AT})")
    same_places([stream.labels_at for stream in streams], paths, f"labels ({LABELS_AT})")
    source = spooled(streams, job)
    source.feature_names, notes = _names_of_all(streams)
    source.notes += notes
    return source


def _names_of_all(
    streams: Sequence[LabelledMatrix | LabelledCsr],
) -> tuple[tuple[str, ...] | None, list[Note]]:
    """Names of the features of all files. Raises ColumnMismatch where those of one are others."""
    named, notes = [], []
    for stream in streams:
        with stream.opener() as container:
            names, said = var_names(container, stream.at, stream.n_features)
        notes += said
        named += [] if names is None else [(stream.name, names)]
    for name, names in named[1:]:
        same_names(named[0][1], names, named[0][0], name)
    return named[0][1] if named else None, notes


def _stream(opener: Callable[[], Container], job: Job) -> LabelledMatrix | LabelledCsr:
    with opener() as container:
        name = rows_at(container, job.rows_at)
        sparse = is_sparse(container, name)
    stream = (LabelledCsr if sparse else LabelledMatrix)(opener, name, job)
    stream.check_labels()
    return stream


class _Labelled:
    """Labels of a stream, read when its rows are there; whether they can be is known before."""

    opener: Callable[[], Container]
    job: Job
    n_rows: int
    notes: list[Note]
    labels_at: str | None

    def check_labels(self) -> None:
        with self.opener() as container:
            self.labels_at, notes = _labels_at(container, self.job, self.n_rows)
        self.notes += notes

    def labels(self) -> Labels | None:
        with self.opener() as container:
            return _labels(container, self.job, self.n_rows)


class LabelledMatrix(_Labelled, MatrixStream):
    """A matrix with its labels."""


class LabelledCsr(_Labelled, CsrStream):
    """A sparse matrix with its labels."""


def rows_at(container: Container, asked: str | None) -> str:
    """The array or sparse group of the rows."""
    where = str(container.path)
    if is_anndata(container):
        return x_places(container, asked)
    if asked is not None:
        name = normal_name(asked)
        if container.kind(name) == ARRAY:
            no_text(container.array(name))
            return name
        if is_sparse(container, name):
            return name
    found = one_of(row_places(container), asked, "rows", ROWS_AT, where).strip("/")
    if container.kind(found) == ARRAY:
        no_text(container.array(found))
    return found


def _labels_at(container: Container, job: Job, n_rows: int) -> tuple[str | None, list[Note]]:
    """The array or column of the labels; None where there are none. And what there is to say about it.

    Raises LengthMismatch where the file declares another number of labels than of rows.
    """
    name, notes = _candidate(container, job, n_rows)
    if name is None:
        return None, notes
    try:
        found = label_rows(container, name)
        if found != n_rows:
            what, where = f"{found:,} labels for {n_rows:,} rows", place(container, name)
            raise LengthMismatch(what, where, "one label a row, in the same order")
    except (InputError, DeclaredTooLarge) as error:
        if not job.seeks_labels:
            raise
        return None, [*notes, unread(error)]
    return name, notes


def _candidate(container: Container, job: Job, n_rows: int) -> tuple[str | None, list[Note]]:
    """The place of the labels, whatever stands there."""
    if not job.labelled:
        return None, []
    where = str(container.path)
    try:
        found = obs_places(container) if (of_obs := is_anndata(container)) else []
        if not of_obs and job.labels_at is not None and container.kind(normal_name(job.labels_at)):
            return normal_name(job.labels_at), []
        found = found if of_obs else label_places(container, n_rows)
    except InputError as error:  # in another array of the file
        if not job.seeks_labels:
            raise
        return None, [unread(error)]
    if of_obs and job.labels_at is None and not job.seeks_labels:
        return _only_column(container, found), []
    if of_obs and job.labels_at is not None:
        return labels_place(found, open_obs(job.labels_at), where), []
    return job.place_of_labels(found, where)


def _only_column(container: Container, found: Sequence[str]) -> str | None:
    """The column of obs that holds the labels. Raises UnknownInput, with what each holds, where there are several."""
    try:
        return labels_place(found, None, str(container.path))
    except UnknownInput as error:
        told = [f"{name}: {column_text(container, name)}" for name in likely_first(found)[:SHOWN]]
        raise UnknownInput(error.what, error.where, f"{error.hint} ({'; '.join(told)})") from None


def _labels(container: Container, job: Job, n_rows: int) -> Labels | None:
    name, _ = _labels_at(container, job, n_rows)
    return None if name is None else labels_of(container, name)


def named_labels(container: Container, asked: str | None) -> Labels:
    """Labels of a file that is given for its labels alone."""
    where, option = str(container.path), f"--labels {container.path.name}:"
    name: str | None
    if is_anndata(container):
        name = labels_place(obs_places(container), None if asked is None else open_obs(asked), where, option)
    elif asked is None:
        name = labels_place(label_places(container), None, where, option)
    else:
        name = normal_name(asked)
    if name is None or not container.kind(name):
        what = "there is no place of labels here" if asked is None else f"{asked!r} is no place of labels here"
        raise UnknownInput(what, place(container, ""), "name it: FILE:NAME")
    return labels_of(container, name)
