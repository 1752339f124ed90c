"""The slow twin of the scales that make probabilities of margins."""

from __future__ import annotations

import numpy as np

from tasks.rows.base import Array


def held_likelihood(scores: Array, columns: Array, children: Array, scale: float) -> float:
    """Sum over rows of log sum_{children with the row's class} softmax(scale * scores)."""
    total = 0.0
    for row, column in zip(scores.astype(np.float64), columns, strict=True):
        held = children[:, column]
        if held.any():
            total += float(np.logaddexp.reduce(scale * row[held]) - np.logaddexp.reduce(scale * row))
    return total
