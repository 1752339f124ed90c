"""Losses row by row, from their formulas; and derivatives by differences."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

Row = Any


def one_vs_rest(scores: Row, label: int, binary: Callable[[float], float], positive: float) -> float:
    signs = [1.0 if c == label else -1.0 for c in range(len(scores))]
    return sum((positive if y > 0 else 1.0) * binary(y * s) for y, s in zip(signs, scores, strict=True))


def hinge(scores: Row, label: int, positive: float = 1.0) -> float:
    return one_vs_rest(scores, label, lambda z: max(0.0, 1.0 - z), positive)


def squared_hinge(scores: Row, label: int, positive: float = 1.0) -> float:
    return one_vs_rest(scores, label, lambda z: max(0.0, 1.0 - z) ** 2, positive)


def logistic(scores: Row, label: int, positive: float = 1.0) -> float:
    return one_vs_rest(scores, label, lambda z: float(np.logaddexp(0.0, -z)), positive)


def crammer_singer(scores: Row, label: int) -> float:
    return max((r != label) + scores[r] - scores[label] for r in range(len(scores)))


def multinomial(scores: Row, label: int) -> float:
    return float(np.log(sum(np.exp(s - scores[label]) for s in scores)))


def overlap_hinge(scores: Row, label: int, partition: Row) -> float:
    inside = [q for q in range(len(scores)) if partition[q][label]]
    outside = [q for q in range(len(scores)) if not partition[q][label]]
    if not inside:
        return 1.0
    if not outside:
        return 0.0
    return max(0.0, 1.0 + max(scores[q] for q in outside) - min(scores[q] for q in inside))


def derivative(loss: Callable[[Row], float], scores: Row, width: float = 1e-6) -> Row:
    """Central differences of a function of one row of scores."""
    result = np.zeros(len(scores))
    for c in range(len(scores)):
        up, down = np.array(scores, float), np.array(scores, float)
        up[c] += width
        down[c] -= width
        result[c] = (loss(up) - loss(down)) / (2 * width)
    return result
