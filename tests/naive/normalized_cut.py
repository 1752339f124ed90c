"""Ncut by its definition, and the second eigenvector from the generalised problem itself."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

Array = NDArray[Any]


def ncut(affinity: Array, sides: Array) -> float:
    """Shi & Malik 2000, equation 2; a side without affinities counts 1."""
    low, high = np.flatnonzero(sides < 0), np.flatnonzero(sides > 0)
    cut = sum(affinity[i, j] for i in low for j in high)
    value = 0.0
    for side in (low, high):
        assoc = sum(affinity[i, j] for i in side for j in range(len(affinity)))
        value += cut / assoc if assoc > 0 else 1.0
    return value


def second_eigenvector(affinity: Array) -> Array:
    degrees = np.diag(affinity.sum(axis=1))
    return np.asarray(scipy.linalg.eigh(degrees - affinity, degrees)[1][:, 1])


def least_ncut_along(affinity: Array, line: Array) -> float:
    """Over every place between two different values of the line."""
    values = np.unique(line)
    middles = (values[1:] + values[:-1]) / 2
    return min(ncut(affinity, np.where(line > middle, 1, -1)) for middle in middles)


def majority(sides: Array, classes: Array, n_classes: int) -> list[int]:
    votes = []
    for k in range(n_classes):
        plus = sum(1 for side, c in zip(sides, classes, strict=True) if c == k and side > 0)
        minus = sum(1 for side, c in zip(sides, classes, strict=True) if c == k and side < 0)
        votes.append((plus > minus) - (minus > plus))
    return votes
