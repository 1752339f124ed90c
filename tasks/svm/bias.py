"""The best bias of a hyperplane whose direction is given, and its best length."""

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


def best_stretch(margins: Array, costs: Array, squared_norm: float) -> float:
    """The t >= 1 that minimises 1/2 t^2 |w|^2 + sum of c_i max(0, 1 - t m_i), weights and bias stretched alike.

    margins (n,) float64: m_i = y_i f(x_i); costs (n,) float64. The slope t |w|^2 - sum of c_i m_i over the t m_i < 1
    rises, and jumps where t is 1 / m_i: the first stretch is sought at which it is not below 0.
    """
    if squared_norm <= 0:
        return 1.0
    open_ones = margins < 1.0
    margins, pulls = margins[open_ones], costs[open_ones] * margins[open_ones]
    ends = np.where(margins > 0, 1.0 / np.where(margins > 0, margins, 1.0), np.inf)
    order = np.argsort(ends, kind="stable")
    ends, left = ends[order], np.append(np.cumsum(pulls[order][::-1])[::-1], 0.0)  # left[k]: pull beyond k ends
    turned = np.flatnonzero(ends * squared_norm >= left[:-1])  # at its own end the slope has come to 0
    k = int(turned[0]) if turned.size else ends.size
    begun = float(ends[k - 1]) if k else 1.0
    return max(begun, float(left[k]) / squared_norm)
