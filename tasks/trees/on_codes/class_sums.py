"""Sums of PQ codes by class, folded to few columns a sub-vector at a time, without decoding a row."""

from __future__ import annotations

import numpy as np

from tasks.later import numba
from tasks.rows.base import Array
from tasks.rows.pq import PqCodes
from tasks.seeds import stream

BOOKS_AT_ONCE = 16  # codebooks of 256 centroids of 16 features: 256 KB


def folded_sums(rows: PqCodes, columns: Array, n_classes: int, widest: int, seed: int) -> Array:
    """(n_classes, width) float64: sums over the rows of each class; columns (n_rows,) int32 in [0, n_classes).

    Rows of at most `widest` features are summed as they are. Of wider ones each sub-vector goes to a random one of as
    many places as fit, each of its features with a random sign: inner products stay in expectation (a count sketch),
    as of single features, and whole sub-vectors are quickly added.
    """
    m, _, size = rows.codebooks.shape
    books, place = np.asarray(rows.codebooks, np.float32), np.arange(m)
    if m * size > widest:
        rng, places = stream(seed, "label-tree", "folding-codes"), max(1, widest // size)
        place = rng.integers(0, places, m)
        books = books * rng.choice(np.array([-1.0, 1.0], np.float32), (m, 1, size))
    sums = np.zeros((n_classes, int(place.max()) + 1 if m * size <= widest else max(1, widest // size), size))
    sums = sums.reshape(n_classes, -1)
    add_by_class(rows.codes, columns, books.reshape(-1), size, place.astype(np.int64), sums)
    return sums


@numba.njit(cache=True, nogil=True)
def add_by_class(codes: Array, columns: Array, books: Array, size: int, place: Array, sums: Array) -> None:
    """The sub-vectors of the rows of each class, added at their places.

    codes (n_rows, m) uint8; books (m * n_centroids * size,) float32; place (m,) int64: sums[class, place * size] begins
    where a sub-vector is added; sums (n_classes, places * size) float64
    Some subquantizers at a time, so that their codebooks stay in a core's cache.
    """
    m = codes.shape[1]
    book = books.size // m
    for first in range(0, m, BOOKS_AT_ONCE):
        last = min(first + BOOKS_AT_ONCE, m)
        for i in range(codes.shape[0]):
            own = sums[columns[i]]
            for q in range(first, last):
                start, there = q * book + np.int64(codes[i, q]) * size, place[q] * size
                source, target = books[start : start + size], own[there : there + size]
                for t in range(size):
                    target[t] += source[t]
