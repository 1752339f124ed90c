"""What a run publishes beside its table: spectra, top-k, models on codes; also of steps that say less, or more."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from pipeline.config import RunConfig
from pipeline.rows_facts import RowsFacts
from pipeline.stages.details import listed, model_details, row_bytes, spectrum_bytes
from tasks.models.folder import load_model
from tasks.models.linear import LinearModel
from tests.naive import report as naive
from tests.naive import spectrum as naive_spectrum
from tests.pipeline.cli_caller import gaussian, make_run, metrics, succeeds

CONFIG = """\
name = "t"
[data]
path = "d.zarr"
[predict]
top = 4
[[encode]]
name = "pq"
kind = "pq"
bits = 2
[[train]]
name = "ovr"
kind = "ovr"
[[train]]
name = "coded"
kind = "ovr"
rows = "pq"
[[train]]
name = "semi"
kind = "ovr"
rows = "pq"
test_rows = "x"
[[train]]
name = "hashed"
kind = "flat-hash"
bits = 6
"""


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("details")
    rows, labels = gaussian(150, 6, 5)
    make_run(folder, rows, labels, "--block-rows", 32, config=CONFIG)
    return folder


def figure(folder: Path, name: str) -> list[dict[str, str]]:
    path = folder / "runs" / "t" / "report-figures" / f"{name}.csv"
    return list(csv.DictReader(path.read_text("utf-8").splitlines()))


def test_spectra_are_those_of_the_saved_weights(made: Path) -> None:
    details = metrics(made)["details"]
    for name in ("ovr", "coded", "semi"):
        model = load_model(made / "runs" / "t" / "models" / name).model
        assert isinstance(model, LinearModel)
        np.testing.assert_allclose(details[name]["spectrum"], naive_spectrum.singular_values(model.weights), rtol=1e-6)
    assert "spectrum" not in details["hashed"]
    drawn = [float(row["singular_value"]) for row in figure(made, "spectrum") if row["model"] == "semi"]
    assert drawn == details["semi"]["spectrum"]


def test_top_k_is_that_of_the_predictions(made: Path) -> None:
    found = metrics(made)
    for name, detail in found["details"].items():
        table = pq.read_table(made / "runs" / "t" / "predictions" / f"{name}.parquet")
        assert detail["top_k"] == naive.top_k(table["classes"].to_pylist(), table["label"].to_pylist())
        assert len(detail["top_k"]) == 4
        assert detail["top_k"][0] == found["models"][name]["top1"]
    assert {row["model"] for row in figure(made, "top-k")} == {"ovr", "coded", "semi", "hashed"}


def test_the_same_learner_on_codes_is_compared(made: Path) -> None:
    found = metrics(made)
    assert [(row["form"], row["model"]) for row in figure(made, "compression")] == [
        ("full", "ovr"),
        ("PQ", "coded"),
        ("semi-PQ", "semi"),
    ]
    table = next(table for table in found["tables"] if table["title"] == "Trained and tested on codes")
    assert [row[0] for row in table["rows"]] == ["ovr", "coded", "semi"]
    assert [row[-1] for row in table["rows"]] == ["24", *2 * [f"{found['encodings']['pq']['bytes_per_row']:,.0f}"]]
    said = succeeds("report", made / "runs" / "t")
    assert "trained, tested on" in said.out
    assert "semi-PQ: trained on codes, tested on rows" in " ".join(said.out.split())


def fake_work(**results: Any) -> Any:
    """Steps with these results, as far as details look."""
    inputs = {name: SimpleNamespace(results=result, measured={}) for name, result in results.items()}
    return SimpleNamespace(inputs=inputs, folders={}, dataset=SimpleNamespace(n_classes=3))


def config(*train: dict[str, Any]) -> RunConfig:
    values = {"name": "c", "data": {"path": "d"}, "report": {"worst_classes": 1}, "train": list(train)}
    return RunConfig.model_validate_json(json.dumps(values))


def test_what_steps_say_is_passed_on_whatever_their_version() -> None:
    run = config({"name": "a", "kind": "flat-hash", "bits": 3}, {"name": "b", "kind": "flat-hash", "bits": 4})
    solved = {"spectrum": [2.0], "path": [{"lambda1": 1.0}], "history": [{"pair": 0}], "rank": 1}
    detail = {"worst_classes": [[0, 1, 2], [1, 2, 2]], "confused_pairs": [], "top_k": [0.5, 0.75]}
    old = {"detail": {"worst_classes": [[0, 1, 2]], "confused_pairs": []}}
    work = fake_work(train_a=solved, evaluate_a={"detail": detail}, train_b={"history": [{"round": 1}]}, evaluate_b=old)
    found = model_details(run, {"x": RowsFacts("dense", 4, 64, 4)}, work)
    assert found["a"] == {
        "spectrum": [2.0],
        "path": [{"lambda1": 1.0}],
        "history": [{"pair": 0}],
        "worst_classes": [[0, 1, 2]],
        "confused_pairs": [],
        "top_k": [0.5, 0.75],
    }
    assert found["b"] == old["detail"]
    assert listed(found) == {"a": {"spectrum": [2.0], "path": [{"lambda1": 1.0}], "top_k": [0.5, 0.75]}}


def test_pairs_of_a_path_with_the_time_that_each_took() -> None:
    run = config({"name": "a", "kind": "trace-norm"})
    work = fake_work(train_a={"path": [{"lambda1": 1.0}, {"lambda1": 0.5}]})
    facts = {"x": RowsFacts("dense", 4, 64, 4)}
    for seconds, expected in (([1.5, 2.5], [1.5, 2.5]), ([1.5], [None, None])):
        work.inputs["train_a"].measured = {"pair_seconds": seconds}
        assert [pair.get("seconds") for pair in model_details(run, facts, work)["a"]["path"]] == expected


def test_spectra_out_of_reach_are_not_asked_for() -> None:
    run = config({"name": "a", "kind": "ovr"})
    wide = {"x": RowsFacts("csr", 10**12, 64, 4)}
    assert model_details(run, wide, fake_work(train_a={})) == {"a": {}}  # its model is never loaded
    assert spectrum_bytes(run, wide, 3) == 0
    assert spectrum_bytes(run, {"x": RowsFacts("dense", 4, 64, 4)}, 3) == 9 * 160
    assert spectrum_bytes(config({"name": "a", "kind": "flat-hash"}), wide, 3) == 0


def test_bytes_of_rows_where_they_are_known() -> None:
    facts = {"x": RowsFacts("dense", 4, 64, 4), "text": RowsFacts("csr", 9, 640, 4), "pq": RowsFacts("pq", 4, 16, 4)}
    assert row_bytes(facts, {"pq": {"bytes_per_row": 2}, "text": {}}, 4) == {"x": 16.0, "pq": 2.0}
