"""One-vs-rest by ranges of classes in runs: any rows, every pool, stopped and resumed, planned, predicted."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pipeline.commands import inspect
from pipeline.config import load_config
from pipeline.plan import make_plan
from pipeline.stages import problems, train
from pipeline.store import file_digest, read_json
from tasks.fit import checkpoint
from tasks.fit import class_ranges as fit_ranges
from tasks.fit.class_ranges import ClassRange
from tasks.models import tensors
from tasks.models.class_ranges import RangedModel
from tasks.models.folder import load_model, verify_model
from tasks.models.linear import LinearModel
from tests.systems.conftest import make_dataset
from tests.systems.harness import run_here

CONFIG = """\
name = "ranges"
seed = 5
[data]
path = "{data}"
[[encode]]
name = "pq"
kind = "pq"
subquantizers = 8
bits = 4
iterations = 3
[[encode]]
name = "wta"
kind = "wta"
hashes = 20
"""
SHORT = "rounds = 2\nleast_rows = 1\npartitions = 10\n"
LEARNERS = (("x", ""), ("pq", 'loss = "logistic"'), ("wta", 'loss = "hinge"'))


def in_three(n_features: int, n_classes: int) -> list[ClassRange]:  # noqa: ARG001
    return [ClassRange(0, 0, 9), ClassRange(1, 9, 20), ClassRange(2, 20, n_classes)]


@pytest.fixture
def in_ranges(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every one-vs-rest problem counts as one too large to be held."""
    monkeypatch.setattr(problems, "class_ranges", in_three)
    monkeypatch.setattr(tensors, "LARGE_BYTES", 0)
    monkeypatch.setattr(fit_ranges, "SAVED_EVERY", 0.0)


def config_of(folder: Path, body: str) -> Path:
    dataset = make_dataset(folder, body)
    sections = [
        f'[[train]]\nname = "ovr-{rows}"\nkind = "ovr"\nrows = "{rows}"\n{SHORT}{more}\n' for rows, more in LEARNERS
    ]
    path = folder / "ranges.toml"
    path.write_text(CONFIG.format(data=dataset.path) + "".join(sections), encoding="utf-8")
    return path


def content(run: Path) -> dict[str, Any]:
    """Digests of models and predictions, and what is said of them."""
    found: dict[str, Any] = {}
    for rows, _ in LEARNERS:
        model = run / "models" / f"ovr-{rows}"
        found[rows] = (
            verify_model(model),
            file_digest(model / "weights.safetensors"),
            file_digest(run / "predictions" / f"ovr-{rows}.parquet"),
        )
    return found


def accuracies(run: Path) -> dict[str, float]:
    return {name: model["top1"] for name, model in read_json(run / "metrics.json")["models"].items()}


@pytest.mark.parametrize("body", [pytest.param("dense", marks=pytest.mark.slow), "csr"])
def test_any_rows_on_any_pool_and_resumed(
    tmp_path: Path, body: str, in_ranges: None, monkeypatch: pytest.MonkeyPatch  # noqa: ARG001
) -> None:  # fmt: skip
    config = config_of(tmp_path, body)
    run = run_here(config)
    expected = content(run)
    models = {rows: load_model(run / "models" / f"ovr-{rows}").model for rows, _ in LEARNERS}
    for model in models.values():
        assert isinstance(model, RangedModel)
        assert model.starts == [0, 9, 20]
    assert not list(run.glob("steps/*/progress"))
    found = inspect(run / "models" / "ovr-x")
    assert found["parameters"] == 31 * (48 + 1)
    assert list(found["tensors"]) == ["bias", "weights.0000", "weights.0001", "weights.0002"]

    if body == "csr":
        assert content(run_here(config, "local:2", runs=tmp_path / "two")) == expected

    class Killed(BaseException):
        """In place of a kill."""

    saved: list[int] = []
    plain = checkpoint.FileCheckpoint.save

    def stopping(self: checkpoint.FileCheckpoint, *progress: Any) -> None:
        plain(self, *progress)
        saved.append(len(saved))
        if saved[-1] in (1, 2, 6):  # a range is fitted, half of the next is, and so on
            raise Killed

    monkeypatch.setattr(checkpoint.FileCheckpoint, "save", stopping)
    attempts = 0
    while not (tmp_path / "stopped" / "ranges" / "metrics.json").exists():
        attempts += 1
        try:
            run_here(config, runs=tmp_path / "stopped")
        except Killed:
            continue
    assert attempts == 4
    assert saved == list(range(2 * 3 * 3))  # no round was done twice
    assert content(tmp_path / "stopped" / "ranges") == expected


