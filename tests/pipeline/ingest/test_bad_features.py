"""Features that are no finite numbers in range, or no matrix: named by row, column and file."""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse

from pipeline.ingest import errors, ingest
from pipeline.ingest.scan import row_peaks
from tasks.io import read_rows
from tasks.rows import Dense
from tests.pipeline.ingest.samples import Trap, X, Y, save, with_values


def test_nan_and_infinity_are_named_with_rows_and_columns(assert_refused):
    assert_refused(errors.NonFiniteFeature, "2 values in 2 rows", "row 7: columns 1 (nan)", "row 9: columns 2 (inf)",
            source=with_values(nan=(7, 1), inf=(9, 2)))  # fmt: skip


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_non_finite_values_of_any_type_and_part_are_found(assert_refused, dtype):
    matrix = with_values(minus=(4, 0)).astype(dtype)
    assert_refused(errors.NonFiniteFeature, "row 4", "-inf", test_source=matrix, test_labels=Y)


def test_non_finite_values_name_the_shard(assert_refused):
    save("a.npy", X[:5])
    save("b.npy", with_values(nan=(7, 1))[5:])
    assert_refused(errors.NonFiniteFeature, "row 7 (row 2 of b.npy)", source=["a.npy", "b.npy"])


def test_non_finite_sparse_values_name_their_column(assert_refused):
    matrix = scipy.sparse.csr_matrix(np.diag(np.arange(1.0, 13)))
    matrix.data[6] = np.nan
    assert_refused(errors.NonFiniteFeature, "row 6: columns 6 (nan)", source=matrix)


def test_long_lists_of_rows_are_cut(assert_refused):
    error = assert_refused(errors.NonFiniteFeature, "36 values in 12 rows", "and 2 more rows", source=X * np.nan)
    assert len(error.where) < 1000


@pytest.mark.parametrize(
    ("value", "dtype"), [(1e30, None), (-3e38, None), (1e5, "float16"), (1e200, None)], ids=lambda value: str(value)
)
def test_values_that_would_overflow_are_named(assert_refused, value, dtype):
    matrix = X.astype(np.float64)
    matrix[5, 1] = value
    assert_refused(errors.FeatureRange, "row 5, column 1", f"{abs(value):g}", source=matrix, dtype=dtype)


@pytest.mark.parametrize(("scale", "dtype"), [(1e-30, None), (1e-10, "float16")])
def test_values_that_would_vanish_are_refused(assert_refused, scale, dtype):
    matrix = X.astype(np.float64) * scale
    assert_refused(
        errors.FeatureRange, "the largest of all values is", "scale the features", source=matrix, dtype=dtype
    )


@pytest.mark.parametrize("body", ["dense", "csr"])
def test_large_values_that_fit_are_kept(tmp_path, body):
    matrix = X.copy()
    matrix[0, 0] = 1e18
    dataset = ingest(scipy.sparse.csr_matrix(matrix) if body == "csr" else matrix, tmp_path / "d", labels=Y)
    dataset.verify()
    stored = max(float(read_rows(block).to_array().max()) for block in dataset.blocks())
    assert stored == np.float32(1e18)


@pytest.mark.parametrize(
    "matrix",
    [X.astype(object), X.astype(complex), X.astype(str), np.zeros(12, [("a", "f4")]), X.astype("M8[s]")],
    ids=lambda matrix: str(matrix.dtype),
)
def test_features_that_are_no_numbers(assert_refused, matrix):
    assert_refused(errors.FeatureDtype, source=matrix)


def test_an_object_array_on_disk_is_never_unpickled(assert_refused, tmp_path):
    save("x.npy", np.array([Trap(tmp_path / "sprung")] * 12), allow_pickle=True)
    assert_refused(errors.FeatureDtype, "x.npy", "objects", source="x.npy")
    np.savez("x.npz", x=np.array([Trap(tmp_path / "sprung")] * 12))
    assert_refused(errors.FeatureDtype, "x.npz", "member x.npy", source="x.npz")
    assert_refused(errors.LabelDtype, "x.npy", "astype(str)", labels="x.npy")
    assert not (tmp_path / "sprung").exists()


@pytest.mark.parametrize("name", ["x.pkl", "x.joblib", "x.pt", "x.npy", "x.txt"])
@pytest.mark.parametrize("option", ["source", "labels", "classes", "split", "taxonomy"])
def test_pickles_are_refused_under_any_name_and_never_tried(assert_refused, tmp_path, name, option):
    Path(name).write_bytes(pickle.dumps(Trap(tmp_path / "sprung")))
    assert_refused(errors.UnsafeFormat, name, **{option: name})
    assert not (tmp_path / "sprung").exists()


@pytest.mark.parametrize("shape", [(12,), (12, 3, 1), (12, 0), ()], ids=str)
def test_features_that_are_no_matrix(assert_refused, shape):
    save("x.npy", np.zeros(shape, np.float32))
    assert_refused(errors.FeatureShape, "x.npy", str(shape), source="x.npy")


def test_no_rows_at_all(assert_refused):
    assert_refused(errors.OneClassData, "none", source=X[:0], labels=[])
    save("x.npy", X[:0])
    save("y.npy", X[:0])
    assert_refused(errors.FeatureShape, "no shard has any rows", source=["x.npy", "y.npy"], labels=[])


def test_columns_that_differ(assert_refused):
    assert_refused(errors.ColumnMismatch, "3 columns", "has 2", test_source=X[:, :2], test_labels=Y)
    save("a.npy", X)
    save("b.npy", X[:, :2])
    assert_refused(errors.ColumnMismatch, "a.npy has 3 columns and b.npy has 2", source=["a.npy", "b.npy"])
    assert_refused(errors.ColumnMismatch, "dense", "csr", test_source=scipy.sparse.csr_matrix(X), test_labels=Y)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "int16"])
@pytest.mark.parametrize("seed", range(3))
def test_peaks_are_the_largest_magnitudes(dtype, seed):
    """Of every type, and of halves and floats by their bits: zeros, subnormals, infinity and NaN of either sign."""
    rng = np.random.default_rng(seed)
    values = rng.standard_normal((40, 1 + 300 * seed)) * 10.0 ** rng.integers(-4, 4, (40, 1))
    if dtype != "int16":
        values[rng.random(values.shape) < 0.02] = -0.0
        least = np.finfo(dtype).smallest_subnormal
        for row, value in ((3, np.inf), (5, -np.inf), (7, np.nan), (8, -np.nan), (9, least)):
            values[row, rng.integers(values.shape[1])] = value
        values[11], values[12, 0] = 0, -np.finfo(dtype).max
    values = values.astype(dtype)
    found = row_peaks(Dense(values))
    for row, peak in zip(values, found, strict=True):
        sizes = np.abs(row.astype(np.float64))
        assert peak == sizes.max() if np.isfinite(sizes).all() else not np.isfinite(peak)
