"""Every body of rows keeps the same contract: its products are those of the full matrix."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.quantize import products, tables16
from tasks.rows import Csr, Dense, PqCodes, Rows, dense, pq
from tasks.rows.csr import merged
from tests.bodies import csr_of, each_body, random_codes
from tests.naive import quantize as naive_quantize
from tests.naive import rows as naive

shapes = st.tuples(st.integers(0, 10**6), st.integers(0, 7), st.integers(1, 13), st.integers(1, 5))


def full(rows: Rows) -> np.ndarray:
    """The matrix a body stands for, in float64, not by the body's own means where it is more than an array."""
    if isinstance(rows, PqCodes):
        return naive_quantize.decode(rows.codes, rows.codebooks)
    if isinstance(rows, Csr):
        out = np.zeros(rows.shape)
        for i in range(rows.n_rows):
            for p in range(rows.indptr[i], rows.indptr[i + 1]):
                out[i, rows.indices[p]] = rows.data[p]
        return out
    assert isinstance(rows, Dense)
    return rows.values.astype(np.float64)


@pytest.fixture(params=["tables", "decoded"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """PQ products by tables and by decoding: the rule of shapes would leave small tests only one."""
    monkeypatch.setattr(pq, "tables_pay", lambda *_shape: request.param == "tables")
    return str(request.param)


@pytest.mark.usefixtures("way")
@each_body
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_products_equal_those_of_the_full_matrix(make: Any, dtype: type) -> None:
    tolerance = 1e-5 if dtype == np.float32 else 1e-12

    @given(shape=shapes)
    def check(shape: tuple[int, int, int, int]) -> None:
        seed, n_rows, n_features, k = shape
        rows, rng = make(seed, n_rows, n_features), np.random.default_rng(seed)
        matrix = full(rows)
        assert rows.shape == matrix.shape == (rows.n_rows, rows.n_features)
        weights: np.ndarray = rng.standard_normal((n_features, k)).astype(dtype)
        residuals: np.ndarray = rng.standard_normal((n_rows, k)).astype(dtype)
        scores, gradient = rows.scores(weights), rows.gradient(residuals)
        assert scores.dtype == gradient.dtype == dtype
        np.testing.assert_allclose(scores, naive.scores(matrix, weights), atol=tolerance)
        np.testing.assert_allclose(gradient, naive.gradient(matrix, residuals), atol=tolerance)
        before = weights.copy()
        rows.subtract_gradient(residuals, 0.5, weights)
        np.testing.assert_allclose(weights, before - 0.5 * naive.gradient(matrix, residuals), atol=tolerance)

    check()


@each_body
@given(shape=shapes, data=st.data())
def test_selections_and_copies(make: Any, shape: tuple[int, int, int, int], data: st.DataObject) -> None:
    seed, n_rows, n_features, _ = shape
    rows = make(seed, n_rows, n_features)
    matrix = full(rows)
    index = np.array(data.draw(st.lists(st.integers(0, n_rows - 1), max_size=9) if n_rows else st.just([])), np.int64)
    start = data.draw(st.integers(0, n_rows))
    stop = data.draw(st.integers(start, n_rows))
    taken, part = rows.take(index), rows.part(start, stop)
    assert type(taken) is type(part) is type(rows)
    np.testing.assert_array_equal(full(taken), matrix[index])
    np.testing.assert_array_equal(full(part), matrix[start:stop])
    np.testing.assert_array_equal(full(part.take(np.arange(part.n_rows)[::-1])), matrix[start:stop][::-1])
    np.testing.assert_array_equal(rows.to_array(np.float64), matrix)
    assert rows.to_array().dtype == np.float32
    assert rows.decoded().body in ("dense", "csr")
    np.testing.assert_array_equal(rows.decoded().to_array(np.float64), matrix)
    np.testing.assert_allclose(rows.squared_norms(), (matrix**2).sum(axis=1), atol=1e-5)
    assert rows.squared_norms().dtype == np.float64


@each_body
def test_long_bodies_are_worked_in_slices(make: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dense, "ROWS_AT_ONCE", 3)
    monkeypatch.setattr(pq, "ROWS_AT_ONCE", 3)
    rows, rng = make(5, 8, 6), np.random.default_rng(5)
    weights, residuals = rng.standard_normal((6, 2)), rng.standard_normal((8, 2))
    np.testing.assert_allclose(rows.scores(weights), full(rows) @ weights, atol=1e-6)
    np.testing.assert_allclose(rows.gradient(residuals), full(rows).T @ residuals, atol=1e-6)
    np.testing.assert_allclose(rows.squared_norms(), (full(rows) ** 2).sum(axis=1), atol=1e-5)


def test_float16_is_widened_and_never_multiplied() -> None:
    rows = Dense(np.full((2, 3), 300.0, np.float16))  # a float16 product would overflow
    assert rows.scores(np.full((3, 1), 300.0, np.float32)).tolist() == [[270000.0], [270000.0]]
    decoded = rows.decoded()
    assert isinstance(decoded, Dense)
    assert decoded.values.dtype == np.float32


def test_nbytes_counts_what_is_held() -> None:
    assert Dense(np.zeros((3, 4), np.float16)).nbytes == 24
    assert random_codes(0, 5, 6).nbytes == 10
    assert csr_of(np.eye(3)).nbytes == 3 * 8 + 3 * 4 + 4 * 8


def test_arrays_mapped_read_only_from_files_serve(tmp_path: Path) -> None:
    """What is broadcast to a task arrives as a read-only memory map."""

    def mapped(name: str, values: np.ndarray) -> np.ndarray:
        np.save(tmp_path / name, values)
        found: np.ndarray = np.load(tmp_path / f"{name}.npy", mmap_mode="r")
        return found

    plain = random_codes(3, 6, 4)
    rows = PqCodes(mapped("codes", plain.codes), mapped("codebooks", plain.codebooks))
    weights, residuals = np.random.default_rng(3).standard_normal((4, 2)), np.ones((6, 2))
    for body, same in ((rows, plain), (Dense(mapped("values", plain.to_array())), plain.decoded())):
        np.testing.assert_array_equal(body.scores(mapped("weights", weights)), same.scores(weights))
        np.testing.assert_array_equal(body.gradient(mapped("residuals", residuals)), same.gradient(residuals))


def test_sparse_updates_touch_only_their_features() -> None:
    rows = csr_of(np.array([[0.0, 2.0, 0.0]]))
    weights = np.array([[np.nan], [1.0], [np.nan]])
    rows.subtract_gradient(np.array([[3.0]]), 0.5, weights)
    assert weights[1, 0] == 1.0 - 0.5 * 2.0 * 3.0
    assert np.isnan(weights[[0, 2]]).all()


@given(entries=st.lists(st.tuples(st.integers(0, 2), st.integers(0, 5), st.integers(-4, 4)), max_size=30))
def test_merged_sorts_and_adds_entries_of_one_place(entries: list[tuple[int, int, int]]) -> None:
    entries = sorted(entries, key=lambda entry: entry[0])
    expected = np.zeros((3, 6))
    for i, j, value in entries:
        expected[i, j] += value
    indptr = np.searchsorted([entry[0] for entry in entries], np.arange(4)).astype(np.int64)
    columns = np.array([entry[1] for entry in entries], np.int32)
    rows = merged(np.array([float(entry[2]) for entry in entries]), columns, indptr, 6)
    np.testing.assert_array_equal(full(rows), expected)
    assert all((np.diff(rows.indices[a:b]) > 0).all() for a, b in zip(rows.indptr, rows.indptr[1:], strict=False))
    assert rows.indptr[-1] == len(rows.data) == len(rows.indices)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_rule_of_shapes_is_used_and_gives_the_same_products(dtype: type, monkeypatch: pytest.MonkeyPatch) -> None:
    codes = PqCodes(np.arange(60, dtype=np.uint8)[:, None] % 2, np.arange(32, dtype=np.float32).reshape(1, 2, 16))
    weights, residuals = np.ones((16, 20), dtype), np.ones((60, 20), dtype)
    assert products.tables_pay(codes.n_rows, codes.codebooks, 20, dtype)
    used = []

    def recorded(name: str) -> Callable[..., Any]:
        real = getattr(products, name)

        def call(*args: Any) -> Any:
            used.append(name)
            return real(*args)

        return call

    for name in ("scores", "subtract_products"):
        monkeypatch.setattr(pq, name, recorded(name))
    np.testing.assert_array_equal(codes.scores(weights), full(codes) @ weights)
    np.testing.assert_array_equal(codes.gradient(residuals), full(codes).T @ residuals)
    few = codes.part(0, 1)
    np.testing.assert_array_equal(few.scores(weights), full(few) @ weights)
    assert used == ["scores", "subtract_products"]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_16_bit_scores_are_near(dtype: type) -> None:
    codes, rng = random_codes(11, 40, 30), np.random.default_rng(12)
    weights = rng.standard_normal((30, 35)).astype(dtype)
    got = codes.scores16(weights)
    assert got.dtype == np.float32
    bound = tables16.error_bound(codes.codebooks, weights.astype(np.float32))
    assert (np.abs(got - full(codes) @ weights) <= bound + 1e-4).all()
