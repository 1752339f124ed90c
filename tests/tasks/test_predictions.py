"""Predictions: block by block to Parquet, joined, and turned into metrics that add up."""

from __future__ import annotations

import pickle
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from tasks import io
from tasks.errors import ArtefactError
from tasks.models import blocks as blocks_module
from tasks.models import evaluate as evaluate_module
from tasks.models.base import Ranking
from tasks.models.blocks import WARM_ROWS, cached_model, predict_block, warm_up
from tasks.models.errors import ColumnMismatch, ModelDamaged, ModelMissing, PredictionsDamaged
from tasks.models.evaluate import Scores, evaluate_part
from tasks.models.folder import ClassTable, load_model, save_model, verify_model
from tasks.models.linear import LinearModel
from tasks.models.parquet import TableWriter
from tasks.models.predictions import join_parts, read_part, write_part
from tasks.models.selection import TEST, Selected, Selection
from tasks.rows import Dense
from tasks.sums import tree_sum
from tests.bodies import csr_of
from tests.naive import models as naive
from tests.stores import store_columns, store_dense

N_ROWS, BLOCK, N_FEATURES, N_CLASSES = 21, 8, 6, 7
# root > (a: 0 1 2, b: 3 4), 5, and a chain to 6: leaves at unequal depth
PARENT = [-1, 0, 0, 0, 0, 1, 1, 1, 2, 2, 4, 10]
LEAVES = [5, 6, 7, 8, 9, 3, 11]
TREE = {"parent": np.array(PARENT, np.int32), "leaf_of_class": np.array(LEAVES, np.int32)}


def values() -> np.ndarray:
    return np.random.default_rng(5).integers(-3, 4, (N_ROWS, N_FEATURES)).astype(np.float32)


def labels() -> np.ndarray:
    return np.random.default_rng(6).integers(0, N_CLASSES, N_ROWS).astype(np.int32)


def split() -> np.ndarray:
    return np.array([0] * 5 + [2] * 3 + [0] * 8 + [2] * 5, np.uint8)


def model() -> LinearModel:
    random = np.random.default_rng(7)
    return LinearModel(random.normal(size=(N_FEATURES, N_CLASSES)).astype(np.float32), np.zeros(N_CLASSES, np.float32))


@pytest.fixture
def dataset(tmp_path: Path) -> str:
    place = str(tmp_path / "data.zarr")
    io.create_group(place, {})
    store_dense(f"{place}/X", values(), BLOCK)
    store_columns(place, BLOCK, y=labels(), split=split(), row_id=np.arange(N_ROWS, dtype=np.int64) * 10)
    return place


@pytest.fixture
def model_folder(tmp_path: Path) -> str:
    names = tuple("abcdefg")
    save_model(tmp_path / "model", model(), ClassTable(names, names))
    return str(tmp_path / "model")


def predict(dataset: str, folder: str, target: Path, selection: Selection, top: int = 5) -> list[Path]:
    target.mkdir(exist_ok=True)
    blocks = io.blocks_of(f"{dataset}/X")
    reports = [predict_block(block, folder, top, str(target), selection) for block in blocks]
    total = tree_sum(reports)
    assert total.evaluations == total.rows * N_CLASSES
    assert len(total.digests) == len(blocks)
    parts = sorted(target.iterdir())
    assert [part.name for part in parts] == [f"part-{i:05d}.parquet" for i in range(len(blocks))]
    assert tuple(read_part(part).digest() for part in parts) == total.digests
    return parts


def test_selected_rows_are_ranked_and_named_by_source_row(dataset: str, model_folder: str, tmp_path: Path) -> None:
    parts = predict(dataset, model_folder, tmp_path / "parts", Selection(dataset, TEST))
    found = [read_part(part) for part in parts]
    chosen = np.flatnonzero(split() == TEST)
    np.testing.assert_array_equal(np.concatenate([part.row for part in found]), chosen * 10)
    np.testing.assert_array_equal(np.concatenate([part.label for part in found]), labels()[chosen])
    classes = np.concatenate([part.ranking.classes for part in found])
    for row, ranked in zip(values()[chosen], classes, strict=True):
        assert ranked.tolist() == naive.top_classes(row @ model().weights, 5)[0]
    assert [len(part.row) for part in found] == [3, 0, 5]


def test_a_bare_store_is_ranked_whole_and_unlabelled(dataset: str, model_folder: str, tmp_path: Path) -> None:
    parts = predict(dataset, model_folder, tmp_path / "parts", Selection())
    joined = tmp_path / "p.parquet"
    join_parts(parts, joined)
    found = read_part(joined)
    assert found.row.tolist() == list(range(N_ROWS))
    assert set(found.label.tolist()) == {-1}
    assert pq.read_table(joined)["label"].null_count == N_ROWS
    assert evaluate_part(joined, N_CLASSES).metrics() == {}


