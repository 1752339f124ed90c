"""The demo's data set as files: classes that can be told apart, splits by face, the same bytes every time."""

from __future__ import annotations

import csv
import json
import unicodedata
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pipeline.demo import DemoData, DemoParams, make_demo_data
from pipeline.demo import data as demo
from pipeline.demo.characters import drawable, taxonomy
from pipeline.demo.fonts import FACES, FontsMissing, face_paths, shared_code_points
from pipeline.demo.unicode_blocks import BLOCKS, block_of
from tasks.errors import ParamError


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> DemoData:
    return make_demo_data(tmp_path_factory.mktemp("demo") / "data", seed=5, rows_per_face=2, n_classes=60)


@pytest.fixture(scope="module")
def full() -> tuple[list[int], list[int]]:
    """All code points drawn, and the positions of those that are classes."""
    codes, _, confusion = demo.choose_characters()
    return codes, confusion.kept


def test_full_size_meets_the_promise(full: tuple[list[int], list[int]]) -> None:
    codes, kept = full
    assert len(kept) >= 1000
    assert len({block_of(codes[at]) for at in kept}) >= 6
    assert len(kept) * len(FACES) * DemoParams().rows_per_face >= 36_000


def test_identical_characters_are_one_class(full: tuple[list[int], list[int]]) -> None:
    codes, kept = full
    classes = {codes[at] for at in kept}
    assert ord("A") in classes
    assert 0x0391 not in classes, "Greek Alpha is drawn like Latin A"
    assert 0x0410 not in classes, "Cyrillic A is drawn like Latin A"
    assert {ord("o"), ord("O"), ord("E"), ord("È")} <= classes, "size and accents tell these apart"


def test_no_letter_is_lost_for_want_of_a_block() -> None:
    shared = shared_code_points(face_paths())
    letters = [code for code in shared if unicodedata.category(chr(code)) in ("Lu", "Ll", "Lt", "Lo", "Nd")]
    assert drawable(shared) == letters


def test_blocks_are_in_order_and_apart() -> None:
    assert all(first <= last for first, last, _ in BLOCKS)
    assert all(last < first for (_, last, _), (first, _, _) in pairwise(BLOCKS))
    assert block_of(0x41) == "Basic Latin"
    assert block_of(0x24F) == "Latin Extended-B"
    assert block_of(0x0700) is None


def test_splits_hold_whole_faces(made: DemoData) -> None:
    for split in ("train", "validation", "test"):
        rows, labels = np.load(made.rows(split)), np.load(made.labels(split))
        faces = sum(face.split == split for face in FACES)
        assert faces >= 1
        assert rows.shape == (faces * 2 * 60, 576)
        assert rows.dtype == np.float32
        assert labels.dtype == np.int32
        np.testing.assert_array_equal(np.bincount(labels, minlength=60), np.full(60, faces * 2))
        np.testing.assert_allclose(np.linalg.norm(rows, axis=1), 1.0, atol=1e-5)


def test_rows_are_shuffled(made: DemoData) -> None:
    labels = np.load(made.labels("train"))
    assert len(np.unique(labels[:60])) < 60, "the first rows would else be one of each class, all of one face"


def test_rows_tell_the_classes_apart(made: DemoData) -> None:
    """The nearest class mean of the training faces is right for most drawings of the test faces."""
    rows, labels = np.load(made.rows("train")), np.load(made.labels("train"))
    means = np.stack([rows[labels == one].mean(axis=0) for one in range(60)])
    test = np.load(made.rows("test"))
    nearest = np.argmax(test @ means.T - 0.5 * (means**2).sum(axis=1), axis=1)
    assert np.mean(nearest == np.load(made.labels("test"))) > 0.75


