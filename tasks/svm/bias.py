"""The best bias of a hyperplane whose direction is given."""

from __future__ import annotations

import numpy as np

from tasks.rows.base import Array

ROUNDING = 1e-12  # share of the whole cost below which a slope counts as 0


def best_bias(scores: Array, sides: Array, costs: Array) -> float:
    """The b that minimises sum of c_i max(0, 1 - y_i (s_i + b)); of a flat piece of minimisers, its middle.

    scores  (n,) float64: w . x
    sides   (n,) -1 or 1, both present
    costs   (n,) float > 0
    The sum is convex and bends at b_i = y_i - s_i, where its slope goes up by c_i from -(costs of the positive rows).
    With the middle, turning all sides turns the hyperplane.
    """
    bends = sides - np.asarray(scores, np.float64)
    order = np.argsort(bends, kind="stable")
    costs = np.asarray(costs, np.float64)
    slopes = np.cumsum(costs[order]) - costs[sides > 0].sum()
    slack = ROUNDING * slopes.size**0.5 * costs.sum()
    first = int(np.searchsorted(slopes, -slack))  # from here on the slope is not negative
    last = int(np.searchsorted(slopes, slack, side="right"))  # from here on it is positive
    last = min(last, bends.size - 1)
    return float(0.5 * (bends[order[first]] + bends[order[last]]))
