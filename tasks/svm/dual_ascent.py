"""Kernels of dual coordinate ascent for hinge losses, dense and sparse rows alike (Hsieh et al. 2008, algorithm 3).

The duals are also averaged over the sweep: what a row had before its turn counts for the time before it. Weights of the
average are far better than the last ones as long as steps are large (Shalev-Shwartz & Zhang 2013, theorem 2).

Rows are given by their entries one row after another: data (nnz,) float32, indices (nnz,) int32 and indptr
(n_rows + 1,) int64; where `indices` is empty the rows are dense, and entry p of a row is its feature p.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tasks.later import numba
from tasks.rows import Csr, Dense
from tasks.rows.base import Array

BY_BLAS = 128  # features of a row from which on a call of BLAS is faster than a loop that no compiler may reorder
OFFSET, SURPLUS, GAP, LOSS, LOST, HIGHEST, LOWEST = range(7)  # places in the state of a sweep
NO_INDICES = np.zeros(0, np.int32)


def entries(rows: Dense | Csr) -> tuple[Array, Array, Array]:
    """(data float32, indices int32, indptr int64) of rows: see above."""
    if isinstance(rows, Csr):
        return rows.data.astype(np.float32, copy=False), rows.indices, rows.indptr.astype(np.int64, copy=False)
    values = np.ascontiguousarray(rows.values, np.float32)
    return values.reshape(-1), NO_INDICES, np.arange(rows.n_rows + 1, dtype=np.int64) * rows.n_features


@numba.njit(cache=True, nogil=True)
def sweep(
    data: Array,
    indices: Array,
    indptr: Array,
    order: Array,
    n_active: int,
    sides: Array,
    costs: Array,
    steps: Array,
    unit: float,
    duals: Array,
    averaged: Array,
    weights: Array,
    state: Array,
) -> int:
    """One exact step for each row of order[:n_active]; returns how many rows are still active.

    order     (m,) int64: permuted in place, rows that are shrunk go behind the active ones
    sides     (n,) float32, -1 or 1; costs (n,) float32: greatest dual; steps (n,) float32: 1 / (|x|^2 + unit)
    unit      float32, squared value of the constant feature: the penalty on the sum of alpha_i y_i
    duals     (n,) float32, weights (d,) float32: changed in place
    averaged  (n,) float32: mean duals over this sweep; of rows that are not active the duals
    state     (7,) float64: OFFSET, the multiplier of the constraint (read); SURPLUS, the sum of alpha_i y_i;
              GAP, LOSS: sums of c_i h_i + a_i g_i and of c_i h_i as seen on the way (written); LOST: c_i h_i of rows
              that were shrunk (added to); HIGHEST, LOWEST: projected gradients, of the sweep before (rows beyond them
              at a bound are shrunk), then of this sweep
    """
    zero, one = np.float32(0.0), np.float32(1.0)
    offset, surplus, unit64 = state[OFFSET], state[SURPLUS], float(unit)
    shrink_above = state[HIGHEST] if state[HIGHEST] > 0.0 else np.inf
    shrink_below = state[LOWEST] if state[LOWEST] < 0.0 else -np.inf
    highest, lowest, gap, loss, lost = 0.0, 0.0, 0.0, 0.0, 0.0
    moment = one / np.float32(max(n_active, 1))
    k = 0
    while k < n_active:
        i = order[k]
        start, stop = indptr[i], indptr[i + 1]
        side, dual, cost = sides[i], duals[i], costs[i]
        bias = np.float32(offset + unit64 * surplus)
        slope = side * (dot(data, indices, start, stop, weights) + bias) - one
        hinge = max(zero, -slope) * cost
        averaged[i] = dual
        if (dual == zero and slope > shrink_above) or (dual == cost and slope < shrink_below):
            n_active -= 1
            order[k], order[n_active] = order[n_active], i
            lost += hinge
            continue
        k += 1
        loss += hinge
        gap += hinge + dual * slope
        if (dual == zero and slope >= zero) or (dual == cost and slope <= zero):
            continue
        highest, lowest = max(highest, slope), min(lowest, slope)
        new = min(max(dual - slope * steps[i], zero), cost)
        move = side * (new - dual)
        if move != zero:
            duals[i] = new
            averaged[i] = dual + (one - np.float32(k) * moment) * (new - dual)
            surplus += move
            add_scaled(data, indices, start, stop, move, weights)
    state[LOST] += lost
    state[SURPLUS], state[GAP], state[LOSS], state[HIGHEST], state[LOWEST] = surplus, gap, loss, highest, lowest
    return n_active


@numba.njit(cache=True, nogil=True)
def dot(data: Array, indices: Array, start: int, stop: int, weights: Array) -> Any:
    """x . w of the row whose entries are start ... stop - 1, float32."""
    if indices.size == 0:
        x = data[start:stop]
        return np.dot(x, weights) if x.size >= BY_BLAS else short_dot(x, weights)
    left, right = np.float32(0.0), np.float32(0.0)
    whole = start + (stop - start) // 4 * 4
    for p in range(start, whole, 4):
        left += data[p] * weights[indices[p]] + data[p + 1] * weights[indices[p + 1]]
        right += data[p + 2] * weights[indices[p + 2]] + data[p + 3] * weights[indices[p + 3]]
    for p in range(whole, stop):
        left += data[p] * weights[indices[p]]
    return left + right


@numba.njit(cache=True, nogil=True)
def short_dot(x: Array, weights: Array) -> Any:
    """x . w, both (d,) float32: two sums side by side, four products at a time."""
    left, right = np.float32(0.0), np.float32(0.0)
    whole = x.size // 8 * 8
    for p in range(0, whole, 8):
        x0, x1, x2, x3 = x[p], x[p + 1], x[p + 2], x[p + 3]
        left += (x0 * weights[p] + x1 * weights[p + 1]) + (x2 * weights[p + 2] + x3 * weights[p + 3])
        x4, x5, x6, x7 = x[p + 4], x[p + 5], x[p + 6], x[p + 7]
        right += (x4 * weights[p + 4] + x5 * weights[p + 5]) + (x6 * weights[p + 6] + x7 * weights[p + 7])
    for p in range(whole, x.size):
        left += x[p] * weights[p]
    return left + right


@numba.njit(cache=True, nogil=True)
def add_scaled(data: Array, indices: Array, start: int, stop: int, factor: float, weights: Array) -> None:
    """weights += factor x of the row whose entries are start ... stop - 1; weights (d,), of the dtype of the factor."""
    if indices.size == 0:
        x = data[start:stop]
        for p in range(x.size):
            weights[p] += factor * x[p]
    else:
        for p in range(start, stop):
            weights[indices[p]] += factor * data[p]


@numba.njit(cache=True, nogil=True)
def weights_of(data: Array, indices: Array, indptr: Array, factors: Array, weights: Array) -> None:
    """weights += sum of factor_i x_i: factors (n,) float64, weights (d,) float64."""
    for i in range(factors.size):
        if factors[i] != 0.0:
            add_scaled(data, indices, indptr[i], indptr[i + 1], factors[i], weights)


@numba.njit(cache=True, nogil=True)
def products(data: Array, indices: Array, indptr: Array, which: Array, weights: Array, out: Array) -> None:
    """out[i] = x_i . w for the rows i of `which` (m,) int64: weights (d,) float32, out (n,) float64."""
    for i in which:
        out[i] = dot(data, indices, indptr[i], indptr[i + 1], weights)
