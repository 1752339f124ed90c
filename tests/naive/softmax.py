"""Softmax of rows, their losses, residuals and entropies, one row at a time."""

from __future__ import annotations

import math
from typing import Any

from numpy.typing import NDArray

Matrix = NDArray[Any]


def probabilities(row: Matrix) -> list[float]:
    highest = max(float(z) for z in row)
    raised = [math.exp(float(z) - highest) for z in row]
    return [e / sum(raised) for e in raised]


def loss(row: Matrix, label: int) -> float:
    """logsumexp(z) - z_y."""
    highest = max(float(z) for z in row)
    return math.log(sum(math.exp(float(z) - highest) for z in row)) + highest - float(row[label])


def residual(row: Matrix, label: int, scale: float) -> list[float]:
    """scale (p - e_y)"""
    p = probabilities(row)
    wrong = sum(p[c] for c in range(len(p)) if c != label)
    return [scale * (-wrong if c == label else p[c]) for c in range(len(p))]


def entropy(row: Matrix, label: int, t: float) -> float:
    """H(e_y + t (p - e_y))"""
    q = [r + (c == label) for c, r in enumerate(residual(row, label, t))]
    return -sum(x * math.log(x) for x in q if x > 0)
