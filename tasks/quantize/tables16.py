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

import numba
import numpy as np

from tasks.quantize.tables import TABLE, aligned, cut
from tasks.quantize.vectors import (
    GROUP,
    HALVES,
    LANES,
    LINE,
    TABLE_BYTES,
    Array,
    add_entries16,
    emit_line16,
    round_eight,
    round_one,
    set_entries16,
)

SUM_OF = HALVES * GROUP  # subquantizers whose entries are added in 16 bits
LARGEST = 32_000  # of a sum of unrounded entries' magnitudes; 2^15 less room for rounding
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


def scales_of(codebooks: Array, weights: Array) -> Array:
    """(n_outputs,) float32: the step of each column's entries."""
    n_subquantizers, _, width = codebooks.shape
    parts = weights.reshape(n_subquantizers, width, -1)
    reach = np.sqrt(np.einsum("qtj,qtj->qj", parts, parts, dtype=np.float64)) * largest_norms(codebooks)[:, None]
    sums = np.add.reduceat(reach, np.arange(0, n_subquantizers, SUM_OF), axis=0)
    scales: Array = np.maximum(np.float32(sums.max(axis=0) / LARGEST), LEAST_SCALE)
    return scales


def error_bound(codebooks: Array, weights: Array) -> Array:
    """(n_outputs,) float64: what rounding the entries can change in any score of a column."""
    return 0.5 * len(codebooks) * scales_of(codebooks, weights).astype(np.float64)


@numba.njit(cache=True, nogil=True)
def fill_half(codebooks: Array, q: int, panel: Array, out: int) -> None:
    """The LANES entries of each centroid of q, from weights in steps of their scale; out is the first's address."""
    _, n_centroids, width = codebooks.shape
    book, row = codebooks.ctypes.data + 4 * q * n_centroids * width, 4 * width
    whole = n_centroids - n_centroids % 8
    for c in range(0, whole, 8):
        round_eight(out + c * LINE, LINE, book + c * row, row, 4, panel.ctypes.data, width)
    for c in range(whole, n_centroids):
        round_one(out + c * LINE, LINE, book + c * row, row, 4, panel.ctypes.data, width)


@numba.njit(cache=True, nogil=True)
def fill_tables(
    codebooks: Array, weights: Array, inverse: Array, pair: int, first: int, panel: Array, tables: Array
) -> None:
    """The entries of SUM_OF subquantizers, SUM_OF * pair first, for 2 * LANES columns; entry 0 is 0 beyond the last.

    inverse (2 * LANES,) of the columns' scales; panel (width * LANES,) working space; tables (SUM_OF * TABLE,) float32
    """
    n_subquantizers, _, width = codebooks.shape
    for k in range(SUM_OF):
        q = SUM_OF * pair + k
        if q >= n_subquantizers:
            tables[k * TABLE : k * TABLE + LANES] = 0
            continue
        for half in range(2):
            cut(weights, q * width, width, first + half * LANES, panel)
            for t in range(width):
                for j in range(LANES):
                    panel[t * LANES + j] *= inverse[half * LANES + j]
            fill_half(codebooks, q, panel, tables.ctypes.data + k * TABLE_BYTES + half * LINE // 2)


@numba.njit(cache=True, nogil=True)
def look_up(words: Array, pair: int, tables: Array, sums: Array) -> None:
    """sums[i] = (0 for the first pair, else sums[i]) + the entries that the codes of words[2 * pair :, i] select."""
    n_rows, target = words.shape[1], sums.ctypes.data
    source = words.ctypes.data + 8 * HALVES * pair * n_rows
    if pair == 0:
        for i in range(n_rows):
            set_entries16(target + 2 * LINE * i, tables.ctypes.data, source + 8 * i, 8 * n_rows)
    else:
        for i in range(n_rows):
            add_entries16(target + 2 * LINE * i, tables.ctypes.data, source + 8 * i, 8 * n_rows)


@numba.njit(cache=True, nogil=True)
def set_scores(words: Array, codebooks: Array, weights: Array, scales: Array, out: Array) -> None:
    """out = X W for the rows of one part.

    words (2 * n_pairs, n_rows) uint64 C order; codebooks (n_subquantizers, n_centroids, width) float32 C order;
    weights (n_subquantizers * width, n_outputs) and out (n_rows, n_outputs) float32 C order; scales (n_outputs,)
    """
    n_rows, n_outputs = out.shape
    sums, tables = aligned(n_rows * 2 * LANES), aligned(SUM_OF * TABLE)
    panel, step, inverse = aligned(codebooks.shape[2] * LANES), aligned(2 * LANES), aligned(2 * LANES)
    totals = sums.view(np.int32)
    for first in range(0, n_outputs, 2 * LANES):
        n_columns = min(2 * LANES, n_outputs - first)
        for j in range(2 * LANES):
            step[j] = scales[first + j] if j < n_columns else np.float32(1)
            inverse[j] = np.float32(1) / step[j]
        for pair in range(words.shape[0] // HALVES):
            fill_tables(codebooks, weights, inverse, pair, first, panel, tables)
            look_up(words, pair, tables, sums)
        if n_columns == 2 * LANES:
            for i in range(n_rows):
                target = out.ctypes.data + i * out.strides[0] + 4 * first
                emit_line16(target, sums.ctypes.data + 2 * LINE * i, step.ctypes.data)
                emit_line16(target + LINE, sums.ctypes.data + 2 * LINE * i + LINE, step.ctypes.data + LINE)
        else:
            for i in range(n_rows):
                for j in range(n_columns):
                    out[i, first + j] = step[j] * np.float32(totals[2 * LANES * i + j])