def test_predicting_twice_gives_the_same_bytes(dataset: str, model_folder: str, tmp_path: Path) -> None:
    first = predict(dataset, model_folder, tmp_path / "a", Selection(dataset))
    again = predict(dataset, model_folder, tmp_path / "b", Selection(dataset))
    assert [part.read_bytes() for part in first] == [part.read_bytes() for part in again]
    one = join_parts(first, tmp_path / "a.parquet", {"model": "m"})
    two = join_parts(again, tmp_path / "b.parquet", {"model": "m"})
    assert one == two
    assert (tmp_path / "a.parquet").read_bytes() == (tmp_path / "b.parquet").read_bytes()


def test_fewer_classes_than_asked_are_padded(dataset: str, model_folder: str, tmp_path: Path) -> None:
    parts = predict(dataset, model_folder, tmp_path / "parts", Selection(dataset), top=9)
    ranking = read_part(parts[0]).ranking
    assert (ranking.classes[:, N_CLASSES:] == -1).all()
    assert np.isnan(ranking.scores[:, N_CLASSES:]).all()
    assert (np.sort(ranking.classes[:, :N_CLASSES], axis=1) == np.arange(N_CLASSES)).all()


def test_the_model_is_loaded_once_and_again_when_it_changes(model_folder: str, monkeypatch: pytest.MonkeyPatch) -> None:
    loads: list[str] = []
    load = load_model

    def counted(folder: str) -> Any:
        loads.append(folder)
        return load(folder)

    monkeypatch.setattr(blocks_module, "load_model", counted)
    first = cached_model(model_folder)
    assert cached_model(model_folder) is first
    assert len(loads) == 1
    other = LinearModel(model().weights + 1)
    save_model(model_folder, other, ClassTable(tuple("abcdefg"), tuple("abcdefg")))
    np.testing.assert_array_equal(cached_model(model_folder).model.tensors()["weights"], other.weights)


def test_a_model_that_is_missing_or_damaged_stops_the_block(dataset: str, model_folder: str, tmp_path: Path) -> None:
    block = io.blocks_of(f"{dataset}/X")[0]
    with pytest.raises(ModelMissing):
        predict_block(block, str(tmp_path / "nowhere"), 5, str(tmp_path), Selection())
    weights = Path(model_folder) / "weights.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1] + b"\x7f")
    with pytest.raises(ModelDamaged):
        predict_block(block, model_folder, 5, str(tmp_path), Selection())
    assert not list(tmp_path.glob("part-*"))


def test_rows_of_another_width_are_refused(model_folder: str, tmp_path: Path) -> None:
    (block,) = io.create_dense(str(tmp_path / "narrow"), 2, 3, 2)
    io.write_dense(block, np.ones((2, 3), np.float32))
    with pytest.raises(ColumnMismatch):
        predict_block(block, model_folder, 5, str(tmp_path), Selection())


def test_sparse_blocks_give_the_same_classes(dataset: str, model_folder: str, tmp_path: Path) -> None:
    store = str(tmp_path / "sparse")
    for block in io.create_csr(store, N_ROWS, N_FEATURES, BLOCK):
        part = values()[block.start : block.stop]
        rows = csr_of(part)
        io.write_csr(block, rows.data, rows.indices, rows.indptr)
        predict_block(block, model_folder, 5, str(tmp_path), Selection(dataset))
    dense = predict(dataset, model_folder, tmp_path / "parts", Selection(dataset))
    assert len(dense) > 1
    for path in dense:
        np.testing.assert_array_equal(read_part(tmp_path / path.name).ranking.classes, read_part(path).ranking.classes)


# ---- files -------------------------------------------------------------------------------------------------------


def ranking_of(n: int, seed: int = 0, paths: bool = True, top: int = 3) -> tuple[Selected, Ranking]:
    random = np.random.default_rng(seed)
    scores = random.normal(size=(n, N_CLASSES)).astype(np.float32)
    order = np.argsort(-scores, axis=1)[:, :top].astype(np.int32)
    path = np.full((n, 4), -1, np.int32)
    for i, length in enumerate(random.integers(1, 5, n)):
        path[i, :length] = random.integers(0, 9, length)
    index = np.arange(n)
    known = random.integers(-1, N_CLASSES, n).astype(np.int32)
    evaluations = random.integers(1, 9, n).astype(np.int32)
    best = np.take_along_axis(scores, order.astype(np.int64), axis=1)
    return Selected(index, index + 100, known), Ranking(order, best, evaluations, path if paths else None)


