"""The singular spectrum of weights: how few directions tell the classes apart (Harchaoui et al. 2012, Figure 1)."""

from __future__ import annotations

import numpy as np
from threadpoolctl import threadpool_limits

from tasks.rows.base import Array

MOST_SIDE = 2048  # of the shorter side: the memory is about 20 such squares of float64
MOST_PRODUCT = 1e11  # of both sides and the shorter one again: half a minute of one core
SLICE = 2  # times the shorter side: rows that are reduced at once


def within_reach(n_features: int, n_classes: int) -> bool:
    """Whether the spectrum of weights of this shape is computed in little time and memory."""
    side = min(n_features, n_classes)
    return 0 < side <= MOST_SIDE and float(n_features) * n_classes * side <= MOST_PRODUCT


def singular_values(weights: Array) -> Array:
    """All min(n_features, n_classes) singular values, falling, float64 >= 0.

    weights  (n_features, n_classes) float, finite; slices of it alone are copied to float64, and reduced one after
             another to the triangle of their QR decomposition, whose singular values are those of all rows so far
    """
    tall = weights if weights.shape[0] >= weights.shape[1] else weights.T
    side = tall.shape[1]
    if not side:
        return np.zeros(0)
    with threadpool_limits(1):  # decompositions differ in their last bits with the number of threads
        triangle = np.zeros((0, side))
        for start in range(0, tall.shape[0], SLICE * side):
            stacked = np.concatenate([triangle, tall[start : start + SLICE * side].astype(np.float64)])
            triangle = np.asarray(np.linalg.qr(stacked, mode="r"), np.float64)
        return np.asarray(np.linalg.svd(triangle, compute_uv=False), np.float64)
