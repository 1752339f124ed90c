"""Small weights set to 0: the many that together hold next to nothing of a model's squared norm."""

from __future__ import annotations

import numpy as np

from tasks.later import numba
from tasks.rows.base import Array

SHIFT = 20  # a float32 without its last bits: eight sizes for every power of two
SIZES = 1 << (31 - SHIFT)
SIGNLESS = 0x7FFFFFFF


def prune(weights: Array, share: float) -> None:
    """Set the smallest of weights (n, m) float32, C order, to 0, in place: those that hold `share` of the squares' sum.

    They are told apart by size to an eighth of a power of two; of one size all stay or none.
    """
    flat = weights.reshape(-1)
    drop_smallest(flat, flat.view(np.int32), share)


@numba.njit(cache=True, nogil=True)
def drop_smallest(weights: Array, bits: Array, share: float) -> None:
    """See `prune`; weights (n,) float32, bits (n,) int32: the same memory."""
    squares = np.zeros(SIZES)
    for i in range(weights.size):
        squares[(bits[i] & SIGNLESS) >> SHIFT] += np.float64(weights[i]) * weights[i]
    total = 0.0
    for size in range(SIZES):
        total += squares[size]
    first, held = 0, 0.0
    while first < SIZES and held + squares[first] <= share * total:
        held += squares[first]
        first += 1
    for i in range(weights.size):
        if (bits[i] & SIGNLESS) >> SHIFT < first:
            weights[i] = 0.0
