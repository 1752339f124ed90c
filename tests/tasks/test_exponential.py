"""Exponentials, logarithms, maxima and sums of rows against the definition."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from tasks.exponential import LANES, dot, largest, lower_and_raise32, lower_and_raise64, subtract_x_log_x, total

FINITE = st.floats(-200, 200, width=32)
ROWS = hnp.arrays(np.float32, st.integers(1, 2 * LANES + 3), elements=FINITE)
ULP = 2.0**-23


def raised32(row: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(e^(row - max), row - max) of float32."""
    out, lowered, room = row.copy(), np.empty_like(row), np.empty_like(row)
    lower_and_raise32(out, row.max(), lowered, room, room.view(np.int32), out.view(np.int32))
    return out, lowered


@given(ROWS)
def test_powers_match_their_definition(row: np.ndarray) -> None:
    powers, lowered = raised32(row)
    expected = [math.exp(float(value)) for value in lowered]  # of the difference in float32
    np.testing.assert_allclose(powers, expected, rtol=1.1 * ULP)
    np.testing.assert_array_equal(lowered, np.maximum(row - row.max(), np.float32(-87)))


@pytest.mark.parametrize("reach", [1.0, 87.0])
def test_powers_of_a_long_row_are_a_unit_in_the_last_place_off_at_most(reach: float) -> None:
    row = np.linspace(-reach, 0, 20001, dtype=np.float32)
    powers, _ = raised32(row)
    exact = np.exp(row.astype(np.float64))
    assert (np.abs(powers - exact) <= np.spacing(powers)).all()


def test_the_ends_are_exact_and_nothing_overflows() -> None:
    powers, _ = raised32(np.array([0.0, -1e38, 1e38], np.float32))
    assert powers[2] == 1.0
    assert 0 < powers[0] == powers[1] < 2e-38


def test_what_is_not_a_number_stays_so() -> None:
    row = np.array([0.0, np.nan], np.float32)
    lowered, room = np.empty_like(row), np.empty_like(row)
    lower_and_raise32(row, np.float32(0), lowered, room, room.view(np.int32), row.view(np.int32))
    assert np.isnan(row[1])


@given(ROWS)
def test_float64_is_the_library_s(row: np.ndarray) -> None:
    wide = row.astype(np.float64)
    out, lowered = wide.copy(), np.empty_like(wide)
    lower_and_raise64(out, wide.max(), lowered)
    np.testing.assert_array_equal(lowered, wide - wide.max())
    np.testing.assert_allclose(out, np.exp(lowered), rtol=1e-15)


@given(ROWS)
def test_largest_sum_and_product(row: np.ndarray) -> None:
    few, lanes = np.empty(LANES, np.float32), np.empty(LANES)
    assert largest(row, few) == max(row.tolist())
    assert total(row, lanes) == pytest.approx(math.fsum(row.tolist()), rel=1e-12, abs=1e-10)
    products = [float(value * value) for value in row]  # in float32
    assert dot(row, row, lanes) == pytest.approx(math.fsum(products), rel=1e-12)


def test_a_row_of_none_sums_to_nothing() -> None:
    assert total(np.zeros(0, np.float32), np.empty(LANES)) == 0.0


@given(hnp.arrays(np.float64, st.integers(0, 40), elements=st.floats(1e-300, 1.0)))
def test_x_log_x(values: np.ndarray) -> None:
    expected = [2.0 - x * math.log(x) for x in values]
    fractions, out = np.empty_like(values), np.full_like(values, 2.0)
    subtract_x_log_x(values.copy(), fractions, fractions.view(np.int64), out)
    np.testing.assert_allclose(out, expected, atol=1e-15, rtol=1e-15)
