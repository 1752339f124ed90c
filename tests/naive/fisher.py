"""Gaussian mixtures and Fisher vectors in loops of Python floats, from the definitions."""

from __future__ import annotations

import math

import numpy as np


def log_density(x: np.ndarray, mean: np.ndarray, variance: np.ndarray) -> float:
    """Of a Gaussian with a diagonal covariance."""
    terms = [
        math.log(2 * math.pi * v) + (float(a) - m) ** 2 / v
        for a, m, v in zip(x, mean.tolist(), variance.tolist(), strict=True)
    ]
    return -0.5 * math.fsum(terms)


def posterior(
    x: np.ndarray, weights: np.ndarray, means: np.ndarray, variances: np.ndarray
) -> tuple[list[float], float]:
    """How likely each component is for x, and the log-likelihood of x."""
    logs = [math.log(w) + log_density(x, m, v) for w, m, v in zip(weights.tolist(), means, variances, strict=True)]
    most = max(logs)
    total = math.fsum(math.exp(value - most) for value in logs)
    return [math.exp(value - most) / total for value in logs], most + math.log(total)


def em_round(
    values: np.ndarray, weights: np.ndarray, means: np.ndarray, variances: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Weights, means and variances after a round without bounds."""
    q = np.array([posterior(x, weights, means, variances)[0] for x in values])
    counts = q.sum(axis=0)
    moved = np.array([(q[:, k, None] * values).sum(axis=0) / counts[k] for k in range(len(weights))])
    spread = [(q[:, k, None] * (values - moved[k]) ** 2).sum(axis=0) / counts[k] for k in range(len(weights))]
    return counts / len(values), moved, np.array(spread)


def fisher_vector(
    descriptors: np.ndarray, weights: np.ndarray, means: np.ndarray, variances: np.ndarray, power: float, norm: bool
) -> np.ndarray:
    """(2 K D,): derivatives to all means, then to all deviations; zeros of no descriptors."""
    n_components, width = means.shape
    out = np.zeros((2, n_components, width))
    for x in descriptors:
        q, _ = posterior(x, weights, means, variances)
        for k in range(n_components):
            for d in range(width):
                away = (float(x[d]) - float(means[k, d])) / math.sqrt(variances[k, d])
                share = q[k] / (len(descriptors) * math.sqrt(weights[k]))
                out[0, k, d] += share * away
                out[1, k, d] += share * (away * away - 1) / math.sqrt(2)
    vector = np.array([math.copysign(abs(z) ** power, z) for z in out.reshape(-1)])
    length = math.sqrt(math.fsum(z * z for z in vector)) if norm else 0.0
    return vector / (length or 1.0)
