"""Rows of scores to losses, probabilities and entropies of the multinomial logistic loss, in one pass over them."""

from __future__ import annotations

import numba
import numpy as np

from tasks.rows.base import Array


@numba.njit(cache=True, nogil=True)
def softmax_residuals(scores: Array, labels: Array, scale: Array, shrink: Array, entropies: Array) -> float:
    """Turn scores into residuals a (p - e_y), a = scale[y]; add to `entropies`; return the sum of losses.

    scores     (n_rows, n_classes) float, overwritten
    labels     (n_rows,) int32
    scale      (n_classes,) float64 in [0, 1]: how far a row of the class is taken from its label to p
    shrink     (m,) float64 in [0, 1]: the dual points q = (1 - t) e_y + t p with t = shrink * a
    entropies  (m,) float64: the sum over the rows of H(q) is added to each
    """
    total = 0.0
    n_classes = scores.shape[1]
    for i in range(scores.shape[0]):
        row, label = scores[i], labels[i]
        own = row[label]
        highest = row[0]
        for c in range(1, n_classes):
            highest = max(highest, row[c])
        mass, others, turned = (
            0.0,
            0.0,
            0.0,
        )  # sums of e^(z - max): of all, of all but y, and of the latter times z - max
        for c in range(n_classes):
            lowered = row[c] - highest
            part = np.exp(lowered)
            row[c] = part
            mass += part
            if c != label:
                others += part
                turned += part * lowered
        log_mass = np.log(mass)
        total += log_mass + highest - own
        factor = scale[label] / mass
        for c in range(n_classes):
            row[c] *= factor
        row[label] = -scale[label] * others / mass
        wrong, spread = others / mass, turned / mass
        for m in range(shrink.size):
            t = shrink[m] * scale[label]
            right = 1.0 - t * wrong
            if t > 0.0:
                entropies[m] -= t * ((np.log(t) - log_mass) * wrong + spread)
            if right > 0.0:
                entropies[m] -= right * np.log(right)
    return total


@numba.njit(cache=True, nogil=True)
def softmax_losses(scores: Array, labels: Array) -> float:
    """The sum over rows of logsumexp(s) - s_y. scores (n_rows, n_classes) float; labels (n_rows,) int32"""
    total = 0.0
    for i in range(scores.shape[0]):
        row = scores[i]
        highest = row[0]
        for c in range(1, row.size):
            highest = max(highest, row[c])
        mass = 0.0
        for c in range(row.size):
            mass += np.exp(row[c] - highest)
        total += np.log(mass) + highest - row[labels[i]]
    return total
