"""Nearest class mean in runs: any rows, every pool, by ranges, stopped and resumed, planned, shown, predicted."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse

from pipeline.commands import inspect
from pipeline.config import load_config
from pipeline.dataset import Dataset
from pipeline.ingest import ingest
from pipeline.plan import make_plan
from pipeline.stages import class_means as stage
from pipeline.stages import problems
from pipeline.store import read_json
from tasks import class_means
from tasks.fit.class_ranges import ClassRange
from tasks.io import blocks_of, load_rows, read_labels
from tasks.models.class_ranges import RangedModel
from tasks.models.folder import load_model
from tasks.models.linear import LinearModel
from tests.naive import class_means as naive
from tests.pipeline.cli_caller import assert_refused, succeeds
from tests.systems.conftest import planted
from tests.systems.digests import assert_same, digests_of
from tests.systems.harness import assert_raw_rows_rank_as_in_the_run, run_here

N_FEATURES, N_CLASSES, UNSEEN = 48, 32, 31
CONFIG = """\
name = "means"
seed = 5
[data]
path = "{data}"
[[encode]]
name = "pq"
kind = "pq"
subquantizers = 12
bits = 4
iterations = 3
[[encode]]
name = "wta"
kind = "wta"
hashes = 40
"""
LEARNERS = {
    "x": "",
    "angle": 'metric = "cosine"',
    "pq": 'rows = "pq"',
    "semi": 'rows = "pq"\ntest_rows = "x"',
    "codes": 'rows = "wta"\nmetric = "cosine"',
}
MODELS = [f'[[train]]\nname = "{name}"\nkind = "nearest-class-mean"\n{keys}\n' for name, keys in LEARNERS.items()]
BODIES = ["dense", "csr", "float16"]


def rows_of(body: str) -> tuple[Any, np.ndarray]:
    """Rows and labels; class UNSEEN has no rows at all."""
    rows, labels, _ = planted(800, N_FEATURES, body, 0)
    return rows, labels % UNSEEN


def make_config(folder: Path, body: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    source, labels = rows_of(body)
    if body == "csr":
        scipy.sparse.save_npz(folder / "rows.npz", source)
        source = folder / "rows.npz"
    classes = [str(c) for c in range(N_CLASSES)]
    more: dict[str, Any] = {"dtype": "float16"} if body == "float16" else {}
    ingest(source, folder / "d.zarr", labels=labels, classes=classes, block_rows=64, seed=1, **more)
    (folder / "config.toml").write_text(CONFIG.format(data="d.zarr") + "".join(MODELS))
    return folder / "config.toml"


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """body -> a finished run of the serial pool, `runs/means` beside its config."""
    folder = tmp_path_factory.mktemp("means")
    return {body: run_here(make_config(folder / body, body)) for body in BODIES}


def config_of(run: Path) -> Path:
    return run.parent.parent / "config.toml"


def two_of(run: Path) -> Path:
    """A config of the learners of the dataset's own rows alone."""
    path = config_of(run).with_name("two.toml")
    path.write_text(CONFIG.partition("[[encode]]")[0].format(data="d.zarr") + "".join(MODELS[:2]))
    return path


