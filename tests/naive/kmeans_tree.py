"""The k-means tree by the definitions: one row, one output, one class at a time."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]


def child_softmax(scores: Sequence[float], child: int, reference: bool) -> float:
    """-log of the share of the row's child among exp(scores) and, with a reference, 1; child -1: of the reference."""
    if child < 0 and not reference:
        return math.log(len(scores))
    mass = sum(math.exp(s) for s in scores) + (1.0 if reference else 0.0)
    return math.log(mass) - (scores[child] if child >= 0 else 0.0)


def hinge_objective(rows: Array, signs: Array, weights: Array, cost: float) -> float:
    """1/2 |w|^2 + C sum max(0, 1 - y w.x)^2 of one output."""
    margins = [max(0.0, 1.0 - float(y) * float(w_x)) for y, w_x in zip(signs, rows @ weights, strict=True)]
    return 0.5 * float(weights @ weights) + cost * sum(m * m for m in margins)


def dual_ascent(
    rows: Array, children: Sequence[int], n_children: int, cost: float, orders: Sequence[Array]
) -> tuple[Array, list[float]]:
    """(weights (n_features, Q), sum of changes of each sweep): one dual variable of one output at a time."""
    weights, changes = np.zeros((rows.shape[1], n_children)), [0.0] * len(orders)
    for q in range(n_children):
        duals = np.zeros(len(rows))
        for k, order in enumerate(orders):
            for i in order:
                y = 1.0 if children[i] == q else -1.0
                slope = y * float(rows[i] @ weights[:, q]) - 1.0 + duals[i] / (2.0 * cost)
                new = max(0.0, duals[i] - slope / (float(rows[i] @ rows[i]) + 1.0 / (2.0 * cost)))
                weights[:, q] += (new - duals[i]) * y * rows[i]
                changes[k] += abs(new - duals[i])
                duals[i] = new
    return weights, changes


def goes_to(scores: Sequence[float], own: int, reach: int) -> set[int]:
    """The children that get a row: its own, and the best `reach`; of a row of another class the best one."""
    order = sorted(range(len(scores)), key=lambda q: (-scores[q], q))
    return {*order[:reach], own} if own >= 0 else {order[0]}


def directions(rows: Array, labels: Sequence[int], n_classes: int) -> Array:
    """(K, n_features): the sum of the rows of each class, of length 1; zeros without rows."""
    found = np.zeros((n_classes, rows.shape[1]))
    for row, label in zip(rows, labels, strict=True):
        if label >= 0:
            found[label] += row
    return np.array([v / np.linalg.norm(v) if np.linalg.norm(v) > 0 else v for v in found])


def search_cost(branching: int, depth: int, n_classes: int, visited: float) -> float:
    """Dot products of a search that opens `visited` nodes of each depth below the root."""
    nodes = [1.0] + [visited] * (depth - 1)
    widths = [float(branching)] * (depth - 1) + [n_classes / branching ** (depth - 1)]
    return sum(n * w for n, w in zip(nodes, widths, strict=True))


def pruned(weights: Array, share: float) -> Array:
    """Without the smallest numbers, as long as those hold at most `share` of the squares' sum."""
    found, left = weights.copy(), share * float((weights**2).sum())
    for i in sorted(range(weights.size), key=lambda i: abs(weights.flat[i])):
        left -= float(weights.flat[i]) ** 2
        if left < 0:
            break
        found.flat[i] = 0.0
    return found
