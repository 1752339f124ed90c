"""The singular spectrum of weights."""

from __future__ import annotations

import numpy as np
import pytest

from tasks.models.spectrum import MOST_SIDE, singular_values, within_reach
from tests.naive import spectrum as naive


@pytest.mark.parametrize("shape", [(1, 1), (3, 1), (1, 4), (5, 5), (40, 3), (3, 40), (13, 4)])
def test_singular_values_match_their_definition(shape: tuple[int, int]) -> None:
    weights = np.random.default_rng(shape[0] * 100 + shape[1]).normal(size=shape).astype(np.float32)
    found = singular_values(weights)
    assert found.shape == (min(shape),)
    assert found.dtype == np.float64
    np.testing.assert_allclose(found, naive.singular_values(weights), rtol=1e-9)


def test_low_rank_leaves_values_of_zero() -> None:
    random = np.random.default_rng(7)
    weights = random.normal(size=(50, 2)) @ random.normal(size=(2, 9))
    found = singular_values(weights)
    assert np.all(found[:2] > 1)
    assert np.all(found[2:] < 1e-12 * found[0])
    assert not singular_values(np.zeros((4, 3), np.float32)).any()
    assert singular_values(np.zeros((4, 0), np.float32)).size == 0


def test_what_takes_too_long_or_too_much_is_out_of_reach() -> None:
    assert within_reach(4096, 200)
    assert within_reach(10_000_000, 50)
    assert not within_reach(10_000_000, 200)
    assert not within_reach(MOST_SIDE + 1, MOST_SIDE + 1)
    assert not within_reach(0, 5)
