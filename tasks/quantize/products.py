"""Products with rows held as PQ codes, without decoding them (Harchaoui et al. 2012, Algorithms 1 and 2).

A code selects one of few sub-vectors, so `X W` needs each sub-vector's product with W once (a table per subquantizer)
and then only look-ups and additions; `X' R` adds up the residuals of the rows that share a code and multiplies these
few sums with the codebook.

In float32 this is done by `tables`, or with 16-bit entries by `tables16`; the loops here are for float64, and for
interpreted runs, which know no vector instructions.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tasks.emit import LANES, LINE
from tasks.later import compiles, numba
from tasks.quantize import tables, tables16
from tasks.quantize.vectors import GROUP, UNIT

Array = NDArray[Any]  # not from tasks.rows, which is built on this module

COMPILED = compiles()
# Rows whose tables are filled once: their sums, and a copy of their codes, stay in the last-level cache
PART, PART_BYTES = 65_536, 2**25  # for scores: rows, and bytes of their codes
SUM_PART = 32_768  # for X' R, whose last bits depend on it: a part's rows are added up on their own

OUTPUTS_AT_ONCE = 64  # of the plain loops: columns of W or R whose tables are held at a time
PLAIN_GROUP = 8  # and subquantizers: 8 x 256 x 64 floats are 512 KB, half of a core's second-level cache

# Processor cycles of one core, measured: what `tables_pay` weighs
LOOK_UP = 1.7  # one code, for LANES columns
FILL = 0.7  # one multiplication of a table, for LANES columns
DECODE, DECODE_VALUE = 3.0, 0.4  # one code, and each value that it stands for
MULTIPLY = 0.037  # one multiplication of a matrix product
PLAIN_LOOK_UP = 6  # by the plain loops: one look-up costs as much as this many multiplications of a matrix product


@numba.njit(cache=True, nogil=True)
def gather_subvectors(codes: Array, codebooks: Array, out: Array) -> None:
    """out[i, q] = codebooks[q, codes[i, q]].

    codes (n_rows, n_subquantizers) uint8, codebooks (n_subquantizers, n_centroids, width),
    out (n_rows, n_subquantizers, width) of any float dtype
    """
    for i in range(codes.shape[0]):
        for q in range(codes.shape[1]):
            source, target = codebooks[q, codes[i, q]], out[i, q]
            for t in range(target.size):
                target[t] = source[t]


@numba.njit(cache=True, nogil=True)
def add_table_rows(codes: Array, tables: Array, out: Array) -> None:
    """out[i] += sum over q of tables[q, codes[i, q]]: the look-ups of Algorithm 1.

    codes (n_rows, n_group) uint8, tables (n_group, n_centroids, n_columns), out (n_rows, n_columns)
    """
    n_group = codes.shape[1]
    for i in range(codes.shape[0]):
        target = out[i]
        for q in range(0, n_group - 3, 4):  # four at a time: the sum is loaded and stored once for four look-ups
            first, second = tables[q, codes[i, q]], tables[q + 1, codes[i, q + 1]]
            third, fourth = tables[q + 2, codes[i, q + 2]], tables[q + 3, codes[i, q + 3]]
            for c in range(target.size):
                target[c] += (first[c] + second[c]) + (third[c] + fourth[c])
        for q in range(n_group - n_group % 4, n_group):
            source = tables[q, codes[i, q]]
            for c in range(target.size):
                target[c] += source[c]


@numba.njit(cache=True, nogil=True)
def add_rows_by_code(codes: Array, residuals: Array, tables: Array) -> None:
    """tables[q, codes[i, q]] += residuals[i]: the sums of Algorithm 2, rows in order.

    codes (n_rows, n_group) uint8, residuals (n_rows, n_columns), tables (n_group, n_centroids, n_columns)
    """
    for i in range(codes.shape[0]):
        source = residuals[i]
        for q in range(codes.shape[1]):
            target = tables[q, codes[i, q]]
            for c in range(source.size):
                target[c] += source[c]


def decode(codes: Array, codebooks: Array, dtype: Any = np.float32) -> Array:
    """The rows that codes stand for, (n_rows, n_subquantizers * width)."""
    n_subquantizers, _, width = codebooks.shape
    out = np.empty((codes.shape[0], n_subquantizers, width), dtype)
    gather_subvectors(codes, codebooks, out)
    return out.reshape(codes.shape[0], n_subquantizers * width)


def in_vectors(dtype: Any) -> bool:
    """Whether products of this dtype are done by vector instructions."""
    return COMPILED and bool(dtype == np.float32)


def tables_pay(n_rows: int, codebooks: Array, n_outputs: int, dtype: Any = np.float32) -> bool:
    """Whether products by tables cost less than decoding and multiplying: a rule of shapes alone.

    Tables cost their filling and a look-up per row and subquantizer, both once per LANES columns; decoding costs as
    much for one column as for many, and then `width` multiplications per row, subquantizer and column.
    """
    _, n_centroids, width = codebooks.shape
    if not in_vectors(dtype):
        return bool(n_rows * (width - PLAIN_LOOK_UP) > n_centroids * width)
    by_tables = -(-n_outputs // LANES) * (n_rows * LOOK_UP + n_centroids * width * FILL)
    return bool(by_tables < n_rows * (DECODE + width * (DECODE_VALUE + n_outputs * MULTIPLY)))


def _parts(codes: Array, unit: int, most: int) -> Iterator[tuple[slice, Array]]:
    """At most `most` rows at a time, with their codes as (n_units, n_rows, unit) words, GROUP codes a word.

    The codes that are missing in the last words are 0, and so are the entries that `tables` keeps for them. A part's
    words are overwritten by the next part's.
    """
    n_rows, n_subquantizers = codes.shape
    n_units = -(-n_subquantizers // (GROUP * unit))
    n_words = n_units * unit
    rows = -(-n_rows // max(1, -(-n_rows // most)))  # of parts of about the same size
    lines = (
        rows * unit * 8 // LINE + 1 | 1
    )  # of a unit: an odd number, else all units would meet in one set of the cache
    buffer = np.empty((n_units, lines * LINE // (8 * unit), unit), np.uint64)
    for start in range(0, n_rows, max(1, rows)):
        where = slice(start, min(start + rows, n_rows))
        part = codes[where]
        if n_words * GROUP > n_subquantizers or not part.flags.c_contiguous or part.ctypes.data % 8:
            part = np.zeros((len(part), n_words * GROUP), np.uint8)
            part[:, :n_subquantizers] = codes[where]
        words = buffer[:, : len(part)]
        tables.turn(part.view(np.uint64).reshape(len(part), n_units, unit), words)
        yield where, words


def _score_rows(codes: Array) -> int:
    return min(PART, 1 + PART_BYTES // max(1, int(codes.shape[1])))


def _empty(n_rows: int, n_columns: int) -> Array:
    """Float32 whose first row starts a cache line, so that vectors written to it lie in one line and not in two."""
    size = n_rows * n_columns
    raw = np.empty(size + LANES, np.float32)  # by NumPy, which asks for huge pages
    skip = -raw.ctypes.data % LINE // 4
    return raw[skip : skip + size].reshape(n_rows, n_columns)


def scores(codes: Array, codebooks: Array, weights: Array) -> Array:
    """X W by tables (Algorithm 1): (n_rows, n_outputs) in the dtype of the weights.

    codes (n_rows, n_subquantizers) uint8; weights (n_features, n_outputs) float
    """
    if not in_vectors(weights.dtype):
        out = np.zeros((len(codes), weights.shape[1]), weights.dtype)
        _add_scores(codes, codebooks, weights, out)
        return out
    out = _empty(len(codes), weights.shape[1])
    books, weights = np.ascontiguousarray(codebooks, np.float32), np.ascontiguousarray(weights)
    for where, words in _parts(codes, UNIT, _score_rows(codes)):
        tables.set_scores(words, books, weights, out[where])
    return out


def scores16(codes: Array, codebooks: Array, weights: Array) -> Array:
    """X W by 16-bit tables: (n_rows, n_outputs) float32, within `tables16.error_bound` of float32 tables.

    codes (n_rows, n_subquantizers) uint8; weights (n_features, n_outputs) float32
    """
    books, weights = np.ascontiguousarray(codebooks, np.float32), np.ascontiguousarray(weights, np.float32)
    scales = tables16.scales_of(books, weights)
    if not COMPILED:
        return _scores16(codes, books, weights, scales)
    out = _empty(len(codes), weights.shape[1])
    for where, words in _parts(codes, UNIT, _score_rows(codes)):
        tables16.set_scores(words, books, weights, scales, out[where])
    return out


def subtract_products(codes: Array, codebooks: Array, residuals: Array, factor: Any, out: Array) -> None:
    """out -= factor * X' R by tables (Algorithm 2).

    residuals (n_rows, n_outputs) and out (n_features, n_outputs) float; factor has the dtype of out
    """
    if not in_vectors(out.dtype):
        _subtract_products(codes, codebooks, residuals, factor, out)
        return
    books, residuals = np.ascontiguousarray(codebooks, np.float32), np.ascontiguousarray(residuals, np.float32)
    for where, words in _parts(codes, 1, SUM_PART):
        tables.subtract_products(words, books, residuals[where], factor, out)


def _groups(n_subquantizers: int, n_outputs: int) -> Iterator[tuple[slice, slice]]:
    """Runs of output columns and, within each, runs of subquantizers: what one set of plain tables covers."""
    for first in range(0, n_outputs, OUTPUTS_AT_ONCE):
        for start in range(0, n_subquantizers, PLAIN_GROUP):
            yield slice(first, first + OUTPUTS_AT_ONCE), slice(start, min(start + PLAIN_GROUP, n_subquantizers))


def _add_scores(codes: Array, codebooks: Array, weights: Array, out: Array) -> None:
    n_subquantizers, _, width = codebooks.shape
    books = codebooks.astype(weights.dtype, copy=False)
    by_subquantizer = weights.reshape(n_subquantizers, width, weights.shape[1])
    for columns, group in _groups(n_subquantizers, weights.shape[1]):
        entries = np.matmul(books[group], np.ascontiguousarray(by_subquantizer[group, :, columns]))
        part = np.ascontiguousarray(out[:, columns])
        add_table_rows(np.ascontiguousarray(codes[:, group]), entries, part)
        out[:, columns] = part


def _scores16(codes: Array, codebooks: Array, weights: Array, scales: Array) -> Array:
    n_subquantizers, _, width = codebooks.shape
    totals = np.zeros((len(codes), weights.shape[1]), np.int32)
    with np.errstate(invalid="ignore"):  # columns with weights that are not finite, whose scale is not finite either
        steps = (weights * (np.float32(1) / scales)).reshape(n_subquantizers, width, weights.shape[1])
        for q in range(n_subquantizers):
            totals += np.rint(codebooks[q] @ steps[q]).astype(np.int32)[codes[:, q]]
        return scales * totals.astype(np.float32)


def _subtract_products(codes: Array, codebooks: Array, residuals: Array, factor: Any, out: Array) -> None:
    _, n_centroids, width = codebooks.shape
    books = codebooks.astype(out.dtype, copy=False)
    for columns, group in _groups(len(codebooks), out.shape[1]):
        part = np.ascontiguousarray(residuals[:, columns], dtype=out.dtype)
        sums = np.zeros((group.stop - group.start, n_centroids, part.shape[1]), out.dtype)
        add_rows_by_code(np.ascontiguousarray(codes[:, group]), part, sums)
        products = np.matmul(books[group].transpose(0, 2, 1), sums).reshape(-1, part.shape[1])
        out[group.start * width : group.stop * width, columns] -= factor * products


def squared_norms(codes: Array, codebooks: Array) -> Array:
    """(n_rows,) float64: squared norms of the reconstructed rows, from those of the sub-vectors."""
    books = codebooks.astype(np.float64)
    norms = np.einsum("qct,qct->qc", books, books)
    out = np.zeros((codes.shape[0], 1))
    add_table_rows(codes, norms[:, :, None], out)
    return out[:, 0]
