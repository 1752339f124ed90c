"""Products with PQ codes in float32, by tables that never leave the second-level cache.

Columns are taken LANES at a time. The tables of some subquantizers for these columns are filled, used by all rows of a
part and forgotten, so no table is written to memory, and the rows' sums pass by as one stream. Scores take UNIT * GROUP
subquantizers, 256 KB of tables: with 128 KB the first-level cache holds more of them, but sums are read and written
twice as often, from the last-level cache where rows are many; with 512 KB too little of the second level is left. X' R,
which writes its tables, takes GROUP.

What limits these loops is the random reading (and, for X' R, writing) of one cache line per code.
"""

from __future__ import annotations

import numpy as np

from tasks.emit import LANES, LINE, Array, address
from tasks.later import numba
from tasks.quantize.vectors import (
    GROUP,
    TABLE_BYTES,
    TILE,
    UNIT,
    add_unit,
    add_word,
    copy_line,
    multiply_eight,
    multiply_one,
    multiply_sixteen,
    multiply_two,
    multiply_width8,
    multiply_width16,
    scatter,
    subtract_line,
    turn_units,
    turn_words,
)

TABLE = TABLE_BYTES // 4  # float32 from one table to the next


@numba.njit(cache=True, nogil=True)
def aligned(n: int) -> Array:
    """n float32, uninitialised, the first at the start of a cache line: a vector across two lines costs two loads."""
    raw = np.empty(n + LANES, np.float32)
    skip = (-address(raw) % LINE) // 4
    return raw[skip : skip + n]


@numba.njit(cache=True, nogil=True)
def turn(words: Array, out: Array) -> None:
    """out[u, i] = words[i, u], uint64, by lines of out.

    words (n_rows, n_units, n) C order and out (n_units, n_rows, n), whose units may be apart; n either UNIT or 1
    """
    n_rows, n_units, n = words.shape
    row, step = 8 * n * n_units, out.strides[0]
    at_once = LINE // (8 * n)
    for i in range(0, n_rows - at_once + 1, at_once):
        source, target = address(words) + i * row, address(out) + 8 * n * i
        if n == UNIT:
            for u in range(n_units):
                turn_units((target + u * step, source + 8 * UNIT * u, row))
        else:
            for u in range(n_units):
                turn_words((target + u * step, source + 8 * u, row))
    for i in range(n_rows - n_rows % at_once, n_rows):
        for u in range(n_units):
            for k in range(n):
                out[u, i, k] = words[i, u, k]


@numba.njit(cache=True, nogil=True)
def cut(matrix: Array, row: int, n_rows: int, first: int, out: Array) -> None:
    """out[i * LANES + j] = matrix[row + i, first + j], 0 beyond the last column; rows of the matrix are contiguous."""
    part = matrix[row : row + n_rows, first : first + LANES]
    n_columns = part.shape[1]
    if n_columns == LANES:
        for i in range(n_rows):
            copy_line((address(out) + i * LINE, address(part) + i * part.strides[0]))
        return
    for i in range(n_rows):
        target = out[i * LANES : (i + 1) * LANES]
        for j in range(n_columns):
            target[j] = part[i, j]
        target[n_columns:] = 0


@numba.njit(cache=True, nogil=True)
def multiply(left: int, row: int, step: int, right: Array, n: int, out: int, n_rows: int) -> None:
    """out[r] = sum over k < n of left[r, k] * right[k], in order of k; vectors of LANES.

    left  address of float32, `row` bytes from r to r + 1, `step` bytes from k to k + 1
    right (n * LANES,) float32 aligned; out address of n_rows lines
    """
    vectors, whole = address(right), n_rows - n_rows % 8
    for r in range(0, whole, 8):
        multiply_eight((out + r * LINE, left + r * row, row, step, vectors, n))
    for r in range(whole, n_rows - n_rows % 2, 2):
        multiply_two((out + r * LINE, left + r * row, row, step, vectors, n))
    for r in range(n_rows - n_rows % 2, n_rows):
        multiply_one((out + r * LINE, left + r * row, row, step, vectors, n))


@numba.njit(cache=True, nogil=True)
def fill_table(book: int, n_centroids: int, width: int, panel: Array, out: int) -> None:
    """The products of each centroid with LANES columns; book and out are addresses, panel (width * LANES,)."""
    if width == 16 and n_centroids % TILE == 0:
        multiply_width16((out, book, address(panel), n_centroids))
    elif width == 8 and n_centroids % TILE == 0:
        multiply_width8((out, book, address(panel), n_centroids))
    else:
        multiply(book, 4 * width, 4, panel, width, out, n_centroids)


@numba.njit(cache=True, nogil=True)
def fill_tables(codebooks: Array, weights: Array, group: int, first: int, panel: Array, tables: Array) -> None:
    """tables[k, c] = codebooks[q, c] times q's rows of the weights, for the LANES columns from `first`.

    q = GROUP * group + k; beyond the last subquantizer entry 0 is 0. panel (GROUP * width * LANES,) is working space.
    """
    n_subquantizers, n_centroids, width = codebooks.shape
    q, size = GROUP * group, min(GROUP, n_subquantizers - GROUP * group)
    cut(weights, q * width, size * width, first, panel)
    for k in range(size):
        book = address(codebooks) + 4 * (q + k) * n_centroids * width
        fill_table(book, n_centroids, width, panel[k * width * LANES :], address(tables) + k * TABLE_BYTES)
    for k in range(size, GROUP):
        tables[k * TABLE : k * TABLE + LANES] = 0


