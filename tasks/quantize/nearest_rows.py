"""Codes of rows by `nearest_vectors`: which buffers there are, and in which order rows and subquantizers pass by.

Rows are taken ROWS_AT_ONCE at a time, so that what is computed of a codebook is loaded once for all of them, and of
these as many columns at a time as BUFFER holds, widened to float32; within them LANES rows and one subquantizer. All
of a codebook's centroids (16 KB at 256 of 16 numbers) stay in the first-level cache meanwhile. Rows are asked for one
run of columns ahead; what is looked up at random, when a subquantizer begins.

The kernels take addresses alone, so that they are compiled once for all types of rows, and in a second.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Self

import numpy as np

from tasks.emit import LANES, LINE, Array, address
from tasks.later import numba
from tasks.quantize.nearest_vectors import (
    CHUNK,
    UNROLLED,
    add_assigned,
    add_squares,
    ask,
    ask_named,
    centre,
    find,
    find_unrolled,
    name,
    put,
    square,
    turn_book,
    turn_rows,
    widen_floats,
    widen_halves,
)

ROWS_AT_ONCE = 512
BUFFER = 2**15  # numbers of these rows that are widened at once: 128 KB, a quarter of a core's second-level cache
WIDEST = 2**18  # and of wide sub-vectors, of which fewer rows are taken
MOST_KEPT = 2**25  # bytes of codebooks whose turned ones a process keeps
LEAST = float(np.finfo(np.float32).tiny)


@numba.njit(cache=True, nogil=True)
def set_origin(mean: Array, spread: Array, width: int, origin: Array) -> None:
    """Whence distances are measured, as `assign.origins` has it; mean and spread (at least width,) float64."""
    widest = LEAST
    for t in range(width):
        widest = max(widest, spread[t])
    fraction, exponent = math.frexp(widest)
    step = math.ldexp(1.0, exponent - 1 if fraction == 0.5 else exponent)
    for t in range(width):
        origin[t] = np.rint(mean[t] / step) * step


@numba.njit(cache=True, nogil=True)
def turn_codebooks(
    books: int, n_centroids: int, width: int, panels: int, norms: Array, moments: Array, origins: Array
) -> None:
    """Codebooks as `find` wants them: coordinates times -2 and norms, by blocks of LANES centroids, from their origins.

    books    address of codebooks (n_subquantizers, n_padded, width) float32, n_padded a multiple of LANES, zeros from
             n_centroids on; CHUNK numbers more
    panels   address of as many numbers, CHUNK lines more
    norms    (n_subquantizers, n_padded) float32, written: from n_centroids on not a number, never the least
    moments  (2, a multiple of CHUNK) float64; origins (n_subquantizers, the same) float32, zeros
    """
    n_padded, n_wide, mean, spread = norms.shape[1], origins.shape[1], moments[0], moments[1]
    for q in range(norms.shape[0]):
        book, panel, origin, norm = (
            books + 4 * q * n_padded * width,
            panels + 4 * q * n_padded * width,
            origins[q],
            norms[q],
        )
        for t in range(0, n_wide, CHUNK):
            centre((address(mean) + 8 * t, address(spread) + 8 * t, book + 4 * t, width, n_centroids))
        set_origin(mean, spread, width, origin)
        for k in range(0, n_padded, LANES):
            turn_book((panel + 4 * k * width, book + 4 * k * width, 4 * width, address(origin), n_wide // CHUNK))
            square((address(norm) + 4 * k, panel + 4 * k * width, width))
        for c in range(n_centroids, n_padded):
            norm[c] = np.nan


@numba.njit(cache=True, nogil=True)
def assign_rows(
    rows: tuple[int, ...], shape: tuple[int, ...], made: tuple[int, ...], scratch: tuple[int, ...], out: tuple[int, ...]
) -> None:
    """Codes of rows, and what else is asked for, rows in order. All addresses and counts.

    rows     address of the values, bytes from row to row, bytes of a number (4: float32, 2: float16), rows
    shape    n_subquantizers, n_centroids, n_padded, width, subquantizers that are widened at once, rows at once
    made     codebooks, panels, norms and origins as of `turn_codebooks`; masks as of `add_squares`
    scratch  widened rows, (rows at once, stride_of) float32, finite; turned ones; four lines
    out      codes (n_rows, n_subquantizers) uint8, written; 2 * CHUNK float64 that squared errors and squared norms are
             added to, or 0; sums (n_subquantizers, n_centroids, width) float64 and CHUNK more, counts int64 and errors
             float64 (n_subquantizers, n_centroids), or 0
    """
    values, row_bytes, item_bytes, n_rows = rows
    n_subquantizers, n_centroids, n_padded, width, n_span, at_once = shape
    books, panels, norms, origins, masks = made
    own, turned, found = scratch
    codes, totals, sums, counts, errors = out
    n_wide, stride, book_bytes = -(-width // CHUNK) * CHUNK, 4 * stride_of(n_span, width), 4 * n_padded * width
    for start in range(0, n_rows, at_once):
        size, first = min(at_once, n_rows - start), values + start * row_bytes
        for q in range(n_subquantizers):
            if q % n_span == 0:
                columns = min(n_span, n_subquantizers - q) * width
                where = (own, stride, first + q * width * item_bytes, row_bytes, columns, size)
                if item_bytes == 2:
                    widen_halves(where)
                else:
                    widen_floats(where)
            entries = (0, 0, 0)
            if sums != 0:
                place = 8 * q * n_centroids
                entries = (sums + place * width, counts + place, errors + place)
                ask((entries[0], LINE, -(-n_centroids * width // CHUNK)))
            book = (books + q * book_bytes, panels + q * book_bytes, norms + 4 * q * n_padded, origins + 4 * q * n_wide)
            if totals + sums != 0:
                ask((book[0], LINE, -(-book_bytes // LINE)))
            later = first + min(q + n_span, n_subquantizers - 1) * width * item_bytes
            here, target = own + 4 * (q % n_span) * width, codes + start * n_subquantizers + q
            sizes, scrap = (size, stride, width, n_padded // LANES, n_subquantizers), (turned, found)
            assign_column(here, sizes, book, scrap, (later, row_bytes), target, (masks, totals), entries)


@numba.njit(cache=True, nogil=True)
def assign_column(
    own: int,
    sizes: tuple[int, ...],
    book: tuple[int, ...],
    scratch: tuple[int, ...],
    later: tuple[int, int],
    codes: int,
    totals: tuple[int, int],
    entries: tuple[int, int, int],
) -> None:
    """`assign_rows` of one subquantizer; later: address and bytes from row to row of what is asked for meanwhile.

    What is added up is of the LANES rows before, whose centroids have been asked for when they were named.
    """
    size, stride, width, n_blocks, n_subquantizers = sizes
    books, panel, norms, origin = book
    more = totals[1] + entries[0] != 0
    for i in range(0, size + LANES * more, LANES):
        rows = own + i * stride
        turned, found = scratch[0], scratch[1] + i // LANES % 2 * 2 * LINE
        if i < size:
            n = min(LANES, size - i)
            ask((later[0] + i * later[1], later[1], n))
            turn_rows((turned, rows, stride, origin, -(-width // CHUNK)))
            if width % UNROLLED == 0:
                find_unrolled((found, turned, panel, norms, n_blocks, width))
            else:
                find((found, turned, panel, norms, n_blocks, width))
            name((found, turned, panel, norms, width))
            put((codes + i * n_subquantizers, n_subquantizers, found + LINE, n))
            if more:
                ask_named((books, 4 * width, found + LINE))
            if entries[0] != 0:
                ask_named((entries[0], 8 * width, found + LINE))
        if more and i > 0:
            before = scratch[1] + (i // LANES + 1) % 2 * 2 * LINE + LINE
            rest = (rows - LANES * stride, stride, books, before, width, totals[0], min(LANES, size - i + LANES))
            if totals[1] != 0:
                add_squares((totals[1], *rest))
            if entries[0] != 0:
                add_assigned((*entries, *rest))


@numba.njit(cache=True, nogil=True)
def stride_of(n_span: int, width: int) -> int:
    """Numbers from one widened row to the next: whole lines, with what a chunk reads beyond, not a power of two."""
    return (n_span * width // LANES + 2) * LANES


def lines(*shape: int) -> Array:
    """Float32 zeros of this shape from the start of a cache line on; CHUNK lines more, which a last chunk may fill."""
    size = math.prod(shape)
    raw = np.zeros(size + (CHUNK + 1) * LANES, np.float32)
    skip = -raw.ctypes.data % LINE // 4
    return raw[skip : skip + size].reshape(shape)


@dataclass(frozen=True, eq=False)
class TurnedCodebooks:
    """Codebooks as the kernels take them; `books` are those that were given, with zeros where blocks are not whole.

    n_centroids  of each; books and panels (n_subquantizers, n_padded, width), norms (n_subquantizers, n_padded),
    origins      (n_subquantizers, a multiple of CHUNK), all float32
    """

    n_centroids: int
    books: Array
    panels: Array
    norms: Array
    origins: Array

    @classmethod
    def of(cls, codebooks: Array, own: bool = False) -> Self:
        """codebooks (n_subquantizers, n_centroids, width) float32; own: they are copied, and may change afterwards."""
        n_subquantizers, n_centroids, width = codebooks.shape
        n_padded, n_wide = -(-n_centroids // LANES) * LANES, -(-width // CHUNK) * CHUNK
        books = np.ascontiguousarray(codebooks, np.float32)
        if own or n_centroids < n_padded or width < n_wide:
            books = lines(n_subquantizers, n_padded, width)
            books[:, :n_centroids] = codebooks
        panels, norms = lines(*books.shape), lines(n_subquantizers, n_padded)
        moments, origins = np.zeros((2, n_wide)), lines(n_subquantizers, n_wide)
        turn_codebooks(books.ctypes.data, n_centroids, width, panels.ctypes.data, norms, moments, origins)
        return cls(n_centroids, books, panels, norms, origins)


_kept: list[TurnedCodebooks] = []  # those of the last call of `turned`, one at most


def turned(codebooks: Array) -> TurnedCodebooks:
    """Codebooks as the kernels take them: those of the last call, where these are equal to them.

    Of a block of few wide rows, looking whether they are equal costs far less than turning them again.
    """
    for kept in _kept[:]:
        if np.array_equal(kept.books[:, : kept.n_centroids], codebooks):
            return kept
    made = TurnedCodebooks.of(codebooks, own=True)
    _kept[:] = [made] if made.books.nbytes <= MOST_KEPT else []
    return made


def assign_vectors(
    values: Array,
    codebooks: TurnedCodebooks,
    totals: Array | None = None,
    sums: tuple[Array, Array, Array] | None = None,
) -> Array:
    """Codes (n_rows, n_subquantizers) uint8 of the centroids nearest to rows, which are added up on the way.

    values     (n_rows, n_subquantizers * width) float16 or float32, C order, finite
    codebooks  of at most 256 centroids
    totals     (2, CHUNK) float64: squared errors of the rows and their squared norms are added, in CHUNK parts each
    sums       of the rows of each centroid: sums (n_subquantizers * n_centroids * width + CHUNK,) float64, counts int64
               and squared errors float64 (n_subquantizers, n_centroids), C order, are added to
    Raises ValueError for rows of another width than the codebooks'.
    """
    n_subquantizers, n_padded, width = codebooks.books.shape
    if values.shape[1] != n_subquantizers * width:
        raise ValueError(f"rows of {values.shape[1]} numbers, codebooks of {n_subquantizers} x {width}")
    codes, n_wide = np.empty((len(values), n_subquantizers), np.uint8), codebooks.origins.shape[1]
    if codes.size == 0:
        return codes
    most = min(ROWS_AT_ONCE, -(-len(values) // LANES) * LANES, WIDEST // width // LANES * LANES)
    at_once, n_span = max(LANES, most), max(1, BUFFER // (ROWS_AT_ONCE * width))
    masks = np.where(np.arange(n_wide) < width, np.int32(-1), np.int32(0))
    own, columns, found = lines(at_once, stride_of(n_span, width)), lines(n_wide, LANES), lines(4, LANES)
    made = (codebooks.books, codebooks.panels, codebooks.norms, codebooks.origins, masks)
    out = (codes, totals, *(sums or (None, None, None)))
    assign_rows(
        (values.ctypes.data, values.strides[0], values.itemsize, len(values)),
        (n_subquantizers, codebooks.n_centroids, n_padded, width, n_span, at_once),
        tuple(array.ctypes.data for array in made),
        tuple(array.ctypes.data for array in (own, columns, found)),
        tuple(0 if array is None else array.ctypes.data for array in out),
    )
    return codes
