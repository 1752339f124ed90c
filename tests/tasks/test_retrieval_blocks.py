"""Blocks of queries against stored codes: neighbours, curve and sums; parts as Parquet; what a kill leaves."""

from __future__ import annotations

import pickle
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from tasks import io
from tasks.models.parquet import write_table
from tasks.models.predictions import part_name
from tasks.models.selection import TEST, TRAIN, VALIDATION, Selection
from tasks.retrieval import rank as ranking
from tasks.retrieval import resume
from tasks.retrieval.blocks import RetrievalReport, retrieve_block
from tasks.retrieval.candidates import Candidates, NoCodes
from tasks.retrieval.neighbours import (
    Neighbours,
    NeighboursDamaged,
    join_neighbours,
    read_neighbours,
    schema,
    write_neighbours,
)
from tasks.retrieval.resume import retrieve_block_once
from tasks.sums import tree_sum
from tests.naive import retrieval as naive
from tests.stores import store_columns

N_ROWS, BLOCK_ROWS, N_HASHES, N_CLASSES = 70, 8, 37, 4


@dataclass(frozen=True)
class Stored:
    """A dataset of codes on disk, and the same as arrays; rows 0..44 are training rows, from 55 on test rows."""

    dataset: str
    codes: np.ndarray
    labels: np.ndarray
    row_ids: np.ndarray

    @property
    def candidates(self) -> Candidates:
        return Candidates(f"{self.dataset}/codes", self.dataset)

    def blocks(self) -> list[io.Block]:
        return io.blocks_of(f"{self.dataset}/codes")


@pytest.fixture(params=[0, 1])
def stored(tmp_path: Path, request: pytest.FixtureRequest) -> Stored:
    rng = np.random.default_rng(request.param)
    codes = rng.integers(0, 3, (N_ROWS, N_HASHES)).astype(np.uint8)
    codes[rng.random(N_ROWS) < 0.2] = 255
    labels, row_ids = rng.integers(0, N_CLASSES, N_ROWS).astype(np.int32), rng.permutation(N_ROWS)
    split = np.repeat([TRAIN, VALIDATION, TEST], [45, 10, 15]).astype(np.uint8)
    dataset = str(tmp_path / "data.zarr")
    io.create_group(dataset, {})
    store_columns(dataset, BLOCK_ROWS, y=labels, row_id=row_ids, split=split)
    for block in io.create_onehot(f"{dataset}/codes", N_ROWS, N_HASHES, BLOCK_ROWS, "uint8", 3):
        io.write_codes(block, codes[block.start : block.stop])
    return Stored(dataset, codes, labels, row_ids)


def retrieved(stored: Stored, target: Path, top: int, split: int | None = TEST) -> RetrievalReport:
    """The report over all blocks, each as it would travel."""
    target.mkdir()
    selection, parts = Selection(stored.dataset, split), []
    for block in stored.blocks():
        given = pickle.loads(pickle.dumps((block, stored.candidates, selection, top, str(target))))
        parts.append(pickle.loads(pickle.dumps(retrieve_block(*given))))
    total: RetrievalReport = tree_sum(parts)
    return total


def assert_report(stored: Stored, report: RetrievalReport, joined: Neighbours, top: int) -> None:
    """Against the definitions: training rows 0..44, test rows from 55 on."""
    train, test = slice(0, 45), slice(55, N_ROWS)
    found = naive.distances(stored.codes[test], stored.codes[train])
    best = [naive.nearest(of_query, list(range(45)), top) for of_query in found]
    rows = [[row for _, row in of_query] for of_query in best]
    assert joined.row.tolist() == stored.row_ids[test].tolist()
    assert joined.label.tolist() == stored.labels[test].tolist()
    assert joined.distances.tolist() == [[distance for distance, _ in of_query] for of_query in best]
    assert joined.neighbours.tolist() == [stored.row_ids[of_query].tolist() for of_query in rows]
    assert joined.neighbour_labels.tolist() == [stored.labels[of_query].tolist() for of_query in rows]
    labels = stored.labels[train].tolist()
    expected = naive.curve(found, stored.labels[test].tolist(), labels, N_HASHES)
    assert report.sums.curve().as_json()["relevant"] == expected["relevant"]
    assert report.sums.curve().as_json()["macro_precision"] == pytest.approx(expected["macro_precision"])
    hits = [[labels[row] == y for row in of_query] for of_query, y in zip(rows, stored.labels[test], strict=True)]
    shares = [sum(sum(of_query[:k]) for of_query in hits) / (15 * min(k, 45)) for k in range(1, top + 1)]
    assert report.sums.precision_at(report.candidates) == pytest.approx(shares)
    assert (report.queries, report.candidates, report.compared) == (15, 45, 15 * 45 * N_HASHES)


