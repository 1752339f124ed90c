"""Kernels of dual coordinate ascent for hinge losses, dense and sparse rows alike (Hsieh et al. 2008, algorithm 3).

Rows are given by their entries one row after another: data (nnz,) float32, indices (nnz,) int32 and indptr
(n_rows + 1,) int64; where `indices` is empty the rows are dense, and entry p of a row is its feature p.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np

from tasks.rows.base import Array

BY_BLAS = 96  # features of a row from which on a call of BLAS is faster than a loop that no compiler may reorder
OFFSET, SURPLUS, GAP, LOSS, HIGHEST, LOWEST = range(6)  # places in the state of a sweep


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
    weights: Array,
    state: Array,
) -> int:
    """One exact step for each row of order[:n_active]; returns how many rows are still active.

    order    (m,) int64: permuted in place, rows that are shrunk go behind the active ones
    sides    (n,) float32, -1 or 1; costs (n,) float32: greatest dual; steps (n,) float32: 1 / (|x|^2 + unit)
    unit     squared value of the constant feature, that stands for the penalty on the sum of alpha_i y_i
    duals    (n,) float32, weights (d,) float32: changed in place
    state    (6,) float64: OFFSET, the multiplier of the constraint (read); SURPLUS, the sum of alpha_i y_i (changed);
             GAP, LOSS: sums of c_i h_i + a_i g_i and of c_i h_i as seen on the way (written);
             HIGHEST, LOWEST: projected gradients of the last sweep, rows beyond them at a bound are shrunk; then
             those of this sweep
    """
    zero, one = np.float32(0.0), np.float32(1.0)
    offset, surplus, unit64 = state[OFFSET], state[SURPLUS], float(unit)
    shrink_above, shrink_below = state[HIGHEST], state[LOWEST]
    if shrink_above <= 0.0:
        shrink_above = np.inf
    if shrink_below >= 0.0:
        shrink_below = -np.inf
    highest, lowest, gap, loss = -np.inf, np.inf, 0.0, 0.0
    k = 0
    while k < n_active:
        i = order[k]
        start, stop = indptr[i], indptr[i + 1]
        side, dual, cost = sides[i], duals[i], costs[i]
        bias = np.float32(offset + unit64 * surplus)
        slope = side * (dot(data, indices, start, stop, weights) + bias) - one
        if (dual == zero and slope > shrink_above) or (dual == cost and slope < shrink_below):
            n_active -= 1
            order[k], order[n_active] = order[n_active], i
            continue
        k += 1
        hinge = max(zero, -slope) * cost
        loss += hinge
        gap += hinge + dual * slope
        if (dual == zero and slope >= zero) or (dual == cost and slope <= zero):
            highest, lowest = max(highest, 0.0), min(lowest, 0.0)
            continue
        highest, lowest = max(highest, slope), min(lowest, slope)
        new = min(max(dual - slope * steps[i], zero), cost)
        duals[i] = new
        move = side * (new - dual)
        if move != zero:
            surplus += move
            add_scaled(data, indices, start, stop, move, weights)
    state[SURPLUS], state[GAP], state[LOSS], state[HIGHEST], state[LOWEST] = surplus, gap, loss, highest, lowest
    return n_active


@numba.njit(cache=True, nogil=True)
def dot(data: Array, indices: Array, start: int, stop: int, weights: Array) -> Any:
    """x . w of the row whose entries are start ... stop - 1, float32."""
    zero = np.float32(0.0)
    if indices.size == 0 and stop - start >= BY_BLAS:
        return np.dot(data[start:stop], weights)
    a, b, c, d = zero, zero, zero, zero
    whole = start + (stop - start) // 4 * 4
    if indices.size == 0:
        for p in range(start, whole, 4):
            q = p - start
            a += data[p] * weights[q]
            b += data[p + 1] * weights[q + 1]
            c += data[p + 2] * weights[q + 2]
            d += data[p + 3] * weights[q + 3]
        for p in range(whole, stop):
            a += data[p] * weights[p - start]
    else:
        for p in range(start, whole, 4):
            a += data[p] * weights[indices[p]]
            b += data[p + 1] * weights[indices[p + 1]]
            c += data[p + 2] * weights[indices[p + 2]]
            d += data[p + 3] * weights[indices[p + 3]]
        for p in range(whole, stop):
            a += data[p] * weights[indices[p]]
    return (a + b) + (c + d)


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
def products(data: Array, indices: Array, indptr: Array, weights: Array, out: Array) -> None:
    """out[i] = x_i . w: weights (d,) float32, out (n,) float64."""
    for i in range(out.size):
        out[i] = dot(data, indices, indptr[i], indptr[i + 1], weights)
