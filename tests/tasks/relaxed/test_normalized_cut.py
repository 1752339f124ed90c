"""Normalised cut: the second eigenvector, the least Ncut along it, kernels as affinities, votes of classes."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tasks.errors import InputError
from tasks.relaxed.normalized_cut import as_affinity, normalized_cut, second_eigenvector, vote
from tasks.rows.base import Array
from tests.naive import normalized_cut as naive
from tests.strategies import seeds


def affinity_of(seed: int, n: int) -> Array:
    """Symmetric, positive, with a diagonal."""
    values = np.random.default_rng(seed).exponential(size=(n, n))
    return values + values.T


def planted(seed: int, sizes: list[int], outside: float) -> tuple[Array, Array]:
    """(affinity, part of each row): `outside` is the mean affinity between parts, 1 that within; rows are shuffled."""
    rng = np.random.default_rng(seed)
    parts = rng.permutation(np.repeat(np.arange(len(sizes)), sizes))
    affinity = np.where(parts[:, None] == parts[None, :], 1.0, outside) * affinity_of(seed, len(parts)) / 2
    return affinity, parts


def assert_two_sides(sides: Array, n: int) -> None:
    assert sides.dtype == np.int8
    assert sides.shape == (n,)
    assert set(sides.tolist()) == {-1, 1}


@given(seeds, st.integers(2, 14))
@settings(max_examples=40)
def test_the_cut_is_the_least_along_the_second_eigenvector(seed: int, n: int) -> None:
    affinity = affinity_of(seed, n)
    sides = normalized_cut(affinity)
    assert_two_sides(sides, n)
    least = naive.least_ncut_along(affinity, naive.second_eigenvector(affinity))
    assert naive.ncut(affinity, sides) == pytest.approx(least, abs=1e-7)


@given(seeds, st.integers(3, 14))
@settings(max_examples=40)
def test_the_eigenvector_is_that_of_the_generalised_problem(seed: int, n: int) -> None:
    affinity = affinity_of(seed, n)
    line, expected = second_eigenvector(affinity), naive.second_eigenvector(affinity)
    degrees = affinity.sum(axis=1)
    assert line @ degrees == pytest.approx(0, abs=1e-9 * np.sqrt(degrees.max()))
    residual = degrees * line - affinity @ line
    value = (line @ residual) / (line @ (degrees * line))
    np.testing.assert_allclose(residual, value * degrees * line, atol=1e-8 * np.sqrt(degrees.max()))
    laplacian = np.diag(degrees) - affinity
    assert value == pytest.approx((expected @ laplacian @ expected) / (expected @ (degrees * expected)), abs=1e-9)
    assert line[np.abs(line).argmax()] > 0


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("outside", [0.0, 0.05])
def test_planted_sides_are_found(seed: int, outside: float) -> None:
    affinity, parts = planted(seed, [9, 16], outside)
    sides = normalized_cut(affinity)
    assert_two_sides(sides, 25)
    assert np.unique(sides[parts == 0]).size == np.unique(sides[parts == 1]).size == 1


@pytest.mark.parametrize("seed", range(6))
def test_no_part_of_several_separate_ones_is_cut(seed: int) -> None:
    affinity, parts = planted(seed, [3, 7, 5, 4], 0.0)
    sides = normalized_cut(affinity)
    assert_two_sides(sides, 19)
    assert all(np.unique(sides[parts == part]).size == 1 for part in range(4))
    assert naive.ncut(affinity, sides) == pytest.approx(0, abs=1e-9)


@pytest.mark.parametrize("seed", range(6))
def test_the_order_of_the_rows_does_not_matter(seed: int) -> None:
    affinity, _ = planted(seed, [7, 12], 0.2)
    shuffled = np.random.default_rng(seed).permutation(19)
    sides, again = normalized_cut(affinity), normalized_cut(affinity[np.ix_(shuffled, shuffled)])
    np.testing.assert_array_equal(again * again[0], sides[shuffled] * sides[shuffled[0]])


def test_rows_without_affinity_do_not_make_a_side_of_their_own() -> None:
    affinity, parts = planted(3, [6, 8], 0.1)
    wide = np.zeros((16, 16))
    wide[:14, :14] = affinity
    sides = normalized_cut(wide)
    assert {abs(int(sides[:14][parts == part].sum())) for part in range(2)} == {6, 8}
    assert_two_sides(sides[:14], 14)


@pytest.mark.parametrize("n", [2, 5])
def test_without_any_affinity_rows_are_halved(n: int) -> None:
    np.testing.assert_array_equal(normalized_cut(np.zeros((n, n))), np.where(np.arange(n) < n // 2, -1, 1))


def test_the_same_affinity_gives_the_same_sides() -> None:
    affinity, _ = planted(11, [20, 25], 0.7)
    np.testing.assert_array_equal(normalized_cut(affinity.copy()), normalized_cut(affinity))


def test_kernels_are_raised_to_affinities_only_if_needed() -> None:
    kernel = np.array([[2, -3], [-3, 1]], np.float32)
    affinity, shift = as_affinity(kernel)
    assert shift == 3.0
    assert affinity.dtype == np.float64
    np.testing.assert_array_equal(affinity, [[5, 0], [0, 4]])
    np.testing.assert_array_equal(kernel, [[2, -3], [-3, 1]])
    again, none = as_affinity(affinity)
    assert none == 0.0
    np.testing.assert_array_equal(again, affinity)


@pytest.mark.parametrize("wrong", [-1e-3, np.nan, np.inf])
def test_what_is_no_affinity_is_refused(wrong: float) -> None:
    affinity = np.ones((3, 3))
    affinity[1, 2] = affinity[2, 1] = wrong
    with pytest.raises(InputError, match="affinities below 0"):
        normalized_cut(affinity)


def test_one_row_cannot_be_cut() -> None:
    with pytest.raises(InputError, match="1 rows"):
        normalized_cut(np.ones((1, 1)))


@given(seeds, st.integers(0, 30), st.integers(1, 6))
@settings(max_examples=40)
def test_classes_take_the_side_of_most_rows(seed: int, n: int, n_classes: int) -> None:
    rng = np.random.default_rng(seed)
    sides, classes = rng.choice(np.array([-1, 1], np.int8), n), rng.integers(0, n_classes, n)
    colors = vote(sides, classes, n_classes)
    assert colors.dtype == np.int8
    np.testing.assert_array_equal(colors, naive.majority(sides, classes, n_classes))


@pytest.mark.parametrize("n", [50, 112, 500])
def test_rows_that_have_nothing_in_common_are_cut_all_the_same(n: int) -> None:
    assert set(normalized_cut(np.eye(n)).tolist()) == {-1, 1}
