"""Rows that are left out on request, and rows of zeros."""

from __future__ import annotations

import numpy as np
import pytest

from pipeline.ingest import ingest
from pipeline.ingest.errors import OneClassData
from tests.pipeline.ingest.samples import notes, stored


def test_non_finite_rows_can_be_left_out(tmp_path, small):
    matrix, labels = small[0].copy(), small[1]
    matrix[7, 2], matrix[9, 0] = np.nan, np.inf
    other = small[0].copy()
    other[3] = -np.inf
    made = ingest(matrix, tmp_path / "d", labels=labels, test_source=other, test_labels=labels, on_nonfinite="drop-row")
    rows, y, _, row_id = stored(made)
    assert sorted(set(range(80)) - set(row_id.tolist())) == [7, 9, 43]
    np.testing.assert_array_equal(rows, np.vstack([matrix, other])[row_id])
    np.testing.assert_array_equal(y, np.concatenate([labels, labels])[row_id])
    assert notes(made)["NonFiniteFeature"].startswith("3 rows were left out")
    assert made.split_counts == {"train": 34, "validation": 4, "test": 39}


def test_dropping_every_row_of_all_classes_but_one_is_refused(tmp_path, small):
    matrix = small[0].copy()
    matrix[10:] = np.nan
    with pytest.raises(OneClassData, match="only of class '0'"):
        ingest(matrix, tmp_path / "d", labels=small[1], on_nonfinite="drop-row")


def test_rows_of_zeros_are_counted(tmp_path, small):
    matrix = small[0].copy()
    matrix[[3, 5]] = 0
    assert notes(ingest(matrix, tmp_path / "d", labels=small[1]))["ZeroRows"].startswith("2 rows")