@pytest.mark.parametrize("top", [1, 5, 60])
def test_all_training_rows_are_ranked_for_the_selected_rows(stored: Stored, tmp_path: Path, top: int) -> None:
    report = retrieved(stored, tmp_path / "parts", top)
    parts = [tmp_path / "parts" / part_name(block.index) for block in stored.blocks()]
    joined = join_neighbours(parts, tmp_path / "joined.parquet", {}, report.digests)
    assert joined.rows == 15
    assert_report(stored, report, read_neighbours(tmp_path / "joined.parquet"), top)


def test_tiles_and_queries_at_a_time_leave_no_trace(
    stored: Stored, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = retrieved(stored, tmp_path / "whole", 4)
    sizes = {"QUERIES_BYTES": 2000, "TILE_QUERIES": 2, "TILE_ROWS": 3, "TILE_BYTES": 1}
    for name, value in sizes.items():
        monkeypatch.setattr(ranking, name, value)
    pieces = retrieved(stored, tmp_path / "pieces", 4)
    assert ranking.queries_at_once(N_HASHES, 4) == 2
    assert pieces.digests == whole.digests
    assert pieces.sums.average_precision == whole.sums.average_precision
    np.testing.assert_array_equal(pieces.sums.means, whole.sums.means)


def test_the_curve_alone(stored: Stored, tmp_path: Path) -> None:
    with_rows, alone = retrieved(stored, tmp_path / "a", 3), retrieved(stored, tmp_path / "b", 0)
    np.testing.assert_array_equal(alone.sums.counts, with_rows.sums.counts)
    assert alone.sums.hits.size == 0
    assert read_neighbours(tmp_path / "b" / part_name(8)).neighbours.shape == (6, 0)


def test_queries_without_labels_are_ranked_and_not_counted(stored: Stored, tmp_path: Path) -> None:
    last = stored.blocks()[-1]
    (tmp_path / "parts").mkdir()
    report = retrieve_block(last, stored.candidates, Selection(), 2, str(tmp_path / "parts"))
    found = read_neighbours(tmp_path / "parts" / part_name(last.index))
    assert report.queries == found.row.size == last.n_rows
    assert report.sums.queries == 0
    assert not report.sums.counts.any()
    assert set(found.label.tolist()) == {-1}


def test_rows_that_are_no_such_codes_are_refused(stored: Stored, tmp_path: Path) -> None:
    (block,) = io.create_dense(str(tmp_path / "dense"), 3, 2, 3)
    io.write_dense(block, np.ones((3, 2), np.float32))
    with pytest.raises(NoCodes, match="dense"):
        retrieve_block(block, stored.candidates, Selection(), 1, str(tmp_path))
    for width, dtype in ((N_HASHES + 1, "uint8"), (N_HASHES, "uint16")):
        (block,) = io.create_onehot(str(tmp_path / "codes"), 3, width, 3, dtype, 3)
        io.write_codes(block, np.zeros((3, width), dtype))
        with pytest.raises(NoCodes, match=f"the queries have {width} {dtype}"):
            retrieve_block(block, stored.candidates, Selection(), 1, str(tmp_path))


def some_neighbours(rng: np.random.Generator, n: int, width: int) -> Neighbours:
    labels = rng.integers(-1, 3, n).astype(np.int32)
    lists = [rng.integers(0, 9, (n, width)).astype(dtype) for dtype in (np.int64, np.int32, np.int32)]
    return Neighbours(rng.permutation(n), labels, *lists)


@pytest.mark.parametrize(("n", "width"), [(0, 0), (3, 0), (3, 1), (5, 4)])
def test_parts_say_what_was_written(tmp_path: Path, n: int, width: int) -> None:
    found = some_neighbours(np.random.default_rng(n), n, width)
    digest = write_neighbours(tmp_path / "part.parquet", found)
    again = read_neighbours(tmp_path / "part.parquet")
    assert again.digest() == digest == found.digest()
    assert again.label.tolist() == found.label.tolist()


def test_damaged_parts_and_other_files_are_refused(tmp_path: Path) -> None:
    part, rng = tmp_path / "part.parquet", np.random.default_rng(0)
    digest = write_neighbours(part, some_neighbours(rng, 50, 3))
    with pytest.raises(NeighboursDamaged, match="not what was written"):
        join_neighbours([part], tmp_path / "joined.parquet", digests=["other"])
    whole = part.read_bytes()
    part.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(NeighboursDamaged):
        join_neighbours([part], tmp_path / "joined.parquet", digests=[digest])
    assert not (tmp_path / "joined.parquet").exists()
    with pytest.raises(NeighboursDamaged, match="no parts"):
        join_neighbours([], tmp_path / "joined.parquet")
    write_table(part, pa.table({"row": [1]}))
    with pytest.raises(NeighboursDamaged, match="columns"):
        read_neighbours(part)
    ragged = {"row": [1, 2], "label": [0, 0], "neighbours": [[1], [1, 2]]}
    write_table(part, pa.table({**ragged, "neighbour_labels": [[1], [1]], "distances": [[1], [1]]}, schema=schema()))
    with pytest.raises(NeighboursDamaged, match="equally long"):
        read_neighbours(part)


def test_no_flipped_bit_passes_unnoticed(tmp_path: Path) -> None:
    part = tmp_path / "part.parquet"
    digest = write_neighbours(part, some_neighbours(np.random.default_rng(0), 50, 3))
    whole, noticed = part.read_bytes(), 0
    for place in range(4, len(whole), 17):
        part.write_bytes(whole[:place] + bytes([whole[place] ^ 4]) + whole[place + 1 :])
        try:
            assert join_neighbours([part], tmp_path / "joined.parquet", digests=[digest]).rows == 50
            assert read_neighbours(tmp_path / "joined.parquet").digest() == digest  # nothing that is read was hit
        except NeighboursDamaged:
            noticed += 1
    assert noticed > 10


def test_a_finished_block_is_not_ranked_again(stored: Stored, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[int] = []

    def counted(block: io.Block, *arguments: object) -> RetrievalReport:
        calls.append(block.index)
        report: RetrievalReport = retrieve_block(block, *arguments)  # type: ignore[arg-type]
        return report

    monkeypatch.setattr(resume, "retrieve_block", counted)
    block, target, marks = stored.blocks()[-1], tmp_path / "parts", tmp_path / "marks"
    for folder in (target, marks):
        folder.mkdir()
    given = (block, stored.candidates, Selection(stored.dataset, TEST), 3, str(target), str(marks))
    first, second = retrieve_block_once(*given), retrieve_block_once(*given)
    assert calls == [block.index]
    assert_same_report(first, second)
    (target / part_name(block.index)).unlink()
    assert_same_report(first, retrieve_block_once(*given))
    (marks / f"{block.index:05d}.npz").write_bytes(b"torn")
    assert_same_report(first, retrieve_block_once(*given))
    assert calls == [block.index] * 3


def assert_same_report(first: RetrievalReport, second: RetrievalReport) -> None:
    assert first.digests == second.digests
    assert (first.queries, first.candidates, first.compared) == (second.queries, second.candidates, second.compared)
    assert first.sums.average_precision == second.sums.average_precision
    for name in ("counts", "means", "hits"):
        np.testing.assert_array_equal(getattr(first.sums, name), getattr(second.sums, name))
