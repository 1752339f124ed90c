"""The proximal map of the trace norm."""

from __future__ import annotations

import numpy as np

from tasks.later import later
from tasks.rows.base import Array

linalg = later("scipy.linalg")


def soft_threshold(matrix: Array, threshold: float) -> tuple[Array, Array]:
    """argmin over C of threshold |C|_* + |C - matrix|_F^2 / 2, and its singular values above 0, falling.

    matrix (m, n) float64; Cai, Candes & Shen 2010, theorem 2.1. From the eigenvectors of the product with the transpose
    on the smaller side: values are exact to about 1e-16 largest^2 / value, which matters only far below a threshold;
    without one (0) the full decomposition gives the values.
    """
    if matrix.shape[0] > matrix.shape[1]:
        turned, values = soft_threshold(matrix.T, threshold)
        return turned.T, values
    if not matrix.size:
        return matrix, np.zeros(0)
    if threshold <= 0:
        values = linalg.svdvals(matrix, check_finite=False)
        return matrix, values[values > 0]
    squares, u = linalg.eigh(matrix @ matrix.T, check_finite=False)
    before = np.sqrt(np.maximum(squares, 0.0))
    kept = before > threshold
    u, values = u[:, kept], before[kept] - threshold
    return (u * (values / before[kept])) @ (u.T @ matrix), values[::-1]
