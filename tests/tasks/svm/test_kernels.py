"""Kernels of pairs of rows: the definition's values on every body, and bits that no block shape changes."""

from __future__ import annotations

import json
import sys
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tasks.errors import ParamError
from tasks.models.errors import ColumnMismatch, ModelFormat
from tasks.rows import Csr, Dense, OneHot, PqCodes, Rows
from tasks.svm import kernel_dense, kernel_sparse
from tasks.svm.kernels import KINDS, OF_DISTANCES, OF_HISTOGRAMS, Kernel, NegativeFeature
from tests.bodies import BODIES, csr_of, sparse_values
from tests.naive import kernels as naive

ROUNDING = float(np.finfo(np.float32).eps)
each_kind = pytest.mark.parametrize("kind", KINDS)
bodies = st.sampled_from(sorted(BODIES))


def kernel_of(kind: Any, width: float = 2.5) -> Kernel:
    return Kernel(kind, width if kind in OF_DISTANCES else 1.0)


def drawn(kind: str, body: str, seed: int, n_rows: int, n_features: int) -> Rows:
    """Rows of a body, with values that the kernel takes."""
    rows = BODIES[body](seed, n_rows, n_features)
    if kind not in OF_HISTOGRAMS:
        return rows
    if isinstance(rows, Dense):
        return Dense(abs(rows.values))
    if isinstance(rows, Csr):
        return Csr(abs(rows.data), rows.indices, rows.indptr, rows.n_features)
    assert isinstance(rows, PqCodes)
    return PqCodes(rows.codes, abs(rows.codebooks))


@each_kind
@settings(max_examples=40)
@given(
    body=bodies, other=bodies, shape=st.tuples(st.integers(0, 10**6), st.integers(0, 5), st.integers(0, 5)), d=st.data()
)
def test_blocks_hold_the_definition(kind: Any, body: str, other: str, shape: tuple[int, int, int], d: Any) -> None:
    seed, n_rows, n_others = shape
    n_features = d.draw(st.sampled_from([1, 2, 4, 7, 9]))
    rows, others = drawn(kind, body, seed, n_rows, n_features), drawn(kind, other, seed + 1, n_others, n_features)
    found = kernel_of(kind).block(rows, others)
    x, y = rows.to_array(np.float64), others.to_array(np.float64)
    assert found.dtype == np.float32
    assert found.shape == (n_rows, n_others)
    scale = 1.0 + abs(x).max(initial=0) * abs(y).max(initial=0) * n_features
    np.testing.assert_allclose(found, naive.block(kind, 2.5, x, y), rtol=4 * ROUNDING, atol=ROUNDING * scale)


@each_kind
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n_features", [kernel_dense.RUN - 1, kernel_dense.RUN, 2 * kernel_dense.RUN + 5])
def test_long_rows_hold_the_definition(kind: Any, dtype: type, n_features: int) -> None:
    values: np.ndarray = np.random.default_rng(n_features).random((6, n_features)).astype(dtype)
    kernel = kernel_of(kind, n_features / 4)
    found = kernel.block(Dense(values[:2]), Dense(values[2:]))
    np.testing.assert_allclose(found, naive.block(kind, kernel.width, values[:2], values[2:]), rtol=4 * ROUNDING)


@each_kind
def test_one_hot_rows(kind: Any) -> None:
    codes = np.array([[0, 2, 255], [0, 1, 1], [255, 255, 255]], np.uint8)
    rows = OneHot(codes, 3)
    matrix = rows.to_array()
    found = kernel_of(kind).block(rows, rows)
    np.testing.assert_allclose(found, naive.block(kind, 2.5, matrix, matrix), rtol=ROUNDING)


