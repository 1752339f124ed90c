"""The forms in which people really have rows, labels, classes and taxonomies: read as meant, or refused in words."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pipeline.dataset import Dataset
from pipeline.ingest import errors, ingest
from pipeline.ingest.files import by_number, expand
from tasks import io
from tests.pipeline.cli_caller import gaussian, labelgrove, succeeds, svmlight

N_ROWS, N_CLASSES = 60, 6
ROWS, Y = gaussian(N_ROWS, 4, N_CLASSES)
NAMES = [f"n{label}" for label in Y]
TEXT = "".join(f"{name}\n" for name in NAMES)
CLASSES = [f"n{c}" for c in range(N_CLASSES)]
EDGES = "root\ta\nroot\tb\n" + "".join(f"{'ab'[c // 3]}\tn{c}\n" for c in range(N_CLASSES))


def codes(made: Dataset, level: str | None = None) -> list[str]:
    return [note.code for note in made.notes if level in (None, note.level)]


def text_of(made: Dataset, code: str) -> str:
    (text,) = [note.text for note in made.notes if note.code == code]
    return text


def labels_by_row(made: Dataset) -> list[str]:
    """The name of each source row's class."""
    rows, labels = io.read_column(made.path, io.ROW_ID), io.read_column(made.path, io.LABELS)
    found = [""] * made.n_rows
    for row, label in zip(rows.tolist(), labels.tolist(), strict=True):
        found[row] = made.classes.names[label]
    return found


def made_of(folder: Path, **given: Any) -> Dataset:
    given = {"source": ROWS, "labels": Y, **given}
    return ingest(given.pop("source"), folder / "d.zarr", force=True, **given)


# ---- labels ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        TEXT,
        TEXT[:-1],
        TEXT + "\n",
        TEXT + "\n\n \n",
        TEXT.replace("\n", "\r\n") + "\r\n\r\n",
        "\ufeff" + TEXT.replace("\n", "\r\n"),
        TEXT.replace("\n", "\r"),
    ],
    ids=["plain", "no newline", "blank line", "blank lines", "crlf blank", "bom crlf", "cr"],
)
def test_labels_as_lines(tmp_path: Path, text: str) -> None:
    (tmp_path / "y.txt").write_bytes(text.encode())
    made = made_of(tmp_path, labels=tmp_path / "y.txt")
    assert labels_by_row(made) == NAMES
    assert text_of(made, "Classes") == "6 classes of y.txt: 'n0', 'n1', 'n2', ..."


@pytest.mark.parametrize(
    "text",
    ["".join(f" {y} \r\n" for y in Y), "\ufeff" + "".join(f"{y}\n" for y in Y) + "\n\n"],
    ids=["blanks", "bom"],
)
def test_integers_as_lines(tmp_path: Path, text: str) -> None:
    (tmp_path / "y.txt").write_bytes(text.encode())
    assert labels_by_row(made_of(tmp_path, labels=tmp_path / "y.txt")) == [str(y) for y in Y]


@pytest.mark.parametrize("name", ["y.csv", "y.tsv"])
def test_a_column_before_blank_lines(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("label\n" + TEXT + "\n\n")
    assert labels_by_row(made_of(tmp_path, labels=tmp_path / name)) == NAMES


def test_an_empty_name_that_is_a_class_stays_a_label(tmp_path: Path) -> None:
    (tmp_path / "y.txt").write_text("".join(f"{name}\n" for name in NAMES[:-1]) + "\n\n\n")
    made = made_of(tmp_path, labels=tmp_path / "y.txt", classes=[*CLASSES, ""])
    assert labels_by_row(made) == [*NAMES[:-1], ""]


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("y.txt", "label\n" + TEXT, ["61 labels for 60 rows", "'label', names the column"]),
        ("y.csv", TEXT, ["59 labels for 60 rows", "'n0', was read as the name of the column"]),
    ],
)
def test_a_heading_too_many_or_too_few_is_named(tmp_path: Path, name: str, text: str, words: list[str]) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(errors.LengthMismatch) as caught:
        made_of(tmp_path, labels=tmp_path / name)
    for word in words:
        assert word in str(caught.value)


def test_no_heading_is_guessed_from_a_label(tmp_path: Path) -> None:
    (tmp_path / "y.txt").write_text(TEXT + "n1\n")
    with pytest.raises(errors.LengthMismatch) as caught:
        made_of(tmp_path, labels=tmp_path / "y.txt")
    assert "names the column" not in str(caught.value)


