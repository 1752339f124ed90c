"""Exponentials of a row of scores, their sum and the largest score, against the definition."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from tasks.exponential import largest, lowered_powers, sum_in_four

ROWS = hnp.arrays(np.float32, st.integers(1, 19), elements=st.floats(-200, 200, width=32))


def powers_of(row: np.ndarray) -> np.ndarray:
    out = np.empty_like(row)
    lowered_powers(row, row.max(), out)
    return out


@given(ROWS)
def test_powers_match_their_definition(row: np.ndarray) -> None:
    expected = [math.exp(max(float(value - row.max()), -87.0)) for value in row]  # the difference in float32
    np.testing.assert_allclose(powers_of(row), expected, rtol=2e-7)


@pytest.mark.parametrize("reach", [1.0, 90.0])
def test_powers_of_a_long_row(reach: float) -> None:
    row = np.linspace(-reach, 0, 2001, dtype=np.float32)
    expected = np.exp(np.maximum(row.astype(np.float64), -87))
    np.testing.assert_allclose(powers_of(row), expected, rtol=2e-7)


def test_the_ends_are_exact_and_nothing_overflows() -> None:
    row = np.array([0.0, -3e38, 3e38], np.float32)
    with np.errstate(over="ignore"):  # 3e38 + 3e38: only when the loop runs uncompiled
        found = powers_of(row)
    assert found[2] == 1.0
    assert 0 < found[0] == found[1] < 2e-38


def test_powers_may_take_the_place_of_the_row() -> None:
    row = np.linspace(-5, 0, 13, dtype=np.float32)
    expected = powers_of(row)
    lowered_powers(row, np.float32(0), row)
    np.testing.assert_array_equal(row, expected)


@given(ROWS)
def test_sum_and_largest(row: np.ndarray) -> None:
    assert sum_in_four(row) == pytest.approx(math.fsum(row.tolist()), rel=1e-12, abs=1e-10)
    assert largest(row) == max(row.tolist())


def test_a_row_of_none_sums_to_nothing() -> None:
    assert sum_in_four(np.zeros(0, np.float32)) == 0.0