@numba.njit(cache=True, nogil=True)
def look_up(unit: Array, n_words: int, tables: Array, sums: int, sum_step: int, target: int, target_step: int) -> None:
    """target[i] = sums[i] + the entries that the first n_words words of unit[i] select.

    unit (n_rows, UNIT) uint64; sums and target are addresses of vectors sum_step and target_step bytes apart, those of
    sums aligned
    """
    codes, entries = address(unit), address(tables)
    if n_words == UNIT:
        for i in range(len(unit)):
            add_unit((target + i * target_step, sums + i * sum_step, entries, codes + 8 * UNIT * i))
    else:
        for i in range(len(unit)):
            add_word((target + i * target_step, sums + i * sum_step, entries, codes + 8 * UNIT * i))


@numba.njit(cache=True, nogil=True)
def set_scores(words: Array, codebooks: Array, weights: Array, out: Array) -> None:
    """out = X W for the rows of one part (Algorithm 1).

    words (n_units, n_rows, UNIT) uint64; codebooks (n_subquantizers, n_centroids, width) float32 C order;
    weights (n_subquantizers * width, n_outputs) and out (n_rows, n_outputs) float32 C order
    """
    n_rows, n_outputs = out.shape
    panel, n_groups, last = aligned(GROUP * codebooks.shape[2] * LANES), -(-len(codebooks) // GROUP), len(words) - 1
    tables, sums, zero = aligned(UNIT * GROUP * TABLE), aligned(n_rows * LANES), aligned(LANES)
    zero[:] = 0
    for first in range(0, n_outputs, LANES):
        n_columns = min(LANES, n_outputs - first)
        for unit in range(last + 1):
            n_words = min(UNIT, n_groups - UNIT * unit)
            for k in range(n_words):
                fill_tables(codebooks, weights, UNIT * unit + k, first, panel, tables[k * GROUP * TABLE :])
            source, source_step = (address(sums), LINE) if unit > 0 else (address(zero), 0)
            target, target_step = address(sums), LINE
            if unit == last and n_columns == LANES:  # the last sums go to their place
                target, target_step = address(out) + 4 * first, out.strides[0]
            look_up(words[unit], n_words, tables, source, source_step, target, target_step)
        for i in range(n_rows if n_columns < LANES else 0):
            for j in range(n_columns):
                out[i, first + j] = sums[i * LANES + j]


@numba.njit(cache=True, nogil=True)
def multiply_turned(book: int, n_centroids: int, width: int, entries: Array, out: int) -> None:
    """out[t] = sum over c of book[c, t] * entries[c], in order of c; book and out addresses, lines of LANES."""
    whole = width - width % 16
    for t in range(0, whole, 16):
        multiply_sixteen((out + t * LINE, book + 4 * t, 4, 4 * width, address(entries), n_centroids))
    multiply(book + 4 * whole, 4, 4 * width, entries, n_centroids, out + whole * LINE, width - whole)


@numba.njit(cache=True, nogil=True)
def subtract_lines(panel: Array, factors: Array, n_columns: int, out: Array) -> None:
    """out -= factors * panel; panel (n_rows * LANES,), factors (LANES,), out (n_rows, n_columns <= LANES)."""
    if n_columns == LANES and out.strides[1] == 4:
        for t in range(len(out)):
            subtract_line((address(out) + t * out.strides[0], address(panel) + t * LINE, address(factors)))
        return
    for t in range(len(out)):
        for j in range(n_columns):
            out[t, j] -= factors[j] * panel[t * LANES + j]


@numba.njit(cache=True, nogil=True)
def subtract_group(
    codebooks: Array, group: int, tables: Array, factors: Array, panel: Array, first: int, out: Array
) -> None:
    """Subtract factors * (centroids times their entries) from the group's rows of LANES columns of out."""
    n_subquantizers, n_centroids, width = codebooks.shape
    for q in range(GROUP * group, min(GROUP * (group + 1), n_subquantizers)):
        book, entries = address(codebooks) + 4 * q * n_centroids * width, tables[(q - GROUP * group) * TABLE :]
        multiply_turned(book, n_centroids, width, entries, address(panel))
        part = out[q * width : (q + 1) * width, first : first + LANES]
        subtract_lines(panel, factors, part.shape[1], part)


@numba.njit(cache=True, nogil=True)
def subtract_products(words: Array, codebooks: Array, residuals: Array, factor: np.float32, out: Array) -> None:
    """out -= factor * X' R for the rows of one part (Algorithm 2), rows added in order.

    words (n_groups, n_rows, 1) uint64; out of any strides; the other arrays as in `set_scores`
    """
    n_rows, n_outputs = residuals.shape
    vectors, tables, panel = (
        aligned(n_rows * LANES),
        aligned(GROUP * TABLE),
        aligned(codebooks.shape[2] * LANES),
    )
    factors = aligned(LANES)
    factors[:] = factor
    for first in range(0, n_outputs, LANES):
        cut(residuals, 0, n_rows, first, vectors)
        for group in range(words.shape[0]):
            tables[:] = 0
            source = address(words[group])
            for i in range(n_rows):
                scatter((address(vectors) + i * LINE, address(tables), source + 8 * i))
            subtract_group(codebooks, group, tables, factors, panel, first, out)
