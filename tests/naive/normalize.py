"""Normalised rows, number by number, in float64."""

from __future__ import annotations

import math

import numpy as np


def normalized(values: np.ndarray, norm: str, exponent: float = 0.5) -> np.ndarray:
    """(n_rows, n_features) -> the same shape, of the norms that look at one row."""
    return np.array([_row([float(x) for x in row], norm, exponent) for row in values]).reshape(values.shape)


def _row(row: list[float], norm: str, exponent: float) -> list[float]:
    if norm == "power":
        return [math.copysign(abs(x) ** exponent, x) if x else 0.0 for x in row]
    total = math.sqrt(sum(x * x for x in row)) if norm == "l2" else sum(abs(x) for x in row)
    return [x / total if total else 0.0 for x in row]


def moments(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and deviation of each column."""
    means = [math.fsum(map(float, column)) / len(column) for column in values.T]
    squares = [math.fsum((float(x) - m) ** 2 for x in column) for column, m in zip(values.T, means, strict=True)]
    return np.array(means), np.array([math.sqrt(total / len(values)) for total in squares])


def standardized(values: np.ndarray, means: np.ndarray, deviations: np.ndarray) -> np.ndarray:
    out = np.zeros(values.shape)
    for i, row in enumerate(values):
        for c, x in enumerate(row):
            out[i, c] = (float(x) - means[c]) / deviations[c] if deviations[c] else 0.0
    return out
