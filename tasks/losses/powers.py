"""Exponentials of a row of scores as losses need them: in float32 by vector instructions, in float64 by the library."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tasks.exponential import LANES, lower_and_raise32, lower_and_raise64
from tasks.later import numba
from tasks.rows.base import Array

MOST_FACTORS = 512  # of 1 + e^x <= 2 in one product of float64


def raise_row(row: Array, highest: Any, lowered: Array, turns: Array) -> None:
    """row <- e^(row - highest), lowered <- row - highest; row <= highest.

    row, lowered, turns  (n,) of one dtype, float32 or float64; turns: room
    """
    if row.dtype == np.float32:
        lower_and_raise32(row, highest, lowered, turns, turns.view(np.int32), row.view(np.int32))
    else:
        lower_and_raise64(row, highest, lowered)


@numba.overload(raise_row)
def _raise_row(row: Array, highest: Any, lowered: Array, turns: Array) -> Callable[..., None]:  # noqa: ARG001
    if str(row.dtype) == "float32":  # numba's own type
        return _single
    return _double


def _single(row: Array, highest: Any, lowered: Array, turns: Array) -> None:
    lower_and_raise32(row, highest, lowered, turns, turns.view(np.int32), row.view(np.int32))


def _double(row: Array, highest: Any, lowered: Array, turns: Array) -> None:  # noqa: ARG001
    lower_and_raise64(row, highest, lowered)


@numba.njit(cache=True, nogil=True)
def sum_log1p(powers: Array, lanes: Array) -> float:
    """Sum of log(1 + x) over powers (n,) in [0, 1], as logarithms of products. lanes (LANES,) float64: room"""
    total: float = 0.0
    for start in range(0, powers.size, LANES * MOST_FACTORS):
        part = powers[start : start + LANES * MOST_FACTORS]
        whole = part.size // LANES * LANES
        for j in range(LANES):
            lanes[j] = 1.0
        for first in range(0, whole, LANES):
            for j in range(LANES):
                lanes[j] *= 1.0 + np.float64(part[first + j])
        for j in range(part.size - whole):
            lanes[j] *= 1.0 + np.float64(part[whole + j])
        for j in range(LANES):
            total += np.log(lanes[j])
    return total
