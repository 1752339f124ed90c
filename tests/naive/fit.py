"""Stochastic gradient descent with every weight decayed at every step, in plain NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np

from tasks.losses.base import Loss

Matrix = Any


def sgd(
    values: Matrix, labels: Matrix, weights: Matrix, loss: Loss, order: Matrix, steps: Matrix, batch: int, decay: float
) -> tuple[Matrix, float]:
    """w <- (1 - step decay) w - step (mean gradient of the batch), in float64; returns (w, sum of losses met)."""
    weights, total = np.array(weights, np.float64), 0.0
    for position, step in enumerate(steps):
        rows = order[position * batch : (position + 1) * batch]
        value, residuals = loss.residuals(values[rows] @ weights, labels[rows])
        total += value
        weights = (1 - step * decay) * weights - step * values[rows].T @ residuals / len(rows)
    return weights, total