def test_accuracy_and_facts_are_those_of_the_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = config_of(tmp_path, "csr")
    config.write_text(config.read_text().replace("partitions = 10", "partitions = 1"))  # ranges never average
    whole = run_here(config, runs=tmp_path / "whole")
    monkeypatch.setattr(problems, "class_ranges", in_three)
    ranged = run_here(config, runs=tmp_path / "ranged")
    assert isinstance(load_model(whole / "models" / "ovr-x").model, LinearModel)
    for name, accuracy in accuracies(whole).items():
        assert abs(accuracies(ranged)[name] - accuracy) < 0.03
    facts = [read_json(run / "metrics.json")["models"]["ovr-x"] for run in (whole, ranged)]
    for key in ("train_ops_per_row", "model_bytes", "training_bytes", "test_ops_per_row", "speedup"):
        assert facts[0][key] == facts[1][key]
    trained = next((ranged / "steps").glob("train_ovr-x-*")) / "DONE.json"
    results = json.loads(trained.read_text())["results"]
    assert results["class_ranges"] == 3
    assert [record["round"] for record in results["history"]] == [0, 1]


def test_only_problems_in_ranges_are_made_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = load_config(config_of(tmp_path, "dense"))
    before = {step.name: step.fingerprint for step in make_plan(config).steps}
    monkeypatch.setattr(problems, "class_ranges", in_three)
    plan = make_plan(config)
    changed = {step.name for step in plan.steps if step.fingerprint != before[step.name]}
    assert changed == {f"{step}_ovr-{rows}" for step in ("train", "predict", "evaluate") for rows, _ in LEARNERS} | {
        "report"
    }


@pytest.mark.parametrize(
    ("kind", "more", "n_ranges"),
    [
        ("ovr", "", 24),
        ("ovr", 'loss = "hinge"', 24),
        ("ovr", 'loss = "logistic"\nclass_weight = "balanced"', 24),
        ("ovr", 'loss = "multinomial"', 0),
        ("ovr", 'loss = "crammer-singer"', 0),
        ("msvm", "", 0),
    ],
)
def test_which_learners_are_trained_in_ranges(tmp_path: Path, kind: str, more: str, n_ranges: int) -> None:
    dataset = make_dataset(tmp_path)
    path = tmp_path / "c.toml"
    path.write_text(f'name = "c"\n[data]\npath = "{dataset.path}"\n[[train]]\nname = "a"\nkind = "{kind}"\n{more}\n')
    learner = load_config(path).run.train[0]
    assert len(problems.ranges_of(learner, 107_501, 7_321)) == n_ranges
    assert problems.ranges_of(learner, 48, 31) == []


def test_a_plan_bounds_a_task_by_a_range(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = load_config(config_of(tmp_path, "dense"))
    monkeypatch.setattr(problems, "class_ranges", in_three)
    large = 3 << 30
    for module in (train, problems):
        monkeypatch.setattr(module, "parameter_bytes", lambda *_: large)
    steps = {step.name: step.estimate for step in make_plan(config).steps}
    assert 128 << 20 < steps["train_ovr-x"].task_bytes < 1 << 30
    assert 128 << 20 < steps["predict_ovr-x"].task_bytes < 1 << 30
    assert steps["train_ovr-x"].tasks == 4
    assert steps["train_ovr-x"].disk_bytes > large
