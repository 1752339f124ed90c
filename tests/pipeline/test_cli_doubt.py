"""`predict --doubt`: rows go both ways at more splits, or at fewer, than a hierarchy was trained for."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from tasks.classes import ClassTable
from tasks.models.folder import save_model
from tasks.models.linear import LinearModel
from tasks.relaxed.assemble import Node
from tasks.relaxed.hierarchy import ONE_VS_ALL, RELAXED
from tasks.rows import Dense
from tests.pipeline.cli_caller import assert_refused, gaussian, succeeds, write_source
from tests.tasks.relaxed.model_samples import N_FEATURES, Sample, built, random_nodes
from tests.tasks.tree_samples import Drawn, random_tree

SAMPLE = Sample("linear", 5)
NODES = random_nodes(SAMPLE, 6, shared=True)
JUDGES = {int(c): SAMPLE.classifier(np.random.default_rng(c)) for c in NODES["root"].classes}
MODEL = built(SAMPLE, NODES, RELAXED, 3.0, JUDGES)
ROWS, Y = gaussian(60, N_FEATURES, 6)
TREE = random_tree(3, Drawn(n_classes=6, n_features=N_FEATURES, disjoint=True))


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("doubt")
    table = ClassTable(*2 * (tuple(f"c{c}" for c in range(MODEL.n_classes)),))
    save_model(folder / "hierarchy", MODEL, table)
    save_model(folder / "sure", built(SAMPLE, NODES, RELAXED), table)
    six = ClassTable(*2 * (tuple(f"c{c}" for c in range(6)),))
    save_model(folder / "flat", LinearModel(np.zeros((N_FEATURES, 6), np.float32)), six)
    save_model(folder / "tree", TREE, six)
    root = {"root": Node(NODES["root"].classes, list(JUDGES.values()))}
    save_model(folder / "kernel", built(SAMPLE, root, ONE_VS_ALL), table)
    source, marks = write_source(folder, ROWS, [f"c{label}" for label in Y])
    succeeds("ingest", source, folder / "d.zarr", "--labels", marks, "--block-rows", "17")
    return folder


@pytest.mark.parametrize("name", ["hierarchy", "kernel"])
def test_evaluate_compares_costs_with_one_vs_rest_of_the_classes_learnt(made: Path, name: str) -> None:
    said = succeeds("evaluate", made / name, made / "d.zarr", "--json")
    found, learnt = json.loads(said.out)["metrics"]["test"], NODES["root"].classes.size
    assert found["relative_classifiers"] == pytest.approx(found["classifiers_per_row"] / learnt)
    assert found["speedup"] == pytest.approx(learnt / found["test_ops_per_row"])
    assert found["relative_complexity"] == pytest.approx(found["test_ops_per_row"] / learnt)


@pytest.mark.parametrize("data", ["x.npy", "d.zarr"])
@pytest.mark.parametrize("doubt", [0, 0.5, 1e9, None])
def test_rows_go_both_ways_as_asked(made: Path, tmp_path: Path, data: str, doubt: float | None) -> None:
    asked = () if doubt is None else ("--doubt", doubt)
    succeeds("predict", made / "hierarchy", made / data, "-o", tmp_path / "p.parquet", *asked)
    table = pq.read_table(tmp_path / "p.parquet")
    model = MODEL if doubt is None else replace(MODEL, doubt=doubt)
    expected = model.rank(Dense(np.load(made / "x.npy")[table["row"].to_numpy()]), 5)
    assert table["classes"].to_pylist() == expected.classes.tolist()
    assert table["evaluations"].to_pylist() == expected.evaluations.tolist()
    told = pq.read_schema(tmp_path / "p.parquet").metadata
    assert told.get(b"doubt") == (None if doubt is None else str(float(doubt)).encode())
    if data == "d.zarr":
        numbers = json.loads((tmp_path / "p.metrics.json").read_text())
        assert numbers.get("doubt") == (None if doubt is None else str(float(doubt)))
    assert json.loads((made / "hierarchy" / "model.json").read_text())["hierarchy"]["doubt"] == 3.0


def test_more_doubt_asks_more(made: Path) -> None:
    rows = Dense(np.load(made / "x.npy"))
    counts = [replace(MODEL, doubt=doubt).rank(rows, 1).evaluations.sum() for doubt in (0, 3, 30)]
    assert counts == sorted(set(counts))


def test_a_hierarchy_without_judges_takes_doubt_0_alone(made: Path, tmp_path: Path) -> None:
    succeeds("predict", made / "sure", made / "x.npy", "-o", tmp_path / "p.parquet", "--doubt", "0")
    by = ("predict", made / "sure", made / "x.npy", "-o", tmp_path / "q.parquet", "--doubt", "0.5")
    assert_refused(tmp_path, 2, "UsageError", "without judges", "train it with a doubt above 0", by=by)


@pytest.mark.parametrize(
    ("model", "doubt", "word"),
    [
        ("flat", "1", "no meaning for a model of kind ovr"),
        ("kernel", "1", "no meaning for a model of kind ovr"),
        ("tree", "1", "no meaning for a model of kind kmeans-tree"),
        ("hierarchy", "-0.5", "0 or more"),
        ("hierarchy", "nan", "0 or more"),
        ("hierarchy", "inf", "0 or more"),
    ],
)
def test_a_doubt_that_means_nothing_is_refused(made: Path, tmp_path: Path, model: str, doubt: str, word: str) -> None:
    by = ("predict", made / model, made / "x.npy", "-o", tmp_path / "p.parquet", "--doubt", doubt)
    assert_refused(tmp_path, 2, "UsageError", word, "--doubt", by=by)
