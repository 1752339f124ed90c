"""Scores of PQ codes by 16-bit tables: twice the columns per cache line, at an error with a bound.

An entry is the product of a centroid b with its part w of a column of the weights, in steps of the column's scale s,
rounded to an integer: |<w, b> / s - entry| <= 1/2. Entries of SUM_OF subquantizers are added in 16 bits, these sums in
32 bits, and the result times s is the score.

No sum overflows. By Cauchy-Schwarz |<w, b>| <= |w| max |b| =: r, and s is at least the sum of r over any SUM_OF
neighbours, divided by LARGEST. Float32 rounding makes a computed product of t terms at most (1 + (t + 3) 2^-24) r, so
the magnitudes of SUM_OF entries add up to at most (1 + (t + 3) 2^-24) LARGEST + SUM_OF / 2, which is below 2^15 for any
t < 300,000; a partial sum, in whatever order, is no larger. 32 bits hold 65,536 such sums, a million subquantizers.

The error of a score is at most n_subquantizers * s / 2, and the rounding of float32 that float32 tables have as well.
"""

from __future__ import annotations

import numpy as np

from tasks.emit import LANES, LINE, Array, address
from tasks.later import numba
from tasks.quantize.tables import TABLE, aligned
from tasks.quantize.vectors import (
    GROUP,
    TABLE_BYTES,
    UNIT,
    add_unit16,
    add_units16,
    round_eight,
    round_one,
    scale_lines,
    scale_unit16,
    scale_units16,
)

SUM_OF = UNIT * GROUP  # subquantizers whose entries are added in 16 bits
LARGEST = 32_000  # of a sum of unrounded entries' magnitudes; 2^15 less room for rounding
AT_ONCE = 2  # units whose tables one pass over the rows looks up: half a second-level cache
LEAST_SCALE = np.float32(2.0**-100)  # so that its inverse is finite; scores this small are 0


@numba.njit(cache=True, nogil=True)
def largest_norms(codebooks: Array) -> Array:
    """(n_subquantizers,) float64: the norm of each subquantizer's longest centroid."""
    n_subquantizers, n_centroids, width = codebooks.shape
    out = np.zeros(n_subquantizers)
    for q in range(n_subquantizers):
        for c in range(n_centroids):
            norm = 0.0
            for t in range(width):
                norm += np.float64(codebooks[q, c, t]) ** 2
            out[q] = max(out[q], norm)
    return np.sqrt(out)