@pytest.mark.parametrize(
    ("labels", "words"),
    [
        (np.array([b"\xe9"] * N_ROWS), ["UTF-8", "row 0"]),
        (Y[:, None], ["(60, 1)", "labels.ravel()"]),
        (np.eye(N_CLASSES)[Y], ["(60, 6)", "argmax"]),
        ([f"{y}.0" for y in Y], ["'0.0' is a number, but no integer"]),
    ],
    ids=["latin", "column", "one-hot", "float text"],
)
def test_labels_that_need_a_word(tmp_path: Path, labels: Any, words: list[str]) -> None:
    if isinstance(labels, list):
        (tmp_path / "y.txt").write_text("\n".join(labels))
    else:
        np.save(tmp_path / "y.npy", labels)
    with pytest.raises(errors.LabelDtype) as caught:
        made_of(tmp_path, labels=next(tmp_path.glob("y.*")))
    for word in words:
        assert word in str(caught.value)


def test_names_that_differ_by_blanks_are_pointed_out(tmp_path: Path) -> None:
    made = made_of(tmp_path, labels=[*NAMES[:-1], "n5 "])
    assert "'n5' and 'n5 '" in text_of(made, "BlanksInNames")
    assert "BlanksInNames" not in codes(made_of(tmp_path, labels=NAMES))


def test_labels_that_count_from_one_are_pointed_out(tmp_path: Path) -> None:
    assert "count from 1" in text_of(made_of(tmp_path, labels=Y + 1), "LabelsFromOne")
    assert "LabelsFromOne" not in codes(made_of(tmp_path))


# ---- classes and taxonomy ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("c.txt", "\n".join(CLASSES) + "\n\n\n"),
        ("c.tsv", "id\tname\n" + "".join(f"{c}\t{name}\n" for c, name in enumerate(CLASSES)) + "\n"),
        ("c.csv", "id,name\r\n" + "".join(f'{c},"{name}"\r\n' for c, name in enumerate(CLASSES))),
        ("c.json", json.dumps({name: c for c, name in reversed(list(enumerate(CLASSES)))})),
    ],
)
def test_class_tables(tmp_path: Path, name: str, text: str) -> None:
    """The last is the dictionary that people number classes with: its numbers count, not its order."""
    (tmp_path / name).write_text(text)
    made = made_of(tmp_path, classes=tmp_path / name)
    assert made.classes.names == tuple(CLASSES)
    assert labels_by_row(made) == NAMES
    assert text_of(made, "Classes").startswith(f"6 classes of {name}: ")


