"""Kernels of two rows, feature by feature."""

from __future__ import annotations

import math
from itertools import combinations

import numpy as np


def distance(kind: str, x: np.ndarray, y: np.ndarray) -> float:
    """What exp(-distance / width) is made of."""
    pairs = [(float(a), float(b)) for a, b in zip(x, y, strict=True)]
    if kind == "rbf":
        return math.fsum((a - b) ** 2 for a, b in pairs)
    return 0.5 * math.fsum((a - b) ** 2 / (a + b) for a, b in pairs if a + b > 0)


def kernel(kind: str, width: float, x: np.ndarray, y: np.ndarray) -> float:
    if kind == "linear":
        return math.fsum(float(a) * float(b) for a, b in zip(x, y, strict=True))
    if kind == "histogram-intersection":
        return math.fsum(min(float(a), float(b)) for a, b in zip(x, y, strict=True))
    return math.exp(-distance(kind, x, y) / width)


def block(kind: str, width: float, rows: np.ndarray, others: np.ndarray) -> np.ndarray:
    values = [kernel(kind, width, x, y) for x in rows for y in others]
    return np.array(values, np.float64).reshape(len(rows), len(others))


def mean_distance(kind: str, rows: np.ndarray) -> float:
    distances = [distance(kind, x, y) for x, y in combinations(rows, 2)]
    return math.fsum(distances) / len(distances)
