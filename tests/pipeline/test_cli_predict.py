"""`predict` as a user meets it: what it refuses, what it writes, and how little memory it takes."""

from __future__ import annotations

import json
import os
import pickle
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
import scipy.sparse

from tasks.classes import ClassTable
from tasks.models.folder import load_model, save_model
from tasks.models.linear import LinearModel
from tasks.models.sums import sums_text
from tests.pipeline.cli_caller import assert_refused, gaussian, labelgrove, snapshot, succeeds, write_source

N_FEATURES, N_CLASSES = 4, 6
ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a model and rows for it."""
    folder = tmp_path_factory.mktemp("predict")
    random_model(folder / "model", N_FEATURES, N_CLASSES)
    source, marks = write_source(folder, *gaussian(60, N_FEATURES, N_CLASSES))
    succeeds("ingest", source, folder / "d.zarr", "--labels", marks, "--block-rows", "7")
    return folder


def random_model(folder: Path, n_features: int, n_classes: int) -> None:
    rng = np.random.default_rng(0)
    names = tuple(f"class {c}" for c in range(n_classes))
    weights = rng.standard_normal((n_features, n_classes)).astype(np.float32)
    save_model(folder, LinearModel(weights, np.zeros(n_classes, np.float32)), ClassTable(names, names))


def expected(rows: np.ndarray, folder: Path) -> np.ndarray:
    model = load_model(folder).model
    assert isinstance(model, LinearModel)
    return np.argmax(rows @ model.weights + model.bias, axis=1)


def first_classes(path: Path) -> np.ndarray:
    return np.array([classes[0] for classes in pq.read_table(path)["classes"].to_pylist()])


# ---- what it writes ----------------------------------------------------------------------------------------------


def test_files_and_datasets_give_the_same_predictions(made: Path, tmp_path: Path) -> None:
    rows = np.load(made / "x.npy")
    succeeds("predict", made / "model", made / "x.npy", "-o", tmp_path / "files.parquet")
    succeeds("predict", made / "model", made / "d.zarr", "-o", tmp_path / "dataset.parquet")
    files, dataset = (pq.read_table(tmp_path / f"{name}.parquet") for name in ("files", "dataset"))
    assert files["row"].to_pylist() == list(range(60))
    np.testing.assert_array_equal(first_classes(tmp_path / "files.parquet"), expected(rows, made / "model"))
    assert files.select(["row", "classes"]).equals(dataset.select(["row", "classes"]).sort_by("row"))
    assert files["label"].null_count == 60
    assert dataset["label"].to_pylist() == [row % N_CLASSES for row in dataset["row"].to_pylist()]


def test_whole_numbers_that_are_rounded_are_told(made: Path, tmp_path: Path) -> None:
    rows = np.ones((3, N_FEATURES), np.int64)
    rows[1, 2] = 2**24 + 1
    np.save(tmp_path / "x.npy", rows)
    said = succeeds("predict", made / "model", tmp_path / "x.npy", "-o", tmp_path / "p.parquet").err
    assert "warning: RoundedNumbers: 1 whole numbers in 1 rows are rounded" in said
    assert "[x.npy, row 1, column 2]" in said


def test_one_part_of_a_dataset(made: Path, tmp_path: Path) -> None:
    succeeds("predict", made / "model", made / "d.zarr", "-o", tmp_path / "p.parquet", "--split", "test")
    assert pq.read_metadata(tmp_path / "p.parquet").num_rows == 12


@pytest.mark.parametrize("top", [1, N_CLASSES, 1000])
def test_more_classes_than_there_are_means_all(made: Path, tmp_path: Path, top: int) -> None:
    succeeds("predict", made / "model", made / "x.npy", "-o", tmp_path / "p.parquet", "--top", top)
    classes = pq.read_table(tmp_path / "p.parquet")["classes"].to_pylist()
    assert {len(row) for row in classes} == {min(top, N_CLASSES)}
    assert all(len(set(row)) == len(row) for row in classes)


@pytest.mark.parametrize("kind", ["float16", "float64", "int8", "csr", "shards", "svmlight"])
def test_rows_of_any_form(made: Path, tmp_path: Path, kind: str) -> None:
    rows = np.round(4 * np.load(made / "x.npy")).astype(np.float32)
    source: Path | str = tmp_path / "x.npy"
    if kind == "csr":
        source = tmp_path / "x.npz"
        scipy.sparse.save_npz(source, scipy.sparse.csr_matrix(rows))
    elif kind == "shards":
        np.save(tmp_path / "x1.npy", rows[:30])
        np.save(tmp_path / "x2.npy", rows[30:])
        source = str(tmp_path / "x*.npy")
    elif kind == "svmlight":
        source = tmp_path / "x.svm"
        lines = (" ".join(f"{j + 1}:{value:.9g}" for j, value in enumerate(row)) for row in rows)
        source.write_text("".join(f"0 {line}\n" for line in lines))
    else:
        np.save(source, rows.astype(kind))
    succeeds("predict", made / "model", source, "-o", tmp_path / "p.parquet")
    np.testing.assert_array_equal(first_classes(tmp_path / "p.parquet"), expected(rows, made / "model"))


def test_an_output_that_is_there_is_replaced_only_when_asked(made: Path, tmp_path: Path) -> None:
    output = tmp_path / "below" / "p.parquet"
    by = ("predict", made / "model", made / "x.npy", "-o", output)
    succeeds(*by)
    assert_refused(tmp_path, 2, "OutputExists", str(output), "--force", by=by)
    succeeds(*by, "--force", "--top", "2")
    assert [path.name for path in output.parent.iterdir()] == ["p.parquet"]


# ---- what it refuses ---------------------------------------------------------------------------------------------


def test_rows_of_another_width(made: Path, tmp_path: Path) -> None:
    source, marks = write_source(tmp_path, *gaussian(60, 7, 3))
    succeeds("ingest", source, tmp_path / "d.zarr", "--labels", marks)
    for data in (source, tmp_path / "d.zarr"):
        by = ("predict", made / "model", data, "-o", tmp_path / "p.parquet")
        assert_refused(tmp_path, 3, "ColumnMismatch", "7 columns where 4 are expected", data.name, by=by)
    (tmp_path / "x.svm").write_text("0 0:1 4:1\n")
    by = ("predict", made / "model", tmp_path / "x.svm", "-o", tmp_path / "p.parquet")
    assert_refused(tmp_path, 3, "ColumnMismatch", "column 4", by=by)


@pytest.mark.parametrize(
    ("rows", "error", "words"),
    [
        (np.full((5, N_FEATURES), np.nan, np.float32), "NonFiniteFeature", ["20 values in 5 rows", "row 4"]),
        (np.full((5, N_FEATURES), 1e300), "FeatureRange", ["row 0"]),
        (np.zeros((0, N_FEATURES), np.float32), "InputError", ["no rows"]),
        (np.zeros(N_FEATURES, np.float32), "FeatureShape", ["(4,)"]),
        (np.array([["a"] * N_FEATURES]), "FeatureDtype", ["x.npy"]),
        (np.array([[None] * N_FEATURES]), "FeatureDtype", ["objects"]),
    ],
    ids=["nan", "huge", "none", "flat", "text", "objects"],
)
def test_rows_that_cannot_be_trusted(made: Path, tmp_path: Path, rows, error: str, words: list[str]) -> None:
    np.save(tmp_path / "x.npy", rows, allow_pickle=True)
    by = ("predict", made / "model", tmp_path / "x.npy", "-o", tmp_path / "p.parquet")
    said = assert_refused(tmp_path, 3, error, *words, by=by)
    assert "--on-nonfinite" not in said.err  # an option of ingest, not of this command


@pytest.mark.parametrize("data", ["none.npy", "", "model", "y.txt", "a\0b", "x" * 300])
def test_rows_that_are_not_there(made: Path, tmp_path: Path, monkeypatch, data: str) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "y.txt").write_text("1\n")
    said = labelgrove("predict", made / "model", data, "-o", "p.parquet")
    assert said.code in (2, 3), said
    assert said.err.startswith(("SourceMissing: ", "UnknownInput: ", "FileAccess: ")), said
    assert [path.name for path in tmp_path.iterdir()] == ["y.txt"]


@pytest.mark.parametrize("output", ["", ".", "x.npy/p.parquet", "/proc/p.parquet", "x" * 300])
def test_outputs_that_cannot_be_written(made: Path, tmp_path: Path, monkeypatch, output: str) -> None:
    monkeypatch.chdir(tmp_path)
    shutil.copy(made / "x.npy", "x.npy")
    error = "OutputExists" if output in ("", ".") else "FileAccess"
    for force in ([], ["--force"]):
        assert_refused(tmp_path, 2, error, by=("predict", made / "model", "x.npy", "-o", output, *force))


@pytest.mark.parametrize(
    ("data", "options"),
    [
        ("x.npy", ["--split", "test"]),
        ("x.npy", ["--scheduler", "local:2"]),
        ("d.zarr", ["--format", "npy"]),
        ("d.zarr", ["--index-base", "1"]),
        ("d.zarr", ["--split", "tset"]),
        ("d.zarr", ["--top", "0"]),
    ],
)
def test_options_without_effect_are_refused(made: Path, tmp_path: Path, data: str, options: list[str]) -> None:
    by = ("predict", made / "model", made / data, "-o", tmp_path / "p.parquet", *options)
    assert_refused(tmp_path, 2, "UsageError", options[0], by=by)


# ---- models from strangers ---------------------------------------------------------------------------------------


class Trap:
    """Leaves a mark when it is unpickled."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self):
        return Path.touch, (self.mark,)