@pytest.mark.parametrize("n", [0, 1, 5])
@pytest.mark.parametrize("paths", [True, False])
def test_a_part_reads_back(tmp_path: Path, n: int, paths: bool) -> None:
    selected, ranking = ranking_of(n, paths=paths)
    digest = write_part(tmp_path / "p", selected, ranking)
    found = read_part(tmp_path / "p")
    np.testing.assert_array_equal(found.row, selected.row_ids)
    np.testing.assert_array_equal(found.label, selected.labels)
    np.testing.assert_array_equal(found.ranking.classes, ranking.classes)
    np.testing.assert_array_equal(found.ranking.scores, ranking.scores)
    np.testing.assert_array_equal(found.ranking.evaluations, ranking.evaluations)
    assert found.digest() == digest
    if ranking.path is None:
        assert found.ranking.path is None
    elif n:
        assert found.ranking.path is not None
        width = found.ranking.path.shape[1]
        np.testing.assert_array_equal(found.ranking.path, ranking.path[:, :width])
        assert (ranking.path[:, width:] == -1).all()


def test_parts_are_joined_in_order_with_metadata_and_bounded_groups(tmp_path: Path) -> None:
    parts, digests = [], []
    for i in range(7):
        parts.append(tmp_path / f"part-{i}")
        digests.append(write_part(parts[-1], *ranking_of(i * 3, seed=i)))
    joined = join_parts(parts, tmp_path / "all.parquet", {"model": "digest"}, digests)
    file = pq.ParquetFile(tmp_path / "all.parquet")
    assert joined.rows == file.metadata.num_rows == 63
    assert file.schema_arrow.metadata[b"model"] == b"digest"
    assert file.schema_arrow.metadata[b"format"] == b"labelgrove.predictions"
    rows = [read_part(part).ranking.classes for part in parts]
    np.testing.assert_array_equal(read_part(tmp_path / "all.parquet").ranking.classes, np.concatenate(rows))
    assert joined.digest == join_parts(parts, tmp_path / "again.parquet").digest
    assert sorted(path.name for path in tmp_path.glob("*.p*")) == ["again.parquet", "all.parquet"]


