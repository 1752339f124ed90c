"""Products on codes (Harchaoui et al., Algorithms 1 and 2) equal products with the decoded rows."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.quantize import products, tables16
from tasks.quantize.products import decode, scores, scores16, squared_norms, subtract_products, tables_pay
from tests.naive import quantize as naive
from tests.shared import shared_path

shapes = st.fixed_dictionaries(
    {
        "seed": st.integers(0, 10**6),
        "n_rows": st.integers(0, 9),
        "n_subquantizers": st.integers(1, 19),
        "n_centroids": st.sampled_from([1, 2, 3, 16]),
        "width": st.integers(1, 3),
        "n_outputs": st.integers(1, 5),
    }
)
compiled = pytest.mark.skipif(not products.COMPILED, reason="vector instructions exist in compiled code only")


def drawn(
    seed: int, n_rows: int, n_subquantizers: int, n_centroids: int, width: int, n_outputs: int, dtype: Any = np.float64
) -> tuple[np.ndarray, ...]:
    """Codes, codebooks, weights, residuals."""
    rng = np.random.default_rng(seed)
    codes = rng.integers(0, n_centroids, (n_rows, n_subquantizers)).astype(np.uint8)
    codebooks = rng.standard_normal((n_subquantizers, n_centroids, width)).astype(np.float32)
    weights = rng.standard_normal((n_subquantizers * width, n_outputs)).astype(dtype)
    return codes, codebooks, weights, rng.standard_normal((n_rows, n_outputs)).astype(dtype)


def assert_products(codes: np.ndarray, codebooks: np.ndarray, weights: np.ndarray, residuals: np.ndarray) -> None:
    """Both products against the decoded rows in float64, within what float32 sums of so many terms can be off."""
    matrix = decode(codes, codebooks, np.float64)
    unit = float(np.finfo(weights.dtype).eps)
    tolerance = 4 * unit * (np.abs(matrix) @ np.abs(weights.astype(np.float64)))
    got = scores(codes, codebooks, weights)
    assert got.dtype == weights.dtype
    assert got.shape == residuals.shape
    assert (np.abs(got - matrix @ weights.astype(np.float64)) <= tolerance).all()
    changed, factor = weights.copy(), weights.dtype.type(0.5)
    subtract_products(codes, codebooks, residuals, factor, changed)
    product, reach = matrix.T @ residuals.astype(np.float64), np.abs(matrix).T @ np.abs(residuals.astype(np.float64))
    expected = weights.astype(np.float64) - 0.5 * product
    assert (np.abs(changed - expected) <= unit * (8 * reach + np.abs(weights))).all()


@given(shape=shapes)
def test_decoding_by_definition(shape: dict[str, int]) -> None:
    codes, codebooks, _, _ = drawn(**shape)
    np.testing.assert_array_equal(decode(codes, codebooks, np.float64), naive.decode(codes, codebooks))
    assert decode(codes, codebooks).dtype == np.float32
    np.testing.assert_allclose(squared_norms(codes, codebooks), (naive.decode(codes, codebooks) ** 2).sum(axis=1))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@given(shape=shapes)
def test_products_are_those_of_the_algorithms(dtype: type, shape: dict[str, int]) -> None:
    codes, codebooks, weights, residuals = drawn(**shape, dtype=dtype)
    tolerance = {"rtol": 1e-4, "atol": 1e-4} if dtype == np.float32 else {"rtol": 1e-12, "atol": 1e-12}
    expected = naive.scores(codes, codebooks, weights)
    np.testing.assert_allclose(scores(codes, codebooks, weights), expected, **tolerance)
    changed = weights.copy()
    subtract_products(codes, codebooks, residuals, weights.dtype.type(0.5), changed)
    expected = weights - 0.5 * naive.gradient(codes, codebooks, residuals)
    np.testing.assert_allclose(changed, expected, **tolerance)


@pytest.mark.parametrize("outputs_at_once", [2, 64])
def test_plain_loops_by_columns(outputs_at_once: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(products, "OUTPUTS_AT_ONCE", outputs_at_once)
    assert_products(*drawn(3, 9, 11, 3, 2, 5))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("width", [2, 3, 4, 8, 16, 32, 64])
def test_every_width(width: int, dtype: type) -> None:
    assert_products(*drawn(width, 40, 9, 20, width, 17, dtype))


@pytest.mark.parametrize("n_outputs", [16, 20])
@pytest.mark.parametrize("width", [8, 16])
def test_widths_whose_weights_stay_in_registers(width: int, n_outputs: int) -> None:
    """Tables of a multiple of 8 centroids are filled in another way than those of one more: to the same bits."""
    codes, codebooks, weights, residuals = drawn(width, 30, 17, 24, width, n_outputs, np.float32)
    assert_products(codes, codebooks, weights, residuals)
    more = np.concatenate([codebooks, codebooks[:, :1]], axis=1)
    np.testing.assert_array_equal(scores(codes, more, weights), scores(codes, codebooks, weights))


@pytest.mark.parametrize("n_outputs", [1, 2, 7, 16, 17, 64, 128, 200])
def test_any_number_of_columns(n_outputs: int) -> None:
    assert_products(*drawn(n_outputs, 20, 10, 6, 3, n_outputs, np.float32))


@pytest.mark.parametrize("n_rows", [0, 1, 2, 3, 9, 1000])
@pytest.mark.parametrize("n_subquantizers", [1, 7, 8, 9, 16, 17])
def test_any_number_of_rows_and_subquantizers(n_rows: int, n_subquantizers: int) -> None:
    assert_products(*drawn(n_rows, n_rows, n_subquantizers, 5, 2, 3, np.float32))


@pytest.mark.parametrize("n_centroids", [1, 2, 4, 8, 9, 16, 64, 128, 255, 256])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_any_number_of_centroids(n_centroids: int, dtype: type) -> None:
    codes, codebooks, weights, residuals = drawn(n_centroids, 60, 3, n_centroids, 2, 4, dtype)
    codes[:2] = [[0], [n_centroids - 1]]
    assert_products(codes, codebooks, weights, residuals)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_all_256_codes_are_told_apart(dtype: type) -> None:
    codes = np.arange(256, dtype=np.uint8)[:, None]
    codebooks = np.arange(256, dtype=np.float32).reshape(1, 256, 1)
    got = scores(codes, codebooks, np.ones((1, 1), dtype))
    np.testing.assert_array_equal(got[:, 0], np.arange(256))
    changed = np.zeros((1, 256), dtype)
    subtract_products(codes, codebooks, np.eye(256, dtype=dtype), dtype(-1), changed)
    np.testing.assert_array_equal(changed[0], np.arange(256))


def test_rows_are_taken_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    codes, codebooks, weights, residuals = drawn(5, 23, 9, 4, 2, 3, np.float32)
    whole, whole16 = scores(codes, codebooks, weights), scores16(codes, codebooks, weights)
    monkeypatch.setattr(products, "PART", 5)
    monkeypatch.setattr(products, "SUM_PART", 5)
    np.testing.assert_array_equal(scores(codes, codebooks, weights), whole)
    np.testing.assert_array_equal(scores16(codes, codebooks, weights), whole16)
    assert_products(codes, codebooks, weights, residuals)


@pytest.mark.parametrize("n_subquantizers", [7, 8])
def test_arrays_of_any_layout(n_subquantizers: int) -> None:
    codes, codebooks, weights, residuals = drawn(6, 12, n_subquantizers, 4, 2, 18, np.float32)
    expected, changed = scores(codes, codebooks, weights), weights.copy()
    subtract_products(codes, codebooks, residuals, np.float32(1), changed)
    wide = np.zeros((len(codes), n_subquantizers + 3), np.uint8)
    wide[:, 1 : n_subquantizers + 1] = codes
    shifted = np.zeros(codes.size + 1, np.uint8)[1:].reshape(codes.shape)
    shifted[:] = codes
    for other in (wide[:, 1 : n_subquantizers + 1], np.asfortranarray(codes), shifted):
        np.testing.assert_array_equal(scores(other, codebooks, weights), expected)
    books, turned = np.asfortranarray(codebooks), np.asfortranarray(weights)
    np.testing.assert_array_equal(scores(codes, books, turned), expected)
    again = np.asfortranarray(weights)
    subtract_products(codes, books, np.asfortranarray(residuals), np.float32(1), again)
    np.testing.assert_array_equal(again, changed)


def test_residuals_of_another_dtype() -> None:
    codes, codebooks, weights, residuals = drawn(7, 12, 5, 4, 2, 3, np.float32)
    changed, again = weights.copy(), weights.copy()
    subtract_products(codes, codebooks, residuals, np.float32(1), changed)
    subtract_products(codes, codebooks, residuals.astype(np.float64), np.float32(1), again)
    np.testing.assert_array_equal(again, changed)


@compiled
def test_vectors_and_plain_loops_agree(monkeypatch: pytest.MonkeyPatch) -> None:
    codes, codebooks, weights, residuals = drawn(8, 300, 20, 256, 4, 40, np.float32)
    fast, fast16, changed = scores(codes, codebooks, weights), scores16(codes, codebooks, weights), weights.copy()
    subtract_products(codes, codebooks, residuals, np.float32(1), changed)
    monkeypatch.setattr(products, "COMPILED", False)
    plain, again = scores(codes, codebooks, weights), weights.copy()
    subtract_products(codes, codebooks, residuals, np.float32(1), again)
    np.testing.assert_allclose(plain, fast, atol=1e-4)
    np.testing.assert_allclose(again, changed, atol=1e-4)
    step = tables16.scales_of(codebooks, weights).max()  # an entry at a half may be rounded either way
    np.testing.assert_allclose(scores16(codes, codebooks, weights), fast16, atol=2.5 * step)


def test_case_of_the_paper() -> None:
    """tr-07, whose columns are examples: X here is its transpose."""
    case = json.loads(shared_path("cases/tr-07.json").read_text())
    given, expected = case["inputs"], case["expected"]
    codes = np.array(given["codes"], np.uint8).T
    codebooks = np.array(given["centroids"]).transpose(0, 2, 1)
    assert not np.array_equal(codebooks, codebooks.astype(np.float32))  # so float64 codebooks must not be narrowed
    matrix = decode(codes, codebooks, np.float64)
    np.testing.assert_allclose(matrix.T, expected["X"], atol=1e-9)
    got = scores(codes, codebooks, np.array(given["A"]).T)
    np.testing.assert_allclose(got.T, expected["AX"], atol=1e-9)
    product = np.zeros((4, 2))
    subtract_products(codes, codebooks, np.array(given["B"]), -1.0, product)
    np.testing.assert_allclose(product, expected["XB"], atol=1e-9)


@given(shape=shapes)
def test_16_bit_entries_by_definition(shape: dict[str, int]) -> None:
    codes, codebooks, weights, _ = drawn(**shape, dtype=np.float32)
    scales = tables16.scales_of(codebooks, weights)
    entries = naive.entries16(codebooks, weights, scales.astype(np.float64))
    for start in range(0, len(entries), tables16.SUM_OF):  # the worst row there could be
        assert np.abs(entries[start : start + tables16.SUM_OF]).max(axis=1).sum(axis=0).max(initial=0) < 2**15
    totals = sum(entries[q][codes[:, q]] for q in range(len(entries)))
    got = scores16(codes, codebooks, weights)
    assert got.dtype == np.float32
    np.testing.assert_allclose(got / scales, totals, atol=1 + 1e-3)  # one entry may lie at a half


@pytest.mark.parametrize("n_outputs", [1, 2, 31, 32, 33, 64, 65])
@pytest.mark.parametrize(("n_subquantizers", "width"), [(3, 16), (16, 2), (17, 4), (33, 3), (40, 8)])
def test_16_bit_scores_keep_their_bound(n_subquantizers: int, width: int, n_outputs: int) -> None:
    codes, codebooks, weights, _ = drawn(n_outputs, 50, n_subquantizers, 11, width, n_outputs, np.float32)
    bound = tables16.error_bound(codebooks, weights)
    matrix = decode(codes, codebooks, np.float64)
    rounding = 4 * np.finfo(np.float32).eps * (np.abs(matrix) @ np.abs(weights.astype(np.float64)))
    away = np.abs(scores16(codes, codebooks, weights) - matrix @ weights)
    assert (away <= bound + rounding).all()
    assert bound.max() < 0.05 * (matrix @ weights).std()  # and the bound is worth something


@pytest.mark.parametrize("sign", [-1, 1])
@pytest.mark.parametrize("n_subquantizers", [16, 32, 160])
def test_16_bit_sums_at_the_extremes(n_subquantizers: int, sign: int) -> None:
    """All centroids as long as the longest and along the weights: entries and sums as large as they can be."""
    rng = np.random.default_rng(n_subquantizers)
    weights = rng.standard_normal((n_subquantizers * 4, 3)).astype(np.float32)
    weights[:, 1] = sign
    parts = weights[:, 1].reshape(n_subquantizers, 1, 4)
    codebooks = np.repeat(parts, 3, axis=1) * np.array([1, -1, 0.3], np.float32)[:, None]
    codes = np.repeat(np.arange(3, dtype=np.uint8)[:, None], n_subquantizers, axis=1)
    exact = decode(codes, codebooks, np.float64) @ weights
    scale = tables16.scales_of(codebooks, weights)[1]
    assert abs(exact[0, 1] / scale) > 0.99 * tables16.LARGEST * n_subquantizers / tables16.SUM_OF
    bound = tables16.error_bound(codebooks, weights) + 1e-6 * np.abs(exact)
    assert (np.abs(scores16(codes, codebooks, weights) - exact) <= bound).all()


def test_16_bit_scales_of_columns_of_any_size() -> None:
    codes, codebooks, weights, _ = drawn(9, 20, 18, 5, 3, 6, np.float32)
    weights *= np.array([0, 1e-38, 1e-20, 1, 1e15, 1e30], np.float32)
    exact = decode(codes, codebooks, np.float64) @ weights
    away = np.abs(scores16(codes, codebooks, weights) - exact)
    assert (away <= tables16.error_bound(codebooks, weights) + 1e-5 * np.abs(exact).max(axis=0)).all()
    assert (away[:, 0] == 0).all()


def test_16_bit_scores_of_weights_that_are_not_finite() -> None:
    codes, codebooks, weights, _ = drawn(10, 20, 3, 5, 3, 3, np.float32)
    weights[1, 0], weights[1, 2] = np.nan, np.inf
    got = scores16(codes, codebooks, weights)
    assert not np.isfinite(got[:, [0, 2]]).any()
    assert np.isfinite(got[:, 1]).all()


def test_tables_pay_for_many_rows_and_columns_by_shape() -> None:
    wide, narrow = np.zeros((2, 256, 16), np.float32), np.zeros((2, 256, 2), np.float32)
    for dtype in (np.float32, np.float64):
        assert tables_pay(4096, wide, 128, dtype)
        assert not tables_pay(16, wide, 1000, dtype)
        assert not tables_pay(10**9, narrow, 1000, dtype)


@compiled
def test_tables_pay_for_one_column_because_decoding_costs_more() -> None:
    assert tables_pay(4096, np.zeros((2, 256, 2), np.float32), 1)
