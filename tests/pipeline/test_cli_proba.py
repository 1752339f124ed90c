"""Probabilities as a user meets them: `predict --proba`, and what runs and `predict` say of what they are worth."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from sklearn.metrics import log_loss

from pipeline.config import RunConfig
from pipeline.stages.problems import gives_probabilities
from tasks.classes import ClassTable
from tasks.models.folder import load_model, save_model
from tasks.models.linear import LinearModel
from tasks.rows import Dense
from tests.naive import probabilities as naive
from tests.pipeline.cli_caller import assert_refused, gaussian, make_run, metrics, succeeds, write_source

N_FEATURES, N_CLASSES = 4, 6
ROWS, Y = gaussian(90, N_FEATURES, N_CLASSES)
MARGINS = ["row", "label", "classes", "scores", "evaluations"]
PROBABLE = [*MARGINS[:4], "probabilities", "label_log_probability", "evaluations"]

LEARNERS = """\
name = "t"
[data]
path = "d.zarr"
[[train]]
name = "softmax"
kind = "ovr"
loss = "multinomial"
[[train]]
name = "hashed"
kind = "flat-hash"
loss = "multinomial"
bits = 6
[[train]]
name = "paths"
kind = "heshing"
loss = "multinomial"
bits = 6
[[train]]
name = "trace"
kind = "trace-norm"
lambda1_steps = 2
gap = 0.01
[[train]]
name = "margins"
kind = "ovr"
"""


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("proba")
    make_run(folder, ROWS, Y, "--block-rows", "16", config=LEARNERS)
    return folder


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model of log-odds that is right in some rows, one of margins, rows and labels."""
    folder = tmp_path_factory.mktemp("made")
    random = np.random.default_rng(3)
    weights = (random.standard_normal((N_FEATURES, N_CLASSES)) / 3).astype(np.float32)
    table = ClassTable(*2 * (tuple(str(c) for c in range(N_CLASSES)),))
    for name in ("softmax", "margins"):
        model = LinearModel(weights, np.zeros(N_CLASSES, np.float32), "ovr", name == "softmax")
        save_model(folder / name, model, table)
    write_source(folder, ROWS, Y)
    return folder


def shares(model: Path, rows: np.ndarray) -> np.ndarray:
    """The softmax of all scores, row by row."""
    ranking = load_model(model).rank(Dense(rows), N_CLASSES)
    scores = np.take_along_axis(ranking.scores, np.argsort(ranking.classes, axis=1), 1)
    return np.array([naive.softmax(row.tolist()) for row in scores])


def numbers(path: Path) -> dict[str, Any]:
    return dict(json.loads(path.read_text())["metrics"])


# ---- predict -----------------------------------------------------------------------------------------------------


def test_probabilities_of_the_classes_named(made: Path, tmp_path: Path) -> None:
    succeeds("predict", made / "softmax", made / "x.npy", "-o", tmp_path / "p.parquet", "--proba", "--top", 3)
    table = pq.read_table(tmp_path / "p.parquet")
    assert table.column_names == PROBABLE
    expected = np.take_along_axis(shares(made / "softmax", ROWS), np.array(table["classes"].to_pylist()), 1)
    np.testing.assert_allclose(table["probabilities"].to_pylist(), expected, rtol=1e-5)
    assert table["label_log_probability"].null_count == len(ROWS)


def test_all_probabilities_of_a_row_sum_to_one(made: Path, tmp_path: Path) -> None:
    succeeds("predict", made / "softmax", made / "x.npy", "-o", tmp_path / "p.parquet", "--proba", "--top", 100)
    found = np.array(pq.read_table(tmp_path / "p.parquet")["probabilities"].to_pylist())
    assert found.shape == (len(ROWS), N_CLASSES)
    np.testing.assert_allclose(found.sum(axis=1), 1, rtol=1e-6)
    assert np.all(np.diff(found, axis=1) <= 0)


def test_without_the_option_the_columns_are_those_of_any_model(made: Path, tmp_path: Path) -> None:
    for name in ("softmax", "margins"):
        by = ("predict", made / name, made / "x.npy", "--labels", made / "y.npy")
        said = succeeds(*by, "-o", tmp_path / f"{name}.parquet")
        assert ("log-loss" in said.out) == (name == "softmax")
    softmax, margins = (pq.read_table(tmp_path / f"{name}.parquet") for name in ("softmax", "margins"))
    assert softmax.column_names == MARGINS
    assert softmax.equals(margins)
    assert "log_loss" not in numbers(tmp_path / "margins.metrics.json")["all rows"]


