"""Colorings by trying all of them, and by a table over their sums and signs."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


def feasible(coloring: tuple[int, ...], balance: int, both: bool = True) -> bool:
    return abs(sum(coloring)) <= balance and (not both or (1 in coloring and -1 in coloring))


def cost(plus: Array, minus: Array, coloring: tuple[int, ...]) -> float:
    return math.fsum({1: p, -1: q, 0: 0.0}[color] for p, q, color in zip(plus, minus, coloring, strict=True))


def feasible_costs(plus: Array, minus: Array, balance: int, both: bool) -> Iterator[float]:
    for coloring in itertools.product((-1, 0, 1), repeat=len(plus)):
        if feasible(coloring, balance, both):
            yield cost(plus, minus, coloring)


def least_cost(plus: Array, minus: Array, balance: int, both: bool = True) -> float:
    """Over all 3^K colorings."""
    return min(feasible_costs(plus, minus, balance, both))


def least_cost_by_table(plus: Array, minus: Array, balance: int, both: bool = True) -> float:
    """O(K^2): the least cost of the classes so far, of every sum and of which signs are there."""
    n = len(plus)
    table = np.full((2 * n + 3, 2, 2), np.inf)  # sum + n + 1, a +1 is there, a -1 is there
    table[n + 1, 0, 0] = 0.0
    for p, q in zip(plus, minus, strict=True):
        more = table.copy()
        up = np.minimum(table[:-1, 0], table[:-1, 1]) + p
        down = np.minimum(table[1:, :, 0], table[1:, :, 1]) + q
        more[1:, 1] = np.minimum(more[1:, 1], up)
        more[:-1, :, 1] = np.minimum(more[:-1, :, 1], down)
        table = more
    near = table[max(n + 1 - balance, 0) : n + 2 + balance]
    return float(near[:, 1, 1].min() if both else near.min())