@pytest.fixture
def in_ranges(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sums of seven classes fill a range."""
    monkeypatch.setattr(class_means, "SUM_BYTES", 8 * N_FEATURES * 7)


def training_rows(run: Path) -> tuple[np.ndarray, np.ndarray]:
    dataset = Dataset.open(load_config(config_of(run)).dataset_path)
    values = np.concatenate([load_rows(block).to_array(np.float64) for block in blocks_of(dataset.rows_store)])
    n_train = dataset.split_counts["train"]
    return values[:n_train], read_labels(dataset.path, 0, n_train)


@pytest.mark.parametrize("body", BODIES)
def test_weights_are_the_means_of_the_training_rows(runs: dict[str, Path], body: str) -> None:
    centres = naive.means(*training_rows(runs[body]), N_CLASSES)
    assert [c for c, m in enumerate(centres) if m is None] == [UNSEEN]
    expected = np.array([np.zeros(N_FEATURES) if m is None else m for m in centres])
    models = {name: load_model(runs[body] / "models" / name).model for name in ("x", "angle")}
    assert all(isinstance(model, LinearModel) for model in models.values())
    found = {name: model.tensors() for name, model in models.items()}
    np.testing.assert_allclose(found["x"]["weights"].T, expected, rtol=1e-6, atol=1e-7)
    squares = (expected[:UNSEEN] ** 2).sum(axis=1)
    np.testing.assert_allclose(found["x"]["bias"][:UNSEEN], -squares / 2, rtol=1e-6)
    np.testing.assert_allclose(
        found["angle"]["weights"].T[:UNSEEN], expected[:UNSEEN] / np.sqrt(squares)[:, None], rtol=1e-5, atol=1e-7
    )
    assert found["angle"]["bias"].tolist() == [0.0] * UNSEEN + [np.float32(class_means.NEVER)]


@pytest.mark.parametrize("body", BODIES)
def test_what_the_run_says(runs: dict[str, Path], body: str) -> None:
    models = read_json(runs[body] / "metrics.json")["models"]
    for name in LEARNERS:
        assert models[name]["top1"] > 0.3, name
        assert (models[name]["train_ops_per_row"], models[name]["speedup"]) == (1.0, 1.0)
    assert models["x"]["model_bytes"] == 4 * (N_FEATURES + 1) * N_CLASSES
    card = (runs[body] / "models" / "x" / "README.md").read_text()
    assert "A nearest-class-mean classifier of 32 classes, 48 features" in card
    assert "nearest-class-mean" in (runs[body] / "report.html").read_text()


@pytest.mark.parametrize("body", BODIES)
def test_a_model_ranks_raw_rows_as_the_run_did(runs: dict[str, Path], tmp_path: Path, body: str) -> None:
    values = rows_of(body)[0]
    values = values.toarray() if body == "csr" else values
    values = values.astype(np.float16).astype(np.float32) if body == "float16" else values
    for name in LEARNERS:
        assert_raw_rows_rank_as_in_the_run(runs[body], name, values, tmp_path)


def test_it_is_inspected_and_tells_no_probabilities(runs: dict[str, Path], tmp_path: Path) -> None:
    model = runs["dense"] / "models" / "x"
    assert inspect(model)["parameters"] == (N_FEATURES + 1) * N_CLASSES
    shown = succeeds("inspect", model).out
    assert "nearest-class-mean" in shown
    assert '"euclidean"' in shown
    np.save(tmp_path / "new.npy", rows_of("dense")[0][:20])
    by = ("predict", model, tmp_path / "new.npy", "-o", tmp_path / "p.parquet", "--proba")
    assert_refused(tmp_path, 2, "NoProbabilities", "nearest-class-mean", by=by)


def test_two_workers_give_the_same_content(runs: dict[str, Path], tmp_path: Path) -> None:
    """Every block with training rows is a part, so that sums are added in two levels."""
    assert len(training_rows(runs["dense"])[1]) > 8 * 64
    expected = digests_of(runs["dense"])
    assert {"model x", "model codes"} <= expected.keys()
    assert_same(expected, run_here(config_of(runs["dense"]), "local:2", runs=tmp_path))


@pytest.mark.parametrize("many", [1, 99], ids=["a task a range", "sums of parts"])
def test_ranges_come_to_the_same_model(
    runs: dict[str, Path], tmp_path: Path, in_ranges: None, monkeypatch: pytest.MonkeyPatch, many: int  # noqa: ARG001
) -> None:  # fmt: skip
    """Kept whole where it is small; otherwise by ranges, which rank alike."""
    monkeypatch.setattr(stage, "MANY", many)
    config = two_of(runs["dense"])
    whole = run_here(config, runs=tmp_path / "whole")
    monkeypatch.setattr(problems, "class_ranges", lambda *_: [ClassRange(0, 0, 16), ClassRange(1, 16, 32)])
    ranged = run_here(config, runs=tmp_path / "ranged")
    for name in ("x", "angle"):
        first, second, third = (load_model(run / "models" / name).model for run in (runs["dense"], whole, ranged))
        assert isinstance(second, LinearModel)
        assert isinstance(third, RangedModel)
        assert third.kind == "nearest-class-mean"
        np.testing.assert_allclose(first.tensors()["weights"], second.weights, rtol=1e-6, atol=1e-7)
        np.testing.assert_array_equal(second.weights, np.concatenate(third.parts, axis=1))
        np.testing.assert_array_equal(second.bias, third.bias)
    models = [read_json(run / "metrics.json")["models"] for run in (whole, ranged)]
    assert len(load_model(ranged / "models" / "x").model.tensors()) == 1 + models[1]["x"]["class_ranges"] == 6
    assert [one["x"]["top1"] for one in models] == [models[0]["x"]["top1"]] * 2


@pytest.mark.parametrize("many", [1, 99], ids=["a task a range", "sums of parts"])
def test_an_interrupted_step_keeps_its_ranges(
    runs: dict[str, Path], tmp_path: Path, in_ranges: None, monkeypatch: pytest.MonkeyPatch, many: int  # noqa: ARG001
) -> None:  # fmt: skip
    monkeypatch.setattr(stage, "MANY", many)
    config = two_of(runs["csr"])
    expected = digests_of(run_here(config, runs=tmp_path / "whole"))
    left: list[str] = []
    plain = class_means.leave

    def leaving(place: Path, *values: Any) -> Any:
        report = plain(place, *values)
        left.append(str(place))
        if len(left) in (1, 4, 9):
            raise KeyboardInterrupt
        return report

    monkeypatch.setattr(class_means, "leave", leaving)
    for _ in range(3):
        with pytest.raises(KeyboardInterrupt):
            run_here(config, runs=tmp_path / "stopped")
    stopped = run_here(config, runs=tmp_path / "stopped")
    assert_same(expected, stopped)
    assert len(left) == len(set(left))  # no range was summed twice
    assert not list(stopped.glob("steps/*/progress"))


def test_a_plan_bounds_what_is_held(runs: dict[str, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    steps = {step.name: step.estimate for step in make_plan(load_config(config_of(runs["dense"]))).steps}
    small = steps["train_x"]
    assert small.task_bytes < 256 << 20
    monkeypatch.setattr(stage, "sum_ranges", lambda *_: class_means.sum_ranges(100_000, 10_000))
    monkeypatch.setattr(stage, "parameter_bytes", lambda *_: 4 << 30)
    planned = stage.ClassMeansStage.of(*_learner_and_facts(config_of(runs["dense"])))
    wide = planned.estimate(_learner_and_facts(config_of(runs["dense"]))[1])
    assert wide.tasks == len(class_means.sum_ranges(100_000, 10_000)) == 121
    assert wide.disk_bytes > 4 << 30
    assert wide.spare_bytes > 4 << 30
    assert small.driver_bytes < 1 << 20 < wide.driver_bytes < 1 << 30


def _learner_and_facts(config: Path) -> tuple[Any, Any]:
    from pipeline.rows_facts import rows_facts
    from pipeline.stage import Facts

    loaded = load_config(config)
    dataset = Dataset.open(loaded.dataset_path)
    return loaded.run.train[0], Facts(dataset, rows_facts(loaded.run, dataset))


def test_keys_of_sgd_and_other_metrics_are_refused(tmp_path: Path) -> None:
    for keys in ("rounds = 3", 'metric = "manhattan"'):
        text = f'name = "c"\n[data]\npath = "d.zarr"\n[[train]]\nname = "a"\nkind = "nearest-class-mean"\n{keys}\n'
        (tmp_path / "c.toml").write_text(text)
        assert_refused(tmp_path, 2, "ConfigError", keys.split(" ")[0], by=("check", tmp_path / "c.toml"))
