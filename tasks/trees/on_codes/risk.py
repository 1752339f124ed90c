"""Mean loss of codes under linear scores, and its gradient, by tables; what a worker does in one pass over its rows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tasks.losses.base import Loss
from tasks.rows.base import Array
from tasks.rows.pq import PqCodes
from tasks.sums import FieldSums

AT_ONCE = 32_768  # rows scored at a time: tables are filled once for so many ...
CELLS = 1 << 22  # ... or for fewer, whose scores are so many numbers (16 MB)


@dataclass(frozen=True, eq=False)
class RiskSum(FieldSums):
    """Sums over rows: of losses, of residuals (Q,) and of rows times residuals (d, Q), float64. They add."""

    rows: int
    loss: float
    residuals: Array
    gradient: Array

    @classmethod
    def zero(cls, n_features: int, n_children: int) -> RiskSum:
        """Of no rows."""
        return cls(0, 0.0, np.zeros(n_children), np.zeros((n_features, n_children)))


def risk_of(rows: PqCodes, labels: Array, loss: Loss, weights: Array, bias: Array) -> RiskSum:
    """Of rows with labels (n_rows,) int32 as the loss means them; weights (d, Q), bias (Q,) float32."""
    found = RiskSum.zero(rows.n_features, weights.shape[1])
    sums, gradient, total = found.residuals, found.gradient, 0.0
    size = max(1, min(AT_ONCE, CELLS // weights.shape[1]))
    for start in range(0, rows.n_rows, size):
        stop = min(start + size, rows.n_rows)
        part = rows.part(start, stop)
        scores = part.scores(weights)
        scores += bias
        lost, residuals = loss.residuals(scores, labels[start:stop])
        total += lost
        sums += residuals.sum(axis=0, dtype=np.float64)
        gradient += part.gradient(residuals)
    return RiskSum(rows.n_rows, total, sums, gradient)
