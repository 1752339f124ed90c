"""`labelgrove inspect`: what a model folder says, and what its hashing costs, in text and as JSON."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pipeline.commands import inspecting
from pipeline.dataset import Dataset
from pipeline.ingest import ingest
from tasks.classes import ClassTable
from tasks.features.pca_encoder import PcaEncoder
from tasks.hashing.heshing import HashedScorer
from tasks.io import read_labels, read_rows
from tasks.models.encoder import Encoder
from tasks.models.folder import save_model
from tasks.models.hashed import HashedModel
from tasks.models.linear import LinearModel
from tests.naive import hashing as naive
from tests.pipeline.cli_caller import labelgrove, succeeds
from tests.systems.conftest import make_dataset, planted

BUCKETS = 64


@pytest.fixture(scope="module")
def datasets(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Dataset]:
    folder = tmp_path_factory.mktemp("inspect")
    return {body: make_dataset(folder, body) for body in ("dense", "csr")}


def hashed(dataset: Dataset, kind: str, n_features: int = 48) -> HashedModel:
    taxonomy = dataset.taxonomy
    assert taxonomy is not None
    if kind == "heshing":
        scorer = HashedScorer.hierarchical(taxonomy, BUCKETS, n_features)
    else:
        scorer = HashedScorer.flat(taxonomy.node_seeds[taxonomy.leaf_of_class], BUCKETS, n_features)
    return HashedModel(scorer, np.ones((scorer.n_tables, BUCKETS), np.float32), kind)


def saved(folder: Path, model: Any, dataset: Dataset, encoders: tuple[Encoder, ...] = (), **names: str) -> Path:
    save_model(folder, model, dataset.classes, encoders=encoders, provenance={"seed": 7, "dataset": "d"}, **names)
    return folder


def inspected(*arguments: object) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(succeeds("inspect", *arguments, "--json").out)
    return found


def test_what_a_model_says_of_itself(datasets: dict[str, Dataset], tmp_path: Path) -> None:
    dataset = datasets["dense"]
    encoder = PcaEncoder(np.zeros(48, np.float32), np.eye(48, 6, dtype=np.float32))
    model = LinearModel(np.zeros((6, dataset.n_classes), np.float32), np.zeros(dataset.n_classes, np.float32), "ovr")
    place = saved(tmp_path / "ovr", model, dataset, (encoder,), rows="pca", test_rows="pca")
    found = inspected(place)
    assert (found["kind"], found["n_classes"], found["n_features"], found["raw_features"]) == ("ovr", 31, 6, 48)
    assert (found["parameters"], found["parameter_bytes"]) == (7 * 31, 4 * 7 * 31)
    assert found["encoders"] == [encoder.header()]
    assert found["provenance"] == {"seed": 7, "dataset": "d"}
    assert "hash" not in found
    text = succeeds("inspect", place).out
    for words in ("ovr", "217 (868 B)", "pca (n_features 48, components 6)", found["digest"], "31"):
        assert words in text


def test_long_lists_are_whole_in_json_alone(tmp_path: Path) -> None:
    names, keys = [f"feat_{i}" for i in range(256)], {f"key_{i}": i for i in range(100)}
    told = {"estimator": {"features": names, "labels": "<i8"}, "keys": keys, "few": [1, 2]}
    model, table = LinearModel(np.zeros((2, 2), np.float32)), ClassTable(("0", "1"), ("a", "b"))
    save_model(tmp_path / "m", model, table, provenance=told)
    assert inspected(tmp_path / "m")["provenance"] == told
    text = " ".join(succeeds("inspect", tmp_path / "m").out.split())
    assert "256 entries: feat_0 .. feat_255" in text
    assert "100 keys: key_0 .. key_99" in text
    assert "[1, 2]" in text
    assert '"labels": "<i8"' in text
    assert "feat_7" not in text


@pytest.mark.parametrize("kind", ["heshing", "flat-hash"])
@pytest.mark.parametrize("body", ["dense", "csr"])
def test_hash_of_a_model_on_real_rows(kind: str, body: str, datasets: dict[str, Dataset], tmp_path: Path) -> None:
    dataset = datasets[body]
    model = hashed(dataset, kind)
    place = saved(tmp_path / "model", model, dataset)
    found = inspected(place, "--hash", "--data", dataset.path)["hash"]
    scorer = model.scorer
    parent, leaves, seeds = scorer.parent.tolist(), scorer.leaf_of_class.tolist(), scorer.node_seeds.tolist()
    paths = [[seeds[node] for node in naive.path(parent, leaf, 0)] for leaf in leaves]
    lost = [naive.lost_features(path, list(range(48)), BUCKETS) for path in paths]
    assert found["lost"]["mean"] == pytest.approx(np.mean(lost))
    assert sum(level["nodes"] for level in found["levels"]) == len(parent) == found["n_nodes"]
    on_rows = []
    first = dataset.n_rows - dataset.split_counts["test"]
    for block in dataset.blocks():
        values, labels = read_rows(block).to_array(), read_labels(dataset.path, block.start, block.stop)
        for i in range(max(first, block.start), block.stop):
            support = np.flatnonzero(values[i - block.start]).tolist()
            on_rows.append(naive.lost_features(paths[labels[i - block.start]], support, BUCKETS))
    assert found["rows"]["rows"] == len(on_rows)  # few enough for all to be looked at
    assert found["rows"]["lost"] == pytest.approx(np.mean(on_rows))
    text = succeeds("inspect", place, "--hash", "--data", dataset.path).out
    assert f"{len(on_rows):,} test rows" in text
    assert "pairs per bucket" in text
    assert ("not scored" in text) == (kind == "heshing")


def test_rows_are_sampled_evenly(datasets: dict[str, Dataset], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inspecting, "SAMPLE_ROWS", 20)
    monkeypatch.setattr(inspecting, "SAMPLE_BLOCKS", 2)
    place = saved(tmp_path / "model", hashed(datasets["dense"], "heshing"), datasets["dense"])
    found = inspected(place, "--hash", "--data", datasets["dense"].path)
    assert found["hash"]["rows"]["rows"] == 20
    assert inspected(place, "--hash", "--data", datasets["dense"].path) == found


def test_encoders_come_before_the_hash(datasets: dict[str, Dataset], tmp_path: Path) -> None:
    dataset = datasets["dense"]
    encoder = PcaEncoder(np.zeros(48, np.float32), np.eye(48, 5, dtype=np.float32))
    place = saved(tmp_path / "model", hashed(dataset, "heshing", 5), dataset, (encoder,), rows="pca", test_rows="pca")
    rows = inspected(place, "--hash", "--data", dataset.path)["hash"]["rows"]
    assert rows["support"] == 5


def test_what_cannot_be_explained(datasets: dict[str, Dataset], tmp_path: Path) -> None:
    dataset = datasets["dense"]
    model = LinearModel(np.zeros((48, dataset.n_classes), np.float32), None, "ovr")
    plain, place = saved(tmp_path / "ovr", model, dataset), saved(tmp_path / "h", hashed(dataset, "heshing"), dataset)
    rows, labels, _ = planted(200, 48, "dense", 0)
    no_tests = ingest(rows, tmp_path / "train.zarr", labels=labels, split="1,0,0")
    narrow = ingest(rows[:, :7], tmp_path / "narrow.zarr", labels=labels)
    for arguments, code, words in (
        ((plain, "--hash"), 2, "a model of kind ovr hashes nothing"),
        ((place, "--data", dataset.path), 2, "--data has no meaning without --hash"),
        ((place, "--hash", "--data", no_tests.path), 2, "no test rows"),
        ((place, "--hash", "--data", narrow.path), 3, "7 columns where 48 are expected"),
        ((tmp_path / "none",), 4, "ModelMissing"),
        ((place, "--hash", "--data", tmp_path / "none.zarr"), 4, "none.zarr"),
    ):
        said = labelgrove("inspect", *arguments)
        assert said.code == code, said
        assert words in said.err
        assert said.out == ""


def test_classes_of_another_order_are_matched(datasets: dict[str, Dataset], tmp_path: Path) -> None:
    """Every row goes under the path of its own class; rows of a class that the model lacks are left out."""
    dataset = datasets["dense"]
    model = hashed(dataset, "flat-hash")
    place = saved(tmp_path / "model", model, dataset)
    expected = inspected(place, "--hash", "--data", dataset.path)["hash"]["rows"]
    turned = HashedModel(HashedScorer.flat(model.scorer.node_seeds[::-1], BUCKETS, 48), model.table, "flat-hash")
    ids, names = dataset.classes.ids[::-1], dataset.classes.names[::-1]
    save_model(tmp_path / "turned", turned, ClassTable(ids, names))
    assert inspected(tmp_path / "turned", "--hash", "--data", dataset.path)["hash"]["rows"] == expected
    save_model(tmp_path / "lacking", turned, ClassTable(("99", *ids[1:]), ("99", *names[1:])))
    fewer = inspected(tmp_path / "lacking", "--hash", "--data", dataset.path)["hash"]["rows"]
    assert 0 < fewer["rows"] < expected["rows"]
