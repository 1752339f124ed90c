"""The nearest centroid of every sub-vector: the loop under both training and encoding.

|x - c|^2 and |c|^2 - 2 <x, c> have the same smallest c. Distances are float32, of rows and centroids less `origins`:
far from zero, the squares that cancel would be larger than what is left. Ties go to the lowest centroid.

This is done by `nearest_rows`; the loops here are for interpreted runs, which know no vector instructions. A tile of
rows is turned so that one coordinate of all its rows is contiguous; then distances, comparisons and least-so-far run
over the rows of the tile.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tasks.later import compiles, numba
from tasks.quantize.nearest_rows import TurnedCodebooks, assign_vectors, turned
from tasks.quantize.nearest_vectors import CHUNK
from tasks.quantize.products import Array, decode

COMPILED = compiles()
ROWS_AT_ONCE = 256  # rows of a tile: its turned coordinates and distances stay in the first-level cache
NO_DISTANCE = np.float32(np.inf)


@numba.njit(cache=True, nogil=True)
def add_multiples(factors: Array, vectors: Array, out: Array) -> None:
    """out += sum over t of factors[t] * vectors[t], in order of t; factors (n,), vectors (n, size), out (size,)."""
    n = factors.size
    for t in range(0, n - 3, 4):  # four at a time, so that `out` is loaded and stored once for four
        a, b, c, d = factors[t], factors[t + 1], factors[t + 2], factors[t + 3]
        first, second, third, fourth = vectors[t], vectors[t + 1], vectors[t + 2], vectors[t + 3]
        for i in range(out.size):
            out[i] = out[i] + a * first[i] + b * second[i] + c * third[i] + d * fourth[i]
    for t in range(n - n % 4, n):
        factor, vector = factors[t], vectors[t]
        for i in range(out.size):
            out[i] += factor * vector[i]


@numba.njit(cache=True, nogil=True)
def keep_less(candidates: Array, name: np.int32, least: Array, names: Array) -> None:
    """Where a candidate is less than `least`, it becomes the least and `name` its name; all (size,)."""
    for i in range(least.size):
        less = candidates[i] < least[i]
        least[i] = candidates[i] if less else least[i]
        names[i] = name if less else names[i]


@numba.njit(cache=True, nogil=True)
def assign(values: Array, origin: Array, factors: Array, norms: Array, codes: Array) -> None:
    """codes[i, q] = arg min over c of norms[q, c] + <factors[q, c], sub-vector q of row i - origin[q]>.

    values   (n_rows, n_subquantizers * width) float32
    origin   (n_subquantizers, width) float32
    factors  (n_subquantizers, n_centroids, width) float32: -2 times the centroids less the origin
    norms    (n_subquantizers, n_centroids) float32: squared norms of the centroids less the origin
    codes    (n_rows, n_subquantizers) uint8, written
    """
    n_subquantizers, n_centroids, width = factors.shape
    turned = np.zeros((width, ROWS_AT_ONCE), np.float32)
    distances, least = np.empty(ROWS_AT_ONCE, np.float32), np.empty(ROWS_AT_ONCE, np.float32)
    names = np.empty(ROWS_AT_ONCE, np.int32)
    for start in range(0, values.shape[0], ROWS_AT_ONCE):
        tile = values[start : start + ROWS_AT_ONCE]
        for q in range(n_subquantizers):
            for i in range(tile.shape[0]):
                for t in range(width):
                    turned[t, i] = tile[i, q * width + t] - origin[q, t]
            least[:] = NO_DISTANCE
            names[:] = 0
            for c in range(n_centroids):
                distances[:] = norms[q, c]
                add_multiples(factors[q, c], turned, distances)
                keep_less(distances, np.int32(c), least, names)
            for i in range(tile.shape[0]):
                codes[start + i, q] = names[i]


@numba.njit(cache=True, nogil=True)
def add_assigned(values: Array, codes: Array, codebooks: Array, sums: Array, counts: Array, errors: Array) -> None:
    """Add every sub-vector to its centroid's sum, count and squared error, rows in order.

    values (n_rows, n_features) float32, codes (n_rows, n_subquantizers), codebooks and sums (n_subquantizers,
    n_centroids, width), counts int64 and errors float64 (n_subquantizers, n_centroids)
    """
    n_subquantizers, _, width = codebooks.shape
    for start in range(0, values.shape[0], ROWS_AT_ONCE):
        for q in range(n_subquantizers):
            for i in range(start, min(start + ROWS_AT_ONCE, values.shape[0])):
                code = codes[i, q]
                error = 0.0
                for t in range(width):
                    value = values[i, q * width + t]
                    away = np.float64(value) - np.float64(codebooks[q, code, t])
                    error += away * away
                    sums[q, code, t] += value
                errors[q, code] += error
                counts[q, code] += 1


def _rows(values: Array) -> Array:
    """Rows as the kernels take them: float32, or float16 as it is where vectors widen it."""
    halves = COMPILED and values.dtype == np.float16
    return np.ascontiguousarray(values, np.float16 if halves else np.float32)


def nearest(values: Array, codebooks: Array) -> Array:
    """The code of the nearest centroid (Euclidean, ties lowest) of each sub-vector.

    values (n_rows, n_features) float, C order; codebooks (n_subquantizers, n_centroids <= 256, width) float32
    returns (n_rows, n_subquantizers) uint8
    """
    return assign_vectors(_rows(values), turned(codebooks)) if COMPILED else _nearest(_rows(values), codebooks)


def nearest_and_squares(values: Array, codebooks: Array) -> tuple[Array, float, float]:
    """Codes as of `nearest`, what the rows' squared distances to their centroids sum to, and their squared norms."""
    values, totals = _rows(values), np.zeros((2, CHUNK))
    if COMPILED:
        codes = assign_vectors(values, turned(codebooks), totals)
    else:
        codes = _nearest(values, codebooks)
        away = values - decode(codes, codebooks)
        totals[:, 0] = [np.einsum("ij,ij->", part, part, dtype=np.float64) for part in (away, values)]
    return codes, float(totals[0].sum()), float(totals[1].sum())


