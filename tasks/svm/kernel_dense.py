"""Sums over features for all pairs of dense rows, in one order of addition whatever the shape of the block.

A BLAS product may change its last bits with the block's shape, so none is used. The features of LANES other rows lie
beside each other, and a vector instruction takes one feature of several pairs: each pair is summed feature by feature,
four at a time, RUN features in the rows' own dtype and the runs in float64. The terms are symmetric, so the sum of
(x, y) has the bits of that of (y, x), and differences are squared before they are added: nothing cancels.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tasks.later import numba
from tasks.rows.base import Array

PRODUCTS, SQUARES, MINIMA, RATIOS = range(4)  # x y; (x - y)^2; min(x, y); (x - y)^2 / (x + y)

LANES = 128  # other rows beside each other
RUN = 64  # features summed before they are added to float64: with LANES of float32, 32 KB
ROWS_AT_ONCE = 256
LINE = 64  # bytes of a cache line


def dense_tiles(terms: int, rows: Array, others: Array) -> Iterator[tuple[slice, slice, Array]]:
    """Of every pair the sum of its terms, tile by tile: (which rows, which others, sums float64, overwritten later).

    terms   PRODUCTS, SQUARES, MINIMA or RATIOS (0 / 0 counts as 0)
    rows    (n, d) float16, float32 or float64; others (m, d); the wider of the two dtypes, at least float32, is used
    """
    dtype = np.result_type(rows.dtype, others.dtype, np.float32)
    rows = np.ascontiguousarray(rows, dtype)
    panel, sums = aligned((rows.shape[1], LANES), dtype), aligned((ROWS_AT_ONCE, LANES), np.float64)
    part = aligned((LANES,), dtype)
    for first in range(0, len(others), LANES):
        beside = np.ascontiguousarray(others[first : first + LANES], dtype)
        turn(beside, panel)
        for start in range(0, len(rows), ROWS_AT_ONCE):
            some = rows[start : start + ROWS_AT_ONCE]
            add_terms(terms, some, panel, part, sums)
            where = slice(start, start + len(some)), slice(first, first + len(beside))
            yield *where, sums[: len(some), : len(beside)]


def aligned(shape: tuple[int, ...], dtype: np.typing.DTypeLike) -> Array:
    """Zeros that start at a cache line: a vector across two lines costs two loads."""
    size = int(np.prod(shape)) * np.dtype(dtype).itemsize
    raw = np.zeros(size + LINE, np.uint8)
    skip = -raw.ctypes.data % LINE
    return raw[skip : skip + size].view(dtype).reshape(shape)


@numba.njit(cache=True, nogil=True)
def turn(others: Array, panel: Array) -> None:
    """panel[k, j] <- others[j, k]: (m <= LANES, d) -> (d, LANES); lanes without an other stay what they were."""
    n_others, n_features = others.shape
    for start in range(0, n_features, 16):
        stop = min(start + 16, n_features)
        for j in range(n_others):
            for k in range(start, stop):
                panel[k, j] = others[j, k]


@numba.njit(cache=True, nogil=True)
def add_terms(terms: int, rows: Array, panel: Array, part: Array, sums: Array) -> None:
    """sums[i, j] <- sum over k of term(rows[i, k], panel[k, j]).

    rows (n, d), panel (d, LANES) of one dtype; part (LANES,) of that dtype: room; sums (>= n, LANES) float64
    """
    sums[: len(rows)] = 0.0
    for start in range(0, rows.shape[1], RUN):
        tile = panel[start : start + RUN]
        for i in range(rows.shape[0]):
            row = rows[i, start : start + RUN]
            part[:] = 0.0
            if terms == PRODUCTS:
                add_products(row, tile, part)
            elif terms == SQUARES:
                add_squares(row, tile, part)
            elif terms == MINIMA:
                add_minima(row, tile, part)
            else:
                add_ratios(row, tile, part)
            total = sums[i]
            for j in range(part.size):
                total[j] += part[j]


@numba.njit(cache=True, nogil=True)
def add_products(row: Array, tile: Array, part: Array) -> None:
    """part[j] += sum over k of x y. row (k,), tile (k, LANES), part (LANES,), as in all of these"""
    whole = row.size // 4 * 4
    for k in range(0, whole, 4):
        x0, x1, x2, x3 = row[k], row[k + 1], row[k + 2], row[k + 3]
        y0, y1, y2, y3 = tile[k], tile[k + 1], tile[k + 2], tile[k + 3]
        for j in range(part.size):
            part[j] += (x0 * y0[j] + x1 * y1[j]) + (x2 * y2[j] + x3 * y3[j])
    for k in range(whole, row.size):
        x, y = row[k], tile[k]
        for j in range(part.size):
            part[j] += x * y[j]


@numba.njit(cache=True, nogil=True)
def add_squares(row: Array, tile: Array, part: Array) -> None:
    """part[j] += sum over k of (x - y)^2."""
    whole = row.size // 4 * 4
    for k in range(0, whole, 4):
        x0, x1, x2, x3 = row[k], row[k + 1], row[k + 2], row[k + 3]
        y0, y1, y2, y3 = tile[k], tile[k + 1], tile[k + 2], tile[k + 3]
        for j in range(part.size):
            a, b, c, d = x0 - y0[j], x1 - y1[j], x2 - y2[j], x3 - y3[j]
            part[j] += (a * a + b * b) + (c * c + d * d)
    for k in range(whole, row.size):
        x, y = row[k], tile[k]
        for j in range(part.size):
            part[j] += (x - y[j]) * (x - y[j])


@numba.njit(cache=True, nogil=True)
def add_minima(row: Array, tile: Array, part: Array) -> None:
    """part[j] += sum over k of min(x, y)."""
    whole = row.size // 4 * 4
    for k in range(0, whole, 4):
        x0, x1, x2, x3 = row[k], row[k + 1], row[k + 2], row[k + 3]
        y0, y1, y2, y3 = tile[k], tile[k + 1], tile[k + 2], tile[k + 3]
        for j in range(part.size):
            a, b = x0 if x0 < y0[j] else y0[j], x1 if x1 < y1[j] else y1[j]
            c, d = x2 if x2 < y2[j] else y2[j], x3 if x3 < y3[j] else y3[j]
            part[j] += (a + b) + (c + d)
    for k in range(whole, row.size):
        x, y = row[k], tile[k]
        for j in range(part.size):
            part[j] += x if x < y[j] else y[j]


@numba.njit(cache=True, nogil=True, error_model="numpy")  # a check for divisors of 0 would not vectorise
def add_ratios(row: Array, tile: Array, part: Array) -> None:
    """part[j] += sum over k of (x - y)^2 / (x + y) for x, y >= 0, where 0 / 0 counts as 0.

    Sums below the smallest normal float32 are raised to it: only 0 / 0 and what is far below a float32 sum changes.
    """
    least = np.float32(1.1754944e-38)
    for k in range(row.size):
        x, y = row[k], tile[k]
        for j in range(part.size):
            a, b = x - y[j], x + y[j]
            part[j] += a * a / (b if b > least else least)
