"""Singular values and pairs against NumPy's full decomposition."""

from __future__ import annotations

import numpy as np
import pytest

from tasks.trace.singular import SMALL_SIDE, signed, thin_svd, top_pairs, values_above

SHAPES = [(1, 1), (1, 7), (9, 4), (30, 40), (SMALL_SIDE + 30, 2 * SMALL_SIDE), (3 * SMALL_SIDE, SMALL_SIDE + 1)]


def matrix_of(shape: tuple[int, int], seed: int = 3) -> np.ndarray:
    return np.random.default_rng([seed, *shape]).standard_normal(shape)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("count", [1, 3])
def test_top_pairs_are_those_of_the_full_decomposition(shape: tuple[int, int], count: int) -> None:
    matrix = matrix_of(shape)
    found, expected = top_pairs(matrix, count), np.linalg.svd(matrix, compute_uv=False)[:count]
    np.testing.assert_allclose(found.values, expected, rtol=1e-12)
    np.testing.assert_allclose(matrix @ found.v, found.u * found.values, atol=1e-11)
    np.testing.assert_allclose(found.u.T @ found.u, np.eye(expected.size), atol=1e-12)
    np.testing.assert_allclose(found.v.T @ found.v, np.eye(expected.size), atol=1e-12)
    assert found.error < 1e-6


@pytest.mark.parametrize("tolerance", [1.0, 1e-2, 1e-5])
@pytest.mark.parametrize("shape", SHAPES[-2:])
def test_a_loose_search_keeps_to_its_tolerance_and_its_error_bounds_it(
    shape: tuple[int, int], tolerance: float
) -> None:
    matrix = matrix_of(shape)
    found, values = top_pairs(matrix, 2, tolerance), np.linalg.svd(matrix, compute_uv=False)
    assert np.all(values[:2] - found.values <= tolerance)
    assert np.all(found.values <= values[:2] * (1 + 1e-12))
    assert all(np.abs(values - value).min() <= found.error + 1e-12 for value in found.values)


def test_a_start_orthogonal_to_nothing_in_particular_finds_gradients_whose_rows_sum_to_zero() -> None:
    matrix = matrix_of((100, 60))
    matrix -= matrix.mean(axis=1, keepdims=True)
    np.testing.assert_allclose(top_pairs(matrix).values, np.linalg.norm(matrix, 2), rtol=1e-12)


def test_equal_values_do_not_end_the_search() -> None:
    np.testing.assert_allclose(top_pairs(np.eye(70), 3).values, np.ones(3), rtol=1e-12)


def test_zero_and_fewer_than_asked() -> None:
    assert top_pairs(np.zeros((80, 70)), 2).values.tolist() == [0.0, 0.0]
    assert top_pairs(np.ones((4, 2)), 5).values.size == 2


def test_the_same_bits_twice() -> None:
    matrix = matrix_of((120, 90))
    one, two = top_pairs(matrix, 2), top_pairs(matrix.copy(), 2)
    assert one.u.tobytes() == two.u.tobytes()
    assert one.v.tobytes() == two.v.tobytes()


@pytest.mark.parametrize("shape", SHAPES)
def test_values_above_a_threshold(shape: tuple[int, int]) -> None:
    matrix = matrix_of(shape)
    every = np.linalg.svd(matrix, compute_uv=False)
    threshold = float(np.median(every)) * 0.999
    np.testing.assert_allclose(values_above(matrix, threshold), every[every > threshold], rtol=1e-10)
    assert values_above(matrix, float(every[0]) * 1.001).size == 0


def test_signs_make_the_largest_entry_of_u_positive() -> None:
    u, values, v = thin_svd(matrix_of((9, 4)))
    for turned in (u, -u, u * [1, -1, 1, -1]):
        fixed_u, fixed_v = signed(turned, v * (turned[0] / u[0]))
        assert np.all(fixed_u[np.argmax(np.abs(fixed_u), axis=0), np.arange(4)] > 0)
        np.testing.assert_allclose((fixed_u * values) @ fixed_v.T, matrix_of((9, 4)), atol=1e-12)
