"""Squared hinges of sparse rows by dual ascent, row after row, a row's outputs at once.

The mean of the weights over a sweep is made of the mean duals: a row has one turn, so what its duals were before counts
for the share of the sweep before its turn, and what they are now for the rest. No other weights are kept up to date.
"""

from __future__ import annotations

import numpy as np

from tasks.fit.hinge_ascent import FEW, add_scores
from tasks.later import numba
from tasks.rows import Csr
from tasks.rows.base import Array
from tasks.svm.hinge_turn import add_loss, take_turn


class SparseAscent:
    """weights (d, Q), constant (Q,), duals and signed mean duals (n, Q), all float32; see `one_vs_all.Ascent`.

    labels (n,) int32, -1 for none
    """

    def __init__(self, rows: Csr, labels: Array, n_outputs: int, unit: float) -> None:
        self.labels, self.unit = labels, np.float32(unit)
        data, indptr = rows.data.astype(np.float32, copy=False), rows.indptr.astype(np.int64, copy=False)
        self.rows = Csr(data, rows.indices, indptr, rows.n_features)
        self.arrays = data, rows.indices, indptr, labels
        self.weights = np.zeros((rows.n_features, n_outputs), np.float32)
        self.constant = np.zeros(n_outputs, np.float32)
        self.duals, self.signed = (np.zeros((rows.n_rows, n_outputs), np.float32) for _ in range(2))

    def sweep(self, order: Array, cost: float) -> tuple[Array, Array]:
        gaps, losses = np.zeros(self.constant.size), np.zeros(self.constant.size)
        softness, fit = np.float32(0.5 / cost), (self.weights, self.constant, self.duals)
        sweep(*self.arrays, order, softness, self.unit, *fit, self.signed, gaps, losses)
        return gaps, losses

    def mean(self) -> tuple[Array, Array]:
        """Of the weights after each row. A weight that no row holds up is exactly 0."""
        return self.rows.gradient(self.signed), self.unit * self.signed.sum(axis=0)

    def losses(self, weights: Array, bias: Array) -> Array:
        losses = np.zeros(bias.size)
        add_losses(*self.arrays, weights, bias, losses)
        return losses


@numba.njit(cache=True, nogil=True)
def sweep(
    data: Array,
    indices: Array,
    indptr: Array,
    labels: Array,
    order: Array,
    softness: float,
    unit: float,
    weights: Array,
    constant: Array,
    duals: Array,
    signed: Array,
    gaps: Array,
    losses: Array,
) -> None:
    """A turn for every row of `order` (n,) int64.

    data (nnz,) float32, indices (nnz,) int32, indptr (n + 1,) int64; labels (n,) int32, -1 for none
    softness  1 / (2 C), float32; unit float32: value of the constant feature
    weights (d, Q), constant (Q,), duals (n, Q), all float32: changed; signed (n, Q) float32, out: means of a_i y_i
    gaps, losses (Q,) float64: what the turns see is added (see `take_turn`)
    """
    n_outputs = constant.size
    scores, move = np.empty(n_outputs, np.float32), np.empty(n_outputs, np.float32)
    seen, lost = np.zeros(n_outputs, np.float32), np.zeros(n_outputs, np.float32)
    moved = np.empty(n_outputs, np.int64)
    for k in range(order.size):
        i = order[k]
        start, stop, label, mean = indptr[i], indptr[i + 1], labels[i], signed[i]
        for q in range(n_outputs):
            scores[q] = unit * constant[q]
        norm = add_scores(data, indices, start, stop, weights, scores) + unit * unit
        take_turn(scores, label, norm, softness, duals[i], move, seen, lost)
        before = np.float32(k / order.size)
        set_means(duals[i], move, label, before, mean)
        for q in range(n_outputs):
            constant[q] += unit * move[q]
        add_moves(data, indices, start, stop, move, moved, weights)
        if k % 64 == 63 or k == order.size - 1:  # sums of float32 are kept short
            for q in range(n_outputs):
                gaps[q] += seen[q]
                losses[q] += lost[q]
                seen[q], lost[q] = np.float32(0.0), np.float32(0.0)


@numba.njit(cache=True, nogil=True, inline="always")
def set_means(dual: Array, move: Array, label: int, before: float, mean: Array) -> None:
    """mean (Q,) float32, out: a y over the sweep, of which the share `before` is that without the move."""
    for q in range(dual.size):
        mean[q] = -dual[q] - before * move[q]
    if label >= 0:
        mean[label] = dual[label] - before * move[label]


@numba.njit(cache=True, nogil=True, inline="always")
def add_moves(data: Array, indices: Array, start: int, stop: int, move: Array, moved: Array, weights: Array) -> None:
    """weights (d, Q) += x (move); moved (Q,) int64 is room for the outputs that do, used where these are few."""
    n_outputs, count = move.size, 0
    for q in range(n_outputs):
        moved[count] = q
        count += 1 if move[q] != np.float32(0.0) else 0
    if count * FEW < n_outputs:
        for p in range(start, stop):
            value, target = data[p], weights[indices[p]]
            for k in range(count):
                target[moved[k]] += value * move[moved[k]]
    else:
        for p in range(start, stop):
            value, target = data[p], weights[indices[p]]
            for q in range(n_outputs):
                target[q] += value * move[q]


@numba.njit(cache=True, nogil=True)
def add_losses(
    data: Array, indices: Array, indptr: Array, labels: Array, weights: Array, bias: Array, losses: Array
) -> None:
    """losses (Q,) float64 += squared hinges of the rows' scores by weights (d, Q) and bias (Q,), both float32."""
    scores = np.empty(bias.size, np.float32)
    for i in range(labels.size):
        for q in range(bias.size):
            scores[q] = bias[q]
        add_scores(data, indices, indptr[i], indptr[i + 1], weights, scores)
        add_loss(scores, labels[i], losses)