@each_kind
@pytest.mark.parametrize("body", ["float32", "float64", "csr"])
@settings(max_examples=15)
@given(seed=st.integers(0, 10**6), cuts=st.tuples(st.integers(0, 5), st.integers(0, 7)))
def test_a_pair_has_the_same_bits_in_every_block(kind: Any, body: str, seed: int, cuts: tuple[int, int]) -> None:
    n_features = seed % 70 + 1  # more than one run among them
    rows, others = drawn(kind, body, seed, 5, n_features), drawn(kind, body, seed + 1, 7, n_features)
    kernel = kernel_of(kind, n_features / 2)
    whole = kernel.block(rows, others)
    for first, last in ((0, cuts[0]), (cuts[0], 5)):
        for start, stop in ((0, cuts[1]), (cuts[1], 7)):
            part = kernel.block(rows.part(first, last), others.part(start, stop))
            np.testing.assert_array_equal(part, whole[first:last, start:stop])
    np.testing.assert_array_equal(kernel.block(others, rows), whole.T)


@each_kind
@pytest.mark.parametrize("body", ["float32", "csr"])
def test_tiles_leave_no_trace(kind: Any, body: str, monkeypatch: pytest.MonkeyPatch) -> None:
    rows, others = drawn(kind, body, 3, 7, 5), drawn(kind, body, 4, kernel_dense.LANES + 2, 5)
    whole = kernel_of(kind).block(rows, others)
    monkeypatch.setattr(kernel_dense, "LANES", 3)
    monkeypatch.setattr(kernel_dense, "ROWS_AT_ONCE", 2)
    monkeypatch.setattr(kernel_sparse, "SUMS_AT_ONCE", 2 * others.n_rows)
    np.testing.assert_array_equal(kernel_of(kind).block(rows, others), whole)


@each_kind
def test_half_precision_is_widened_and_nothing_else(kind: Any) -> None:
    half = abs(sparse_values(1, 6, 9)).astype(np.float16)
    full = Dense(half.astype(np.float32))
    np.testing.assert_array_equal(kernel_of(kind).block(Dense(half), Dense(half)), kernel_of(kind).block(full, full))


@each_kind
@pytest.mark.parametrize("body", ["float32", "float64", "csr", "pq"])
def test_a_block_of_rows_with_themselves(kind: Any, body: str) -> None:
    """Symmetric to the bit, positive semi-definite, and its diagonal is what `diagonal` says."""
    rows, kernel = drawn(kind, body, 11, 12, 6), kernel_of(kind)
    gram, diagonal = kernel.block(rows, rows), kernel.diagonal(rows)
    np.testing.assert_array_equal(gram, gram.T)
    assert diagonal.dtype == np.float64
    assert diagonal.shape == (12,)
    if kind in OF_DISTANCES:
        assert (diagonal == 1).all()
        assert (gram.diagonal() == 1).all()
        assert gram.max() == 1
    np.testing.assert_allclose(gram.diagonal(), diagonal, rtol=4 * ROUNDING)
    assert np.linalg.eigvalsh(gram.astype(np.float64)).min() > -1e-6 * gram.trace()


@pytest.mark.parametrize("body", [Dense, csr_of])
@pytest.mark.parametrize("kind", OF_DISTANCES)
def test_distances_of_near_rows_far_from_the_origin(kind: Any, body: Any) -> None:
    """|x|^2 + |y|^2 - 2 x y in float32 would lose such distances whole, and fall below 0."""
    rng = np.random.default_rng(5)
    values = 1000.0 + rng.random((6, 8))
    rows = body(values.astype(np.float32).astype(np.float64))
    matrix = rows.to_array(np.float64)
    width = naive.mean_distance(kind, matrix)
    found, expected = Kernel(kind, width).block(rows, rows), naive.block(kind, width, matrix, matrix)
    np.testing.assert_allclose(found, expected, rtol=1e-6)
    assert found.max() == 1
    assert (found.diagonal() == 1).all()