def add_nearest(parts: Sequence[Array], codebooks: Array, sums: Array, counts: Array, errors: Array) -> None:
    """Add every sub-vector to the sum, count and squared error of its nearest centroid, rows in order.

    parts (n_rows, n_features) float each; codebooks (n_subquantizers, n_centroids <= 256, width) float32; the others as
    of `zero_sums`
    """
    books = TurnedCodebooks.of(codebooks) if COMPILED else None
    for values in map(_rows, parts):
        if books is not None:
            assign_vectors(values, books, sums=(sums, counts, errors))
        else:
            add_assigned(values, _nearest(values, codebooks), codebooks, sums, counts, errors)


def zero_sums(n_subquantizers: int, n_centroids: int, width: int) -> tuple[Array, Array, Array]:
    """Sums (n_subquantizers, n_centroids, width) float64, with CHUNK numbers behind them that `add_nearest` may touch.

    And counts int64 and errors float64 (n_subquantizers, n_centroids).
    """
    size = n_subquantizers * n_centroids * width
    sums = np.zeros(size + CHUNK)[:size].reshape(n_subquantizers, n_centroids, width)
    return sums, np.zeros(sums.shape[:2], np.int64), np.zeros(sums.shape[:2])


def _nearest(values: Array, codebooks: Array) -> Array:
    """By the plain loops; values float32 C order."""
    n_subquantizers = codebooks.shape[0]
    origin = origins(codebooks)
    centred = codebooks - origin[:, None]
    factors = np.ascontiguousarray(-2 * centred, np.float32)
    norms = np.einsum("qct,qct->qc", centred, centred).astype(np.float32)
    codes = np.empty((values.shape[0], n_subquantizers), np.uint8)
    with np.errstate(over="ignore", invalid="ignore"):  # of numbers that are not finite, when interpreted
        assign(values, origin, factors, norms, codes)
    return codes


def origins(codebooks: Array) -> Array:
    """(n_subquantizers, width) float32: whence distances are measured in each subspace; 0 for centroids around zero.

    Their mean, to a multiple of the least power of two that they do not exceed in any coordinate around it: so few
    digits are subtracted without rounding, and distances that are equal stay equal.
    """
    exact = np.asarray(codebooks, np.float64)
    mean = exact.mean(axis=1)
    spread = np.abs(exact - mean[:, None]).max(axis=(1, 2), initial=0.0)
    step = np.exp2(np.ceil(np.log2(np.maximum(spread, np.finfo(np.float32).tiny))))[:, None]
    found: Array = (np.rint(mean / step) * step).astype(np.float32)
    return found
