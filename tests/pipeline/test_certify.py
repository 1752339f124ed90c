"""`labelgrove inspect` of trace-norm models: the certificate in words, and made anew from weights and rows."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pipeline.commands.certifying import certificate_text, factors_of_model
from pipeline.dataset import Dataset
from pipeline.ingest import ingest
from tasks.classes import ClassTable
from tasks.io import read_labels, read_rows, read_split
from tasks.models.certificate import NUMBERS, SENSE
from tasks.models.encoder import PqEncoder
from tasks.models.factored import FactoredModel, trace_norm_model
from tasks.models.folder import save_model
from tasks.models.linear import LinearModel
from tasks.rows import Dense
from tasks.trace.certificate import certify
from tasks.trace.risk import LocalRisk
from tasks.trace.solution import Penalty
from tests.naive import probabilities as naive
from tests.pipeline.cli_caller import labelgrove, succeeds
from tests.systems.conftest import make_dataset
from tests.tasks.test_factored import certificate

LAMBDA1, LAMBDA2 = 0.01, 0.001


@pytest.fixture(scope="module")
def datasets(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Dataset]:
    folder = tmp_path_factory.mktemp("certify")
    return {body: make_dataset(folder, body) for body in ("dense", "csr")}


def model(dataset: Dataset, rank: int, bias: bool = True) -> FactoredModel | LinearModel:
    random = np.random.default_rng(rank)
    d, k = dataset.n_features, dataset.n_classes
    u, v = (np.linalg.qr(random.standard_normal((n, rank)))[0] for n in (d, k))
    theta = np.sort(random.uniform(0.5, 2, rank))[::-1]
    numbers = certificate(lambda1=LAMBDA1, lambda2=LAMBDA2, rank=rank)
    return trace_norm_model(u, theta, v, random.normal(size=k) if bias else None, numbers)


def weights_of(found: FactoredModel | LinearModel) -> np.ndarray:
    if isinstance(found, LinearModel):
        return found.weights.astype(np.float64)
    return (found.u.astype(np.float64) * found.theta) @ found.v.T.astype(np.float64)


def training_rows(dataset: Dataset) -> tuple[np.ndarray, np.ndarray]:
    values = [read_rows(block).to_array() for block in dataset.blocks()]
    labels, split = read_labels(dataset.path, 0, dataset.n_rows), read_split(dataset.path, 0, dataset.n_rows)
    return np.concatenate(values)[split == 0].astype(np.float64), labels[split == 0]


def saved(folder: Path, what: Any, dataset: Dataset, **options: Any) -> Path:
    save_model(folder, what, dataset.classes, provenance={"dataset": dataset.digest}, **options)
    return folder


def inspected(*arguments: object) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(succeeds("inspect", *arguments, "--json").out)
    return found


def naive_objective(weights: np.ndarray, bias: np.ndarray | None, rows: np.ndarray, labels: np.ndarray) -> float:
    """Equation (4), row by row."""
    scores = rows @ weights + (0 if bias is None else bias)
    risk = -sum(naive.log_probability(z.tolist(), y) for z, y in zip(scores, labels, strict=True)) / len(labels)
    values = np.linalg.svd(weights, compute_uv=False)
    return float(LAMBDA1 * values.sum() + LAMBDA2 * np.square(values).sum() + risk)


# ---- in words ----------------------------------------------------------------------------------------------------


def test_the_certificate_is_shown_with_what_it_means(datasets: dict[str, Dataset], tmp_path: Path) -> None:
    place = saved(tmp_path / "m", model(datasets["dense"], 2), datasets["dense"])
    found = inspected(place)
    assert found["certificate"] == certificate(lambda1=LAMBDA1, lambda2=LAMBDA2)
    assert found["probabilistic"] is True
    assert "certified" not in found
    text = succeeds("inspect", place).out
    lines = {line.split()[0]: line for line in text.splitlines() if line.strip()}
    for name in NUMBERS:
        assert lines[name].endswith(SENSE[name])
        assert float(lines[name].split()[1].replace(",", "")) == pytest.approx(found["certificate"][name], rel=1e-5)
    assert "spectrum: 2 singular values of the weights, largest first: 2 0.5\n" in text
    assert "solver: r1d\n" in text
    assert "predict --proba" in text


def test_long_spectra_are_shown_by_their_first_values() -> None:
    text = certificate_text(certificate(spectrum=[float(20 - i) for i in range(20)], more=3))
    assert "spectrum: 20 singular values of the weights, largest first: 20 19 18 17 16 15 14 13 ...\n" in text
    assert any(line.split() == ["more", "3"] for line in text.splitlines())
    assert "spectrum: 0 singular values of the weights, largest first\n" in certificate_text(certificate(spectrum=[]))


def test_models_without_a_certificate_say_nothing_of_one(datasets: dict[str, Dataset], tmp_path: Path) -> None:
    dataset = datasets["dense"]
    place = saved(tmp_path / "m", LinearModel(np.zeros((48, dataset.n_classes), np.float32)), dataset)
    found, text = inspected(place), succeeds("inspect", place).out
    assert "certificate" not in found
    assert found["probabilistic"] is False
    assert "gap" not in text
    assert "margins" in text


def test_the_pairs_that_were_solved_are_listed(datasets: dict[str, Dataset], tmp_path: Path) -> None:
    dataset = datasets["dense"]
    place, more = tmp_path / "m", {"lambda1": 0.25, "solver": "r1d"}
    pairs = [{"lambda1": 0.5**i, "rank": i, "top1": 0.25, "chosen": i == 1} for i in range(3)]
    provenance = {"dataset": dataset.digest, "path": pairs, **more}
    save_model(place, model(dataset, 2), dataset.classes, provenance=provenance)
    found, text = inspected(place), succeeds("inspect", place).out
    assert found["path"] == pairs
    assert found["provenance"] == {"dataset": dataset.digest, **more}
    lines = text[text.index("path: 3 pairs of lambda1 and lambda2, number 2 chosen") :].splitlines()
    assert [line.split() for line in lines[1:5]] == [
        ["pair", "lambda1", "rank", "accuracy"],
        ["1", "1", "0", "25.0", "%"],
        ["2", "*", "0.5", "1", "25.0", "%"],
        ["3", "0.25", "2", "25.0", "%"],
    ]
    assert lines[5].startswith("* the pair that was chosen. Accuracy and log-loss are those of the validation rows.")
    assert "3 entries in model" in (place / "README.md").read_text("utf-8")


# ---- made anew ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("body", ["dense", "csr"])
@pytest.mark.parametrize(("rank", "bias"), [(0, True), (3, True), (3, False), (25, True)])
def test_the_certificate_made_anew_is_that_of_the_weights(
    body: str, rank: int, bias: bool, datasets: dict[str, Dataset], tmp_path: Path
) -> None:
    dataset = datasets[body]
    given = model(dataset, rank, bias)
    assert type(given) is (LinearModel if rank > 20 else FactoredModel)
    place = saved(tmp_path / "m", given, dataset)
    found = inspected(place, "--certify", "--data", dataset.path)["certified"]
    rows, labels = training_rows(dataset)
    assert found["rows"] == len(labels)
    offset = None if given.bias is None else given.bias.astype(np.float64)
    assert found["objective"] == pytest.approx(naive_objective(weights_of(given), offset, rows, labels), rel=1e-6)
    risk = LocalRisk(Dense(rows), labels, dataset.n_classes)
    expected = certify(risk, factors_of_model(given), offset, Penalty(LAMBDA1, LAMBDA2)).as_json()
    assert {name: found[name] for name in expected} == pytest.approx(expected, rel=1e-6, abs=1e-9)
    assert found["rank"] == rank
    text = succeeds("inspect", place, "--certify", "--data", dataset.path)
    assert f"again: from the weights alone, on the {len(labels):,} training rows" in text.out
    assert "warning" not in text.err


def test_rows_go_through_the_encoders_that_the_model_learnt_from(datasets: dict[str, Dataset], tmp_path: Path) -> None:
    dataset = datasets["dense"]
    encoder = PqEncoder(np.random.default_rng(0).normal(size=(8, 16, 6)).astype(np.float32))
    given = model(dataset, 3)
    place = saved(tmp_path / "m", given, dataset, encoders=(encoder,), rows="pq", test_rows="pq")
    found = inspected(place, "--certify", "--data", dataset.path)["certified"]
    rows, labels = training_rows(dataset)
    codes = encoder.encode(Dense(rows.astype(np.float32))).to_array(np.float64)
    assert given.bias is not None
    expected = naive_objective(weights_of(given), given.bias.astype(np.float64), codes, labels)
    assert found["objective"] == pytest.approx(expected, rel=1e-6)
    raw = saved(tmp_path / "raw", given, dataset, encoders=(encoder,), rows="x", test_rows="pq")
    plain = inspected(raw, "--certify", "--data", dataset.path)["certified"]
    expected = naive_objective(weights_of(given), given.bias.astype(np.float64), rows, labels)
    assert plain["objective"] == pytest.approx(expected, rel=1e-6)


ON_CODES = """\
name = "t"
[data]
path = "{path}"
[[encode]]
name = "low"
kind = "pca"
components = 8
[[encode]]
name = "codes"
kind = "pq"
rows = "low"
subquantizers = 4
bits = 3
[[train]]
name = "semi"
kind = "trace-norm"
rows = "codes"
test_rows = "low"
lambda1 = 0.05
"""


def test_a_model_in_its_run_is_certified_on_the_codes_that_it_learnt_from(
    datasets: dict[str, Dataset], tmp_path: Path
) -> None:
    dataset = datasets["dense"]
    (tmp_path / "c.toml").write_text(ON_CODES.format(path=dataset.path))
    succeeds("run", tmp_path / "c.toml", "--scheduler", "serial")
    place = tmp_path / "runs" / "t" / "models" / "semi"
    found = inspected(place, "--certify", "--data", dataset.path)
    kept, again = found["certificate"], found["certified"]
    assert again["objective"] == pytest.approx(kept["objective"], rel=1e-5)
    assert again["gap"] == pytest.approx(kept["gap"], rel=1e-3)
    assert again["rank"] == kept["rank"]
    shutil.copytree(place, tmp_path / "away" / "models" / "semi")
    other = saved(tmp_path / "runs" / "t" / "models" / "other", model(dataset, 2), dataset, rows="codes")
    shutil.rmtree(place)
    shutil.copytree(other, place)
    for moved in (tmp_path / "away" / "models" / "semi", other, place):
        said = labelgrove("inspect", moved, "--certify", "--data", dataset.path)
        assert (said.code, "learnt from rows 'codes'" in said.err) == (2, True), said
        assert "runs/NAME/models/NAME" in said.err


def test_classes_of_another_order_are_matched(datasets: dict[str, Dataset], tmp_path: Path) -> None:
    """Rows of a class that the model lacks are left out; that the data are others is said."""
    dataset = datasets["dense"]
    given = model(dataset, 2)
    assert isinstance(given, FactoredModel)
    assert given.bias is not None
    expected = inspected(saved(tmp_path / "m", given, dataset), "--certify", "--data", dataset.path)["certified"]
    turned = FactoredModel(given.u, given.theta, given.v[::-1].copy(), given.bias[::-1].copy(), given.certificate)
    ids, names = dataset.classes.ids[::-1], dataset.classes.names[::-1]
    save_model(tmp_path / "turned", turned, ClassTable(ids, names))
    said = succeeds("inspect", tmp_path / "turned", "--certify", "--data", dataset.path, "--json")
    found = json.loads(said.out)["certified"]
    assert found.pop("data") == expected.pop("data")
    assert found == pytest.approx(expected, rel=1e-9, abs=1e-12)
    assert "learnt from other data" in said.err
    save_model(tmp_path / "lacking", turned, ClassTable(("99", *ids[1:]), ("99", *names[1:])))
    fewer = inspected(tmp_path / "lacking", "--certify", "--data", dataset.path)["certified"]
    assert 0 < fewer["rows"] < expected["rows"]


def test_what_cannot_be_certified_is_refused(datasets: dict[str, Dataset], tmp_path: Path) -> None:
    dataset = datasets["dense"]
    plain = saved(tmp_path / "plain", LinearModel(np.zeros((48, dataset.n_classes), np.float32)), dataset)
    place = saved(tmp_path / "m", model(dataset, 2), dataset)
    semi = saved(tmp_path / "semi", model(dataset, 2), dataset, rows="pq", test_rows="x")
    rows = np.zeros((10, 7), np.float32)
    rows[:, 0] = np.arange(10)
    np.save(tmp_path / "x.npy", rows)
    np.save(tmp_path / "y.npy", np.arange(10) % 2)
    narrow = ingest(str(tmp_path / "x.npy"), tmp_path / "n.zarr", labels=str(tmp_path / "y.npy"))
    for arguments, code, words in (
        ((plain, "--certify", "--data", dataset.path), 2, "NoCertificate: a model of kind ovr has no certificate"),
        ((place, "--certify"), 2, "add --data DATASET"),
        ((place, "--data", dataset.path), 2, "--data has no meaning without --hash or --certify"),
        ((semi, "--certify", "--data", dataset.path), 2, "learnt from rows 'pq'"),
        ((place, "--certify", "--data", narrow.path), 3, "7 columns"),
        ((place, "--hash"), 2, "NotHashed"),
        ((place, "--certify", "--data", tmp_path / "none.zarr"), 4, "none.zarr"),
    ):
        said = labelgrove("inspect", *arguments)
        assert said.code == code, said
        assert words in said.err, said
        assert said.out == ""
