"""Slow, obvious twin of the singular spectrum."""

from __future__ import annotations

from typing import Any

import numpy as np


def singular_values(weights: Any) -> Any:
    """Lengths of the columns (of W or W', whichever has fewer) once turned, two at a time, until all are orthogonal."""
    w = np.asarray(weights, np.float64)
    w = w if w.shape[0] >= w.shape[1] else w.T
    columns = w.copy()
    for _ in range(60):  # one-sided Jacobi
        for i in range(columns.shape[1]):
            for j in range(i + 1, columns.shape[1]):
                a, b = columns[:, i].copy(), columns[:, j].copy()
                angle = 0.5 * np.arctan2(2 * sum(a * b), sum(a * a) - sum(b * b))
                columns[:, i] = np.cos(angle) * a + np.sin(angle) * b
                columns[:, j] = np.cos(angle) * b - np.sin(angle) * a
    return sorted((float(np.sqrt(sum(columns[:, j] ** 2))) for j in range(columns.shape[1])), reverse=True)
