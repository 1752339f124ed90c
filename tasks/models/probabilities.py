"""Softmax over all classes of a row, of which only the probabilities asked for are kept."""

from __future__ import annotations

import numpy as np

from tasks.exponential import LANES, largest, lower_and_raise32, total
from tasks.later import numba
from tasks.rows.base import Array


@numba.njit(cache=True, nogil=True)
def softmax_parts(scores: Array, classes: Array, labels: Array, named: Array, own: Array) -> None:
    """Probabilities exp(z_c) / sum over c' of exp(z_c'), the largest score taken off first, so that nothing overflows.

    scores   (n_rows, n_classes) float32, finite: log-odds z; all exponentials in float32, sums in float64
    classes  (n_rows, top) int32: whose probabilities are wanted; -1 for none
    labels   (n_rows,) int32: whose log-probability is wanted; -1 for none
    named    (n_rows, top) float32, filled: probabilities of `classes`, NaN where there is none
    own      (n_rows,) float32, filled: natural logarithm of that of `labels`, NaN where there is none
    """
    n_classes = scores.shape[1]
    powers, lowered = np.empty(n_classes, np.float32), np.empty(n_classes, np.float32)
    room, few, lanes = np.empty(n_classes, np.float32), np.empty(LANES, np.float32), np.empty(LANES)
    for i in range(scores.shape[0]):
        row = scores[i]
        highest = largest(row, few)
        powers[:] = row
        lower_and_raise32(powers, highest, lowered, room, room.view(np.int32), powers.view(np.int32))
        mass = total(powers, lanes)
        for j in range(classes.shape[1]):
            c = classes[i, j]
            named[i, j] = np.exp(np.float64(row[c]) - highest) / mass if c >= 0 else np.nan
        own[i] = np.float64(row[labels[i]]) - highest - np.log(mass) if labels[i] >= 0 else np.nan