def test_row_groups_are_flushed_as_they_fill(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(TableWriter.__init__, "__defaults__", (4,))
    parts = []
    for i in range(5):
        parts.append(tmp_path / f"part-{i}")
        write_part(parts[-1], *ranking_of(3, seed=i))
    join_parts(parts, tmp_path / "all.parquet")
    metadata = pq.ParquetFile(tmp_path / "all.parquet").metadata
    assert [metadata.row_group(i).num_rows for i in range(metadata.num_row_groups)] == [6, 6, 3]


@pytest.mark.parametrize("damage", ["missing", "truncated", "flipped", "other columns", "other content", "no parquet"])
def test_a_damaged_part_is_named_and_nothing_is_joined(tmp_path: Path, damage: str) -> None:
    parts, digests = [], []
    for i in range(3):
        parts.append(tmp_path / f"part-{i}")
        digests.append(write_part(parts[-1], *ranking_of(200, seed=i)))
    data = bytearray(parts[1].read_bytes())
    if damage == "missing":
        parts[1].unlink()
    elif damage == "truncated":
        parts[1].write_bytes(data[:-9])
    elif damage == "flipped":
        data[len(data) // 3] ^= 4
        parts[1].write_bytes(data)
    elif damage == "other columns":
        write_part(parts[1], *ranking_of(200, paths=False))
    elif damage == "other content":
        write_part(parts[1], *ranking_of(200, seed=9))
    else:
        parts[1].write_bytes(b"no")
    with pytest.raises(PredictionsDamaged) as caught:
        join_parts(parts, tmp_path / "all.parquet", digests=digests)
    assert str(parts[1]) in str(caught.value)
    assert caught.value.exit_code == 4
    assert not list(tmp_path.glob("*all.parquet*"))


def test_every_flipped_byte_of_a_part_is_found_or_harmless(tmp_path: Path) -> None:
    part = tmp_path / "part"
    digest = write_part(part, *ranking_of(30))
    data = part.read_bytes()
    refused = 0
    for place in range(0, len(data), 7):
        changed = bytearray(data)
        changed[place] ^= 16
        part.write_bytes(bytes(changed))
        try:
            found = read_part(part).digest()
        except ArtefactError:
            refused += 1
            continue
        if found != digest:
            with pytest.raises(PredictionsDamaged):
                join_parts([part], tmp_path / "all", digests=[digest])
    assert refused > 0


def test_nothing_to_join_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(PredictionsDamaged, match="no parts"):
        join_parts([], tmp_path / "all")


# ---- metrics -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(4))
def test_metrics_of_summed_parts_match_the_definition_row_by_row(tmp_path: Path, seed: int) -> None:
    selected, ranking = ranking_of(60, seed=seed, top=6)
    ranking.classes[3, 0] = -1  # a tree that ended in an empty leaf
    scores = []
    for start, stop in pairwise([0, 1, 20, 20, 45, 60]):
        index = slice(start, stop)
        part = Selected(selected.index[index], selected.row_ids[index], selected.labels[index])
        cut = Ranking(ranking.classes[index], ranking.scores[index], ranking.evaluations[index])
        write_part(tmp_path / "part", part, cut)
        scores.append(evaluate_part(tmp_path / "part", N_CLASSES, TREE))
    metrics = tree_sum(scores).metrics()
    expected = naive.scores(ranking.classes, selected.labels, ranking.evaluations, PARENT, LEAVES)
    for name, value in expected.items():
        assert metrics[name] == pytest.approx(value, rel=1e-12), name
    assert metrics["hier_per_error"] == pytest.approx(expected["hier_err"] / (1 - expected["top1"]))
    assert metrics["test_rows"] == int((selected.labels >= 0).sum())
    assert "top10" not in metrics  # a row names 6 of 7 classes


def scores_of(tmp_path: Path, n: int, seed: int, **more: Any) -> Scores:
    write_part(tmp_path / "part", *ranking_of(n, seed=seed))
    return evaluate_part(tmp_path / "part", N_CLASSES, **more)


def test_without_a_taxonomy_every_error_has_height_one(tmp_path: Path) -> None:
    metrics = scores_of(tmp_path, 50, 1).metrics()
    assert metrics["hier_err"] == pytest.approx(1 - metrics["top1"])
    assert "top5" not in metrics  # only 3 classes are named


def test_worst_classes_and_confused_pairs(tmp_path: Path) -> None:
    labels = np.array([0, 0, 1, 1, 1, 2, 3, -1], np.int32)
    first = np.array([0, 1, 1, 0, 0, 2, -1, 5], np.int32)
    classes = np.stack([first, np.full(8, 6, np.int32)], axis=1)
    ranking = Ranking(classes, np.zeros((8, 2), np.float32), np.full(8, 7, np.int32))
    write_part(tmp_path / "part", Selected(np.arange(8), np.arange(8), labels), ranking)
    scores = evaluate_part(tmp_path / "part", N_CLASSES, TREE)
    assert scores.worst_classes(3) == [(3, 0, 1), (1, 1, 3), (0, 1, 2)]
    assert scores.detail(2) == {
        "top_k": [3 / 7, 3 / 7],
        "worst_classes": [[3, 0, 1], [1, 1, 3]],
        "confused_pairs": [[1, 0, 2], [0, 1, 1]],
    }
    assert scores.confusion.top(9)[-1] == (3, -1, 1)
    again = pickle.loads(pickle.dumps(scores))
    assert again.metrics() == scores.metrics()


def test_confused_pairs_are_bounded_by_forgetting_the_rarest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    parts = [scores_of(tmp_path, 80, seed) for seed in range(3)]
    full = tree_sum(parts)
    monkeypatch.setattr(evaluate_module, "MAX_PAIRS", 10)
    none = replace(full.confusion, keys=full.confusion.keys[:0], counts=full.confusion.counts[:0])
    bounded = full + replace(parts[0], confusion=none)
    assert bounded.confusion.top(10) == full.confusion.top(10)
    assert bounded.confusion.keys.size == 10
    assert (np.diff(bounded.confusion.keys) > 0).all()


def test_tree_predictions_give_loss_and_ambiguity_per_depth(tmp_path: Path) -> None:
    # root {0 1 2} -> node 1 {0 1}, node 2 {2}; node 1 -> 3 {0}, 4 {1}
    sets = {"offsets": np.array([0, 3, 5, 6, 7, 8]), "classes": np.array([0, 1, 2, 0, 1, 2, 0, 1], np.int32)}
    deep = Ranking(
        np.array([[0], [1]], np.int32),
        np.zeros((2, 1), np.float32),
        np.full(2, 4, np.int32),
        np.array([[0, 1, 3], [0, 1, 4]], np.int32),
    )
    flat = replace(deep, classes=np.array([[2], [2]], np.int32), path=np.array([[0, 2], [0, 2]], np.int32))
    scores = []
    for ranking, truth in ((flat, [2, 0]), (deep, [0, 0])):
        selected = Selected(np.arange(2), np.arange(2), np.array(truth, np.int32))
        write_part(tmp_path / "part", selected, ranking)
        scores.append(evaluate_part(tmp_path / "part", 3, label_sets=sets))
    metrics = (scores[0] + scores[1]).metrics()
    assert metrics["loss_depth_0"] == pytest.approx(1 / 4)
    assert metrics["loss_depth_1"] == pytest.approx(1 / 2)
    assert metrics["ambiguity_depth_0"] == pytest.approx((1 / 3 + 1 / 3 + 2 / 3 + 2 / 3) / 4)
    assert metrics["ambiguity_depth_1"] == pytest.approx(1 / 2)
    assert metrics["speedup"] == pytest.approx(3 / 4)


def test_a_model_that_evaluates_nothing_has_no_speedup(tmp_path: Path) -> None:
    selected, ranking = ranking_of(9)
    write_part(tmp_path / "part", selected, replace(ranking, evaluations=np.zeros(9, np.int32)))
    metrics = evaluate_part(tmp_path / "part", N_CLASSES).metrics()
    assert metrics["test_ops_per_row"] == 0
    assert "speedup" not in metrics


def test_a_saved_tree_predicts_with_its_paths(tmp_path: Path, dataset: str) -> None:
    from tasks.trees.tree import Split, assemble

    random = np.random.default_rng(3)
    everything, first = np.arange(N_CLASSES, dtype=np.int32), np.arange(4, dtype=np.int32)
    root = Split(
        everything,
        np.stack([everything < 4, everything >= 3]),
        random.normal(size=(N_FEATURES, 2)).astype(np.float32),
        np.zeros(2, np.float32),
    )
    left = Split(first, np.eye(4, dtype=bool), random.normal(size=(N_FEATURES, 4)).astype(np.float32), np.ones(4))
    tree = assemble({(): root, (0,): left}, N_FEATURES, N_CLASSES, {"branching": 2}, everything)
    names = tuple("abcdefg")
    digest = save_model(tmp_path / "tree", tree, ClassTable(names, names))
    assert verify_model(tmp_path / "tree") == digest
    (tmp_path / "parts").mkdir()
    for block in io.blocks_of(f"{dataset}/X"):
        predict_block(block, str(tmp_path / "tree"), 5, str(tmp_path / "parts"), Selection(dataset))
    join_parts(sorted((tmp_path / "parts").iterdir()), tmp_path / "all")
    found = read_part(tmp_path / "all").ranking
    expected = tree.rank(Dense(values()), 5)
    np.testing.assert_array_equal(found.classes, expected.classes)
    np.testing.assert_array_equal(found.path, expected.path)
    np.testing.assert_array_equal(found.evaluations, expected.evaluations)
    assert set(found.evaluations.tolist()) == {2, 6}
    sets = {"offsets": tree.offsets, "classes": tree.classes}
    metrics = evaluate_part(tmp_path / "all", N_CLASSES, TREE, sets).metrics()
    assert {"loss_depth_0", "loss_depth_1", "ambiguity_depth_0", "ambiguity_depth_1"} <= set(metrics)


class Ranks:
    """A saved model that tells how many rows it was asked to rank, and for how many labels."""

    def __init__(self) -> None:
        self.asked: list[tuple[int, int]] = []

    def rank(self, rows: Any, top: int, encoded: bool, labels: Any, beam: int | None) -> None:
        del top, encoded, beam
        self.asked.append((rows.n_rows, len(labels)))


def test_all_that_a_model_compiles_is_compiled_before_the_clock_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    """A single row came neither to the doubtful rows' kernels nor to those of most leaves, and so they were timed."""
    monkeypatch.setattr(blocks_module, "_WARM", set())
    saved, many = Ranks(), Dense(np.zeros((WARM_ROWS + 1, 2), np.float32))
    given: Any = saved
    ways: list[blocks_module.Way] = [
        ("a", "dense", True, None, None),
        ("a", "dense", True, None, 0.5),
        ("a", "dense", True, 4, 0.5),
        ("b", "dense", True, 4, 0.5),
    ]
    for way in (*ways, *ways):  # twice, and ranked once
        warm_up(way, given, many, 5)
    assert saved.asked == [(WARM_ROWS, WARM_ROWS)] * len(ways)
    warm_up(("c", "dense", True, None, None), given, many.take(np.arange(0)), 5)
    warm_up(("c", "dense", True, None, None), given, many.take(np.arange(7)), 5)
    assert saved.asked[len(ways) :] == [(7, 7)]
