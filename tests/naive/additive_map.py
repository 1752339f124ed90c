"""Additive kernels and their feature maps, number by number, from the definitions of Vedaldi & Zisserman."""

from __future__ import annotations

import math

import numpy as np


def kernel(kind: str, x: float, y: float) -> float:
    if kind == "hi-map":
        return min(x, y)
    return 2 * x * y / (x + y) if x + y > 0 else 0.0


def kernel_of_rows(kind: str, rows: np.ndarray, others: np.ndarray) -> np.ndarray:
    """(n, m): sums over the columns."""
    return np.array([[sum(kernel(kind, *pair) for pair in zip(a, b, strict=True)) for b in others] for a in rows])


def signature(kind: str, ratio: float) -> float:
    """K(w) of k(x, y) = sqrt(x y) K(log y - log x)."""
    return math.exp(-abs(ratio) / 2) if kind == "hi-map" else 1 / math.cosh(ratio / 2)


def density(kind: str, frequency: float) -> float:
    """kappa, the inverse Fourier transform of K."""
    if kind == "hi-map":
        return 2 / (math.pi * (1 + 4 * frequency**2))
    return 1 / math.cosh(math.pi * frequency)


def mapped_value(x: float, kind: str, samples: int, period: float) -> list[float]:
    """The 2n + 1 numbers of one value."""
    step = 2 * math.pi / period
    out = [math.sqrt(x * step * density(kind, 0.0))]
    for j in range(1, samples + 1):
        size = math.sqrt(2 * x * step * density(kind, j * step))
        angle = j * step * math.log(x) if x > 0 else 0.0
        out += [size * math.cos(angle), size * math.sin(angle)]
    return out


def mapped(values: np.ndarray, kind: str, samples: int, period: float) -> np.ndarray:
    """(n_rows, n_features) -> (n_rows, (2n + 1) n_features) float64."""
    rows = [[number for x in row for number in mapped_value(float(x), kind, samples, period)] for row in values]
    return np.array(rows).reshape(values.shape[0], (2 * samples + 1) * values.shape[1])
