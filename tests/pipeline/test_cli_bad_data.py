"""Bad data as a user meets it: its named error, the exact place, the exit code, and nothing half-written."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse

from tests.pipeline.cli_caller import (
    assert_refused,
    gaussian,
    labelgrove,
    make_run,
    metrics,
    snapshot,
    succeeds,
    write_source,
)

X, Y = gaussian(60, 4, 3)
NAMES = ["cat", "dog", "oak"]


def changed(**places: Any) -> np.ndarray:
    """The rows with value_row_column given as r7c1=nan."""
    rows = X.copy()
    for place, value in places.items():
        row, column = place[1:].split("c")
        rows[int(row), int(column)] = value
    return rows


def text_files(**files: str) -> dict[str, str]:
    return {name.replace("__", "."): content for name, content in files.items()}


TREE = "root\tanimal\nroot\toak\nanimal\tcat\nanimal\tdog\n"
CLASSES = json.dumps(NAMES)


@pytest.mark.parametrize(
    ("error", "words", "rows", "labels", "files"),
    [
        ("NonFiniteFeature", ["2 values in 2 rows", "row 7: columns 1 (nan)", "row 9: columns 2 (inf)"],
         changed(r7c1=np.nan, r9c2=np.inf), Y, {}),
        ("FeatureRange", ["row 5", "1e+30"], changed(r5c0=1e30), Y, {}),
        ("LengthMismatch", ["59 labels for 60 rows"], X, Y[:59], {}),
        ("LabelOutOfRange", ["-1", "row 4"], X, np.where(np.arange(60) == 4, -1, Y), {}),
        ("LabelOutOfRange", ["3", "row 4"], X, np.where(np.arange(60) == 4, 3, Y), text_files(classes__json=CLASSES)),
        ("LabelOutOfRange", ["'elm'", "row 1"], X, ["cat", "elm", "oak"] * 20, text_files(classes__json=CLASSES)),
        ("LabelDtype", ["float64"], X, Y + 0.5, {}),
        ("LabelDtype", ["complex"], X, Y.astype(complex), {}),
        ("FeatureShape", ["(60,)"], X[:, 0], Y, {}),
        ("FeatureDtype", ["x.npy"], X.astype(str), Y, {}),
        ("OneClassData", ["at least two classes"], X, Y * 0, {}),
        ("DuplicateClassId", ["'7'"], X, Y, text_files(classes__tsv="7\tcat\n8\tdog\n7\toak\n")),
        ("DuplicateClassName", ["'cat'"], X, ["cat", "oak"] * 30, text_files(classes__json='["cat", "oak", "cat"]')),
        ("TaxonomyCycle", ["'a'", "'b'"], X, Y, text_files(classes__json=CLASSES, taxonomy__tsv=TREE + "a\tb\nb\ta\n")),
        ("TaxonomyUnknownClass", ["'elm'"], X, Y,
         text_files(taxonomy__tsv=TREE + "root\telm\n", classes__json=CLASSES)),
        ("TaxonomyMissingClass", ["'oak'"], X, Y,
         text_files(classes__json=CLASSES, taxonomy__tsv="root\tcat\nroot\tdog\n")),
        ("TaxonomyRoots", ["'root'", "'moss'"], X, Y,
         text_files(classes__json=CLASSES, taxonomy__tsv=TREE + "moss\tfern\n")),
        ("TaxonomyMultiParent", ["'cat'"], X, Y,
         text_files(classes__json=CLASSES, taxonomy__tsv=TREE + "root\tplant\nplant\tcat\n")),
        ("TaxonomyInnerLabel", ["'dog'", "'pug'"], X, Y,
         text_files(classes__json=CLASSES, taxonomy__tsv=TREE + "dog\tpug\n")),
    ],
)  # fmt: skip
def test_bad_input_is_refused_by_name(tmp_path, error: str, words: list[str], rows, labels, files) -> None:
    source, marks = write_source(tmp_path, rows, labels)
    options: list[object] = []
    for name, content in files.items():
        (tmp_path / name).write_text(content, encoding="utf-8")
        options += [f"--{name.split('.')[0]}", tmp_path / name]
    by = ("ingest", source, tmp_path / "d.zarr", "--labels", marks, *options)
    assert_refused(tmp_path, 3, error, *words, "what to do: ", by=by)


def test_object_arrays_are_never_opened(tmp_path) -> None:
    source, _ = write_source(tmp_path, X, Y)
    np.save(tmp_path / "o.npy", np.array([{}] * 60), allow_pickle=True)
    ingest = ("ingest", source, tmp_path / "d.zarr", "--labels")
    assert_refused(tmp_path, 3, "LabelDtype", "o.npy", by=(*ingest, tmp_path / "o.npy"))
    assert_refused(tmp_path, 3, "FeatureDtype", "o.npy", by=("ingest", tmp_path / "o.npy", tmp_path / "d.zarr"))
    (tmp_path / "y.pkl").write_bytes(b"\x80\x05N.")
    assert_refused(tmp_path, 3, "UnsafeFormat", "y.pkl", by=(*ingest, tmp_path / "y.pkl"))


@pytest.mark.parametrize("label", ["nan", "", "2.5", "1,2"])
def test_labels_that_are_no_labels(tmp_path, label: str) -> None:
    source, _ = write_source(tmp_path, X, Y)
    (tmp_path / "labels.txt").write_text("".join(f"{label if i == 4 else i % 3}\n" for i in range(60)))
    (tmp_path / "c.json").write_text('["0", "1", "2"]')
    more = ("--classes", tmp_path / "c.json")
    by = ("ingest", source, tmp_path / "d.zarr", "--labels", tmp_path / "labels.txt", *more)
    assert_refused(tmp_path, 3, "LabelOutOfRange", "row 4", by=by)


def test_an_undecidable_index_base_must_be_stated(tmp_path) -> None:
    lines = "".join(f"{i % 3} {1 + i % 4}:1 {5 + i % 2}:{i}.5\n" for i in range(60))
    (tmp_path / "x.svm").write_text(lines)
    (tmp_path / "zero.svm").write_text("0 0:1\n" + lines)
    made = tmp_path / "d.zarr"
    assert_refused(tmp_path, 3, "SvmlightIndexBase", "--index-base", by=("ingest", tmp_path / "x.svm", made))
    by = ("ingest", tmp_path / "zero.svm", made, "--index-base", "1")
    assert_refused(tmp_path, 3, "SvmlightIndexBase", "column 0", by=by)
    assert " 6 features" in succeeds("ingest", tmp_path / "x.svm", made, "--index-base", "1").err
    assert " 7 features" in succeeds("ingest", tmp_path / "zero.svm", made, "--force").err
    # two files: what one of them proves holds for both
    more = ("--test-source", tmp_path / "zero.svm", "--force")
    assert " 7 features" in succeeds("ingest", tmp_path / "x.svm", made, *more).err


def test_rows_that_are_not_finite_are_left_out_and_counted_when_asked(tmp_path) -> None:
    shards = tmp_path / "shards"
    shards.mkdir()
    rows = changed(r37c0=np.nan, r39c1=-np.inf)
    np.save(shards / "a.npy", rows[:30])
    np.save(shards / "b.npy", rows[30:])
    np.save(tmp_path / "y.npy", Y)
    by = ("ingest", shards, tmp_path / "d.zarr", "--labels", tmp_path / "y.npy")
    assert_refused(tmp_path, 3, "NonFiniteFeature", "row 37 (row 7 of b.npy)", "row 39 (row 9 of b.npy)", by=by)
    said = succeeds(*by, "--on-nonfinite", "drop-row")
    assert "warning: NonFiniteFeature: 2 rows were left out" in said.err
    assert "58 rows" in said.err


def test_classes_without_rows_are_warned_of_and_kept(tmp_path) -> None:
    rows, labels = gaussian(250, 12, 50)
    present = labels < 47
    classes = json.dumps([f"class {c}" for c in range(50)])
    taxonomy = "".join(f"root\tgroup {c // 5}\n" if c % 5 == 0 else "" for c in range(50))
    taxonomy += "".join(f"group {c // 5}\tclass {c}\n" for c in range(50))
    options = ("--classes", "{folder}/classes.json", "--taxonomy", "{folder}/tree.tsv")
    make_run(tmp_path, rows[present], labels[present], *options, classes_json=classes, tree_tsv=taxonomy)
    said = succeeds("check", tmp_path / "c.toml")
    assert "warning: ClassWithoutRows: 3 of 50 classes have no training rows: 'class 47', 'class 48'" in said.out
    found = metrics(tmp_path)
    assert found["run"]["n_classes"] == 50
    assert found["models"]["ovr"]["top1"] > 0.6


def test_two_classes_of_one_name_stay_two(tmp_path) -> None:
    classes = json.dumps([{"id": 134, "name": "crane"}, {"id": 517, "name": "crane"}, {"id": 7, "name": "owl"}])
    said = make_run(tmp_path, X, [134, 517, 7] * 20, "--classes", "{folder}/classes.json", classes_json=classes)
    assert said.code == 0
    assert "DuplicateClassName" in succeeds("check", tmp_path / "c.toml").out
    assert metrics(tmp_path)["run"]["n_classes"] == 3
    page = (tmp_path / "runs" / "t" / "report.html").read_text(encoding="utf-8")
    assert "DuplicateClassName" in page


@pytest.mark.parametrize("place", ["", ".", "x" * 300, "y.npy/d.zarr", "/proc/d.zarr"])
def test_places_where_no_dataset_can_stand(tmp_path, monkeypatch, place: str) -> None:
    monkeypatch.chdir(tmp_path)
    source, marks = write_source(Path(), X, Y)
    error = "DatasetExists" if place in ("", ".") else "FileAccess"
    assert_refused(tmp_path, 2, error, by=("ingest", source, place, "--labels", marks))


def test_only_a_dataset_is_ever_replaced(tmp_path) -> None:
    source, marks = write_source(tmp_path, X, Y)
    assert_refused(tmp_path, 2, "DatasetExists", by=("ingest", source, source, "--labels", marks))
    assert_refused(
        tmp_path, 2, "DatasetExists", "no dataset", by=("ingest", source, marks, "--labels", marks, "--force")
    )


def test_pipes_and_devices_are_not_waited_for(tmp_path) -> None:
    source, marks = write_source(tmp_path, X, Y)
    pipe = tmp_path / "pipe.npy"
    os.mkfifo(pipe)
    assert_refused(
        tmp_path, 3, "SourceMissing", "no regular file", by=("ingest", pipe, tmp_path / "d", "--labels", marks)
    )
    assert_refused(
        tmp_path, 3, "SourceMissing", "no regular file", by=("ingest", source, tmp_path / "d", "--labels", pipe)
    )


@pytest.mark.parametrize("split", ["0.9", "a,b,c", "0.5,0.5"])
def test_a_split_that_is_none_says_what_would_be_one(tmp_path, split: str) -> None:
    source, marks = write_source(tmp_path, X, Y)
    by = ("ingest", source, tmp_path / "d", "--labels", marks, "--split", split)
    assert_refused(tmp_path, 3, "SplitFormat", split, "0.8,0.1,0.1", by=by)


@pytest.mark.parametrize(
    "options",
    [
        ("--on-nonfinite", "ignore"),
        ("--dtype", "float64"),
        ("--index-base", "2"),
        ("--block-rows", "0"),
        ("--max-bytes", "lots"),
        ("--validation", "1.5"),
        ("--seed", "-1"),
        ("--split", "0.5,0.5,0.5"),
        ("--test-labels", "y.npy"),
    ],
    ids=" ".join,
)
def test_options_out_of_range_are_usage_errors(tmp_path, options: tuple[str, str]) -> None:
    source, marks = write_source(tmp_path, X, Y)
    before = snapshot(tmp_path)
    said = labelgrove("ingest", source, tmp_path / "d", "--labels", marks, *options)
    assert said.code == 2
    assert options[0].lstrip("-").replace("-", "_").split("_")[0] in said.err
    assert snapshot(tmp_path) == before


# ---- a dataset that was damaged ----------------------------------------------------------------------------------


def test_a_missing_chunk_is_an_error_and_never_zeros(tmp_path) -> None:
    source, marks = write_source(tmp_path, np.where(np.arange(60)[:, None] < 16, 0, X), Y)
    dataset = tmp_path / "d.zarr"
    (tmp_path / "c.toml").write_text('name = "t"\n[data]\npath = "d.zarr"\n[[train]]\nname = "ovr"\nkind = "ovr"\n')
    succeeds("ingest", source, dataset, "--labels", marks, "--block-rows", "8")
    chunks = sorted(path for path in (dataset / "X" / "c").rglob("*") if path.is_file())
    chunks[2].unlink()
    chunks[5].unlink()
    before = snapshot(dataset)
    said = assert_refused(
        dataset, 4, "MissingChunk", "rows 16..23", by=("run", tmp_path / "c.toml", "--scheduler", "serial")
    )
    assert "d.zarr/X" in said.err
    for command in (("check", tmp_path / "c.toml"), ("verify", dataset)):
        listed = assert_refused(tmp_path, 4, "MissingChunk", "rows 16..23", "rows 40..47", by=command)
        assert listed.out.count("MissingChunk") == 2
    assert snapshot(dataset) == before


def test_sparse_rows_without_entries_are_no_missing_chunk(tmp_path) -> None:
    make_run(tmp_path, scipy.sparse.csr_matrix((60, 4), dtype=np.float32), Y, "--block-rows", "8")
    assert "every digest holds" in succeeds("verify", tmp_path / "d.zarr").out
