"""Labels that are missing, too few, of no class, or neither integers nor names."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from pipeline.ingest import errors
from tasks.errors import ParamError
from tests.pipeline.ingest.samples import X, Y, at, save, text


def test_lengths_that_differ(assert_refused):
    assert_refused(errors.LengthMismatch, "11 labels for 12 rows", labels=Y[:11])
    assert_refused(errors.LengthMismatch, "13 labels for 12 rows", "y.txt", labels=text("y.txt", "a\n" * 13))
    assert_refused(errors.LengthMismatch, "2 labels", test_source=X, test_labels=[0, 1])
    assert_refused(errors.LengthMismatch, "11 parts for 12 rows", split=["train"] * 11)


def test_no_labels(assert_refused):
    assert_refused(errors.LabelsMissing, "--labels", labels=None)
    assert_refused(errors.LabelsMissing, "--test-labels", test_source=X)
    assert_refused(ParamError, "test_labels", test_labels=Y, exit_code=2)


@pytest.mark.parametrize(
    ("labels", "words"),
    [
        (np.array(at(4, 2.5)), ("row 4 holds 2.5",)),
        (np.array(Y, np.float64), ("float64",)),
        (np.array(at(4, np.nan), np.float32), ("row 4 holds nan",)),
        (at(4, 2.5), ("2.5", "row 4")),
        (at(4, True), ("True", "row 4")),
        (at(4, "cat"), ("'cat'", "row 4")),
        (at(4, [1]), ("[1]", "row 4")),
        (np.array(Y, object), ("objects",)),
        (Y.reshape(12, 1), ("(12, 1)",)),
        (Y > 0, ("bool",)),
        (Y.astype("M8[s]"), ("datetime64",)),
    ],
)
def test_labels_that_are_neither_integers_nor_names(assert_refused, labels, words):
    assert_refused(errors.LabelDtype, *words, labels=labels)


@pytest.mark.parametrize(
    ("labels", "classes", "words"),
    [
        (at(4, -1), None, ("label -1", "row 4")),
        (at(4, 3), ["a", "b", "c"], ("label 3", "row 4", "0 to 2")),
        (at(4, -1), ["a", "b", "c"], ("label -1", "row 4")),
        (at(4, 7), [{"id": 0}, {"id": 1}, {"id": 2}], ("label 7", "row 4", "no id")),
        (at(4, None), None, ("null", "row 4")),
        (at(4, "", "a"), None, ("''", "row 4")),
        (at(4, "nan", "a"), None, ("'nan'", "row 4")),
        (at(4, "dog", "cat"), ["cat", "cow"], ("'dog'", "row 4")),
        (at(4, "", "cat"), ["cat", "cow"], ("''", "row 4")),
        (at(4, 10**7), None, ("label 10000000", "row 4")),
        (at(4, 2**70), None, ("64 bits",)),
        (np.array(at(4, 2**64 - 1), np.uint64), None, ("18446744073709551615", "row 4")),
    ],
)
def test_labels_that_name_no_class(assert_refused, labels, classes, words):
    assert_refused(errors.LabelOutOfRange, *words, labels=labels, classes=classes)


def test_labels_in_files_name_file_and_row(assert_refused):
    assert_refused(errors.LabelOutOfRange, "y.npy, row 4", labels=save("y.npy", np.array(at(4, -7))))
    assert_refused(errors.LabelOutOfRange, "y.txt, row 4", "''", labels=text("y.txt", "\n".join(at(4, "", "a")) + "\n"))
    assert_refused(errors.LabelDtype, "z.txt, row 4", "2.5", labels=text("z.txt", "\n".join(map(str, at(4, 2.5)))))
    table = "id\tspecies\n" + "".join(f"{i}\tcat\n" for i in range(11)) + "broken\n"
    assert_refused(errors.LabelOutOfRange, "row 11 (line 13)", labels=text("y.tsv", table) + ":species")
    assert_refused(errors.UnknownInput, "'species', 'id'", "name it: --labels y.tsv:species", labels="y.tsv")
    assert_refused(errors.UnknownInput, "'breed'", labels="y.tsv:breed")
    assert_refused(errors.UnknownInput, "y.json", labels=text("y.json", "{"))
    assert_refused(errors.UnknownInput, "list", labels=text("y.json", "{}"))
    Path("latin.txt").write_bytes(b"caf\xe9\n" * 12)
    assert_refused(errors.DamagedInput, "latin.txt, line 1", labels="latin.txt")
    Path("later.txt").write_bytes(b"cafe\n" * 11 + b"caf\xe9\n")
    assert_refused(errors.DamagedInput, "later.txt, line 12", labels="later.txt")


def test_parts_with_labels_of_two_kinds(assert_refused):
    assert_refused(errors.LabelDtype, "integers", "names", test_source=X, test_labels=["a"] * 12)
    save("a.npy", Y[:6])
    save("b.npy", np.array(["x"] * 6))
    assert_refused(errors.LabelDtype, "shards", labels=["a.npy", "b.npy"])
