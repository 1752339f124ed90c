"""One-vs-rest squared hinges of sparse rows by dual coordinate ascent, a row's outputs at once (Hsieh et al. 2008).

Every output q is a binary problem: min 1/2 |w_q|^2 + C sum_i max(0, 1 - y_i w_q.x_i)^2. Its dual has a number a_i >= 0
a row, w_q = sum_i a_i y_i x_i, and the best a_i with all others fixed is known in closed form: no step size, and the
objective goes down with each. The weights of a feature for all outputs lie side by side, so a row's scores and its
changes are loops over neighbours.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from tasks.later import numba
from tasks.rows.base import Array
from tasks.rows.csr import Csr

SWEEPS = 8  # over the rows at most
ENOUGH = 0.12  # a sweep that changed this share of what the first one changed is the last
ABREAST = 128  # outputs of one ascent, which bounds the dual variables held: one a row and output
FEW = 8  # a row changes few outputs if these are less than one in FEW of them: then one at a time


class HingeFit(NamedTuple):
    """weights (n_features, Q) float32, bias (Q,) float32, sweeps done, and the sum of changes of each (n,) float64."""

    weights: Array
    bias: Array
    sweeps: int
    changes: Array


def ascend(rows: Csr, children: Array, n_children: int, cost: float, unit: float, rng: np.random.Generator) -> HingeFit:
    """Fit rows (n_rows, n_features) of which `children` (n_rows,) int32 is the positive output, -1 for none.

    cost  C > 0; unit  >= 0: value of the constant feature whose weight, times it, is the bias; 0: no bias
    """
    orders = [rng.permutation(rows.n_rows) for _ in range(SWEEPS)]
    if n_children <= ABREAST:
        return _ascend(rows, children.astype(np.int32, copy=False), n_children, cost, unit, orders)
    weights, bias = np.zeros((rows.n_features, n_children), np.float32), np.zeros(n_children, np.float32)
    changes = np.zeros(SWEEPS)
    for start in range(0, n_children, ABREAST):
        part = slice(start, min(start + ABREAST, n_children))
        own = np.where((children >= part.start) & (children < part.stop), children - start, -1).astype(np.int32)
        fitted = _ascend(rows, own, part.stop - start, cost, unit, orders)
        weights[:, part], bias[part] = fitted.weights, fitted.bias
        changes[: fitted.sweeps] += fitted.changes
    sweeps = int(np.count_nonzero(changes))
    return HingeFit(weights, bias, sweeps, changes[:sweeps])


def _ascend(rows: Csr, children: Array, n_children: int, cost: float, unit: float, orders: list[Array]) -> HingeFit:
    """Fit few outputs."""
    data = rows.data.astype(np.float32, copy=False)
    arrays = data, rows.indices, rows.indptr.astype(np.int64, copy=False), children
    weights, constant = np.zeros((rows.n_features, n_children), np.float32), np.zeros(n_children, np.float32)
    duals, changes = np.zeros((rows.n_rows, n_children), np.float32), np.zeros(len(orders))
    sweeps = 0
    for order in orders:
        changes[sweeps] = sweep(*arrays, order, np.float32(0.5 / cost), np.float32(unit), weights, constant, duals)
        sweeps += 1
        if changes[sweeps - 1] <= ENOUGH * changes[0]:
            break
    weights[:], constant[:] = 0.0, 0.0
    from_duals(*arrays, np.float32(unit), duals, weights, constant)
    return HingeFit(weights, constant * np.float32(unit), sweeps, changes[:sweeps])


@numba.njit(cache=True, nogil=True)
def sweep(
    data: Array,
    indices: Array,
    indptr: Array,
    children: Array,
    order: Array,
    softness: float,
    unit: float,
    weights: Array,
    constant: Array,
    duals: Array,
) -> float:
    """One exact step for every row of `order` and every output; returns the sum of the sizes of all changes.

    data (nnz,) float32, indices (nnz,) int, indptr (n_rows + 1,) int64; children (n_rows,) int32
    softness  1 / (2 C), float32; unit float32: see `ascend`
    weights (n_features, Q), constant (Q,), duals (n_rows, Q), all float32: changed in place
    """
    n_children = constant.size
    one, zero = np.float32(1.0), np.float32(0.0)
    scores, moves = np.empty(n_children, np.float32), np.empty(n_children, np.float32)
    moved = np.empty(n_children, np.int64)
    total = 0.0
    for i in order:
        for q in range(n_children):
            scores[q] = unit * constant[q]
        norm = unit * unit + add_scores(data, indices, indptr[i], indptr[i + 1], weights, scores)
        dual, inverse, child = duals[i], one / (norm + softness), children[i]
        before = dual[child] if child >= 0 else zero
        for q in range(n_children):  # as a row of the others: y = -1
            new = max(dual[q] + (scores[q] + one - softness * dual[q]) * inverse, zero)
            moves[q] = dual[q] - new
            dual[q] = new
        if child >= 0:
            new = max(before + (one - scores[child] - softness * before) * inverse, zero)
            moves[child] = new - before
            dual[child] = new
        count = 0
        for q in range(n_children):
            total += abs(moves[q])
            moved[count] = q
            count += 1 if moves[q] != zero else 0
        if count == 0:
            continue
        for q in range(n_children):
            constant[q] += unit * moves[q]
        if count * FEW < n_children:
            for p in range(indptr[i], indptr[i + 1]):
                value, target = data[p], weights[indices[p]]
                for k in range(count):
                    target[moved[k]] += value * moves[moved[k]]
        else:
            for p in range(indptr[i], indptr[i + 1]):
                value, target = data[p], weights[indices[p]]
                for q in range(n_children):
                    target[q] += value * moves[q]
    return total


@numba.njit(cache=True, nogil=True, inline="always")
def add_scores(data: Array, indices: Array, start: int, stop: int, weights: Array, scores: Array) -> Any:
    """scores (Q,) += x W of the row whose entries are start ... stop - 1; returns |x|^2. Four entries at a time."""
    n_children = scores.size
    norm = data.dtype.type(0.0)
    whole = start + (stop - start) // 4 * 4
    for p in range(start, whole, 4):
        a, b, c, d = data[p], data[p + 1], data[p + 2], data[p + 3]
        u, v = weights[indices[p]], weights[indices[p + 1]]
        w, x = weights[indices[p + 2]], weights[indices[p + 3]]
        norm += (a * a + b * b) + (c * c + d * d)
        for q in range(n_children):
            scores[q] += (a * u[q] + b * v[q]) + (c * w[q] + d * x[q])
    for p in range(whole, stop):
        value, source = data[p], weights[indices[p]]
        norm += value * value
        for q in range(n_children):
            scores[q] += value * source[q]
    return norm


@numba.njit(cache=True, nogil=True)
def from_duals(
    data: Array,
    indices: Array,
    indptr: Array,
    children: Array,
    unit: float,
    duals: Array,
    weights: Array,
    constant: Array,
) -> None:
    """weights += sum of a_i y_i x_i, constant likewise; arguments as of `sweep`.

    What was added and taken away again on the way has left roundings; here a weight that no row holds up is exactly 0.
    """
    for i in range(indptr.size - 1):
        for q in range(constant.size):
            if duals[i, q] == 0.0:
                continue
            signed = duals[i, q] if q == children[i] else -duals[i, q]
            constant[q] += unit * signed
            for p in range(indptr[i], indptr[i + 1]):
                weights[indices[p], q] += data[p] * signed
