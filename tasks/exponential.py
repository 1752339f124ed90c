"""Exponentials, logarithms, maxima and sums over a row, as loops that compilers turn into vector instructions.

Neither calls of library functions nor sums in one order vectorise, and numba is not allowed to reorder sums. So e^x of
float32 and log of float64 are polynomials here (reduction in two parts after Cody & Waite 1980, the coefficients of
Cephes' expf, the series of artanh), and a row is summed in LANES interleaved parts: an order as fixed as any.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tasks.later import numba
from tasks.rows.base import Array

LANES = 32  # parts of a row that are summed beside each other

LOG2_E = np.float32(1.4426950408889634)
ROUNDER = np.float32(12582912.0)  # 1.5 x 2^23: what is added to it loses its fraction
LN2_HIGH = np.float32(0.693359375)  # ln 2 in two parts: the first has so few bits that its products are exact
LN2_LOW = np.float32(-2.12194440e-4)
LOWEST = np.float32(-87.0)  # e^x is nearly the smallest normal float32
ONE = np.float32(1.0)
E7, E6, E5, E4, E3, E2 = (
    np.float32(c)
    for c in (1.9875691500e-4, 1.3981999507e-3, 8.3334519073e-3, 4.1665795894e-2, 1.6666665459e-1, 5.0000001201e-1)
)

LN2 = 0.6931471805599453
SQRT2 = 1.4142135623730951
MANTISSA, EXPONENT_OF_ONE = np.int64((1 << 52) - 1), np.int64(1023 << 52)


@numba.njit(cache=True, nogil=True)
def lower_and_raise32(row: Array, highest: float, lowered: Array, turns: Array, turn_bits: Array, bits: Array) -> None:
    """row <- e^(row - highest), lowered <- row - highest; float32, at most 1 unit in the last place off down to -87.

    row, lowered  (n,) float32, row <= highest; what is below -87 counts as -87, so that e^x stays normal
    turns         (n,) float32, and turn_bits the same memory as int32: room for x / ln 2
    bits          (n,) int32: the same memory as row
    """
    for c in range(row.size):
        x = row[c] - highest
        x = LOWEST if x < LOWEST else x  # and not the other way round: what is not a number stays so
        lowered[c] = x
        turns[c] = x * LOG2_E + ROUNDER
    for c in range(row.size):
        whole = turns[c] - ROUNDER
        r = (lowered[c] - whole * LN2_HIGH) - whole * LN2_LOW
        series = ((((E7 * r + E6) * r + E5) * r + E4) * r + E3) * r + E2
        row[c] = (series * (r * r) + r) + ONE
    for c in range(row.size):  # times 2^whole: the low bits of ROUNDER + whole are whole, those above leave the word
        bits[c] = np.int32(bits[c] + np.int32(turn_bits[c] << 23))


@numba.njit(cache=True, nogil=True)
def lower_and_raise64(row: Array, highest: float, lowered: Array) -> None:
    """row <- e^(row - highest), lowered <- row - highest; float64, as exact as the library's exponential."""
    for c in range(row.size):
        lowered[c] = row[c] - highest
        row[c] = np.exp(lowered[c])


@numba.njit(cache=True, nogil=True)
def largest(row: Array, lanes: Array) -> Any:
    """max(row), n >= 1. lanes (LANES,) in the dtype of the row: room"""
    whole = row.size // LANES * LANES
    for j in range(LANES):
        lanes[j] = row[0]
    for start in range(0, whole, LANES):
        for j in range(LANES):
            lanes[j] = row[start + j] if row[start + j] > lanes[j] else lanes[j]
    for j in range(row.size - whole):
        lanes[j] = row[whole + j] if row[whole + j] > lanes[j] else lanes[j]
    half = LANES // 2
    while half:
        for j in range(half):
            lanes[j] = lanes[j + half] if lanes[j + half] > lanes[j] else lanes[j]
        half //= 2
    return lanes[0]


@numba.njit(cache=True, nogil=True)
def total(row: Array, lanes: Array) -> Any:
    """sum(row) in float64. lanes (LANES,) float64: room"""
    whole = row.size // LANES * LANES
    for j in range(LANES):
        lanes[j] = 0.0
    for start in range(0, whole, LANES):
        for j in range(LANES):
            lanes[j] += row[start + j]
    for j in range(row.size - whole):
        lanes[j] += row[whole + j]
    return _gathered(lanes)


@numba.njit(cache=True, nogil=True)
def dot(left: Array, right: Array, lanes: Array) -> Any:
    """left . right: products in their dtype, summed in float64. lanes (LANES,) float64: room"""
    whole = left.size // LANES * LANES
    for j in range(LANES):
        lanes[j] = 0.0
    for start in range(0, whole, LANES):
        for j in range(LANES):
            lanes[j] += left[start + j] * right[start + j]
    for j in range(left.size - whole):
        lanes[j] += left[whole + j] * right[whole + j]
    return _gathered(lanes)


@numba.njit(cache=True, nogil=True)
def _gathered(lanes: Array) -> Any:
    half = LANES // 2
    while half:
        for j in range(half):
            lanes[j] += lanes[j + half]
        half //= 2
    return lanes[0]


@numba.njit(cache=True, nogil=True, error_model="numpy")  # a check for divisors of 0 would not vectorise
def subtract_x_log_x(values: Array, fractions: Array, bits: Array, out: Array) -> None:
    """out -= x log x for each x of values in [1e-300, 1]; to within 1e-15.

    values (m,) float64, overwritten; fractions (m,) float64: room, and bits the same memory as int64; out (m,) float64
    log x = e ln 2 + 2 artanh s, s = (f - 1) / (f + 1), for x = 2^e f with f in [1/sqrt 2, sqrt 2): |s| < 0.172.
    """
    for m in range(values.size):
        fractions[m] = values[m]
    for m in range(values.size):
        exponent = np.float64((bits[m] >> 52) - 1023)
        bits[m] = (bits[m] & MANTISSA) | EXPONENT_OF_ONE
        out[m] -= values[m] * (exponent * LN2)
    for m in range(values.size):
        f = fractions[m]
        halved = f > SQRT2
        f = 0.5 * f if halved else f
        s = (f - 1.0) / (f + 1.0)
        q = s * s
        series = (
            (((((q * (1 / 17) + 1 / 15) * q + 1 / 13) * q + 1 / 11) * q + 1 / 9) * q + 1 / 7) * q + 1 / 5
        ) * q + 1 / 3
        out[m] -= values[m] * (2.0 * (s + s * q * series) + (LN2 if halved else 0.0))
