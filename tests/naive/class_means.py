"""Nearest class mean by distances and angles themselves, row by row, in float64."""

from __future__ import annotations

import math

import numpy as np


def means(values: np.ndarray, labels: np.ndarray, n_classes: int) -> list[list[float] | None]:
    """Mean of the rows of each class; None for a class without rows."""
    found: list[list[float] | None] = []
    for c in range(n_classes):
        own = values[labels == c]
        found.append([math.fsum(map(float, column)) / len(own) for column in own.T] if len(own) else None)
    return found


def distances(row: np.ndarray, centres: list[list[float] | None]) -> list[float]:
    """Euclidean distance to each mean; infinite to none."""
    return [math.inf if m is None else math.dist(map(float, row), m) for m in centres]


def cosines(row: np.ndarray, centres: list[list[float] | None]) -> list[float]:
    """Cosine of the angle with each mean, 0 where either has no length; minus infinity with none."""
    return [-math.inf if m is None else _cosine([float(x) for x in row], m) for m in centres]


def _cosine(x: list[float], m: list[float]) -> float:
    lengths = math.hypot(*x) * math.hypot(*m)
    return math.fsum(a * b for a, b in zip(x, m, strict=True)) / lengths if lengths else 0.0
