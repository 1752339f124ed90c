"""Margins of chosen pairs of a row and a classifier, in orders of addition that no other pair changes.

A margin is summed in float64 and given as float32. Of dense rows it has the bits of `kernel_dense.add_terms`: RUN
features in float32, four at a time, the runs in float64. Of sparse rows entry after entry in float64: products of
float32 are exact there, and entries that meet a weight of 0 change nothing, so weights give the same bits whether
their zeros are held or not.
"""

from __future__ import annotations

import numpy as np

from tasks.later import numba
from tasks.rows.base import Array
from tasks.svm.kernel_dense import RUN


@numba.njit(cache=True, nogil=True)
def dot_in_runs(row: Array, weights: Array) -> float:
    """row . weights, both (d,) float32, in float64."""
    total = 0.0
    for start in range(0, row.size, RUN):
        stop = min(start + RUN, row.size)
        part = np.float32(0.0)
        whole = start + (stop - start) // 4 * 4
        for k in range(start, whole, 4):
            low = row[k] * weights[k] + row[k + 1] * weights[k + 1]
            high = row[k + 2] * weights[k + 2] + row[k + 3] * weights[k + 3]
            part = np.float32(part + np.float32(low + high))
        for k in range(whole, stop):
            part = np.float32(part + np.float32(row[k] * weights[k]))
        total += np.float64(part)
    return total


@numba.njit(cache=True, nogil=True)
def dense_margins(values: Array, weights: Array, bias: Array, rows: Array, chosen: Array, out: Array) -> None:
    """out[i] <- f of classifier chosen[i] of row rows[i].

    values (n, d), weights (M, d), bias (M,) float32; rows, chosen (m,) int64; out (m,) float32, as in all of these
    """
    for i in range(rows.size):
        out[i] = dot_in_runs(values[rows[i]], weights[chosen[i]]) + bias[chosen[i]]


@numba.njit(cache=True, nogil=True)
def csr_margins(
    data: Array, indices: Array, indptr: Array, weights: Array, bias: Array, rows: Array, chosen: Array, out: Array
) -> None:
    """The same of sparse rows: data (nnz,) float32, indices, indptr as in `Csr`."""
    for i in range(rows.size):
        source, total = weights[chosen[i]], 0.0
        for p in range(indptr[rows[i]], indptr[rows[i] + 1]):
            total += np.float64(data[p]) * np.float64(source[indices[p]])
        out[i] = total + bias[chosen[i]]


@numba.njit(cache=True, nogil=True)
def active_margins(
    data: Array,
    indices: Array,
    indptr: Array,
    weights: Array,
    features: Array,
    offsets: Array,
    bias: Array,
    rows: Array,
    chosen: Array,
    out: Array,
) -> None:
    """The same of classifiers whose weights (nnz,) and features (nnz,) int32, ascending, stand at offsets (M + 1,)."""
    for i in range(rows.size):
        low, end, total = offsets[chosen[i]], offsets[chosen[i] + 1], 0.0
        for p in range(indptr[rows[i]], indptr[rows[i] + 1]):
            low = first_from(features, low, end, indices[p])
            if low == end:
                break
            if features[low] == indices[p]:
                total += np.float64(data[p]) * np.float64(weights[low])
        out[i] = total + bias[chosen[i]]


@numba.njit(cache=True, nogil=True)
def first_from(features: Array, low: int, end: int, wanted: int) -> int:
    """The first place in low .. end - 1 with a feature >= wanted, or end; looked for in growing steps."""
    step = 1
    while low + step <= end and features[low + step - 1] < wanted:
        low += step
        step *= 2
    high = min(low + step - 1, end)
    while low < high:
        middle = (low + high) // 2
        if features[middle] < wanted:
            low = middle + 1
        else:
            high = middle
    return low


@numba.njit(cache=True, nogil=True)
def csr_products(data: Array, indices: Array, indptr: Array, panel: Array, sums: Array) -> None:
    """sums (n, L) float64 <- X W of sparse rows and a panel (d, L) float32, entry after entry."""
    sums[:] = 0.0
    for i in range(indptr.size - 1):
        total = sums[i]
        for p in range(indptr[i], indptr[i + 1]):
            x, source = np.float64(data[p]), panel[indices[p]]
            for c in range(total.size):
                total[c] += x * np.float64(source[c])


@numba.njit(cache=True, nogil=True)
def support_dot(values: Array, index: Array, coefficients: Array, needed: Array) -> float:
    """Coefficients times a row's kernel values, in the order of the support vectors; marks what was needed.

    values (S,) float32, needed (S,) bool, changed: of the row; index (s,) int32, coefficients (s,) float32
    """
    total = 0.0
    for e in range(index.size):
        total += np.float64(coefficients[e]) * np.float64(values[index[e]])
        needed[index[e]] = True
    return total


@numba.njit(cache=True, nogil=True)
def support_margins(
    values: Array,
    index: Array,
    offsets: Array,
    coefficients: Array,
    bias: Array,
    rows: Array,
    chosen: Array,
    needed: Array,
    out: Array,
) -> None:
    """The same of kernel values.

    values (n, S) float32; index (nnz,) int32, coefficients (nnz,) float32 of the classifiers at offsets (M + 1,);
    needed (n, S) bool, changed
    """
    for i in range(rows.size):
        held = slice(offsets[chosen[i]], offsets[chosen[i] + 1])
        total = support_dot(values[rows[i]], index[held], coefficients[held], needed[rows[i]])
        out[i] = total + bias[chosen[i]]


@numba.njit(cache=True, nogil=True)
def support_block(
    values: Array,
    index: Array,
    offsets: Array,
    coefficients: Array,
    bias: Array,
    rows: Array,
    first: int,
    needed: Array,
    out: Array,
) -> None:
    """The same of rows (m,) int64 and all classifiers from `first` on that out (m, L) float32 has room for."""
    for c in range(out.shape[1]):
        held = slice(offsets[first + c], offsets[first + c + 1])
        for i in range(rows.size):
            total = support_dot(values[rows[i]], index[held], coefficients[held], needed[rows[i]])
            out[i, c] = total + bias[first + c]


@numba.njit(cache=True, nogil=True)
def count_rows(rows: Array, each: int, counts: Array) -> None:
    """counts[r] += each for every r in rows (m,) int64. counts (n,) int32"""
    for r in rows:
        counts[r] += each
