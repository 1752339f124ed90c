"""One-hot rows: products straight on the codes are those of the matrix that they stand for; stores keep them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tasks import io
from tasks.errors import ParamError
from tasks.hashing.wta import dtype_of, sentinel_of
from tasks.rows import Csr, OneHot, onehot
from tests.naive import rows as naive
from tests.naive import wta as naive_wta

shapes = st.tuples(
    st.integers(0, 10**6), st.integers(0, 5), st.integers(1, 4), st.sampled_from([2, 3, 255, 256, 65535, 65536])
)


def random_rows(seed: int, n_rows: int, n_hashes: int, n_codes: int) -> OneHot:
    """Codes of the smallest dtype, the lowest and the largest among them, about a quarter of them no code."""
    rng = np.random.default_rng(seed)
    dtype = dtype_of(n_codes)
    codes = rng.choice([0, n_codes - 1, *rng.integers(0, n_codes, 4)], (n_rows, n_hashes))
    none = rng.random((n_rows, n_hashes)) < 0.25
    return OneHot(np.where(none, sentinel_of(dtype), codes).astype(dtype), n_codes)


def full(rows: OneHot) -> np.ndarray:
    return naive_wta.one_hot(rows.codes, rows.n_codes, sentinel_of(rows.codes.dtype))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("cache", "least"), [(1, 1), (1, 4), (100, 1), (2**18, 4)])
@pytest.mark.parametrize("n_codes", [2, 5, 255, 300])
def test_products_equal_those_of_the_full_matrix(
    n_codes: int, cache: int, least: int, dtype: type, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(onehot, "CACHE_BYTES", cache)
    monkeypatch.setattr(onehot, "LEAST_RUN", least)
    tolerance = 1e-5 if dtype == np.float32 else 1e-12
    for seed, n_rows, n_hashes, k in [(0, 0, 3, 2), (1, 6, 1, 1), (2, 5, 14, 3)]:
        rows, rng = random_rows(seed, n_rows, n_hashes, n_codes), np.random.default_rng(seed)
        matrix = full(rows)
        assert rows.shape == matrix.shape
        weights = rng.standard_normal((rows.n_features, k)).astype(dtype)
        residuals = rng.standard_normal((n_rows, k)).astype(dtype)
        scores, gradient = rows.scores(weights), rows.gradient(residuals)
        assert scores.dtype == gradient.dtype == dtype
        np.testing.assert_allclose(scores, naive.scores(matrix, weights), atol=tolerance)
        np.testing.assert_allclose(gradient, matrix.T @ residuals, atol=tolerance)
        before = weights.copy()
        rows.subtract_gradient(residuals, 0.5, weights)
        np.testing.assert_allclose(weights, before - 0.5 * matrix.T @ residuals, atol=tolerance)


def test_runs_of_hashes_give_the_same_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    rows, rng = random_rows(3, 20, 30, 16), np.random.default_rng(3)
    weights, residuals = rng.standard_normal((480, 5)).astype(np.float32), rng.standard_normal((20, 5))
    scores, gradient = rows.scores(weights), rows.gradient(residuals)
    np.testing.assert_array_equal(scores, rows.decoded().scores(weights))
    monkeypatch.setattr(onehot, "CACHE_BYTES", 1)
    monkeypatch.setattr(onehot, "LEAST_RUN", 1)
    np.testing.assert_array_equal(rows.scores(weights), scores)
    np.testing.assert_array_equal(rows.gradient(residuals), gradient)


@given(shape=shapes, data=st.data())
def test_selections_and_copies(shape: tuple[int, int, int, int], data: st.DataObject) -> None:
    seed, n_rows, n_hashes, n_codes = shape
    rows = random_rows(seed, n_rows, n_hashes, n_codes)
    matrix = full(rows)
    index = np.array(data.draw(st.lists(st.integers(0, n_rows - 1), max_size=4) if n_rows else st.just([])), np.int64)
    start = data.draw(st.integers(0, n_rows))
    taken, part = rows.take(index), rows.part(start, n_rows)
    np.testing.assert_array_equal(full(taken), matrix[index])
    np.testing.assert_array_equal(full(part), matrix[start:])
    np.testing.assert_array_equal(rows.to_array(np.float64), matrix)
    assert rows.to_array().dtype == np.float32
    np.testing.assert_array_equal(rows.squared_norms(), matrix.sum(axis=1))
    assert rows.squared_norms().dtype == np.float64
    assert rows.nbytes == rows.codes.nbytes


@given(shape=shapes)
def test_decoded_rows_are_sorted_ones(shape: tuple[int, int, int, int]) -> None:
    rows = random_rows(*shape)
    plain = rows.decoded()
    assert isinstance(plain, Csr)
    assert (plain.data.dtype, plain.indices.dtype, plain.indptr.dtype) == (np.float32, np.int32, np.int64)
    assert (plain.data == 1).all()
    assert all((np.diff(plain.indices[a:b]) > 0).all() for a, b in zip(plain.indptr, plain.indptr[1:], strict=False))
    np.testing.assert_array_equal(plain.to_array(np.float64), full(rows))


def test_updates_touch_only_the_features_of_codes() -> None:
    rows = OneHot(np.array([[1, 255]], np.uint8), 2)
    weights = np.array([[np.nan], [1.0], [np.nan], [np.nan]])
    rows.subtract_gradient(np.array([[3.0]]), 0.5, weights)
    assert weights[1, 0] == 1.0 - 0.5 * 3.0
    assert np.isnan(weights[[0, 2, 3]]).all()


def test_codes_mapped_read_only_from_a_file_serve(tmp_path: Path) -> None:
    plain = random_rows(4, 6, 5, 7)
    np.save(tmp_path / "codes.npy", plain.codes)
    rows = OneHot(np.load(tmp_path / "codes.npy", mmap_mode="r"), 7)
    weights = np.random.default_rng(4).standard_normal((35, 2))
    np.testing.assert_array_equal(rows.scores(weights), plain.scores(weights))
    np.testing.assert_array_equal(rows.decoded().indices, plain.decoded().indices)


def test_more_features_than_int32_numbers_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ParamError, match="set `range`"):
        OneHot(np.zeros((1, 2**16), np.int32), 2**15)
    with pytest.raises(ParamError, match="at most 21,474 codes"):
        io.create_onehot(str(tmp_path / "X"), 5, 100_000, 5, "uint16", 21_475)
    assert not (tmp_path / "X").exists()
    assert OneHot(np.zeros((1, 2**16), np.int32), 2**15 - 1).n_features == 2**31 - 2**16


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(shape=shapes, size=st.integers(1, 4))
def test_stores_keep_codes(tmp_path: Path, shape: tuple[int, int, int, int], size: int) -> None:
    seed, n_rows, n_hashes, n_codes = shape
    rows = random_rows(seed, n_rows, n_hashes, n_codes)
    dtype = str(rows.codes.dtype)
    blocks = io.create_onehot(str(tmp_path / "X"), n_rows, n_hashes, size, dtype, n_codes)
    assert io.facts_of(str(tmp_path / "X")) == io.StoreFacts("onehot", n_rows, n_hashes * n_codes, size, dtype)
    for block in blocks:
        digest = io.write_codes(block, rows.codes[block.start : block.stop])
        read = io.read_rows(block)
        assert isinstance(read, OneHot)
        assert read.n_codes == n_codes
        np.testing.assert_array_equal(read.codes, rows.codes[block.start : block.stop])
        assert io.rows_digest(read) == digest


@pytest.mark.parametrize("n_codes", [None, "5", 0, -3])
def test_a_store_that_does_not_say_how_many_codes_there_are_is_named(tmp_path: Path, n_codes: object) -> None:
    path = str(tmp_path / "X")
    (block,) = io.create_onehot(path, 2, 3, 2, "uint8", 5)
    io.write_codes(block, np.zeros((2, 3), np.uint8))
    io.write_attrs(path, {"n_codes": n_codes})
    with pytest.raises(io.StoreMetadata, match="X"):
        io.facts_of(path)
    with pytest.raises(io.StoreMetadata, match="X"):
        io.load_rows(block)
