"""`predict` where labels are known: what it counts, against which classes, and what it leaves beside its output."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from tasks.classes import ClassTable
from tasks.models.folder import save_model
from tasks.models.linear import LinearModel
from tests.pipeline.cli_caller import (
    assert_refused,
    gaussian,
    labelgrove,
    make_run,
    metrics,
    snapshot,
    succeeds,
    svmlight,
)

N_CLASSES = 6
NAMES = tuple(f"n{c}" for c in range(N_CLASSES))
ROWS, Y = gaussian(60, 4, N_CLASSES)
EDGES = "root\ta\nroot\tb\n" + "".join(f"{'ab'[c // 3]}\tn{c}\n" for c in range(N_CLASSES))


@pytest.fixture
def made(tmp_path: Path) -> Path:
    """A model that is right in some rows, rows, names as labels, a taxonomy."""
    rng = np.random.default_rng(3)
    weights = (rng.standard_normal((4, N_CLASSES)) * 2 + np.linalg.pinv(ROWS) @ np.eye(N_CLASSES)[Y]).astype(np.float32)
    table = ClassTable(tuple(str(c) for c in range(N_CLASSES)), NAMES)
    save_model(tmp_path / "model", LinearModel(weights, np.zeros(N_CLASSES, np.float32)), table)
    np.save(tmp_path / "x.npy", ROWS)
    (tmp_path / "y.txt").write_text("".join(f"n{y}\n" for y in Y))
    (tmp_path / "t.tsv").write_text(EDGES)
    return tmp_path


def predicted(made: Path) -> np.ndarray:
    return np.array(pq.read_table(made / "p.parquet")["classes"].to_pylist())


def numbers(made: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((made / "p.metrics.json").read_text())
    assert found["format"] == "labelgrove.accuracy"
    return dict(found["metrics"])


@pytest.mark.parametrize("form", ["names", "integers", "json"])
def test_labels_of_files(made: Path, form: str) -> None:
    labels = made / "y.txt"
    if form == "integers":
        labels = made / "y.npy"
        np.save(labels, Y)
    elif form == "json":
        labels = made / "y.json"
        labels.write_text(json.dumps([f"n{y}" for y in Y]))
    said = succeeds("predict", made / "model", made / "x.npy", "-o", made / "p.parquet", "--labels", labels, "--top", 3)
    classes = predicted(made)
    right = classes[:, 0] == Y
    assert 0 < right.mean() < 1
    found = numbers(made)["all rows"]
    assert found["top1"] == pytest.approx(right.mean())
    assert found["top3"] == pytest.approx((classes == Y[:, None]).any(axis=1).mean())
    assert found["rows"] == 60
    assert "hier_err" not in found
    assert said.out.splitlines()[0].split() == ["rows", "accuracy", "top-3", "per", "class"]
    assert f"{100 * right.mean():.1f} %" in said.out
    assert pq.read_table(made / "p.parquet")["label"].to_pylist() == Y.tolist()


def test_hierarchical_error_of_a_taxonomy(made: Path) -> None:
    by = ("predict", made / "model", made / "x.npy", "-o", made / "p.parquet", "--labels", made / "y.txt")
    said = succeeds(*by, "--taxonomy", made / "t.tsv")
    first = predicted(made)[:, 0]
    heights = [0 if a == b else 1 if a // 3 == b // 3 else 2 for a, b in zip(first, Y, strict=True)]
    assert set(heights) == {0, 1, 2}
    assert numbers(made)["all rows"]["hier_err"] == pytest.approx(np.mean(heights))
    assert "hier. error" in said.out


def test_labels_that_are_no_classes_of_the_model_are_refused(made: Path) -> None:
    (made / "y.txt").write_text("".join(f"n{y}\n" for y in Y[:-1]) + "n9\n")
    by = ("predict", made / "model", made / "x.npy", "-o", made / "p.parquet", "--labels", made / "y.txt")
    assert_refused(made, 3, "LabelOutOfRange", "'n9' is not in the class table", "y.txt, row 59", by=by)
    (made / "y.txt").write_text("n1\n")
    assert_refused(made, 3, "LengthMismatch", "1 labels for 60 rows", by=by)


def test_labels_in_svmlight_count_when_they_are_labels(made: Path) -> None:
    source, by = made / "x.svm", ("predict", made / "model", made / "x.svm", "-o", made / "p.parquet", "--force")
    source.write_text(svmlight(ROWS, Y))
    said = succeeds(*by)
    assert numbers(made)["all rows"]["rows"] == 60
    table = said.out
    for label, word in (("0 ", "taken for no labels"), ("{y}7 ", "were not used"), ("", ""), ("what ", "")):
        source.write_text(svmlight(ROWS, Y, label))
        said = succeeds(*by)
        assert said.out == ""
        assert word in said.err
        assert not (made / "p.metrics.json").exists()  # numbers of other predictions do not stay
    assert succeeds(*by, "--labels", made / "y.txt").out == table


def test_every_part_of_a_dataset_has_its_line(tmp_path: Path) -> None:
    names = [f"n{y}" for y in Y]
    make_run(tmp_path, ROWS, names, "--taxonomy", "{folder}/t.tsv", t_tsv=EDGES)
    model = tmp_path / "runs" / "t" / "models" / "ovr"
    said = succeeds("predict", model, tmp_path / "d.zarr", "-o", tmp_path / "p.parquet")
    assert [line.split()[0] for line in said.out.splitlines()[1:]] == ["train", "validation", "test"]
    assert "the model learnt from the training rows" in said.err
    found = numbers(tmp_path)
    by_run = metrics(tmp_path)["models"]["ovr"]
    for name in ("top1", "top5", "hier_err", "mean_per_class_top1", "test_ops_per_row"):
        assert found["test"][name] == pytest.approx(by_run[name]), name
    said = succeeds("predict", model, tmp_path / "d.zarr", "-o", tmp_path / "p.parquet", "--force", "--split", "test")
    assert numbers(tmp_path) == {"test": found["test"]}
    assert "learnt from" not in said.err


def test_a_hierarchical_model_knows_its_taxonomy(tmp_path: Path) -> None:
    names = [f"n{y}" for y in Y]
    make_run(tmp_path, ROWS, names, "--taxonomy", "{folder}/t.tsv", t_tsv=EDGES)
    model = shutil.copytree(tmp_path / "runs" / "t" / "models" / "heshing", tmp_path / "elsewhere" / "copied model")
    shutil.rmtree(tmp_path / "runs")
    by = ("predict", model, tmp_path / "x.npy", "-o", tmp_path / "p.parquet", "--labels", tmp_path / "y.txt")
    succeeds(*by)
    own = numbers(tmp_path)
    succeeds(*by, "--force", "--taxonomy", tmp_path / "t.tsv")
    assert own == numbers(tmp_path)
    assert "hier_err" in own["all rows"]


def test_without_a_taxonomy_no_hierarchical_error_is_reported(tmp_path: Path) -> None:
    make_run(tmp_path, ROWS, Y)
    for name, model in metrics(tmp_path)["models"].items():
        assert "hier_err" not in model, name
        assert "top1" in model


def test_a_dataset_whose_classes_are_numbered_otherwise(made: Path) -> None:
    """Class numbers of a dataset are its own: labels are matched by name, and those without a match do not count."""
    names = [f"n{y}" for y in Y]
    (made / "c.json").write_text(json.dumps([*reversed(NAMES), "other"]))
    for name in ("same", "turned"):
        (made / "y.txt").write_text("".join(f"{n}\n" for n in names))
        options = ["--classes", made / "c.json"] if name == "turned" else ["--taxonomy", made / "t.tsv"]
        succeeds("ingest", made / "x.npy", made / f"{name}.zarr", "--labels", made / "y.txt", *options)
    succeeds("predict", made / "model", made / "same.zarr", "-o", made / "p.parquet")
    same = numbers(made)
    said = succeeds("predict", made / "model", made / "turned.zarr", "-o", made / "p.parquet", "--force")
    assert "1 of 7 classes" in said.err
    turned = numbers(made)
    assert {name: part["top1"] for name, part in turned.items()} == {name: part["top1"] for name, part in same.items()}
    labels = pq.read_table(made / "p.parquet").sort_by("row")["label"].to_pylist()
    assert labels == Y.tolist()


def test_a_taxonomy_follows_the_numbers_of_its_classes(made: Path) -> None:
    (made / "c.json").write_text(json.dumps(list(reversed(NAMES))))
    ingest = ("ingest", made / "x.npy", made / "d.zarr", "--labels", made / "y.txt", "--taxonomy", made / "t.tsv")
    succeeds(*ingest)
    succeeds("predict", made / "model", made / "d.zarr", "-o", made / "p.parquet")
    before = numbers(made)
    succeeds(*ingest, "--classes", made / "c.json", "--force")
    succeeds("predict", made / "model", made / "d.zarr", "-o", made / "p.parquet", "--force")
    assert {k: v["hier_err"] for k, v in numbers(made).items()} == {k: v["hier_err"] for k, v in before.items()}


@pytest.mark.parametrize(
    ("data", "options", "word"),
    [
        ("d.zarr", ["--labels", "y.txt"], "a dataset has its own"),
        ("x.npy", ["--taxonomy", "t.tsv"], "without labels"),
    ],
)
def test_options_without_effect_are_refused(made: Path, data: str, options: list[str], word: str) -> None:
    succeeds("ingest", made / "x.npy", made / "d.zarr", "--labels", made / "y.txt")
    by = ("predict", made / "model", made / data, "-o", made / "p.parquet", options[0], made / options[1])
    assert_refused(made, 2, "UsageError", options[0], word, by=by)


def test_files_of_others_beside_the_predictions_stay(made: Path) -> None:
    by = ("predict", made / "model", made / "x.npy", "-o", made / "p.parquet", "--labels", made / "y.txt")
    (made / "p.metrics.json").write_text('{"mine": 1}')
    for force in ([], ["--force"]):
        assert_refused(made, 2, "OutputExists", "p.metrics.json", by=(*by, *force))


def test_shares_beside_what_decides_them_are_refused(made: Path) -> None:
    ingest = ("ingest", made / "x.npy", made / "d.zarr", "--labels", made / "y.txt")
    for options, word in (
        (["--split", "0.8,0.1,0.1", "--validation", "0.3"], "--validation has no meaning beside --split"),
        (["--test-source", made / "x.npy", "--test-labels", made / "y.txt", "--test", "0"], "beside --test-source"),
    ):
        assert_refused(made, 2, "UsageError", word, by=(*ingest, *options))
    said = succeeds(*ingest, "--validation", "0.05", "--test", "0.1")
    assert "0.05 as validation, 0.1 as test" in said.err


def test_what_a_killed_predict_left_is_swept_away(made: Path) -> None:
    """Folders of dead processes go; while a live one writes the same file, it is in the way."""
    dead, alive = made / ".p.parquet.partial-999999999", made / ".p.parquet.partial-1"
    dead.mkdir()
    by = ("predict", made / "model", made / "x.npy", "-o", made / "p.parquet")
    succeeds(*by)
    assert not dead.exists()
    alive.mkdir()
    assert_refused(made, 2, "OutputExists", "process 1 is writing it", by=(*by, "--force"))


def test_nothing_is_left_when_predicting_fails(made: Path) -> None:
    np.save(made / "x.npy", np.where(np.arange(60)[:, None] == 7, np.nan, ROWS))
    before = snapshot(made)
    said = labelgrove("predict", made / "model", made / "x.npy", "-o", made / "p.parquet", "--labels", made / "y.txt")
    assert said.code == 3
    assert "row 7" in said.err
    assert snapshot(made) == before


# ---- odd places --------------------------------------------------------------------------------------------------


def test_links_stay_and_what_they_point_at_is_written(made: Path) -> None:
    (made / "elsewhere").mkdir()
    for name in ("d.zarr", "p.parquet"):
        (made / name).symlink_to(Path("elsewhere") / name)
    ingest = ("ingest", made / "x.npy", made / "d.zarr", "--labels", made / "y.txt")
    predict = ("predict", made / "model", made / "d.zarr", "-o", made / "p.parquet")
    for force in ([], ["--force"]):  # first they point at nothing, then at what is to be replaced
        succeeds(*ingest, *force)
        succeeds(*predict, *force)
        assert (made / "d.zarr").is_symlink()
        assert (made / "p.parquet").is_symlink()
        there = sorted(path.name for path in (made / "elsewhere").iterdir())
        assert there == ["d.zarr", "p.metrics.json", "p.parquet"]
    assert_refused(made, 2, "DatasetExists", by=ingest)
    assert_refused(made, 2, "OutputExists", by=predict)


def test_a_device_is_never_replaced_by_a_file(made: Path) -> None:
    pipe = made / "pipe"
    os.mkfifo(pipe)
    (made / "link").symlink_to(pipe)
    for output in (pipe, made / "link"):
        by = ("predict", made / "model", made / "x.npy", "-o", output, "--force")
        assert_refused(made, 2, "OutputExists", "no regular file", by=by)
    assert pipe.is_fifo()


def test_patterns_below_a_folder_whose_name_looks_like_one(made: Path) -> None:
    folder = made / "Ünï:cöde [1] *"
    folder.mkdir()
    np.save(folder / "a:b.npy", ROWS)
    for source in (f"{folder}/*.npy", folder, folder / "a:b.npy"):
        succeeds("ingest", source, folder / "d.zarr", "--labels", made / "y.txt", "--force")
    succeeds("predict", made / "model", f"{folder}/*.npy", "-o", folder / "p.parquet")
    assert pq.read_metadata(folder / "p.parquet").num_rows == len(ROWS)


@pytest.mark.parametrize("command", ["predict", "inspect"])
@pytest.mark.parametrize("place", ["run", "run/models"])
def test_a_folder_of_models_names_them(made: Path, place: str, command: str) -> None:
    (made / "run" / "models").mkdir(parents=True)
    (made / "model").rename(made / "run" / "models" / "ovr")
    more = (made / "x.npy", "-o", made / "p.parquet") if command == "predict" else ()
    by = (command, made / place, *more)
    assert_refused(made, 4, "ModelMissing", str(made / "run" / "models" / "ovr"), by=by)


def test_error_on_the_rows_of_a_dataset_is_measured_on_another_tree_when_asked(tmp_path: Path) -> None:
    """The number of a run with `[evaluate] taxonomy` comes again."""
    from tests.pipeline.test_two_taxonomies import CONFIG, OTHER, OWN

    rows, labels = gaussian(240, 3, 4, seed=1)
    rows += np.random.default_rng(2).normal(scale=6, size=rows.shape).astype(np.float32)
    make_run(tmp_path, rows, [f"c{c}" for c in labels], "--taxonomy", "{folder}/own.tsv", config=CONFIG, own_tsv=OWN)
    (tmp_path / "other.tsv").write_text(OTHER)
    succeeds("run", tmp_path / "c.toml", "-s", "evaluate.taxonomy=other.tsv", "--scheduler", "serial")
    by = ("predict", tmp_path / "runs" / "t" / "models" / "ovr", tmp_path / "d.zarr", "--split", "test", "--force")
    expected = metrics(tmp_path)["models"]["ovr"]["hier_err"]
    errors = []
    for options in ((), ("--taxonomy", tmp_path / "other.tsv")):
        succeeds(*by, "-o", tmp_path / "p.parquet", *options)
        errors.append(json.loads((tmp_path / "p.metrics.json").read_text())["metrics"]["test"]["hier_err"])
    assert errors[1] == pytest.approx(expected)
    assert errors[0] != errors[1]
