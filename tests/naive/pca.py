"""Principal components by their definition: the full matrix, its covariance, one eigenvector at a time."""

from __future__ import annotations

import numpy as np


def mean(values: np.ndarray) -> np.ndarray:
    out = np.zeros(values.shape[1])
    for row in values:
        out += row
    return out / len(values)


def scatter(values: np.ndarray, centre: np.ndarray) -> np.ndarray:
    """Sum of the outer products of the centred rows."""
    out = np.zeros((values.shape[1], values.shape[1]))
    for row in values:
        out += np.outer(row - centre, row - centre)
    return out


def components(values: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
    """(n_features, count) directions of largest variance, and the variances (divided by n - 1)."""
    covariance = scatter(values, mean(values)) / max(1, len(values) - 1)
    variances, vectors = np.linalg.eigh(covariance)
    order = np.argsort(-variances, kind="stable")[:count]
    chosen = []
    for k in order:
        vector = vectors[:, k]
        chosen.append(vector if vector[np.argmax(np.abs(vector))] > 0 else -vector)
    return np.array(chosen).T, variances[order]


def encoded(values: np.ndarray, centre: np.ndarray, directions: np.ndarray) -> np.ndarray:
    out = np.zeros((len(values), directions.shape[1]))
    for i, row in enumerate(values):
        for k in range(directions.shape[1]):
            out[i, k] = float((row - centre) @ directions[:, k])
    return out
