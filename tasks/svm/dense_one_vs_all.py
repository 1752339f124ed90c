"""Squared hinges of dense rows by dual ascent, a block of rows at a time.

A block's scores are one product, and so is what it does to the weights; between them its rows have their turns one
after another on the scores, kept right by the rows' own products. That is the same as row after row, at the speed of
products of matrices.
"""

from __future__ import annotations

import numpy as np

from tasks.later import numba
from tasks.rows import Dense
from tasks.rows.base import Array
from tasks.svm.hinge_turn import add_loss, take_turn

BLOCK = 64  # rows whose scores are one product


class DenseAscent:
    """weights (d, Q), constant (Q,), duals (n, Q), all float32; see `one_vs_all.Ascent`.

    values (n, d) float32, contiguous; labels (n,) int32, -1 for none
    """

    def __init__(self, values: Array, labels: Array, n_outputs: int, unit: float) -> None:
        self.values, self.labels, self.unit = values, labels, np.float32(unit)
        n, d = values.shape
        self.weights, self.constant = np.zeros((d, n_outputs), np.float32), np.zeros(n_outputs, np.float32)
        self.duals = np.zeros((n, n_outputs), np.float32)
        self.size = int(np.clip(n // 8, 1, BLOCK))
        self.moves = np.empty((self.size, n_outputs), np.float32)
        self.sum, self.constants = np.zeros_like(self.weights), np.zeros_like(self.constant)
        self.n_blocks = 0

    def sweep(self, order: Array, cost: float) -> tuple[Array, Array]:
        gaps, losses = np.zeros(self.constant.size), np.zeros(self.constant.size)
        softness, self.n_blocks = np.float32(0.5 / cost), 0
        self.sum[:], self.constants[:] = 0.0, 0.0
        for start in range(0, order.size, self.size):
            index = order[start : start + self.size]
            block, moves = self.values[index], self.moves[: index.size]
            scores = block @ self.weights
            scores += self.unit * self.constant
            gram = block @ block.T
            gram += self.unit * self.unit
            take_turns(index, self.labels, scores, gram, softness, self.duals, moves, gaps, losses)
            Dense(block).subtract_gradient(moves, -1.0, self.weights)
            self.constant += self.unit * moves.sum(axis=0)
            self.sum += self.weights
            self.constants += self.constant
            self.n_blocks += 1
        return gaps, losses

    def mean(self) -> tuple[Array, Array]:
        """Of the weights after each block."""
        share = np.float32(1.0 / max(1, self.n_blocks))
        return self.sum * share, self.constants * share

    def losses(self, weights: Array, bias: Array) -> Array:
        losses = np.zeros(bias.size)
        for start in range(0, len(self.values), 16 * BLOCK):
            part = slice(start, start + 16 * BLOCK)
            add_losses(self.values[part] @ weights + bias, self.labels[part], losses)
        return losses


@numba.njit(cache=True, nogil=True)
def take_turns(
    index: Array,
    labels: Array,
    scores: Array,
    gram: Array,
    softness: float,
    duals: Array,
    moves: Array,
    gaps: Array,
    losses: Array,
) -> None:
    """The turn of each row of a block, seen by the scores of the rows after it.

    index (m,) int64: rows of the block; labels (n,) int32, -1 for none; duals (n, Q) float32, changed
    scores (m, Q) float32 before the first row's turn, changed; gram (m, m) float32: x . x' + unit^2
    softness float32: 1 / (2 C); moves (m, Q) float32, out: changes of a_i y_i
    gaps, losses (Q,) float64: what the turns see is added (see `take_turn`)
    """
    n_outputs = gaps.size
    seen, lost = np.zeros(n_outputs, np.float32), np.zeros(n_outputs, np.float32)
    for r in range(index.size):
        move = moves[r]
        take_turn(scores[r], labels[index[r]], gram[r, r], softness, duals[index[r]], move, seen, lost)
        for later in range(r + 1, index.size):
            common, target = gram[later, r], scores[later]
            for q in range(n_outputs):
                target[q] += common * move[q]
    for q in range(n_outputs):
        gaps[q] += seen[q]
        losses[q] += lost[q]


@numba.njit(cache=True, nogil=True)
def add_losses(scores: Array, labels: Array, losses: Array) -> None:
    """losses (Q,) float64 += squared hinges of scores (m, Q) float32; labels (m,) int32, -1 for none."""
    for i in range(labels.size):
        add_loss(scores[i], labels[i], losses)