def test_with_labels_it_is_said_what_probabilities_are_worth(made: Path, tmp_path: Path) -> None:
    by = ("predict", made / "softmax", made / "x.npy", "-o", tmp_path / "p.parquet", "--proba")
    said = succeeds(*by, "--labels", made / "y.npy")
    heading, line = said.out.splitlines()
    assert heading.split()[-3:] == ["log-loss", "calibration", "error"]
    found = numbers(tmp_path / "p.metrics.json")["all rows"]
    expected = shares(made / "softmax", ROWS)
    assert found["log_loss"] == pytest.approx(log_loss(Y, expected), rel=1e-6)
    first, right = expected.max(axis=1).astype(np.float32).tolist(), (expected.argmax(axis=1) == Y).tolist()
    assert found["calibration_error"] == pytest.approx(naive.calibration_error(first, right, 15), abs=1e-6)
    assert line.split()[-2:] == [f"{found['log_loss']:.4f}", f"{found['calibration_error']:.4f}"]
    logs = pq.read_table(tmp_path / "p.parquet")["label_log_probability"].to_pylist()
    np.testing.assert_allclose(logs, np.log(expected[np.arange(len(Y)), Y]), rtol=1e-5, atol=1e-6)


def test_margins_are_no_probabilities(made: Path, tmp_path: Path) -> None:
    by = ("predict", made / "margins", made / "x.npy", "-o", tmp_path / "p.parquet", "--proba")
    assert_refused(tmp_path, 2, "NoProbabilities", "--proba", "trace-norm", 'loss = "multinomial"', by=by)


# ---- runs --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["softmax", "hashed", "paths", "trace"])
def test_a_run_tests_the_probabilities_of_its_models(ran: Path, name: str) -> None:
    model, predictions = (ran / "runs" / "t" / kind / name for kind in ("models", "predictions"))
    table = pq.read_table(predictions.with_suffix(".parquet"))
    assert table.column_names == PROBABLE
    labels = np.array(table["label"].to_pylist())
    expected = shares(model, ROWS[table["row"].to_pylist()])
    found = metrics(ran)["models"][name]
    assert found["log_loss"] == pytest.approx(log_loss(labels, expected, labels=range(N_CLASSES)), rel=1e-5)
    first, right = expected.max(axis=1).astype(np.float32).tolist(), (expected.argmax(axis=1) == labels).tolist()
    assert found["calibration_error"] == pytest.approx(naive.calibration_error(first, right, 15), abs=1e-5)


def test_a_model_of_margins_has_none(ran: Path) -> None:
    table = pq.read_table(ran / "runs" / "t" / "predictions" / "margins.parquet")
    assert table.column_names == MARGINS
    assert not {"log_loss", "calibration_error"} & metrics(ran)["models"]["margins"].keys()
    assert load_model(ran / "runs" / "t" / "models" / "margins").header.get("probabilistic") is None


@pytest.mark.parametrize("name", ["softmax", "hashed", "paths", "trace"])
def test_every_part_of_a_dataset_has_what_the_run_has(ran: Path, tmp_path: Path, name: str) -> None:
    model, output = ran / "runs" / "t" / "models" / name, tmp_path / "p.parquet"
    succeeds("predict", model, ran / "d.zarr", "-o", output, "--proba", "--split", "test")
    by_run = metrics(ran)["models"][name]
    found = numbers(tmp_path / "p.metrics.json")["test"]
    for key in ("log_loss", "calibration_error", "top1"):
        assert found[key] == pytest.approx(by_run[key], rel=1e-12), key
    own = pq.read_table(ran / "runs" / "t" / "predictions" / f"{name}.parquet")
    assert pq.read_table(output).equals(own.replace_schema_metadata(None))


def test_a_certificate_made_anew_is_that_of_the_run(ran: Path) -> None:
    by = ("inspect", ran / "runs" / "t" / "models" / "trace", "--certify", "--data", ran / "d.zarr", "--json")
    found = json.loads(succeeds(*by).out)
    again, kept = found["certified"], found["certificate"]
    assert 0 < kept["relative_gap"] <= 0.01
    assert again["rank"] == kept["rank"] == len(kept["spectrum"])
    for name in ("objective", "risk", "trace_norm", "gap", "relative_gap", "c1"):
        assert again[name] == pytest.approx(kept[name], rel=1e-3, abs=1e-6), name
    # Rounded to float32, the singular vectors of the least values turn, and C2 is about them.
    assert again["c2"] == pytest.approx(kept["c2"], rel=0.05, abs=1e-6)


def test_the_log_loss_of_the_training_rows_is_the_risk(ran: Path, tmp_path: Path) -> None:
    model = ran / "runs" / "t" / "models" / "trace"
    succeeds("predict", model, ran / "d.zarr", "-o", tmp_path / "p.parquet", "--split", "train")
    risk = load_model(model).header["certificate"]["risk"]
    assert numbers(tmp_path / "p.metrics.json")["train"]["log_loss"] == pytest.approx(risk, rel=1e-5)


def test_which_learners_give_probabilities() -> None:
    more = '[[train]]\nname = "tree"\nkind = "label-tree"\n'
    config = RunConfig.model_validate_json(json.dumps(tomllib.loads(LEARNERS + more)))
    found = {one.name: gives_probabilities(one) for one in config.train}
    assert found == {
        "softmax": True,
        "hashed": True,
        "paths": True,
        "trace": True,
        "margins": False,
        "tree": False,
    }
