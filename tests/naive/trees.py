"""Label trees by the definitions: one entry, one row, one node at a time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product

import numpy as np
import numpy.typing as npt
from scipy.optimize import linprog

Array = npt.NDArray[np.float64]


def loss_and_ambiguity(counts: Array, children: Array) -> tuple[float, float]:
    """(1) and (2) averaged over the counted rows, row by row."""
    lost = ambiguity = total = 0.0
    for q, k in product(*map(range, counts.shape)):
        total += counts[q, k]
        lost += counts[q, k] * (1 - children[q, k])
        ambiguity += counts[q, k] * sum(children[q]) / counts.shape[1]
    return lost / total, ambiguity / total


def best_partition(counts: Array, allowed: Callable[[float, float], bool], aim: int) -> float:
    """The least loss (aim 0) or ambiguity (aim 1) over all 0/1 partitions that are allowed(loss, ambiguity)."""
    best = np.inf
    for bits in product((0, 1), repeat=counts.size):
        measures = loss_and_ambiguity(counts, np.array(bits).reshape(counts.shape))
        if allowed(*measures):
            best = min(best, measures[aim])
    return best


def lp_accuracy_constrained(counts: Array, loss: float) -> float:
    """OP3 relaxed, by an LP solver."""
    m, n_classes = counts.sum(), counts.shape[1]
    costs = np.repeat(counts.sum(axis=1), n_classes) / (m * n_classes)
    found = linprog(costs, A_ub=-counts.reshape(1, -1) / m, b_ub=[-(1 - loss)], bounds=(0, 1))
    return float(found.fun)


def lp_efficiency_constrained(counts: Array, ambiguity: float) -> float:
    """OP3' relaxed, by an LP solver; its value is the loss."""
    m, n_classes = counts.sum(), counts.shape[1]
    costs = np.repeat(counts.sum(axis=1), n_classes).reshape(1, -1) / (m * n_classes)
    found = linprog(-counts.ravel() / m, A_ub=costs, b_ub=[ambiguity], bounds=(0, 1))
    return float(1 + found.fun)


def walk(
    row: Array, weights: Sequence[Array | None], children: Sequence[Sequence[int]], sets: Sequence[Sequence[int]]
) -> tuple[int, int, list[int]]:
    """Algorithm 1 on one row: (answer, classifiers evaluated, path). weights[node] is (n_features, n_children)."""
    node, evaluated, path = 0, 0, [0]
    while children[node]:
        matrix = weights[node]
        assert matrix is not None
        scores = [sum(row[j] * matrix[j, q] for j in range(len(row))) for q in range(matrix.shape[1])]
        evaluated += len(scores)
        node = children[node][scores.index(max(scores))]
        path.append(node)
    return (min(sets[node]) if len(sets[node]) else -1), evaluated, path


def sparse_scores(
    values: Array,
    columns: Sequence[int],
    starts: Sequence[int],
    entries: Sequence[int],
    weights: Sequence[float],
    q: int,
) -> Array:
    """X W for a full X (n_rows, n_features) and W as of `SparseWeights`, with q children."""
    out = np.zeros((len(values), q))
    for i, row in enumerate(values):
        for c, feature in enumerate(columns):
            for e in range(starts[c], starts[c + 1]):
                out[i, entries[e]] += row[feature] * weights[e]
    return out


def fill_groups(distances: Array, order: Sequence[int]) -> list[int]:
    """Points in order, each to the nearest group (ties to the lower) that may still take one."""
    n_points, n_groups = distances.shape
    held = [0] * n_groups
    groups = [-1] * n_points
    for point in order:
        larger = sum(h > n_points // n_groups for h in held)
        free = [
            g
            for g in range(n_groups)
            if held[g] < n_points // n_groups or (held[g] == n_points // n_groups and larger < n_points % n_groups)
        ]
        groups[point] = min(free, key=lambda g: (distances[point, g], g))
        held[groups[point]] += 1
    return groups
