"""The best bias of a direction against all its candidates, and its best length."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.svm.bias import best_bias, best_stretch
from tests.naive import svm as naive
from tests.strategies import seeds


@given(seed=seeds, n=st.integers(2, 12), equal=st.booleans(), grid=st.booleans())
def test_it_is_the_middle_of_the_minimisers(seed: int, n: int, equal: bool, grid: bool) -> None:
    rng = np.random.default_rng(seed)
    sides = np.append(np.sign(rng.random(n - 2) - 0.5), [1, -1])
    scores = rng.integers(-3, 4, n) / 2.0 if grid else rng.normal(size=n)
    costs = np.ones(n, np.float32) if equal else rng.integers(1, 5, n).astype(np.float32)
    assert best_bias(scores, sides, costs) == pytest.approx(naive.best_bias(scores, sides, costs), abs=1e-9)


@given(seed=seeds, n=st.integers(2, 30))
def test_turned_sides_turn_it(seed: int, n: int) -> None:
    rng = np.random.default_rng(seed)
    sides = np.append(np.sign(rng.random(n - 2) - 0.5), [1, -1])
    scores, costs = rng.normal(size=n), rng.random(n).astype(np.float32) + np.float32(0.1)
    assert best_bias(-scores, -sides, costs) == -best_bias(scores, sides, costs)


def test_apart_it_lies_half_way() -> None:
    scores, sides = np.array([3.0, 8.0, -2.0, -5.0]), np.array([1, 1, -1, -1])
    assert best_bias(scores, sides, np.ones(4)) == -0.5


def test_a_cost_counts_as_so_many_rows() -> None:
    rng = np.random.default_rng(3)
    scores, sides = rng.normal(size=9), np.array([1, -1, 1, 1, -1, -1, 1, -1, 1])
    times = rng.integers(1, 5, 9)
    repeated = best_bias(np.repeat(scores, times), np.repeat(sides, times), np.ones(times.sum()))
    assert best_bias(scores, sides, times.astype(np.float32)) == repeated


@given(seed=seeds, n=st.integers(1, 12), norm=st.sampled_from([0.01, 1.0, 100.0]), shift=st.sampled_from([-1.0, 0.5]))
def test_no_other_stretch_is_better(seed: int, n: int, norm: float, shift: float) -> None:
    rng = np.random.default_rng(seed)
    margins, costs = rng.normal(size=n) + shift, rng.random(n) * 10

    def objective(t: float) -> float:
        return 0.5 * t * t * norm + float(costs @ np.maximum(0.0, 1.0 - t * margins))

    found = best_stretch(margins, costs, norm)
    bends = [1.0 / m for m in margins if 0 < m < 1]
    others = np.concatenate([[1.0], bends, np.geomspace(1.0, 1e4, 400)])
    assert found >= 1.0
    assert objective(found) <= min(objective(float(t)) for t in others) * (1 + 1e-9)


def test_nothing_is_stretched_that_has_no_length() -> None:
    assert best_stretch(np.array([0.5, -0.5]), np.ones(2), 0.0) == 1.0
    assert best_stretch(np.array([2.0, 3.0]), np.ones(2), 1.0) == 1.0
