"""The nearest centroid of every sub-vector: the loop under both training and encoding.

|x - c|^2 and |c|^2 - 2 <x, c> have the same smallest c. Distances are float32. A tile of rows is turned so that one
coordinate of all its rows is contiguous; then distances, comparisons and least-so-far run over the rows of the tile,
which the compiler turns into vectors. Ties go to the lowest centroid.
"""

from __future__ import annotations

import numba
import numpy as np

from tasks.quantize.products import Array

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
def assign(values: Array, factors: Array, norms: Array, codes: Array) -> None:
    """codes[i, q] = arg min over c of norms[q, c] + <factors[q, c], sub-vector q of row i>.

    values   (n_rows, n_subquantizers * width) float32
    factors  (n_subquantizers, n_centroids, width) float32: -2 times the centroids
    norms    (n_subquantizers, n_centroids) float32: squared norms of the centroids
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
                    turned[t, i] = tile[i, q * width + t]
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


def nearest(values: Array, codebooks: Array) -> Array:
    """The code of the nearest centroid (Euclidean, ties lowest) of each sub-vector.

    values (n_rows, n_features) float32 C order; codebooks (n_subquantizers, n_centroids <= 256, width) float32
    returns (n_rows, n_subquantizers) uint8
    """
    n_subquantizers = codebooks.shape[0]
    factors = np.ascontiguousarray(-2 * codebooks, np.float32)
    norms = np.einsum("qct,qct->qc", codebooks, codebooks).astype(np.float32)
    codes = np.empty((values.shape[0], n_subquantizers), np.uint8)
    assign(values, factors, norms, codes)
    return codes
