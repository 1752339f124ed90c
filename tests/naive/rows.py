"""Products with rows, entry by entry."""

from __future__ import annotations

import numpy as np


def scores(values: np.ndarray, weights: np.ndarray) -> np.ndarray:
    out = np.zeros((values.shape[0], weights.shape[1]))
    for i in range(values.shape[0]):
        for c in range(weights.shape[1]):
            out[i, c] = sum(float(values[i, j]) * float(weights[j, c]) for j in range(values.shape[1]))
    return out


def gradient(values: np.ndarray, residuals: np.ndarray) -> np.ndarray:
    return scores(values.T, residuals)
