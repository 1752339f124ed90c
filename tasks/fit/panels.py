"""Weights in panels of 16 outputs, and one pass over them per step: the last step's update and the next one's scores.

A step of few rows reads and writes all weights for few products each, so what counts is how often they pass by. Here a
block of FEATURES x 16 weights comes to the first cache once a step, takes what the rows of the last step give it, and
is multiplied by the rows of the next. Blocks lie in memory in the order in which they are needed:
[features / FEATURES][outputs / 16][FEATURES][16], missing outputs filled up with zeros.
"""

from __future__ import annotations

import numpy as np

from tasks.emit import LANES, LINE, address
from tasks.fit.vectors import HALF_TILE, TILE, add_half_tile, add_line, add_tile
from tasks.later import compiles, numba
from tasks.rows.base import Array

COMPILED = compiles()
FEATURES = 120  # of a block: 7.5 KB of weights, and as much of 16 rows, twice, stay in the first-level cache


def lines(*shape: int) -> Array:
    """Zeros (*shape, LANES) float32 whose lines start where cache lines do."""
    size = int(np.prod(shape, dtype=np.int64)) * LANES
    raw = np.zeros(size + LANES, np.float32)
    skip = -raw.ctypes.data % LINE // 4
    return raw[skip : skip + size].reshape(*shape, LANES)


def row_width(n: int) -> int:
    """Floats from a row to the next for n in each: an odd number of lines, so that rows meet in no set of a cache."""
    return (-(-n // LANES) | 1) * LANES


@numba.njit(cache=True, nogil=True)
def pack(weights: Array, panels: Array) -> None:
    """weights (n_features, n_outputs) float32 into panels (n_panels * n_features, LANES)."""
    n_features, n_outputs = weights.shape
    n_panels = (n_outputs + LANES - 1) // LANES
    for first in range(0, n_features, FEATURES):
        size = min(FEATURES, n_features - first)
        for p in range(n_panels):
            start = first * n_panels + p * size
            for j in range(size):
                source, target = weights[first + j, p * LANES : (p + 1) * LANES], panels[start + j]
                for c in range(source.size):
                    target[c] = source[c]


@numba.njit(cache=True, nogil=True)
def unpack(panels: Array, weights: Array) -> None:
    """The reverse of `pack`."""
    n_features, n_outputs = weights.shape
    n_panels = (n_outputs + LANES - 1) // LANES
    for first in range(0, n_features, FEATURES):
        size = min(FEATURES, n_features - first)
        for p in range(n_panels):
            start = first * n_panels + p * size
            for j in range(size):
                source, target = panels[start + j], weights[first + j, p * LANES : (p + 1) * LANES]
                for c in range(target.size):
                    target[c] = source[c]


@numba.njit(cache=True, nogil=True)
def add_products(out: int, left: int, row: int, step: int, right: int, n_lines: int, n: int) -> None:
    """out[r] += sum over k < n of left[r * row + k * step] * right[k], of n_lines lines; see `vectors`."""
    r = 0
    while n_lines - r >= TILE:
        add_tile((out + r * LINE, left + r * row, row, step, right, n))
        r += TILE
    while n_lines - r >= HALF_TILE:
        add_half_tile((out + r * LINE, left + r * row, row, step, right, n))
        r += HALF_TILE
    while n_lines > r:
        add_line((out + r * LINE, left + r * row, row, step, right, n))
        r += 1


@numba.njit(cache=True, nogil=True)
def step_through(
    panels: Array,
    n_features: int,
    before: Array,
    residuals: Array,
    n_before: int,
    after: Array,
    n_after: int,
    sums: Array,
) -> None:
    """weights += before' residuals; then sums = after @ weights.

    panels         (n_panels * n_features, LANES) float32, as of `pack`
    before, after  (most, row_width(n_features)) float32: rows of the last step and of the next, n_before and n_after
    residuals      (n_panels, most, LANES) float32: of the last step, times minus its length
    sums           (n_panels, most, LANES) float32
    """
    n_panels, most = sums.shape[0], sums.shape[1]
    width = 4 * before.shape[1]
    for p in range(n_panels):  # loops, which compile sooner than slices
        for i in range(n_after):
            for c in range(LANES):
                sums[p, i, c] = 0.0
    for first in range(0, n_features, FEATURES):
        size = min(FEATURES, n_features - first)
        for p in range(n_panels):
            block = address(panels) + (first * n_panels + p * size) * LINE
            if n_before:
                given = address(residuals) + p * most * LINE
                add_products(block, address(before) + 4 * first, 4, width, given, size, n_before)
            if n_after:
                target = address(sums) + p * most * LINE
                add_products(target, address(after) + 4 * first, width, 4, block, n_after, size)
