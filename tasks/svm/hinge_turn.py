"""A row's turn in the dual ascent of squared hinges: the exact step for every output, and what it sees on the way."""

from __future__ import annotations

import numpy as np

from tasks.later import numba
from tasks.rows.base import Array


@numba.njit(cache=True, nogil=True, inline="always")
def take_turn(
    scores: Array, label: int, norm: float, softness: float, dual: Array, move: Array, seen: Array, lost: Array
) -> None:
    """All arrays (Q,) float32, norm and softness float32.

    scores   f of the row by the weights as they are; label: its output, -1 for none
    norm     |x|^2 + unit^2; softness  1 / (2 C)
    dual     a >= 0, changed; move, out: change of a y
    seen     += C h^2 + a g + a^2 / 4 C, with h = max(0, -g), g = y f - 1 and the a before: the row's share of the gap
    lost     += h^2
    """
    one, zero, half = np.float32(1.0), np.float32(0.0), np.float32(0.5)
    hardness, inverse = half / softness, one / (norm + softness)
    before, gap, loss = zero, zero, zero
    if label >= 0:
        before, gap, loss = dual[label], seen[label], lost[label]
    for q in range(dual.size):  # as a row of the others: y = -1
        slope, old = -scores[q] - one, dual[q]
        hinge = max(zero, -slope)
        seen[q] += hardness * hinge * hinge + old * (slope + half * softness * old)
        lost[q] += hinge * hinge
        new = max(old - (slope + softness * old) * inverse, zero)
        move[q] = old - new
        dual[q] = new
    if label >= 0:
        slope = scores[label] - one
        hinge = max(zero, -slope)
        seen[label] = gap + hardness * hinge * hinge + before * (slope + half * softness * before)
        lost[label] = loss + hinge * hinge
        new = max(before - (slope + softness * before) * inverse, zero)
        move[label] = new - before
        dual[label] = new


@numba.njit(cache=True, nogil=True, inline="always")
def add_loss(scores: Array, label: int, losses: Array) -> None:
    """losses (Q,) float64 += squared hinges of a row's scores (Q,) float32; label: its output, -1 for none."""
    one, zero = np.float32(1.0), np.float32(0.0)
    for q in range(losses.size):
        hinge = max(zero, one - scores[q]) if q == label else max(zero, one + scores[q])
        losses[q] += hinge * hinge
