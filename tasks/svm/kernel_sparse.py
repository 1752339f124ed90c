"""Sums over features for all pairs of sparse rows: only entries that both rows have are looked at.

The other rows are held by columns. A row goes through its entries in ascending order, and each adds its terms to the
sums of the rows in its column: every pair is summed in the order of its common features, in float64, whatever else
stands in the block.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tasks.later import numba
from tasks.rows.base import Array
from tasks.rows.csr import Csr
from tasks.svm.kernel_dense import MINIMA, RATIOS, SQUARES

SUMS_AT_ONCE = 2**16  # what a core's own cache holds
LEAST = 1e-300  # divides instead of 0


def sparse_tiles(terms: int, rows: Csr, others: Csr) -> Iterator[tuple[slice, slice, Array]]:
    """As `dense_tiles`, of `Csr` rows (entries float32 or float64, one a place).

    With p = sum of x y and q = sum of x y / (x + y) over what both have:
    sum of (x - y)^2 = x x + y y - 2 p, and sum of (x - y)^2 / (x + y) = sum of x + sum of y - 4 q (x, y >= 0).
    What float64 rounds below 0 is 0; for a row and itself the same additions cancel to exactly 0.
    """
    columns = by_columns(others.data, others.indices, others.indptr, others.n_features)
    mine, theirs = own_sums(terms, rows.data, rows.indptr), own_sums(terms, others.data, others.indptr)
    size = max(1, min(rows.n_rows, SUMS_AT_ONCE // max(1, others.n_rows)))
    sums = np.empty((size, others.n_rows))
    for start in range(0, rows.n_rows, size):
        stop = min(start + size, rows.n_rows)
        tile, indptr = sums[: stop - start], np.asarray(rows.indptr[start : stop + 1], np.int64)
        add_common(terms, rows.data, rows.indices, indptr, *columns, tile)
        if terms == SQUARES:
            from_common(mine[start:stop], theirs, 2.0, tile)
        elif terms == RATIOS:
            from_common(mine[start:stop], theirs, 4.0, tile)
        yield slice(start, stop), slice(0, others.n_rows), tile


@numba.njit(cache=True, nogil=True)
def by_columns(data: Array, indices: Array, indptr: Array, n_features: int) -> tuple[Array, Array, Array]:
    """The same entries by columns: (values (nnz,), rows (nnz,) int32 ascending in a column, starts (d + 1,) int64)."""
    starts = np.zeros(n_features + 1, np.int64)
    first, last = indptr[0], indptr[-1]
    for p in range(first, last):
        starts[indices[p] + 1] += 1
    for k in range(n_features):
        starts[k + 1] += starts[k]
    free = starts.copy()
    values, owners = np.empty(last - first, data.dtype), np.empty(last - first, np.int32)
    for j in range(indptr.size - 1):
        for p in range(indptr[j], indptr[j + 1]):
            place = free[indices[p]]
            values[place], owners[place] = data[p], j
            free[indices[p]] = place + 1
    return values, owners, starts


@numba.njit(cache=True, nogil=True)
def own_sums(terms: int, data: Array, indptr: Array) -> Array:
    """(n,) float64: of each row the sum of x x (of SQUARES) or of x, in the order of its entries."""
    sums = np.zeros(indptr.size - 1)
    for i in range(sums.size):
        for p in range(indptr[i], indptr[i + 1]):
            x = np.float64(data[p])
            sums[i] += x * x if terms == SQUARES else x
    return sums


@numba.njit(cache=True, nogil=True)
def add_common(
    terms: int, data: Array, indices: Array, indptr: Array, values: Array, owners: Array, starts: Array, sums: Array
) -> None:
    """sums[i, j] <- sum over common entries of x y, min(x, y) or x y / (x + y).

    data, indices, indptr   rows (n), as in `Csr`
    values, owners, starts  the others (m), as from `by_columns`
    sums                    (n, m) float64
    """
    sums[:] = 0.0
    room = np.empty(sums.shape[1])
    for i in range(indptr.size - 1):
        total = sums[i]
        for p in range(indptr[i], indptr[i + 1]):
            x, k = np.float64(data[p]), indices[p]
            column, owner = values[starts[k] : starts[k + 1]], owners[starts[k] : starts[k + 1]]
            if terms == RATIOS:
                column_ratios(x, column, room)
                for e in range(owner.size):
                    total[owner[e]] += room[e]
            elif terms == MINIMA:
                for e in range(owner.size):
                    y = np.float64(column[e])
                    total[owner[e]] += x if x < y else y
            else:
                for e in range(owner.size):
                    total[owner[e]] += x * np.float64(column[e])


@numba.njit(cache=True, nogil=True, error_model="numpy")  # a check for divisors of 0 would not vectorise
def column_ratios(x: float, column: Array, ratios: Array) -> None:
    """ratios[e] <- x y / (x + y) for each y of a column, 0 / 0 = 0. ratios (>= column.size,) float64"""
    for e in range(column.size):
        y = np.float64(column[e])
        b = x + y
        ratios[e] = x * y / (b if b > LEAST else LEAST)


@numba.njit(cache=True, nogil=True)
def from_common(mine: Array, theirs: Array, factor: float, sums: Array) -> None:
    """sums[i, j] <- max(0, mine[i] + theirs[j] - factor sums[i, j]). mine (n,), theirs (m,), sums (n, m) float64"""
    for i in range(mine.size):
        row = sums[i]
        for j in range(theirs.size):
            left = (mine[i] + theirs[j]) - factor * row[j]
            row[j] = left if left > 0.0 else 0.0
