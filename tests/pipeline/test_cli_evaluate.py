"""`evaluate`: how right a model is, of which rows, and that nothing of it is left behind."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from pipeline.outputs import cells, text_table
from tasks.classes import ClassTable
from tasks.models.folder import load_model, save_model
from tasks.models.linear import LinearModel
from tests.pipeline.cli_caller import assert_refused, gaussian, snapshot, succeeds, write_source

N_CLASSES = 6
ROWS, Y = gaussian(80, 4, N_CLASSES)
EDGES = "root\ta\nroot\tb\n" + "".join(f"{'ab'[c // 3]}\tn{c}\n" for c in range(N_CLASSES))


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model that is right in some rows, files, and a dataset of the same rows."""
    folder = tmp_path_factory.mktemp("evaluate")
    rng = np.random.default_rng(3)
    weights = (rng.standard_normal((4, N_CLASSES)) * 2 + np.linalg.pinv(ROWS) @ np.eye(N_CLASSES)[Y]).astype(np.float32)
    table = ClassTable(tuple(str(c) for c in range(N_CLASSES)), tuple(f"n{c}" for c in range(N_CLASSES)))
    save_model(folder / "model", LinearModel(weights, np.zeros(N_CLASSES, np.float32)), table)
    source, marks = write_source(folder, ROWS, [f"n{y}" for y in Y])
    (folder / "t.tsv").write_text(EDGES)
    succeeds("ingest", source, folder / "d.zarr", "--labels", marks, "--taxonomy", folder / "t.tsv", "--block-rows", 8)
    return folder


def predicted() -> np.ndarray:
    """Of all rows, by the definition."""
    rng = np.random.default_rng(3)
    weights = (rng.standard_normal((4, N_CLASSES)) * 2 + np.linalg.pinv(ROWS) @ np.eye(N_CLASSES)[Y]).astype(np.float32)
    return np.argmax(ROWS @ weights, axis=1)


def test_numbers_of_files_are_those_of_the_definition_and_nothing_is_written(made: Path) -> None:
    before = snapshot(made)
    said = succeeds("evaluate", made / "model", made / "x.npy", "--labels", made / "y.txt", "--json", "--worst", 50)
    assert snapshot(made) == before
    found, guess = json.loads(said.out), predicted()
    numbers = found["metrics"]["all rows"]
    assert 0 < numbers["top1"] < 1
    assert numbers["top1"] == pytest.approx(np.mean(guess == Y))
    assert numbers["rows"] == 80
    assert "hier_err" not in numbers
    per_class = {f"n{c}": [int(np.sum(c == Y)), int(np.sum((c == Y) & (guess == c)))] for c in range(N_CLASSES)}
    assert {one["class"]: [one["rows"], one["right"]] for one in found["worst_classes"]} == per_class
    shares = [one["right"] / one["rows"] for one in found["worst_classes"]]
    assert shares == sorted(shares)
    assert numbers["mean_per_class_top1"] == pytest.approx(np.mean(shares))
    pairs = {(one["class"], one["predicted"]): one["rows"] for one in found["confused_pairs"]}
    assert sum(pairs.values()) == np.sum(guess != Y)
    assert pairs == {
        (f"n{a}", f"n{b}"): int(np.sum((a == Y) & (guess == b))) for a, b in set(zip(Y, guess, strict=True)) if a != b
    }


def test_a_dataset_is_judged_by_its_test_rows_as_predict_counts_them(made: Path, tmp_path: Path) -> None:
    said = succeeds("evaluate", made / "model", made / "d.zarr", "-o", tmp_path / "e.json", "--worst", 2)
    found = json.loads((tmp_path / "e.json").read_text())
    succeeds("predict", made / "model", made / "d.zarr", "-o", tmp_path / "p.csv")
    counted = json.loads((tmp_path / "p.csv.metrics.json").read_text())["metrics"]
    assert found["metrics"] == {"test": counted["test"]}
    assert found["format"] == "labelgrove.accuracy"
    assert found["metrics"]["test"]["hier_err"] > 0
    train = json.loads(succeeds("evaluate", made / "model", made / "d.zarr", "--split", "train", "--json").out)
    assert train["metrics"] == {"train": counted["train"]}
    lines = said.out.splitlines()
    assert lines[0].endswith(f"d.zarr: test, {counted['test']['rows']} rows")
    assert any(line.split()[0] == "accuracy" and f"{100 * counted['test']['top1']:.1f} %" in line for line in lines)
    assert any(line.startswith("hier. error") for line in lines)
    assert any(line.startswith("dot products per row") for line in lines)
    start = next(i for i, line in enumerate(lines) if line.startswith("worst classes"))
    assert lines[start + 3] == ""
    assert sorted(path.name for path in tmp_path.iterdir()) == ["e.json", "p.csv", "p.csv.metrics.json"]
    before = (tmp_path / "p.csv.metrics.json").read_bytes()
    succeeds("predict", made / "model", made / "d.zarr", "--split", "train", "-o", tmp_path / "p.parquet")
    assert list(json.loads((tmp_path / "p.metrics.json").read_text())["metrics"]) == ["train"]
    assert (tmp_path / "p.csv.metrics.json").read_bytes() == before  # of each output its own


