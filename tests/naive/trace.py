"""Trace-norm regularised multinomial logistic regression from its formulas, in float64, on whole matrices.

X (n, d), y (n,), W (d, k), b (k,) or None everywhere; J(W, b) = lambda1 |W|_* + lambda2 |W|_F^2 + R_n(W, b).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from tasks.trace.risk import SHRINK

Matrix = Any


def probabilities(X: Matrix, W: Matrix, b: Matrix = None) -> Matrix:
    scores = X @ W + (0.0 if b is None else b)
    powers = np.exp(scores - scores.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True)


def one_hot(y: Matrix, k: int) -> Matrix:
    return np.eye(k)[y]


def risk(X: Matrix, y: Matrix, W: Matrix, b: Matrix = None) -> float:
    scores = X @ W + (0.0 if b is None else b)
    total = 0.0
    for row, label in zip(scores, y, strict=True):
        top = row.max()
        total += np.log(np.sum(np.exp(row - top))) + top - row[label]
    return total / len(y)


def risk_gradient(X: Matrix, y: Matrix, W: Matrix, b: Matrix = None) -> tuple[Matrix, Matrix]:
    """(in W, in b)."""
    residuals = (probabilities(X, W, b) - one_hot(y, W.shape[1])) / len(y)
    return X.T @ residuals, residuals.sum(axis=0)


def trace_norm(W: Matrix) -> float:
    return float(np.linalg.svd(W, compute_uv=False).sum())


def objective(X: Matrix, y: Matrix, W: Matrix, b: Matrix, lambda1: float, lambda2: float) -> float:
    return lambda1 * trace_norm(W) + lambda2 * float(np.sum(W**2)) + risk(X, y, W, b)


def shrink_singular_values(W: Matrix, by: float) -> Matrix:
    u, values, vt = np.linalg.svd(W, full_matrices=False)
    return (u * np.maximum(values - by, 0.0)) @ vt


@dataclass
class Optimum:
    W: Matrix
    b: Matrix
    objective: float


def fista(
    X: Matrix, y: Matrix, k: int, lambda1: float, lambda2: float, bias: bool = False, steps: int = 4000
) -> Optimum:
    """Accelerated proximal gradient, a full SVD a step; starts again whenever momentum points uphill."""
    n, d = X.shape
    joint = np.hstack([X, np.ones((n, 1))]) if bias else X
    length = 1.0 / (np.linalg.norm(joint, 2) ** 2 / (2 * n) + 2 * lambda2)
    W, b = np.zeros((d, k)), np.zeros(k)
    V, c, t = W, b, 1.0
    for _ in range(steps):
        in_W, in_b = risk_gradient(X, y, V, c)
        new_W = shrink_singular_values(V - length * (in_W + 2 * lambda2 * V), length * lambda1)
        new_b = c - length * in_b if bias else b
        moved_W, moved_b = new_W - W, new_b - b
        if np.vdot(V - new_W, moved_W) + np.vdot(c - new_b, moved_b) > 0:
            V, c, t = W, b, 1.0
            continue
        new_t = (1 + np.sqrt(1 + 4 * t * t)) / 2
        V, c, t = new_W + (t - 1) / new_t * moved_W, new_b + (t - 1) / new_t * moved_b, new_t
        W, b = new_W, new_b
        if max(np.abs(moved_W).max(), np.abs(moved_b).max()) < 1e-11:
            break
    kept = b if bias else None
    return Optimum(W, kept, objective(X, y, W, kept, lambda1, lambda2))


def lambda1_max(X: Matrix, y: Matrix, k: int, bias: bool) -> float:
    """With every class among the labels."""
    b = np.log(np.bincount(y, minlength=k)) if bias else None
    return float(np.linalg.norm(risk_gradient(X, y, np.zeros((X.shape[1], k)), b)[0], 2))


def entropy(q: Matrix) -> float:
    return -sum(float(p * np.log(p)) for p in np.ravel(q) if p > 0)


def dual_bound(X: Matrix, y: Matrix, at: tuple[Matrix, Matrix], scale: Matrix, penalty: tuple[float, float]) -> float:
    """max over t of (1/n) sum H(q_i) - Omega*(G), q_i = e_y + t scale_y (p_i - e_y): H between the grid's chords."""
    lambda1, lambda2 = penalty
    n, k = len(y), at[0].shape[1]
    p, e = probabilities(X, *at), one_hot(y, k)
    toward = scale[y][:, None] * (p - e)
    values = np.linalg.svd(X.T @ toward / n, compute_uv=False)
    grid = sorted(SHRINK)
    heights = [entropy(np.maximum(e + t * toward, 0.0)) / n for t in grid]

    def bound(t: float) -> float:
        over = np.maximum(0.0, t * values - lambda1)
        if lambda2 == 0:
            return -np.inf if over.max() > 1e-15 else float(np.interp(t, grid, heights))
        return float(np.interp(t, grid, heights) - np.sum(over**2) / (4 * lambda2))

    tried = list(grid)
    if lambda2 == 0:
        tried.append(min(1.0, lambda1 / values[0]) if values[0] > 0 else 1.0)
        return max(bound(t) for t in tried)
    best = int(np.argmax([bound(t) for t in tried]))
    low, high = grid[max(0, best - 1)], grid[min(len(grid) - 1, best + 1)]
    for _ in range(200):  # the bound is concave in t
        left, right = low + (high - low) / 3, high - (high - low) / 3
        low, high = (left, high) if bound(left) < bound(right) else (low, right)
    return max(bound(grid[best]), bound((low + high) / 2))


def balance(X: Matrix, y: Matrix, W: Matrix, b: Matrix) -> Matrix:
    """s >= 0, largest 1, with sum over i of s_y (p_i - e_y) = 0, by the null vector of a decomposition."""
    k = W.shape[1]
    p = probabilities(X, W, b)
    sums = np.array([p[y == c].sum(axis=0) - (y == c).sum() * np.eye(k)[c] for c in range(k)])
    null = np.linalg.svd(sums.T)[2][-1]
    return null / null[np.argmax(np.abs(null))]


def gap(X: Matrix, y: Matrix, W: Matrix, b: Matrix, lambda1: float, lambda2: float) -> float:
    """J - D; every class must be among the labels where there is a bias."""
    scale = np.ones(W.shape[1]) if b is None else balance(X, y, W, b)
    return objective(X, y, W, b, lambda1, lambda2) - dual_bound(X, y, (W, b), scale, (lambda1, lambda2))


def conditions(X: Matrix, y: Matrix, W: Matrix, b: Matrix, lambda1: float, lambda2: float) -> tuple[float, float]:
    """(excess of |G|_2 over lambda1, largest |u.G v + lambda1| over the singular pairs of W)."""
    G = risk_gradient(X, y, W, b)[0] + 2 * lambda2 * W
    u, values, vt = np.linalg.svd(W, full_matrices=False)
    rank = int(np.sum(values > 1e-9 * max(values.max(), 1e-300)))
    second = [abs(u[:, j] @ G @ vt[j] + lambda1) for j in range(rank)]
    return max(0.0, float(np.linalg.norm(G, 2)) - lambda1), max(second, default=0.0)
