"""Products with rows held as PQ codes, without decoding them (Harchaoui et al. 2012, Algorithms 1 and 2).

A code selects one of few sub-vectors, so `X W` needs each sub-vector's product with W once (a table per subquantizer)
and then only look-ups and additions; `X' R` adds up the residuals of the rows that share a code and multiplies these
few sums with the codebook.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numba
import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]  # not from tasks.rows, which is built on this module

OUTPUTS_AT_ONCE = 64  # columns of W or R whose tables are held at a time
GROUP = 8  # subquantizers whose tables are held at a time: 8 x 256 x 64 floats are 512 KB, half of a core's L2
LOOKUP_COST = 6  # one addition of a table's row costs as much as this many multiply-adds of a matrix product


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


def tables_pay(n_rows: int, codebooks: Array) -> bool:
    """Whether products by tables cost less than decoding and multiplying: a rule of shapes alone.

    Per output, tables take n_centroids * width multiply-adds and one look-up per row and subquantizer, where a decoded
    row takes `width` multiply-adds.
    """
    _, n_centroids, width = codebooks.shape
    return bool(n_rows * (width - LOOKUP_COST) > n_centroids * width)


def _groups(n_subquantizers: int, n_outputs: int) -> Iterator[tuple[slice, slice]]:
    """Runs of output columns and, within each, runs of subquantizers: what one set of tables covers."""
    for first in range(0, n_outputs, OUTPUTS_AT_ONCE):
        for start in range(0, n_subquantizers, GROUP):
            yield slice(first, first + OUTPUTS_AT_ONCE), slice(start, min(start + GROUP, n_subquantizers))


def add_scores(codes: Array, codebooks: Array, weights: Array, out: Array) -> None:
    """out += X W (Algorithm 1).

    codes (n_rows, n_subquantizers) uint8; weights (n_features, n_outputs) float; out (n_rows, n_outputs) like weights
    """
    n_subquantizers, _, width = codebooks.shape
    books = codebooks.astype(weights.dtype, copy=False)
    by_subquantizer = weights.reshape(n_subquantizers, width, weights.shape[1])
    for columns, group in _groups(n_subquantizers, weights.shape[1]):
        tables = np.matmul(books[group], np.ascontiguousarray(by_subquantizer[group, :, columns]))
        part = np.ascontiguousarray(out[:, columns])
        add_table_rows(np.ascontiguousarray(codes[:, group]), tables, part)
        out[:, columns] = part


def subtract_products(codes: Array, codebooks: Array, residuals: Array, factor: Any, out: Array) -> None:
    """out -= factor * X' R (Algorithm 2).

    residuals (n_rows, n_outputs) and out (n_features, n_outputs) float; factor has the dtype of out
    """
    n_subquantizers, n_centroids, width = codebooks.shape
    books = codebooks.astype(out.dtype, copy=False)
    for columns, group in _groups(n_subquantizers, out.shape[1]):
        part = np.ascontiguousarray(residuals[:, columns], dtype=out.dtype)
        tables = np.zeros((group.stop - group.start, n_centroids, part.shape[1]), out.dtype)
        add_rows_by_code(np.ascontiguousarray(codes[:, group]), part, tables)
        products = np.matmul(books[group].transpose(0, 2, 1), tables).reshape(-1, part.shape[1])
        out[group.start * width : group.stop * width, columns] -= factor * products


def squared_norms(codes: Array, codebooks: Array) -> Array:
    """(n_rows,) float64: squared norms of the reconstructed rows, from those of the sub-vectors."""
    books = codebooks.astype(np.float64)
    norms = np.einsum("qct,qct->qc", books, books)
    out = np.zeros((codes.shape[0], 1))
    add_table_rows(codes, norms[:, :, None], out)
    return out[:, 0]
