"""Relaxed hierarchies by their definitions: rows of classes one by one, all colorings tried, paths counted."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


def by_class(labels: Array, split: Array, n_classes: int) -> list[int]:
    """Places of the training rows (split 0), class by class, as they come."""
    return [i for k in range(n_classes) for i in range(len(labels)) if labels[i] == k and split[i] == 0]


def dealt(counts: list[int], most: int) -> list[int]:
    """One row of each class that has any; then one after another to the class that has least, while some are left.

    Of classes that have equally much the one with most rows comes first, of those the last.
    """
    taken = [min(1, count) for count in counts]
    while sum(taken) < min(most, sum(counts)):
        wanting = [k for k in range(len(counts)) if taken[k] < counts[k]]
        k = max(wanting, key=lambda k: (-taken[k], counts[k], k))
        taken[k] += 1
    return taken


def colorings(n_classes: int, balance: int) -> Iterator[Array]:
    """All with a sum within the balance and both signs."""
    for colors in itertools.product((-1, 0, 1), repeat=n_classes):
        if abs(sum(colors)) <= balance and 1 in colors and -1 in colors:
            yield np.array(colors, np.int8)


def objective(
    margins: Array, squared_norm: float, labels: Array, costs: Array, reward: float, coloring: Array
) -> float:
    """Equation (1): 1/2 |w|^2 + sum over rows of an active class of c_i (hinge_i - reward), reward = rho."""
    value = 0.5 * squared_norm
    for f, label, cost in zip(margins, labels, costs, strict=True):
        side = int(coloring[label])
        if side:
            value += float(cost) * (max(0.0, 1.0 - side * float(f)) - reward)
    return value


def least_objective(
    margins: Array, squared_norm: float, labels: Array, costs: Array, reward: float, balance: int
) -> float:
    """Over all colorings, for a classifier."""
    found = colorings(int(labels.max()) + 1, balance)
    return min(objective(margins, squared_norm, labels, costs, reward, coloring) for coloring in found)


def machine(values: Array, sides: Array, costs: Array) -> float:
    """Least 1/2 |w|^2 + sum of c_i hinge_i, by scikit-learn, to many digits; rows of side 0 left out."""
    from sklearn.svm import SVC

    active = sides != 0
    fitted = SVC(C=1.0, kernel="linear", tol=1e-7)
    fitted.fit(values[active].astype(np.float64), sides[active], sample_weight=costs[active].astype(np.float64))
    w = fitted.coef_[0]
    scores = values[active].astype(np.float64) @ w
    kinks = sides[active] - scores  # where a hinge has its corner: the best bias is at one of them
    losses = [float(costs[active] @ np.maximum(0, 1 - sides[active] * (scores + b))) for b in kinks]
    return float(0.5 * w @ w + min(losses))


def support_score(coloring: Array, n_support: int) -> float:
    """Equation (3): s = p- N / |S+| + p+ N / |S-|, p- = |S-| / (|S+| + |S-|)."""
    plus, minus = int((coloring > 0).sum()), int((coloring < 0).sum())
    share_minus, share_plus = minus / (plus + minus), plus / (plus + minus)
    return share_minus * n_support / plus + share_plus * n_support / minus
