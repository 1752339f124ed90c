"""svmlight text: read as meant, its index base proven or asked for, and lines that are none named."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given
from hypothesis import strategies as st
from sklearn.datasets import dump_svmlight_file

from pipeline.ingest import errors, ingest
from pipeline.ingest.svmlight import parse_line
from tests.pipeline.ingest.samples import notes, stored, text

SVM = "# a comment\n1 0:1.5 3:-2 # tail\n\n0 1:1e-3\n-0 qid:3 2:.5\n+1\n1.0 3:7\n"


@pytest.mark.parametrize("packed", [False, True])
def test_svmlight_text(tmp_path, packed):
    name = "x.svm.gz" if packed else "x.svm"
    (tmp_path / name).write_bytes(gzip.compress(SVM.encode()) if packed else SVM.encode())
    made = ingest(tmp_path / name, tmp_path / "d", validation=0, test=0)
    rows, y, _, row_id = stored(made)
    expected = [[1.5, 0, 0, -2], [0, 1e-3, 0, 0], [0, 0, 0.5, 0], [0, 0, 0, 0], [0, 0, 0, 7]]
    np.testing.assert_array_equal(rows[np.argsort(row_id)], np.array(expected, np.float32))
    assert y[np.argsort(row_id)].tolist() == [1, 0, 0, 1, 1]
    assert "a column 0 occurs" in notes(made)["SvmlightIndexBase"]


def test_svmlight_base_is_proven_over_all_files_together(tmp_path):
    """The training file alone cannot tell; the test file has a column 0. Both must be read alike."""
    (tmp_path / "a.svm").write_text("0 1:1 2:2\n1 2:3\n")
    (tmp_path / "b.svm").write_text("1 0:5 3:1\n")
    made = ingest(tmp_path / "a.svm", tmp_path / "d", test_source=tmp_path / "b.svm", validation=0)
    rows, _, _, row_id = stored(made)
    np.testing.assert_array_equal(rows[np.argsort(row_id)], [[0, 1, 2, 0], [0, 0, 3, 0], [5, 0, 0, 1]])


@pytest.mark.parametrize("stated", [{"index_base": 1}, {"n_features": 3}])
def test_svmlight_base_stated_or_proven_by_the_number_of_features(tmp_path, stated):
    (tmp_path / "a.svm").write_text("0 1:1 3:2\n1 2:3\n")
    rows, _, _, row_id = stored(ingest(tmp_path / "a.svm", tmp_path / "d", validation=0, test=0, **stated))
    np.testing.assert_array_equal(rows[np.argsort(row_id)], [[1, 0, 2], [0, 3, 0]])


def test_svmlight_with_other_labels(tmp_path):
    (tmp_path / "a.svm").write_text("7 0:1\n7 1:3\n")
    made = ingest(tmp_path / "a.svm", tmp_path / "d", labels=["x", "y"], validation=0, test=0)
    assert made.classes.names == ("x", "y")
    assert "LabelsReplaced" in notes(made)


def test_svmlight_agrees_with_scikit_learn(tmp_path):
    rng = np.random.default_rng(5)
    matrix = scipy.sparse.random(50, 30, 0.2, "csr", np.float64, rng)
    labels = rng.integers(0, 4, 50)
    dump_svmlight_file(matrix, labels, str(tmp_path / "x.libsvm"), zero_based=False)
    made = ingest(tmp_path / "x.libsvm", tmp_path / "d", index_base=1, n_features=30)
    rows, y, _, row_id = stored(made)
    np.testing.assert_array_equal(rows, matrix.toarray()[row_id].astype(np.float32))
    np.testing.assert_array_equal(y, labels[row_id])


@pytest.mark.parametrize(
    ("line", "word"),
    [
        ("1 0:1 0:2", "column 0 occurs twice"),
        ("1 3:1 2:2", "column 2 comes after column 3"),
        ("1 a:1", "'a:1'"),
        ("1 3:", "'3:'"),
        ("1 3", "'3'"),
        ("1 1:2:3", "'1:2:3'"),
        ("1 -1:2", "column -1"),
        ("1 1:1_0", "underscore"),
        ("1 99999999999:1", "column 99999999999"),
        ("0.5 1:1", "'0.5'"),
        ("1,2 1:1", "several labels"),
        ("cat 1:1", "'cat'"),
        ("nan 1:1", "'nan'"),
        ("1:1 2:2", "'1:1'"),
    ],
)
def test_lines_that_are_no_svmlight(assert_refused, line, word):
    text("x.svm", f"0 0:1\n# comment\n{line}\n")
    assert_refused(errors.SvmlightLine, "x.svm, line 3", word, source="x.svm", labels=None)


def test_an_undecidable_index_base(assert_refused):
    text("x.svm", "0 1:1 4:2\n1 2:1\n")
    assert_refused(errors.SvmlightIndexBase, "columns 1 to 4", "--index-base", source="x.svm", labels=None)
    assert_refused(errors.SvmlightIndexBase, source="x.svm", labels=None, n_features=9)
    text("z.svm", "0 0:1\n1 2:1\n")
    assert_refused(errors.SvmlightIndexBase, "column 0", source="z.svm", labels=None, index_base=1)
    assert_refused(errors.ColumnMismatch, "column 4", source="x.svm", labels=None, index_base=0, n_features=3)


def test_non_finite_svmlight_values(assert_refused):
    text("x.svm", "0 0:1 1:nan\n1 0:1 1:inf\n")
    assert_refused(errors.NonFiniteFeature, "row 0: columns 1 (nan)", "row 1", source="x.svm", labels=None)


def test_svmlight_values_beyond_float32(assert_refused):
    text("x.svm", "0 0:1\n1 0:1e100\n")
    assert_refused(errors.FeatureRange, "x.svm, row 1", source="x.svm", labels=None)


def test_a_gzip_cut_short(assert_refused):
    Path("x.svm.gz").write_bytes(gzip.compress(b"0 0:1\n" * 9000)[:-20])
    assert_refused(errors.DamagedInput, "x.svm.gz", source="x.svm.gz", labels=None)


@given(line=st.one_of(st.binary(max_size=40), st.text("01:.-+e #qid_n", max_size=30).map(str.encode)))
def test_any_line_parses_or_is_named(line):
    try:
        row = parse_line(line, "somewhere, line 1")
    except errors.SvmlightLine as error:
        assert error.where == "somewhere, line 1"  # noqa: PT017
        return
    if row is not None:
        label, columns, values = row
        assert isinstance(label, int)
        assert columns == sorted(set(columns))
        assert len(columns) == len(values)