def test_pickles_are_never_opened(made: Path, tmp_path: Path) -> None:
    mark, poison = tmp_path / "sprung", pickle.dumps(Trap(tmp_path / "sprung"))
    predict = ("-o", tmp_path / "p.parquet")
    for name in ("evil.pkl", "evil.joblib", "evil.pt"):
        (tmp_path / name).write_bytes(poison)
        assert_refused(tmp_path, 4, "UnsafeFormat", name, by=("predict", tmp_path / name, made / "x.npy", *predict))
        assert_refused(tmp_path, 3, "UnsafeFormat", name, by=("predict", made / "model", tmp_path / name, *predict))
    (tmp_path / "evil").mkdir()
    (tmp_path / "evil" / "model.json").write_bytes(poison)
    assert_refused(
        tmp_path, 4, "ModelMissing", "SHA256SUMS", by=("predict", tmp_path / "evil", made / "x.npy", *predict)
    )
    assert not mark.exists()


@pytest.mark.parametrize("name", ["model.json", "weights.safetensors", "classes.parquet"])
@pytest.mark.parametrize("signed", [False, True], ids=["as it came", "with right checksums"])
def test_a_pickle_in_place_of_a_model_file(made: Path, tmp_path: Path, name: str, signed: bool) -> None:
    model, mark = shutil.copytree(made / "model", tmp_path / "model"), tmp_path / "sprung"
    (model / name).write_bytes(pickle.dumps(Trap(mark)))
    if signed:
        (model / "SHA256SUMS").write_text(sums_text(model))
    said = labelgrove_code(made, tmp_path)
    assert said == 4
    assert not mark.exists()


