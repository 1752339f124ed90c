"""Exponentials of a row of scores at the speed of memory: what a softmax of many classes needs, in float32.

Every step is written out in float32 and every sum in a fixed order, so compilers vectorise it and the bits are the same
whatever the width of the vectors.
"""

from __future__ import annotations

import numba
import numpy as np

from tasks.rows.base import Array

LOWEST = np.float32(-87.0)  # below it e^x is taken for e^-87 = 1.6e-38, the end of float32's full precision
LOG2_E = np.float32(1.44269504)
LN2_HIGH, LN2_LOW = np.float32(0.693359375), np.float32(-2.12194440e-4)  # their sum is log 2; n x HIGH is exact
HALF, ONE = np.float32(0.5), np.float32(1.0)
# (e^r - 1 - r) / r^2 for |r| <= log(2) / 2, highest power first (Moshier, Cephes library, expf)
C5, C4, C3 = np.float32(1.9875691500e-4), np.float32(1.3981999507e-3), np.float32(8.3334519073e-3)
C2, C1, C0 = np.float32(4.1665795894e-2), np.float32(1.6666665459e-1), np.float32(5.0000001201e-1)
BIAS, MANTISSA = np.int32(127), np.int32(23)  # of a float32's exponent; bits behind it


@numba.njit(cache=True, nogil=True)
def lowered_powers(row: Array, highest: float, out: Array) -> None:
    """out[c] = e^(row[c] - highest), within 2e-7 of it relatively, where the difference is above LOWEST.

    row, out  (n,) float32, finite; may be the same; highest: float32, at least as large as all of row
    """
    for c in range(row.size):
        x = row[c] - highest
        x = x if x > LOWEST else LOWEST
        n = np.floor(x * LOG2_E + HALF)
        r = x - n * LN2_HIGH
        r = r - n * LN2_LOW
        p = ((((C5 * r + C4) * r + C3) * r + C2) * r + C1) * r + C0
        p = p * r * r + r + ONE
        power = np.int32((np.int32(n) + BIAS) << MANTISSA)  # the bits of 2^n
        out[c] = p * power.view(np.float32)


@numba.njit(cache=True, nogil=True)
def sum_in_four(row: Array) -> float:
    """The sum of row (n,) in float64: every fourth one together, then these four, then what was left over."""
    a, b, c, d = 0.0, 0.0, 0.0, 0.0
    whole = row.size - row.size % 4
    for i in range(0, whole, 4):
        a += np.float64(row[i])
        b += np.float64(row[i + 1])
        c += np.float64(row[i + 2])
        d += np.float64(row[i + 3])
    total = (a + b) + (c + d)
    for i in range(whole, row.size):
        total += np.float64(row[i])
    return total


@numba.njit(cache=True, nogil=True)
def largest(row: Array) -> float:
    """The largest of row (n >= 1,), without NaN; in the dtype of the row."""
    a, b, c, d = row[0], row[0], row[0], row[0]
    whole = row.size - row.size % 4
    for i in range(0, whole, 4):
        a = row[i] if row[i] > a else a
        b = row[i + 1] if row[i + 1] > b else b
        c = row[i + 2] if row[i + 2] > c else c
        d = row[i + 3] if row[i + 3] > d else d
    for i in range(whole, row.size):
        a = row[i] if row[i] > a else a
    a = b if b > a else a
    c = d if d > c else c
    return c if c > a else a  # type: ignore[no-any-return]  # a number of the row