def test_classes_and_taxonomy_agree(made: DemoData) -> None:
    classes = json.loads(made.classes.read_text(encoding="utf-8"))
    tree = json.loads(made.taxonomy.read_text(encoding="utf-8"))
    assert tree["leaves"] == [one["id"] for one in classes]
    assert all(unicodedata.name(chr(int(one["id"][2:], 16))) == one["name"] for one in classes)
    parents = {node["id"]: node["parent"] for node in tree["nodes"]}
    assert len(parents) == len(tree["nodes"])
    assert [name for name, parent in parents.items() if parent is None] == ["characters"]
    for leaf in tree["leaves"]:
        category = parents[leaf]
        assert category == f"{block_of(int(leaf[2:], 16))}/{unicodedata.category(chr(int(leaf[2:], 16)))}"
        assert parents[parents[category]] == "characters"


def test_taxonomy_of_a_handful() -> None:
    tree = taxonomy([0x41, 0x61, 0x3B1])
    names = [node["name"] for node in tree["nodes"]]
    assert "Basic Latin, uppercase" in names
    assert "Greek and Coptic, lowercase" in names
    assert len(names) == 1 + 2 + 3 + 3


def test_the_list_of_confusable_says_where_each_went(made: DemoData) -> None:
    with made.confusable.open(encoding="utf-8", newline="") as file:
        lines = list(csv.DictReader(file, delimiter="\t"))
    classes = {one["id"] for one in json.loads(made.classes.read_text(encoding="utf-8"))}
    gone = {line["code_point"] for line in lines if line["verdict"] in ("merged", "not drawn")}
    assert len(gone) == made.counts["merged"]
    assert not gone & classes
    assert all(int(line["faces_alike_of_12"]) >= 6 for line in lines if line["code_point"] in gone)
    assert all(line["kept_class"] in classes for line in lines if line["verdict"] == "merged")
    assert {"U+0391", "U+0410"} <= gone


def test_summary_counts_what_was_left_out(made: DemoData) -> None:
    text = "\n".join(made.summary())
    assert f"{made.counts['merged']} of {made.counts['drawn']:,} code points" in text
    assert "DejaVu Sans Mono Bold, DejaVu Serif Italic" in text


def test_same_seed_same_bytes_and_other_seed_other_rows(made: DemoData, tmp_path: Path) -> None:
    again = make_demo_data(tmp_path / "again", seed=5, rows_per_face=2, n_classes=60)
    assert demo.digests(again.folder) == demo.digests(made.folder)
    other = make_demo_data(tmp_path / "other", seed=6, rows_per_face=2, n_classes=60)
    assert not np.array_equal(np.load(other.rows("test")), np.load(made.rows("test")))


def test_intact_data_is_reused_and_damaged_data_made_again(tmp_path: Path) -> None:
    first = make_demo_data(tmp_path, rows_per_face=1, n_classes=10)
    assert not first.reused
    said: list[str] = []
    second = make_demo_data(tmp_path, rows_per_face=1, n_classes=10, log=said.append)
    assert second.reused
    assert second.counts == first.counts
    assert said == ["demo data: present and intact"]
    before = demo.digests(tmp_path)
    with first.rows("test").open("r+b") as file:
        file.seek(-1, 2)
        file.write(b"\x55")
    assert not make_demo_data(tmp_path, rows_per_face=1, n_classes=10).reused
    assert demo.digests(tmp_path) == before
    assert not make_demo_data(tmp_path, seed=1, rows_per_face=1, n_classes=10).reused


def test_a_broken_stamp_is_no_stamp(tmp_path: Path) -> None:
    (tmp_path / demo.STAMP).write_text("[]")
    assert demo.reuse(tmp_path, DemoParams()) is None
    (tmp_path / demo.STAMP).write_text("{")
    assert demo.reuse(tmp_path, DemoParams()) is None


@pytest.mark.parametrize("wrong", [{"seed": -1}, {"rows_per_face": 0}, {"n_classes": 1}], ids=str)
def test_parameters_refuse_early(tmp_path: Path, wrong: dict[str, Any]) -> None:
    with pytest.raises(ParamError, match=f"demo.{next(iter(wrong))}"):
        make_demo_data(tmp_path / "never", **wrong)
    assert not (tmp_path / "never").exists()


def test_missing_fonts_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("matplotlib.get_data_path", lambda: str(tmp_path))
    with pytest.raises(FontsMissing, match=r"DejaVuSans\.ttf"):
        face_paths()
