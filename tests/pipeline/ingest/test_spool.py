"""Copies of rows go on where a killed attempt was, and are begun anew where anything is not as it was."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse

from pipeline.ingest import errors
from pipeline.ingest.labels import Labels
from pipeline.ingest.parts import Reading, open_sources
from pipeline.ingest.source import Source
from pipeline.ingest.spool import PROGRESS, Spool
from pipeline.ingest.stream import Job, spooled
from tasks.files import DiskFull
from tasks.rows import Csr, Dense, Rows
from tests.pipeline.ingest import formats

N_ROWS, N_FEATURES = 100, 6
X = np.random.default_rng(4).standard_normal((N_ROWS, N_FEATURES)).astype(np.float32)
X[np.abs(X) < 0.5] = 0
Y = np.arange(N_ROWS) % 4


class Killed(BaseException):
    """Stands for a kill: nothing is cleaned up after it."""


class Rowwise:
    """Rows of a matrix, seven at a time, that stop before some row; and what was asked of them."""

    rides, nbytes = False, None

    def __init__(self, body: str = "dense", stop: int | None = None, about: int = 0) -> None:
        self.name, self.body, self.stop = "rows", body, stop
        self.dtype, self.n_features, self.n_rows = np.dtype(np.float32), N_FEATURES, N_ROWS
        self.notes: list[Any] = []
        self.about: list[Any] = [about]
        self.counts: Counter[str] = Counter()
        self.starts: list[int] = []

    def slabs(self, start: int) -> Iterator[Rows]:
        self.starts.append(start)
        for first in range(start, N_ROWS, 7):
            if self.stop is not None and first >= self.stop:
                raise Killed
            part = X[first : first + 7]
            self.counts.update(("merged", "unsorted"))
            if self.body == "dense":
                yield Dense(part)
            else:
                rows = scipy.sparse.csr_matrix(part)
                yield Csr(rows.data, rows.indices, rows.indptr.astype(np.int64), N_FEATURES)

    def labels(self) -> Labels | None:
        return Labels("rows", Y)


@pytest.fixture
def marked_often(monkeypatch):
    monkeypatch.setattr("pipeline.ingest.spool.MARK_BYTES", 1)


def rows_of(source: Source) -> np.ndarray:
    return np.vstack([rows.to_array() for _, rows in source.slabs()])


@pytest.mark.parametrize("body", ["dense", "csr"])
@pytest.mark.parametrize("stops", [[0], [50], [7, 49, 98], [N_ROWS]], ids=str)
@pytest.mark.usefixtures("marked_often")
def test_a_copy_continues_after_kills(tmp_path, body, stops):
    job = Job(tmp_path / "spool", 10**9)
    starts = []
    for stop in stops:
        stream = Rowwise(body, stop)
        if stop < N_ROWS:
            with pytest.raises(Killed):
                spooled([stream], job)
        else:
            spooled([stream], job)
        starts += stream.starts
    stream = Rowwise(body)
    source = spooled([stream], job)
    np.testing.assert_array_equal(rows_of(source), X)
    assert stream.starts == ([-(-stops[-1] // 7) * 7] if stops[-1] < N_ROWS else [])
    assert starts == sorted(starts)
    assert "15 repeated entries" in source.notes[-1].text
    np.testing.assert_array_equal(source.labels.values, Y)


@pytest.mark.usefixtures("marked_often")
@pytest.mark.parametrize("damage", ["other content", "other type", "file cut", "file gone", "progress cut", "tail"])
def test_what_is_not_as_it_was_is_begun_anew(tmp_path, damage):
    folder = tmp_path / "spool"
    with pytest.raises(Killed):
        spooled([Rowwise(stop=50)], Job(folder, 10**9))
    stream, values = Rowwise(about=damage == "other content"), folder / "values.raw"
    if damage == "other type":
        stream.dtype = np.dtype(np.float64)
    elif damage == "file cut":
        values.write_bytes(values.read_bytes()[:-1])
    elif damage == "file gone":
        values.unlink()
    elif damage == "progress cut":
        (folder / PROGRESS).write_text((folder / PROGRESS).read_text()[:-5])
    elif damage == "tail":  # written after the last mark
        values.write_bytes(values.read_bytes() + b"half a row")
    source = spooled([stream], Job(folder, 10**9))
    np.testing.assert_array_equal(rows_of(source), X)
    assert stream.starts == [56 if damage == "tail" else 0]


def test_nothing_counts_before_its_mark(tmp_path):
    spool = Spool(tmp_path, {"a": np.dtype(np.int64)}, {})
    with spool:
        spool.append(3, a=np.arange(3))
        spool.state = {"line": 3}
        spool.mark()
        spool.append(2, a=np.arange(2))
    again = Spool(tmp_path, {"a": np.dtype(np.int64)}, {})
    assert (again.rows, again.state, again.whole) == (3, {"line": 3}, False)
    with again:
        again.append(1, a=np.array([9]))
        again.mark(whole=True)
    assert again.column("a").tolist() == [0, 1, 2, 9]
    assert json.loads((tmp_path / PROGRESS).read_text())["whole"]


def test_a_copy_that_the_disk_cannot_hold_is_not_begun(tmp_path):
    stream = Rowwise()
    stream.nbytes = 2**60
    with pytest.raises(DiskFull, match="1,152,921,504,606,846,976 bytes"):
        spooled([stream], Job(tmp_path / "spool", 10**9))
    assert stream.starts == []


@pytest.mark.parametrize(
    "name", ["parquet shards", "hdf5 chunks", "zarr v3 shards", "hdf5 group", "tar", "svmlight", "npy Fortran"]
)
@pytest.mark.usefixtures("marked_often")
def test_readers_continue_after_a_kill(tmp_path, monkeypatch, name):
    """Killed at every row that a slab may start at: the rows and labels come out whole."""
    for module in ("parquet", "containers", "webdataset"):
        monkeypatch.setattr(f"pipeline.ingest.{module}.SLAB_BYTES", 13 * N_FEATURES * 4)
    monkeypatch.setattr("pipeline.ingest.svmlight.FLUSH_ENTRIES", 30)
    monkeypatch.setattr(formats, "CHUNK_ROWS", 16)
    writer = formats.DENSE.get(name) or formats.SPARSE[name]
    x = scipy.sparse.csr_matrix(X) if name in ("svmlight", "hdf5 group") else X
    source, options = writer(tmp_path, x, Y)
    seen: list[int] = []

    def kill(done: int, _total: int) -> None:
        seen.append(done)
        raise Killed

    labelled = name != "npy Fortran" and not name.startswith("zarr")
    for attempt in range(40):
        reading = Reading(tmp_path / "spool", 10**9, **options, tick=kill if attempt < 39 else None)
        try:
            (opened,) = open_sources([source], reading, [labelled])
            break
        except Killed:
            continue
    assert seen == sorted(set(seen))
    assert len(seen) > 3 or name == "npy Fortran"
    np.testing.assert_array_equal(rows_of(opened), X)
    if labelled:
        np.testing.assert_array_equal(opened.labels.values, Y)


def test_a_file_that_changed_is_copied_anew(tmp_path):
    path = formats.write_parquet(tmp_path / "x.parquet", X, Y)
    reading = Reading(tmp_path / "spool", 10**9)
    open_sources([path], reading)
    formats.write_parquet(path, X + 1, Y)
    (opened,) = open_sources([path], reading)
    np.testing.assert_array_equal(rows_of(opened), X + 1)


def test_fewer_rows_than_declared_are_refused(tmp_path):
    stream = Rowwise()
    stream.n_rows = N_ROWS + 1
    with pytest.raises(errors.LengthMismatch, match="100 rows came where 101"):
        spooled([stream], Job(tmp_path / "spool", 10**9))


def test_places_name_the_file_of_a_row(tmp_path: Path) -> None:
    paths = [formats.write_parquet(tmp_path / f"{name}.parquet", X, Y) for name in "ab"]
    (opened,) = open_sources([paths], Reading(tmp_path / "spool", 10**9))
    assert opened.place(103) == "a.parquet .. b.parquet, row 103 (row 3 of b.parquet)"