@each_kind
def test_rows_without_features_in_common_and_explicit_zeros(kind: Any) -> None:
    """Entries that are there and 0 count as absent ones do: 0 / 0 = 0."""
    with_zeros = Csr(np.array([0.0, 1.0, 0.0], np.float32), np.array([0, 2, 0], np.int32), np.array([0, 2, 3, 3]), 3)
    matrix = with_zeros.to_array()
    expected = naive.block(kind, 2.5, matrix, matrix)
    np.testing.assert_allclose(kernel_of(kind).block(with_zeros, with_zeros), expected, rtol=ROUNDING)
    np.testing.assert_allclose(kernel_of(kind).block(Dense(matrix), Dense(matrix)), expected, rtol=ROUNDING)


@pytest.mark.parametrize("width", [5e-324, 1e-300, sys.float_info.max])
@pytest.mark.parametrize("kind", OF_DISTANCES)
def test_extreme_widths_keep_a_row_equal_to_itself(kind: Any, width: float) -> None:
    rows = Dense(np.array([[1.0, 0.0], [0.0, 2.0]], np.float32))
    expected = np.ones((2, 2)) if width > 1 else np.eye(2)
    with np.errstate(over="raise"):
        np.testing.assert_array_equal(Kernel(kind, width).block(rows, rows), expected)


@pytest.mark.parametrize("kind", OF_DISTANCES)
def test_distances_of_sparse_rows_are_never_below_zero(kind: Any) -> None:
    """Rows that differ in their last bits: what is left of sums that cancel has either sign."""
    rng = np.random.default_rng(8)
    near = rng.random(40) * (1 + 4e-16 * rng.integers(0, 2, (30, 40)))
    assert Kernel(kind, 1e-18).block(csr_of(near), csr_of(near)).max() == 1


@pytest.mark.parametrize("kind", OF_HISTOGRAMS)
@pytest.mark.parametrize("bad", [-0.25, np.nan])
@pytest.mark.parametrize("body", [Dense, csr_of])
def test_values_below_zero_are_named_with_their_place(kind: Any, bad: float, body: Any) -> None:
    values = np.zeros((1030, 5))  # beyond the rows checked at once
    values[3, 1], values[1027, 2], values[1029, 0] = 1.0, bad, -1.0
    kernel_of(kind).check(body(np.abs(np.nan_to_num(values))), "rows x")
    with pytest.raises(NegativeFeature, match=r"(-0.25|nan) is below 0") as caught:
        kernel_of(kind).check(body(values), "rows x")
    assert caught.value.where == "rows x, row 1027, column 2"
    kernel_of("rbf").check(body(values), "rows x")
    codes = PqCodes(np.array([[0], [1]], np.uint8), np.array([[[0.0, 1.0], [0.5, bad]]], np.float32))
    with pytest.raises(NegativeFeature, match="row 1, column 1"):
        kernel_of(kind).check(codes, "codes")


def test_rows_of_another_width_are_refused() -> None:
    with pytest.raises(ColumnMismatch, match="3 columns beside rows of 4"):
        Kernel("linear").block(Dense(np.ones((2, 3))), Dense(np.ones((2, 4))))


@pytest.mark.parametrize(
    ("kind", "width"),
    [("cosine", 1.0), ("rbf", 0.0), ("rbf", -1.0), ("chi2", np.nan), ("chi2", np.inf), ("rbf", "1"), ("linear", 2.0)],
)
def test_impossible_kernels_are_refused(kind: Any, width: Any) -> None:
    with pytest.raises(ParamError, match="expected"):
        Kernel(kind, width)


@each_kind
def test_headers_come_back(kind: Any) -> None:
    kernel = kernel_of(kind, 0.1)
    assert Kernel.load(json.loads(json.dumps(kernel.header()))) == kernel


@pytest.mark.parametrize(
    "header",
    [
        {},
        {"kind": "cosine"},
        {"kind": []},
        {"kind": "rbf", "width": -1},
        {"kind": "rbf", "width": None},
        {"kind": "rbf", "width": 10**400},
        {"kind": "rbf", "gamma": 1.0},
        ["rbf"],
        None,
    ],
)
def test_damaged_headers_are_named(header: Any) -> None:
    with pytest.raises(ModelFormat, match="no kernel"):
        Kernel.load(header)
