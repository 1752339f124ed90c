"""Multinomial logistic loss (softmax); Harchaoui et al. 2012, section 2."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tasks.exponential import LANES, largest
from tasks.exponential import total as total_of
from tasks.later import numba
from tasks.losses.powers import raise_row
from tasks.losses.weights import checked_class_weight, row_weights
from tasks.rows.base import Array


@numba.njit(cache=True, nogil=True)
def multinomial_rows(scores: Array, labels: Array, weights: Array, out: Array) -> float:
    """Fill `out` with d(loss)/d(scores) = weight (p - e_y) and return the sum of losses, logsumexp(s) - s_y each.

    scores, out (n_rows, n_outputs) float; labels (n_rows,) int32 in [0, n_outputs); weights (n_rows,) float64
    """
    total = 0.0
    lowered, turns = np.empty(scores.shape[1], scores.dtype), np.empty(scores.shape[1], scores.dtype)
    few, lanes = np.empty(LANES, scores.dtype), np.empty(LANES)
    for i in range(scores.shape[0]):
        row, target, label = scores[i], out[i], labels[i]
        for c in range(row.size):
            target[c] = row[c]
        highest = largest(row, few)
        own = np.float64(row[label] - highest)
        raise_row(target, highest, lowered, turns)
        mass = total_of(target, lanes)
        factor = scores.dtype.type(weights[i] / mass)
        for c in range(row.size):
            target[c] *= factor
        target[label] -= scores.dtype.type(weights[i])
        total += weights[i] * (np.log(mass) - own)
    return total


@dataclass(frozen=True, eq=False)
class Multinomial:
    """log(1 + sum over l != y of exp(s_l - s_y)); class_weight (n_classes,) or None multiplies a class's rows."""

    class_weight: Array | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "class_weight", checked_class_weight(self.class_weight))

    def residuals(self, scores: Array, labels: Array) -> tuple[float, Array]:
        """See `Loss.residuals`; labels (n_rows,) int32 are outputs."""
        out = np.empty_like(scores)
        return multinomial_rows(scores, labels, row_weights(labels, self.class_weight), out), out

    @property
    def curvature(self) -> float:
        return 0.5

    @property
    def penalty_weight(self) -> float:
        return 0.05