def test_long_names_fit_the_terminal_and_are_whole_elsewhere(made: Path, tmp_path: Path) -> None:
    names = [f"n{c}{'-very' * 12} long, {c}" for c in range(N_CLASSES)]
    weights = load_model(made / "model").model.tensors()["weights"]
    save_model(tmp_path / "m", LinearModel(weights), ClassTable(tuple(str(c) for c in range(N_CLASSES)), tuple(names)))
    (tmp_path / "y.txt").write_text("".join(f"{names[y]}\n" for y in Y))
    command = ("evaluate", tmp_path / "m", made / "x.npy", "--labels", tmp_path / "y.txt")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("COLUMNS", "60")
        lines = succeeds(*command, "-o", tmp_path / "e.json").out.splitlines()[1:]  # after the line that names the rows
    assert max(map(len, lines)) == 60
    cut = [line for line in lines if "..." in line]
    assert len({line[:12] for line in cut}) > 1
    assert any(line.count("...") == 2 and " long, " in line for line in cut)  # a pair, its ends kept
    found = json.loads((tmp_path / "e.json").read_text())
    assert {one["class"] for one in found["worst_classes"]} == set(names)
    whole = succeeds(*command).out
    assert "..." not in whole
    assert all(name in whole for name in names)


@pytest.mark.parametrize(("width", "expected"), [
    (0, ["pair  of  n", "abcdefghijklmnop  x  1", "日本語日本語日本語  y  2"]),
    (20, ["pair         of  n", "abcde...lmnop  x  1", "日本...本語   y  2"]),
    (5, ["pair         of  n", "abcde...mnop  x  1", "日本...本語   y  2"]),
], ids=["anything", "narrow", "too narrow"])  # fmt: skip
def test_names_are_cut_in_the_middle(width: int, expected: list[str]) -> None:
    lines = [["pair", "of", "n"], ["abcdefghijklmnop", "x", "1"], ["日本語日本語日本語", "y", "2"]]
    table = text_table(lines, names=(0,), width=width).splitlines()
    assert [line.split() for line in table] == [line.split() for line in expected]
    assert len({cells(line) for line in table}) == 1


def test_a_taxonomy_may_be_given(made: Path) -> None:
    options = ("--labels", made / "y.txt", "--taxonomy", made / "t.tsv", "--json")
    found = json.loads(succeeds("evaluate", made / "model", made / "x.npy", *options).out)["metrics"]["all rows"]
    guess = predicted()
    heights = np.where(guess == Y, 0, np.where(guess // 3 == Y // 3, 1, 2))
    assert found["hier_err"] == pytest.approx(heights.mean())


REFUSED = {
    "no labels": (3, "LabelsMissing", "--labels", "x.npy"),
    "probabilities": (2, "NoProbabilities", "margins", "d.zarr", "--proba"),
    "a beam": (2, "UsageError", "--beam", "d.zarr", "--beam", "2"),
    "labels of a dataset": (2, "UsageError", "has its own", "d.zarr", "--labels", "y.txt"),
    "a part of files": (2, "UsageError", "--split", "x.npy", "--labels", "y.txt", "--split", "test"),
    "an unknown part": (2, "UsageError", "validation", "d.zarr", "--split", "tset"),
    "a cluster": (2, "UsageError", "local:N", "d.zarr", "--scheduler", "tcp://nowhere:1"),
    "another ending": (2, "UsageError", ".json", "d.zarr", "-o", "e.csv"),
    "a file that is there": (2, "OutputExists", "--force", "d.zarr", "-o", "there.json"),
    "within the model": (2, "PlaceTaken", "model", "d.zarr", "-o", "model/e.json"),
    "fewer than none": (2, "UsageError", "--worst", "d.zarr", "--worst", "-1"),
}


@pytest.mark.parametrize("case", list(REFUSED))
def test_refusals(made: Path, case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    code, error, word, *arguments = REFUSED[case]
    monkeypatch.chdir(made)
    (made / "there.json").write_text("{}")
    assert_refused(made, int(code), str(error), str(word), by=("evaluate", "model", *arguments))


def test_a_run_or_a_dataset_is_no_model(made: Path, tmp_path: Path) -> None:
    assert_refused(made, 4, "ModelMissing", "evaluate MODEL DATA", by=("evaluate", made / "d.zarr", made / "d.zarr"))
    run = tmp_path / "run"
    (run / "models/ovr").mkdir(parents=True)
    (run / "models/ovr/model.json").write_text("{}")
    (run / "manifest.json").write_text("{}")
    for command in (
        ("evaluate", run, made / "d.zarr"),
        ("inspect", run),
        ("predict", run, made / "x.npy", "-o", "p.csv"),
    ):
        assert_refused(tmp_path, 2, "UsageError", "models/ovr", "labelgrove report", by=command)


def test_rows_of_no_class_of_the_model(made: Path, tmp_path: Path) -> None:
    source, marks = write_source(tmp_path, ROWS, [f"other {y}" for y in Y])
    succeeds("ingest", source, tmp_path / "o.zarr", "--labels", marks)
    by = ("evaluate", made / "model", tmp_path / "o.zarr")
    assert_refused(tmp_path, 3, "LabelsMissing", "no test row is of a class of the model", by=by)


@pytest.mark.parametrize("name", ["p.txt", "p", "p.csv.gz", "p.xlsx"])
def test_predict_and_retrieve_refuse_other_endings_first(made: Path, name: str) -> None:
    """Before the model is read: there is none."""
    by = ("predict", made / "nowhere", made / "x.npy", "-o", made / name)
    assert_refused(made, 2, "UsageError", ".parquet, .csv or .tsv", by=by)
    by = ("retrieve", made / "nowhere", "codes", "-o", made / name)
    assert_refused(made, 2, "UsageError", "expected .parquet", by=by)


def test_ingest_within_a_dataset(made: Path) -> None:
    by = ("ingest", made / "x.npy", made / "d.zarr/inner.zarr", "--labels", made / "y.txt")
    assert_refused(made, 2, "PlaceTaken", "d.zarr", by=by)
