"""Rows of scores to losses, residuals and entropies of the multinomial logistic loss."""

from __future__ import annotations

import numpy as np

from tasks.exponential import LANES, dot, largest, lower_and_raise32, lower_and_raise64, subtract_x_log_x, total
from tasks.later import numba
from tasks.rows.base import Array

OWN, RAISED, OTHERS, TURNED = range(4)  # columns of what `_raise_rows` says of each row
LEAST = 1e-300


def softmax_residuals(scores: Array, labels: Array, scale: Array, shrink: Array, entropies: Array) -> float:
    """Turn scores into residuals a (p - e_y), a = scale[y]; add to `entropies`; return the sum of losses.

    scores     (n_rows, n_classes) float32 or float64, C order, overwritten
    labels     (n_rows,) int32
    scale      (n_classes,) float64 in [0, 1]: how far a row of the class is taken from its label to p
    shrink     (m,) float64 in [0, 1]: the dual points q = (1 - t) e_y + t p with t = shrink * a
    entropies  (m,) float64: the sum over the rows of H(q) is added to each
    """
    said = _raise_rows(scores, labels, shrink.size > 0)
    if shrink.size:
        _add_entropies(said, labels, scale, shrink, entropies)
    _scale_rows(scores, labels, said, scale)
    return float(_losses(said))


def softmax_losses(scores: Array, labels: Array) -> float:
    """The sum over rows of logsumexp(s) - s_y. scores (n_rows, n_classes) float, overwritten; labels (n_rows,) int32"""
    return float(_losses(_raise_rows(scores, labels, False)))


def softmax_row_losses(scores: Array, labels: Array) -> Array:
    """(n_rows,) float64: the loss of each row; see `softmax_losses`."""
    said = _raise_rows(scores, labels, False)
    losses = np.empty(len(said))
    _row_losses(said, losses)
    return losses


def _raise_rows(scores: Array, labels: Array, turning: bool) -> Array:
    """(n_rows, 4) float64: see `_raise_rows32`. Scores become e^(z - max), that of the row's own class 0."""
    said = np.zeros((len(scores), 4))
    if scores.dtype == np.float32:
        _raise_rows32(scores, scores.view(np.int32), labels, turning, said)
    else:
        _raise_rows64(scores, labels, turning, said)
    return said


@numba.njit(cache=True, nogil=True)
def _raise_rows32(scores: Array, bits: Array, labels: Array, turning: bool, said: Array) -> None:
    """scores (n_rows, n_classes) float32, bits the same memory as int32; said (n_rows, 4) float64, written:

    OWN     z_y - max;  RAISED e^(z_y - max);  OTHERS: sum of e^(z - max) of the other classes, kept apart because
            1 - p_y loses all digits where p_y is nearly 1;  TURNED: of these times z - max, with `turning`
    """
    room = np.empty(scores.shape[1], np.float32)
    turn_bits, lowered = room.view(np.int32), np.empty(scores.shape[1], np.float32)
    few, lanes = np.empty(LANES, np.float32), np.empty(LANES)
    for i in range(scores.shape[0]):
        row, label = scores[i], labels[i]
        highest = largest(row, few)
        said[i, OWN] = row[label] - highest  # not of `lowered`, which ends at -87
        lower_and_raise32(row, highest, lowered, room, turn_bits, bits[i])
        said[i, RAISED] = row[label]
        row[label] = 0
        said[i, OTHERS] = total(row, lanes)
        if turning:
            said[i, TURNED] = dot(row, lowered, lanes)


@numba.njit(cache=True, nogil=True)
def _raise_rows64(scores: Array, labels: Array, turning: bool, said: Array) -> None:
    """See `_raise_rows32`; scores float64."""
    few, lanes, lowered = np.empty(LANES), np.empty(LANES), np.empty(scores.shape[1])
    for i in range(scores.shape[0]):
        row, label = scores[i], labels[i]
        lower_and_raise64(row, largest(row, few), lowered)
        said[i, OWN], said[i, RAISED] = lowered[label], row[label]
        row[label] = 0
        said[i, OTHERS] = total(row, lanes)
        if turning:
            said[i, TURNED] = dot(row, lowered, lanes)


@numba.njit(cache=True, nogil=True)
def _losses(said: Array) -> float:
    """The sum of `_loss`."""
    loss = 0.0
    for i in range(said.shape[0]):
        loss += _loss(said[i])
    return loss


@numba.njit(cache=True, nogil=True)
def _row_losses(said: Array, losses: Array) -> None:
    """`_loss` of each row."""
    for i in range(said.shape[0]):
        losses[i] = _loss(said[i])


@numba.njit(cache=True, nogil=True)
def _loss(row: Array) -> float:
    """log(sum of e^(z - max)) - (z_y - max); exact where the loss is nearly 0."""
    if row[OWN] == 0.0:
        return float(np.log1p(row[OTHERS]))
    return float(np.log(row[RAISED] + row[OTHERS]) - row[OWN])


@numba.njit(cache=True, nogil=True)
def _scale_rows(scores: Array, labels: Array, said: Array, scale: Array) -> None:
    """Rows of e^(z - max) to a (p - e_y)."""
    for i in range(scores.shape[0]):
        row, label = scores[i], labels[i]
        factor = scale[label] / (said[i, RAISED] + said[i, OTHERS])
        row[label] = -said[i, OTHERS]
        narrow = row.dtype.type(factor)
        for c in range(row.size):
            row[c] *= narrow


@numba.njit(cache=True, nogil=True, error_model="numpy")
def _add_entropies(said: Array, labels: Array, scale: Array, shrink: Array, entropies: Array) -> None:
    """H(q) of q = e_y + t (p - e_y), t = shrink a, a = scale[y]; w = 1 - p_y, T = sum over c != y of p_c (z_c - max):

    H(q) = - t [(log shrink + log a - log mass) w + T] - (1 - t w) log(1 - t w), the bracket linear in log shrink.
    """
    values, fractions = np.empty(shrink.size), np.empty(shrink.size)
    bits = fractions.view(np.int64)
    in_log, apart = 0.0, 0.0
    for i in range(said.shape[0]):
        a = scale[labels[i]]
        if a <= 0.0:
            continue
        mass = said[i, RAISED] + said[i, OTHERS]
        wrong = a * said[i, OTHERS] / mass
        in_log += wrong
        apart += wrong * np.log(a / mass) + a * said[i, TURNED] / mass
        for m in range(shrink.size):
            right = 1.0 - shrink[m] * wrong
            values[m] = right if right > LEAST else LEAST
        subtract_x_log_x(values, fractions, bits, entropies)
    for m in range(shrink.size):
        if shrink[m] > 0.0:
            entropies[m] -= shrink[m] * (np.log(shrink[m]) * in_log + apart)


@numba.njit(cache=True, nogil=True)
def add_by_class(sums: Array, labels: Array, rows: Array) -> None:
    """Add each row (n_rows, m) to that of its label (n_rows,) in sums (n_classes, m) float64, in order."""
    for i in range(rows.shape[0]):
        for c in range(rows.shape[1]):
            sums[labels[i], c] += rows[i, c]
