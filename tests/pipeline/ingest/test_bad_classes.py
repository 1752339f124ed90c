"""Class tables that are damaged or ambiguous, classes without rows, and too few classes."""

from __future__ import annotations

import pytest

from pipeline.ingest import errors, ingest
from tests.pipeline.ingest.samples import X, Y, at, text


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("c.json", '[{"id": "a", "name": "x"}, {"id": "b", "name": "x"}, {"id": "a", "name": "z"}]'),
        ("c.json", '{"a": "x", "b": "y", "a": "z"}'),
        ("c.json", "[1, 2, 1]"),
        ("c.tsv", "id\tname\na\tx\nb\ty\na\tz\n"),
        ("c.tsv", "a\tx\nb\ty\na\tz\n"),
        ("c.json", '[{"id": "e\\u0301"}, {"id": "b"}, {"id": "\\u00e9"}]'),
    ],
)
def test_duplicate_class_ids(assert_refused, name, content):
    assert_refused(errors.DuplicateClassId, "classes 0 and 2" if "[1" not in content else "0 and 2", name,
            classes=text(name, content))  # fmt: skip


@pytest.mark.parametrize(
    "content",
    ["{", "3", "[]", "[null]", "[[1]]", "[true]", '[{"id": 1.5}]', '[{"name": "a"}, {"id": 1, "name": "b"}]', '[{}]',
     "[" * 100_000],
)  # fmt: skip
def test_class_tables_that_cannot_be_read(assert_refused, content):
    assert_refused(errors.ClassTableFormat, "c.json", classes=text("c.json", content))


def test_class_tables_with_ragged_lines(assert_refused):
    assert_refused(errors.ClassTableFormat, "line 3", classes=text("c.tsv", "id\tname\na\tx\nb\n"))


def test_a_name_of_two_classes_is_warned_of_but_no_label(assert_refused, tmp_path):
    names = ["crane", "egret", "crane"]
    made = ingest(X, tmp_path / "ok.zarr", labels=Y, classes=names)
    (note,) = [note for note in made.notes if note.code == "DuplicateClassName"]
    assert note.level == "warning"
    assert "'crane' (0, 2)" in note.text
    assert made.classes.names == tuple(names)
    assert_refused(errors.DuplicateClassName, "'crane'", "0, 2", labels=at(4, "crane", "egret"), classes=names)


def test_one_class(assert_refused):
    assert_refused(errors.OneClassData, "only of class '0'", labels=[0] * 12)
    assert_refused(errors.OneClassData, "'cat'", labels=["cat"] * 12, classes=["cat", "dog"])
    assert_refused(errors.OneClassData, split=["test"] * 12)
    assert_refused(errors.OneClassData, labels=[0] * 11 + [1], split={"test": [11]})


def test_classes_without_rows_are_listed(tmp_path):
    classes = [{"id": f"n{c}", "name": "x"} for c in range(50)]
    made = ingest(X, tmp_path / "d", labels=Y + 2, classes=classes)
    assert made.n_classes == 50
    (note,) = [note for note in made.notes if note.code == "ClassWithoutRows"]
    assert note.level == "warning"
    assert note.text.startswith("47 of 50 classes have no training rows: n0 ('x'), n1 ('x'), n5 ('x')")
