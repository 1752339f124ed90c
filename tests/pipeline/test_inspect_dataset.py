"""`labelgrove inspect DATASET`: what rows, classes and taxonomy are like, against answers counted by hand."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from pipeline import dataset_facts as facts
from pipeline.dataset import Dataset
from pipeline.ingest import ingest
from pipeline.spread import Spread, WholeSpread
from tasks.classes import ClassTable
from tasks.io import read_attrs
from tasks.rows import Csr, Dense, Images
from tasks.taxonomy import Taxonomy
from tests.pipeline.cli_caller import assert_refused, labelgrove, succeeds

VALUES = np.array(
    [[3, 4, 0], [0, 0, 0], [1, 0, 0], [0, -2, 0], [0, 0, 0.5], [6, 8, 0], [0, 5, 12], [1, 1, 1], [2, 0, 0], [0, 1, 0]],
    np.float32,
)
LABELS = [0, 0, 0, 0, 0, 1, 1, 2, 0, 1]
SPLIT = [0, 0, 0, 0, 0, 0, 0, 0, 1, 2]
TAXONOMY = {"root": {"a": {"b": ["0", "1"]}, "2": None, "3": None}}
CLASSES = ["0", "1", "2", "3"]


def made(folder: Path, body: str, **options: Any) -> Dataset:
    rows: Any = scipy.sparse.csr_matrix(VALUES) if body == "csr" else VALUES
    given = {"labels": LABELS, "split": SPLIT, "classes": CLASSES, "taxonomy": TAXONOMY, "block_rows": 3} | options
    return ingest(rows, folder / f"{body}.zarr", **given)


@pytest.mark.parametrize("body", ["dense", "csr"])
def test_known_answers(body: str, tmp_path: Path) -> None:
    dataset = made(tmp_path, body)
    found = json.loads(succeeds("inspect", dataset.path, "--json").out)
    assert (found["n_rows"], found["n_features"], found["n_classes"]) == (10, 3, 4)
    assert found["split_counts"] == {"train": 8, "validation": 1, "test": 1}
    assert (found["body"], found["dtype"], found["blocks"], found["block_rows"]) == (body, "float32", 4, 3)
    assert found["values"] == {"least": -2, "most": 12, "not_finite": 0}
    assert found["nonzeros"] == {"least": 0, "median": 1, "mean": 1.4, "most": 3}
    assert found["density"] == pytest.approx(14 / 30)
    assert found["zero_rows"] == 1
    norms = sorted(np.linalg.norm(VALUES.astype(np.float64), axis=1))
    assert (found["norms"]["least"], found["norms"]["most"]) == (0, 13)
    assert found["norms"]["mean"] == pytest.approx(np.mean(norms))
    assert found["norms"]["median"] == pytest.approx(norms[4], rel=2e-4)
    train = found["classes"]["train"]
    assert train == {
        "rows": 8, "largest": 5, "largest_class": "0", "median": 1.5, "smallest": 0, "smallest_class": "3",
        "few": 2, "empty": 1, "top_share": 5 / 8, "gini": pytest.approx((-3 * 0 - 1 * 1 + 1 * 2 + 3 * 5) / 32),
    }  # fmt: skip
    assert [found["classes"][part]["empty"] for part in ("validation", "test")] == [3, 3]
    assert found["taxonomy"] == {
        "nodes": 7, "leaves": 4, "levels": 4, "depth": {"least": 1, "mean": 2.0, "most": 3},
        "widest": 3, "widest_node": "root", "single_child": 1,
    }  # fmt: skip
    assert found["digests"]["content"] == dataset.digest
    assert found["digests"]["taxonomy"] == read_attrs(f"{dataset.path}/digests")["taxonomy"]
    assert found["made_from"]["seed"] == 0
    assert {note["code"] for note in found["notes"]} >= {"ClassWithoutRows", "ZeroRows"}
    assert 0 < found["rows_disk_bytes"] < found["disk_bytes"] < 10**6


def test_what_is_shown(tmp_path: Path) -> None:
    text = succeeds("inspect", made(tmp_path, "csr").path).out
    lines = {" ".join(line.split()) for line in text.splitlines()}
    for line in (
        "rows 10 (8 train, 1 validation, 1 test)",
        "body csr float32",
        "blocks 4 of 3 rows",
        "values -2 to 12, all finite",
        "not zero 46.7 % of the values, 1 rows hold only zeros",
        "taxonomy 7 nodes, 4 of them leaves, at depth 1 to 3 (mean 2); at most 3 children (root); "
        "1 nodes have one child",
        "least median mean most",
        "non-zeros a row 0 1 1.4 3",
        "rows a class train validation test",
        "largest 5 1 1",
        "median 1.5 0 0",
        "classes with 1 to 4 2 1 1",
        "classes without any 1 3 3",
        "rows of the largest 10.0 % 62.5 % 100.0 % 100.0 %",
        "largest: '0'; smallest: '3'",
        "warning: ZeroRows: 1 rows hold only zeros",
    ):
        assert line in lines, text


def test_a_dataset_without_taxonomy_and_test_rows(tmp_path: Path) -> None:
    dataset = made(tmp_path, "dense", taxonomy=None, split=[0] * 9 + [1])
    assert json.loads(succeeds("inspect", dataset.path, "--json").out)["taxonomy"] is None
    text = succeeds("inspect", dataset.path).out
    assert "taxonomy        none" in text
    assert "rows            10 (9 train, 1 validation, 0 test)" in text


def test_names_are_shown_without_control_characters(tmp_path: Path) -> None:
    labels = [["\x1b[31mred", "blue"][i % 2] for i in range(10)]
    dataset = made(tmp_path, "dense", labels=labels, classes=None, taxonomy=None)
    assert "\x1b" not in succeeds("inspect", dataset.path).out


def test_options_of_models_are_refused(tmp_path: Path) -> None:
    dataset = made(tmp_path, "dense")
    for option in (("--hash",), ("--certify", "--data", dataset.path), ("--data", dataset.path)):
        assert_refused(tmp_path, 2, "UsageError", "this is a dataset", by=("inspect", dataset.path, *option))


def test_damage_is_named(tmp_path: Path) -> None:
    dataset = made(tmp_path, "dense")
    chunk = Path(dataset.rows_store) / "c" / "1" / "0"
    chunk.write_bytes(chunk.read_bytes()[:-3])
    ended = labelgrove("inspect", dataset.path)
    assert ended.code == 4
    assert "DamagedChunk" in ended.err
    assert "rows 3..5" in ended.err
    assert ended.out == ""


# ---- parts ---------------------------------------------------------------------------------------------------------


def test_values_that_are_not_finite_are_counted_and_left_out() -> None:
    found = facts.ValueFacts()
    found.add(Dense(np.array([[1, np.nan], [3, 4], [np.inf, -np.inf]], np.float32)))
    found.add(Csr(np.array([np.nan, 2], np.float32), np.array([0, 1], np.int32), np.array([0, 1, 2]), 2))
    assert (found.not_finite, found.least, found.most) == (4, 0, 4)
    norms = found.norms.facts()
    assert norms is not None
    assert (norms["least"], norms["most"]) == (2, 5)


def test_stored_zeros_are_zeros() -> None:
    found = facts.ValueFacts()
    found.add(Csr(np.array([0, 2, 7], np.float32), np.array([0, 1, 1], np.int32), np.array([0, 2, 3]), 2))
    assert found.nonzeros.facts() == {"least": 1, "median": 1, "mean": 1, "most": 1}
    assert (found.least, found.most, found.zero_rows) == (0, 7, 0)
    full = facts.ValueFacts()
    full.add(Csr(np.array([5, 7], np.float32), np.array([0, 0], np.int32), np.array([0, 1, 2]), 1))
    assert (full.least, full.most) == (5, 7)  # nothing is left out, so there is no zero


def test_of_images_there_are_bytes_and_no_values(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    dataset = made(tmp_path, "dense")
    files = iter([[b"abc", b"d", b"ef"], [b"ghij", b"k", b"l"], [b"mn", b"o", b"p"], [b"q"]])
    monkeypatch.setattr(facts.io, "load_rows", lambda _: Images.of_files(next(files)))
    found = facts.dataset_facts(dataset)
    assert found["item_bytes"] == {"least": 1, "median": pytest.approx(1, rel=2e-4), "mean": 1.7, "most": 4}
    assert not {"values", "norms", "nonzeros", "density"} & set(found)
    assert found["classes"]["train"]["largest"] == 5


@given(values=hnp.arrays(np.float64, st.integers(1, 60), elements=st.floats(0, 1e6)), cut=st.integers(0, 60))
def test_a_spread_is_that_of_all_numbers(values: np.ndarray, cut: int) -> None:
    spread = Spread()
    spread.add(values[:cut])
    spread.add(values[cut:])
    found = spread.facts()
    assert found is not None
    middle = np.sort(values)[(values.size - 1) // 2]
    assert (found["least"], found["most"]) == (values.min(), values.max())
    assert found["mean"] == pytest.approx(values.mean())
    assert found["median"] == pytest.approx(middle, rel=1 / 8192, abs=1e-38)


@given(values=st.lists(st.integers(0, 50), min_size=1, max_size=40), cut=st.integers(0, 40))
def test_a_spread_of_whole_numbers_is_exact(values: list[int], cut: int) -> None:
    spread = WholeSpread()
    spread.add(np.array(values[:cut], np.int32))
    spread.add(np.array(values[cut:], np.int64))
    middle = sorted(values)[(len(values) - 1) // 2]
    expected = {"least": min(values), "median": middle, "mean": pytest.approx(np.mean(values)), "most": max(values)}
    assert spread.facts() == expected


def test_a_spread_of_nothing() -> None:
    assert Spread().facts() is None
    assert WholeSpread().facts() is None


@pytest.mark.parametrize(
    ("counts", "gini", "top"), [([7] * 20, 0.0, 0.1), ([0] * 19 + [40], 0.95, 1.0), ([0] * 5, 0, 0)]
)
def test_gini_and_the_largest_tenth(counts: list[int], gini: float, top: float) -> None:
    names = tuple(str(i) for i in range(len(counts)))
    found = facts.class_facts(np.array(counts), ClassTable(names, names))
    assert found["gini"] == pytest.approx(gini)
    assert found["top_share"] == pytest.approx(top)


def test_a_flat_taxonomy() -> None:
    found = facts.taxonomy_facts(Taxonomy.flat(5))
    assert (found["nodes"], found["leaves"], found["widest"], found["single_child"]) == (6, 5, 5, 0)
    assert found["depth"] == {"least": 1, "mean": 1.0, "most": 1}
