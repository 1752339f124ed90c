"""Lloyd's algorithm as sums over blocks: sums by definition, empty centroids, first centroids, the same bits again."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.quantize.kmeans import (
    ArrayOracle,
    CodebookSums,
    assign_and_sum,
    initial_codebooks,
    train_codebooks,
    updated,
)
from tasks.quantize.pq import encode
from tasks.rows.base import Array
from tasks.sums import tree_sum
from tests.naive import quantize as naive


@dataclass
class SplitOracle:
    """The same rows in parts, as blocks would hold them."""

    values: Array
    part_rows: int

    def initial_sample(self) -> Array:
        return self.values[: 4 * self.part_rows]

    def sums(self, codebooks: Array) -> CodebookSums:
        starts = range(0, len(self.values), self.part_rows)
        total: CodebookSums = tree_sum([assign_and_sum(self.values[i : i + self.part_rows], codebooks) for i in starts])
        return total


def clustered(seed: int, n_rows: int, n_clusters: int, width: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    centres = 10 * rng.standard_normal((n_clusters, width))
    points: np.ndarray = centres[rng.integers(n_clusters, size=n_rows)] + 0.1 * rng.standard_normal((n_rows, width))
    return points.astype(np.float32)


@given(seed=st.integers(0, 10**6), n_rows=st.integers(0, 9), width=st.integers(1, 3), n_centroids=st.integers(1, 5))
def test_sums_by_definition_and_over_parts(seed: int, n_rows: int, width: int, n_centroids: int) -> None:
    rng = np.random.default_rng(seed)
    values = rng.integers(-3, 4, (n_rows, 2 * width)).astype(np.float32)
    codebooks = rng.integers(-3, 4, (2, n_centroids, width)).astype(np.float32)
    found = assign_and_sum(values, codebooks)
    sums, counts, errors = naive.codebook_sums(values, encode(values, codebooks), codebooks)
    np.testing.assert_array_equal(found.sums, sums)
    np.testing.assert_array_equal(found.counts, counts)
    np.testing.assert_array_equal(found.errors, errors)
    cut = n_rows // 2
    joined = assign_and_sum(values[:cut], codebooks) + assign_and_sum(values[cut:], codebooks)
    np.testing.assert_array_equal(joined.sums, sums)
    np.testing.assert_array_equal(joined.counts, counts)
    assert joined.n_rows == n_rows
    assert found.error == errors.sum()


def test_first_centroids_are_distinct_rows_of_the_sample() -> None:
    values = np.repeat(np.arange(6, dtype=np.float32), 50)[:, None] * np.ones((1, 2), np.float32)
    codebooks = initial_codebooks(values, 2, 6, seed=3)
    for book in codebooks:
        assert sorted(book[:, 0]) == [0, 1, 2, 3, 4, 5]
    assert not np.array_equal(codebooks[0], codebooks[1])  # every subspace has an order of its own


def test_with_fewer_distinct_rows_first_centroids_repeat_and_stay_empty() -> None:
    values = np.array([[1.0], [2.0], [1.0], [-0.0], [0.0]], np.float32)
    trained = train_codebooks(ArrayOracle(values), 1, 8, iterations=5, seed=0)
    assert trained.errors[-1] == 0
    assert trained.empty == 5
    assert set(trained.codebooks[0, :, 0]) == {0.0, 1.0, 2.0}


@pytest.mark.parametrize("seed", range(3))
def test_the_error_never_grows_without_empty_centroids(seed: int) -> None:
    values = np.random.default_rng(seed).standard_normal((300, 4)).astype(np.float32)
    trained = train_codebooks(ArrayOracle(values), 2, 4, iterations=12, seed=seed)
    assert trained.empty == 0
    assert all(after <= before * (1 + 1e-6) for before, after in zip(trained.errors, trained.errors[1:], strict=False))
    codes = encode(values, trained.codebooks)
    away = values - naive.decode(codes, trained.codebooks)
    assert trained.errors[-1] == pytest.approx((away**2).sum() / len(values), rel=1e-5)


def test_centroids_are_means_of_their_rows() -> None:
    values = np.array([[0.0], [1.0], [10.0], [12.0]], np.float32)
    codebooks = np.array([[[0.0], [11.0]]], np.float32)
    assert updated(codebooks, assign_and_sum(values, codebooks), 0, 0).ravel().tolist() == [0.5, 11.0]


def test_an_empty_centroid_takes_half_of_the_worst_cluster() -> None:
    """Two tight pairs far apart under one centroid, and a centroid that nobody chose."""
    values = np.array([[-5.0], [-5.1], [5.0], [5.1], [40.0], [40.1]], np.float32)
    codebooks = np.array([[[0.0], [40.0], [900.0]]], np.float32)
    sums = assign_and_sum(values, codebooks)
    assert sums.counts.tolist() == [[4, 2, 0]]
    moved = updated(codebooks, sums, seed=1, round_index=0)
    assert abs(moved[0, 2, 0]) < 3  # beside the centroid of the largest error, not beside 40
    assert assign_and_sum(values, moved).counts.min() > 0
    trained = train_codebooks(ArrayOracle(values), 1, 3, iterations=10, seed=1)
    assert trained.errors[-1] < 0.01


def test_an_empty_centroid_stays_where_no_error_is_left() -> None:
    values = np.array([[1.0], [1.0]], np.float32)
    codebooks = np.array([[[1.0], [7.0]]], np.float32)
    np.testing.assert_array_equal(updated(codebooks, assign_and_sum(values, codebooks), 0, 0), codebooks)


def test_separated_clusters_are_found() -> None:
    values = clustered(2, n_rows=400, n_clusters=8, width=3)
    trained = train_codebooks(ArrayOracle(values), 1, 16, iterations=25, seed=0)
    assert trained.errors[-1] < 3 * 0.1**2 * 1.05  # the clusters' own spread
    assert trained.errors[-1] < trained.errors[0]


def test_parts_of_any_size_give_almost_the_same_and_equal_parts_the_same_bits() -> None:
    values = np.random.default_rng(6).standard_normal((256, 6)).astype(np.float32)
    first = train_codebooks(SplitOracle(values, 32), 3, 8, iterations=6, seed=4)
    again = train_codebooks(SplitOracle(values, 32), 3, 8, iterations=6, seed=4)
    np.testing.assert_array_equal(first.codebooks, again.codebooks)
    assert first.errors == again.errors
    other = train_codebooks(SplitOracle(values, 32), 3, 8, iterations=6, seed=5)
    assert not np.array_equal(first.codebooks, other.codebooks)


def test_no_rounds_keep_the_first_centroids() -> None:
    values = np.random.default_rng(7).standard_normal((20, 2)).astype(np.float32)
    trained = train_codebooks(ArrayOracle(values), 1, 4, iterations=0, seed=0)
    np.testing.assert_array_equal(trained.codebooks, initial_codebooks(values, 1, 4, 0))
    assert len(trained.errors) == 1
