"""The slow twin of the scales that make probabilities of margins."""

from __future__ import annotations

import math

import numpy as np

from tasks.rows.base import Array


def held_likelihood(scores: Array, columns: Array, children: Array, scale: float) -> float:
    """Sum over rows of log sum_{children with the row's class} softmax(scale * scores)."""
    total = 0.0
    for row, column in zip(scores, columns, strict=True):
        shares = [math.exp(scale * (float(s) - float(max(row)))) for s in row]
        own = sum(share for share, held in zip(shares, children[:, column], strict=True) if held)
        if children[:, column].any():
            total += math.log(own / sum(shares)) if own > 0 else -np.inf
    return total
