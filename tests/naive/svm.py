"""Linear support vector machines, written out in float64."""

from __future__ import annotations

import numpy as np
from scipy.optimize import minimize

Matrix = np.ndarray


def hinge_objective(w: Matrix, b: float, X: Matrix, y: Matrix, c: Matrix) -> float:
    """1/2 |w|^2 + sum of c_i max(0, 1 - y_i (w . x_i + b)) over the rows whose side y_i is not 0."""
    hinges = [ci * max(0.0, 1.0 - yi * (float(w @ x) + b)) for x, yi, ci in zip(X, y, c, strict=True) if yi != 0]
    return 0.5 * float(w @ w) + float(sum(hinges))


def least_hinge_objective(X: Matrix, y: Matrix, c: Matrix) -> float:
    """The most of its dual: sum of a_i - 1/2 |sum of a_i y_i x_i|^2, 0 <= a_i <= c_i, sum of a_i y_i = 0."""
    X, y, c = (v[y != 0].astype(np.float64) for v in (X, y, c))
    signed = X * y[:, None]
    gram, scale = signed @ signed.T, c.max()

    def loss(a: Matrix) -> tuple[float, Matrix]:  # in units of the greatest cost
        return 0.5 * scale * float(a @ gram @ a) - float(a.sum()), scale * (gram @ a) - 1.0

    balance = {"type": "eq", "fun": lambda a: float(a @ y), "jac": lambda _: y}
    options = {"maxiter": 1000, "ftol": 1e-14}
    bounds = [(0.0, ci / scale) for ci in c]
    found = minimize(loss, np.zeros(len(y)), jac=True, bounds=bounds, constraints=[balance], options=options)
    return -scale * float(found.fun)


def best_bias(scores: Matrix, y: Matrix, c: Matrix) -> float:
    """Some bend of the sum of hinges is a minimiser; of all bends that are, the middle of the outermost two."""
    bends = y.astype(np.float64) - scores
    values = np.array([sum(c * np.maximum(0.0, 1.0 - y * (scores + b))) for b in bends])
    least = bends[values <= values.min() + 1e-9 * max(1.0, values.min())]
    return 0.5 * float(least.min() + least.max())


def hinge_sweep(
    X: Matrix, y: Matrix, c: Matrix, a: Matrix, order: Matrix, unit: float, offset: float
) -> tuple[Matrix, Matrix]:
    """(duals, mean duals over the sweep) after one exact step for each row of the order, a (n,) being those before."""
    a, mean = a.astype(np.float64).copy(), a.astype(np.float64).copy()
    for k, i in enumerate(order, start=1):
        f = offset + sum(a[j] * y[j] * (float(X[j] @ X[i]) + unit) for j in range(len(a)))
        new = min(max(a[i] - (y[i] * f - 1.0) / (float(X[i] @ X[i]) + unit), 0.0), float(c[i]))
        mean[i] = a[i] + (1.0 - k / len(order)) * (new - a[i])
        a[i] = new
    return a, mean


def squared_objective(w: Matrix, v: float, X: Matrix, y: Matrix, cost: float, unit: float) -> float:
    """1/2 (|w|^2 + v^2) + C sum of max(0, 1 - y_i (w . x_i + unit v))^2."""
    hinges = np.maximum(0.0, 1.0 - y * (X @ w + unit * v))
    return 0.5 * float(w @ w + v * v) + cost * float(hinges @ hinges)


def least_squared_objective(X: Matrix, y: Matrix, cost: float, unit: float) -> float:
    def loss(z: Matrix) -> tuple[float, Matrix]:
        hinges = np.maximum(0.0, 1.0 - y * (X @ z[:-1] + unit * z[-1]))
        slope = -2.0 * cost * hinges * y
        return squared_objective(z[:-1], z[-1], X, y, cost, unit), z + np.append(slope @ X, unit * slope.sum())

    options = {"maxiter": 10_000, "ftol": 1e-15, "gtol": 1e-10}
    return float(minimize(loss, np.zeros(X.shape[1] + 1), jac=True, method="L-BFGS-B", options=options).fun)


def squared_sweep(X: Matrix, y: Matrix, cost: float, unit: float, a: Matrix, order: Matrix) -> tuple[Matrix, float]:
    """(duals, sum of C h^2 + a g + a^2 / 4 C as each row finds them) after one exact step for each row of the order."""
    a, gap, softness = a.astype(np.float64).copy(), 0.0, 0.5 / cost
    for i in order:
        f = sum(a[j] * y[j] * (float(X[j] @ X[i]) + unit * unit) for j in range(len(a)))
        g = y[i] * f - 1.0
        gap += cost * max(0.0, -g) ** 2 + a[i] * g + 0.5 * softness * a[i] ** 2
        a[i] = max(a[i] - (g + softness * a[i]) / (float(X[i] @ X[i]) + unit * unit + softness), 0.0)
    return a, gap