def labelgrove_code(made: Path, folder: Path) -> int:
    before = snapshot(folder)
    said = labelgrove("predict", folder / "model", made / "x.npy", "-o", folder / "p.parquet")
    assert snapshot(folder) == before
    assert "Traceback" not in said.err
    return said.code


@pytest.mark.parametrize(
    ("entry", "error"),
    [("evil.pkl", "UnsafeFormat"), ("../evil", "UnsafePath"), ("/etc/passwd", "UnsafePath")],
)
def test_a_model_that_points_elsewhere(made: Path, tmp_path: Path, entry: str, error: str) -> None:
    model = shutil.copytree(made / "model", tmp_path / "model")
    (model / "evil.pkl").write_bytes(pickle.dumps(Trap(tmp_path / "sprung")))
    with open(model / "SHA256SUMS", "a") as file:
        file.write(f"{'0' * 64}  {entry}\n")
    by = ("predict", model, made / "x.npy", "-o", tmp_path / "p.parquet")
    assert_refused(tmp_path, 4, error, entry, by=by)
    assert not (tmp_path / "sprung").exists()


def test_a_model_of_a_newer_version(made: Path, tmp_path: Path) -> None:
    model = shutil.copytree(made / "model", tmp_path / "model")
    header = json.loads((model / "model.json").read_text())
    (model / "model.json").write_text(json.dumps(header | {"version": 99}))
    (model / "SHA256SUMS").write_text(sums_text(model))
    by = ("predict", model, made / "x.npy", "-o", tmp_path / "p.parquet")
    assert_refused(tmp_path, 4, "ModelFormat", "99", by=by)


# ---- memory ------------------------------------------------------------------------------------------------------

LIMITED = """
import resource, sys
resource.setrlimit(resource.RLIMIT_DATA, (1 << 30, 1 << 30))
from pipeline.cli import main
from tasks.worker import peak_bytes
try:
    main(sys.argv[1:])
finally:
    print(peak_bytes())  # of this process: what the kernel counts for a child begins at its parent's
"""


def test_memory_does_not_grow_with_rows_times_classes(tmp_path: Path) -> None:
    """200,000 rows x 5,000 classes are 4 GB of scores: within a limit of 1 GiB, and of half of it as measured."""
    n_rows, n_classes, n_features = 200_000, 5_000, 32
    random_model(tmp_path / "model", n_features, n_classes)
    rows = np.lib.format.open_memmap(tmp_path / "x.npy", "w+", np.float32, (n_rows, n_features))
    rows[:] = np.random.default_rng(1).standard_normal((1000, n_features)).astype(np.float32)[np.arange(n_rows) % 1000]
    del rows
    words = ["predict", tmp_path / "model", tmp_path / "x.npy", "-o", tmp_path / "p.parquet"]
    done = subprocess.run(
        [sys.executable, "-c", LIMITED, *map(str, words)],
        cwd=ROOT,
        env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=250,
    )
    assert done.returncode == 0, done.stderr
    assert pq.read_metadata(tmp_path / "p.parquet").num_rows == n_rows
    peak = int(done.stdout.split()[-1])
    assert peak < 1 << 30, f"{peak >> 20} MiB"  # all scores at once would be 4 GB