@numba.njit(cache=True, nogil=True)
def sum_squares(weights: Array, width: int) -> Array:
    """(n_subquantizers, n_outputs) float64: of the `width` weights of each subquantizer's part of each column."""
    n_features, n_outputs = weights.shape
    out = np.zeros((n_features // width, n_outputs))
    for f in range(n_features):
        source, target = weights[f], out[f // width]
        for j in range(n_outputs):
            target[j] += np.float64(source[j]) * np.float64(source[j])
    return out


def scales_of(codebooks: Array, weights: Array) -> Array:
    """(n_outputs,) float32: the step of each column's entries."""
    reach = np.sqrt(sum_squares(weights, codebooks.shape[2])) * largest_norms(codebooks)[:, None]
    sums = np.add.reduceat(reach, np.arange(0, len(codebooks), SUM_OF), axis=0)
    scales: Array = np.maximum(np.float32(sums.max(axis=0) / LARGEST), LEAST_SCALE)
    return scales


def error_bound(codebooks: Array, weights: Array) -> Array:
    """(n_outputs,) float64: what rounding the entries can change in any score of a column."""
    return 0.5 * len(codebooks) * scales_of(codebooks, weights).astype(np.float64)


@numba.njit(cache=True, nogil=True)
def cut_scaled(weights: Array, row: int, n_rows: int, first: int, inverse: Array, out: Array) -> None:
    """out[i * 2 * LANES + j] = weights[row + i, first + j] * inverse[j], 0 beyond the last column."""
    part = weights[row : row + n_rows, first : first + 2 * LANES]
    if part.shape[1] == 2 * LANES:
        for i in range(n_rows):
            scale_lines((address(out) + i * 2 * LINE, address(part) + i * part.strides[0], address(inverse)))
        return
    for i in range(n_rows):
        target = out[2 * LANES * i : 2 * LANES * (i + 1)]
        for j in range(part.shape[1]):
            target[j] = part[i, j] * inverse[j]
        target[part.shape[1] :] = 0


@numba.njit(cache=True, nogil=True)
def fill_table(book: int, n_centroids: int, width: int, panel: Array, out: int) -> None:
    """The entries of each centroid for 2 * LANES columns; panel (width * 2 * LANES,) weights over their scales."""
    whole = n_centroids - n_centroids % 8
    for c in range(0, whole, 8):
        round_eight((out + c * LINE, book + 4 * c * width, 4 * width, 4, address(panel), width))
    for c in range(whole, n_centroids):
        round_one((out + c * LINE, book + 4 * c * width, 4 * width, 4, address(panel), width))


@numba.njit(cache=True, nogil=True)
def fill_tables(
    codebooks: Array, weights: Array, inverse: Array, unit: int, first: int, panel: Array, tables: Array
) -> None:
    """The entries of SUM_OF subquantizers, SUM_OF * unit first, for 2 * LANES columns; entry 0 is 0 beyond the last.

    inverse (2 * LANES,) of the columns' scales; panel (SUM_OF * width * 2 * LANES,) working space; tables float32
    """
    n_subquantizers, n_centroids, width = codebooks.shape
    q, size = SUM_OF * unit, min(SUM_OF, n_subquantizers - SUM_OF * unit)
    cut_scaled(weights, q * width, size * width, first, inverse, panel)
    for k in range(size):
        book, out = address(codebooks) + 4 * (q + k) * n_centroids * width, address(tables) + k * TABLE_BYTES
        fill_table(book, n_centroids, width, panel[k * width * 2 * LANES :], out)
    for k in range(size, SUM_OF):
        tables[k * TABLE : k * TABLE + LANES] = 0


@numba.njit(cache=True, nogil=True)
def look_up(units: Array, tables: Array, sums: int, sum_step: int, target: Array) -> None:
    """target[i] = sums[i] + the entries that the codes of units[:, i] select, 32-bit integers.

    units (AT_ONCE or 1, n_rows, UNIT) uint64
    """
    n_units, n_rows, _ = units.shape
    codes, entries, stride = address(units), address(tables), units.strides[0]
    if n_units == AT_ONCE:
        for i in range(n_rows):
            add_units16((address(target) + 2 * LINE * i, sums + i * sum_step, entries, codes + 8 * UNIT * i, stride))
    else:
        for i in range(n_rows):
            add_unit16((address(target) + 2 * LINE * i, sums + i * sum_step, entries, codes + 8 * UNIT * i, stride))


@numba.njit(cache=True, nogil=True)
def finish(units: Array, tables: Array, sums: int, sum_step: int, scales: Array, first: int, out: Array) -> None:
    """As `look_up`, for the last units: out = scales * (sums + entries) for the 2 * LANES columns from `first`."""
    n_units, n_rows, _ = units.shape
    codes, entries, stride, steps = address(units), address(tables), units.strides[0], address(scales)
    target, step = address(out) + 4 * first, out.strides[0]
    if n_units == AT_ONCE:
        for i in range(n_rows):
            scale_units16((target + i * step, sums + i * sum_step, entries, codes + 8 * UNIT * i, stride, steps))
    else:
        for i in range(n_rows):
            scale_unit16((target + i * step, sums + i * sum_step, entries, codes + 8 * UNIT * i, stride, steps))


@numba.njit(cache=True, nogil=True)
def set_scores(words: Array, codebooks: Array, weights: Array, scales: Array, out: Array) -> None:
    """out = X W for the rows of one part.

    words (n_units, n_rows, UNIT) uint64 C order; codebooks (n_subquantizers, n_centroids, width) float32 C order;
    weights (n_subquantizers * width, n_outputs) and out (n_rows, n_outputs) float32 C order; scales (n_outputs,)
    """
    n_rows, n_outputs = out.shape
    panel, tables = aligned(SUM_OF * codebooks.shape[2] * 2 * LANES), aligned(AT_ONCE * SUM_OF * TABLE)
    sums, zero = aligned(n_rows * 2 * LANES), aligned(2 * LANES)
    step, inverse = aligned(2 * LANES), aligned(2 * LANES)
    zero[:] = 0
    for first in range(0, n_outputs, 2 * LANES):
        n_columns = min(2 * LANES, n_outputs - first)
        for j in range(2 * LANES):
            step[j] = scales[first + j] if j < n_columns else np.float32(1)
            inverse[j] = np.float32(1) / step[j]
        for start in range(0, len(words), AT_ONCE):
            units = words[start : start + AT_ONCE]
            for k in range(len(units)):
                fill_tables(codebooks, weights, inverse, start + k, first, panel, tables[k * SUM_OF * TABLE :])
            source, source_step = (address(sums), 2 * LINE) if start > 0 else (address(zero), 0)
            if start + AT_ONCE >= len(words) and n_columns == 2 * LANES:
                finish(units, tables, source, source_step, step, first, out)
            else:
                look_up(units, tables, source, source_step, sums)
        if n_columns < 2 * LANES:
            totals = sums.view(np.int32)
            for i in range(n_rows):
                for j in range(n_columns):
                    out[i, first + j] = step[j] * np.float32(totals[2 * LANES * i + j])