def test_what_was_read_of_a_taxonomy_is_said(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", ROWS)
    (tmp_path / "y.txt").write_text(TEXT)
    (tmp_path / "t.tsv").write_text(EDGES.replace("b\tn5", "root\tn5"))
    with_one = (tmp_path / "x.npy", tmp_path / "d.zarr", "--labels", tmp_path / "y.txt")
    said = succeeds("ingest", *with_one, "--taxonomy", tmp_path / "t.tsv").err
    assert "Taxonomy: t.tsv: 3 levels with the root, 9 nodes, 6 of them leaves at depths 1 to 2\n" in said
    said = succeeds("ingest", *with_one, "--force").err
    assert "no taxonomy was given (--taxonomy): hierarchical error is not reported" in said


@pytest.mark.parametrize("name", ["t.csv", "t.tsv"])
def test_taxonomies_as_lines(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text(EDGES.replace("\t", "," if name == "t.csv" else "\t") + "\n\n")
    made = made_of(tmp_path, labels=NAMES, taxonomy=tmp_path / name)
    assert made.taxonomy is not None
    assert made.taxonomy.names[:3] == ("root", "a", "b")


def test_columns_the_other_way_round_are_pointed_out(tmp_path: Path) -> None:
    turned = "".join("\t".join(reversed(line.split("\t"))) + "\n" for line in EDGES.splitlines())
    (tmp_path / "t.tsv").write_text(turned)
    with pytest.raises(errors.TaxonomyMultiParent, match="child and parent says so in its first line"):
        made_of(tmp_path, labels=NAMES, taxonomy=tmp_path / "t.tsv")
    (tmp_path / "t.tsv").write_text("child\tparent\n" + turned)
    assert made_of(tmp_path, labels=NAMES, taxonomy=tmp_path / "t.tsv").taxonomy is not None


def test_a_split_before_blank_lines(tmp_path: Path) -> None:
    (tmp_path / "s.txt").write_text("train\n" * 40 + "validation\n" * 10 + "test\n" * 10 + "\n\n")
    assert made_of(tmp_path, split=tmp_path / "s.txt").split_counts == {"train": 40, "validation": 10, "test": 10}


# ---- shards and svmlight -----------------------------------------------------------------------------------------


def test_shards_are_read_by_their_numbers(tmp_path: Path) -> None:
    """rows-10 comes after rows-9, where the labels of a file written in one go expect it."""
    (tmp_path / "shards").mkdir()
    for i in range(12):
        np.save(tmp_path / "shards" / f"rows-{i}.npy", ROWS[5 * i : 5 * i + 5].astype(np.float64))
    for source in (tmp_path / "shards", str(tmp_path / "shards" / "*.npy")):
        made = made_of(tmp_path, source=source)
        assert made.digest == made_of(tmp_path, source=ROWS).digest
        made = made_of(tmp_path, source=source)
        assert "rows-0.npy, rows-1.npy, rows-2.npy ..." in text_of(made, "ShardOrder")
        assert text_of(made, "Converted").startswith("rows-0.npy, rows-1.npy, rows-2.npy and 9 more: float64")


def test_shards_whose_names_sort_either_way_need_no_word(tmp_path: Path) -> None:
    for i in range(12):
        np.save(tmp_path / f"x{i:02d}.npy", ROWS[5 * i : 5 * i + 5])
    assert "ShardOrder" not in codes(made_of(tmp_path, source=str(tmp_path / "x*.npy")))
    assert "ShardOrder" not in codes(made_of(tmp_path, source=sorted(tmp_path.glob("x*.npy"), reverse=True)))


def test_names_sort_by_number(tmp_path: Path) -> None:
    names = ["a", "a1", "a01", "a1b2", "a1b10", "a2", "a10", "b"]
    assert [path.name for path in sorted(map(Path, reversed(names)), key=by_number)] == [
        "a", "a01", "a1", "a1b2", "a1b10", "a2", "a10", "b",
    ]  # fmt: skip
    for name in ("2.npy", "10.npy"):
        (tmp_path / name).touch()
    assert [path.name for path in expand(tmp_path)] == ["2.npy", "10.npy"]


@pytest.mark.parametrize("label", ["cat ", "1,2 ", "1.5 ", "", "qid:1 "])
def test_labels_given_apart_replace_whatever_an_svmlight_line_begins_with(tmp_path: Path, label: str) -> None:
    (tmp_path / "x.svm").write_text(svmlight(ROWS, Y, label if label != "qid:1 " else "7 qid:1 "))
    (tmp_path / "y.txt").write_text(TEXT)
    made = made_of(tmp_path, source=tmp_path / "x.svm", labels=tmp_path / "y.txt")
    assert labels_by_row(made) == NAMES
    assert "LabelsReplaced" in codes(made)
    (tmp_path / "x.svm").write_text("\ufeff" + svmlight(ROWS, Y), encoding="utf-8")
    assert made.digest == made_of(tmp_path, source=tmp_path / "x.svm", labels=tmp_path / "y.txt").digest


@pytest.mark.parametrize("text", ["", "# nothing\n\n"])
def test_svmlight_without_rows(tmp_path: Path, text: str) -> None:
    (tmp_path / "x.svm").write_text(text)
    with pytest.raises(errors.FeatureShape, match="there are no rows"):
        made_of(tmp_path, source=tmp_path / "x.svm", labels=None)


def test_a_column_far_beyond_all_others_is_pointed_out(tmp_path: Path) -> None:
    (tmp_path / "x.svm").write_text(svmlight(ROWS, Y) + "1 2147483646:1\n")
    made = made_of(tmp_path, source=tmp_path / "x.svm", labels=None)
    assert "2,147,483,647 features of 241 values" in text_of(made, "FarColumn")
    (tmp_path / "x.svm").write_text(svmlight(ROWS, Y))
    assert "FarColumn" not in codes(made_of(tmp_path, source=tmp_path / "x.svm", labels=None))


def test_negative_labels_are_told_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "x.svm").write_text(svmlight(ROWS, Y).replace("\n5 ", "\n-1 "))
    said = labelgrove("ingest", tmp_path / "x.svm", tmp_path / "d.zarr")
    assert said.code == 3
    assert "--classes FILE.json" in said.err
    (tmp_path / "c.json").write_text("[-1, 0, 1, 2, 3, 4]")
    succeeds("ingest", tmp_path / "x.svm", tmp_path / "d.zarr", "--classes", tmp_path / "c.json")
