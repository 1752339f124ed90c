"""Kernel machines of a Gram matrix, the obvious way: quadratic programs and bordered systems solved whole."""

from __future__ import annotations

import numpy as np
from scipy.optimize import minimize


def dual_optimum(gram: np.ndarray, sides: np.ndarray, costs: np.ndarray) -> float:
    """Largest sum of alpha - 1/2 |sum of alpha_i side_i x_i|^2, 0 <= alpha <= c, sum of alpha_i side_i = 0."""
    active = np.flatnonzero(sides)
    y, upper = sides[active].astype(float), costs[active].astype(float)
    q = gram[np.ix_(active, active)].astype(float) * np.outer(y, y)
    found = minimize(
        lambda a: 0.5 * a @ q @ a - a.sum(),
        np.zeros(len(active)),
        jac=lambda a: q @ a - 1.0,
        bounds=[(0.0, c) for c in upper],
        constraints={"type": "eq", "fun": lambda a: y @ a, "jac": lambda _: y},
        method="SLSQP",
        options={"maxiter": 2000, "ftol": 1e-14},
    )
    return -float(found.fun)


def primal(gram: np.ndarray, sides: np.ndarray, costs: np.ndarray, coefficients: np.ndarray, bias: float) -> float:
    """1/2 |w|^2 + sum of c_i max(0, 1 - side_i f_i), row by row."""
    n = len(gram)
    norm = sum(coefficients[i] * coefficients[j] * gram[i, j] for i in range(n) for j in range(n))
    value = 0.5 * max(norm, 0.0)  # kernel values of float32 may make it slightly negative
    for i in range(n):
        if sides[i] != 0:
            f = sum(coefficients[j] * gram[i, j] for j in range(n)) + bias
            value += float(costs[i]) * max(0.0, 1.0 - sides[i] * f)
    return float(value)


def least_squares(gram: np.ndarray, targets: np.ndarray, cost: float) -> tuple[np.ndarray, float]:
    """(alpha, b) of one column of targets: the bordered system of Suykens & Vandewalle (1999), solved whole."""
    n = len(gram)
    system = np.zeros((n + 1, n + 1))
    system[:n, :n] = gram + np.eye(n) / cost
    system[:n, n] = system[n, :n] = 1.0
    solved = np.linalg.solve(system, np.append(targets, 0.0))
    return solved[:n], float(solved[n])


def votes(pairs: dict[tuple[int, int], float], n_classes: int) -> int:
    """Class of most won pairs, ties to the smallest; pairs[i, j] > 0: i wins."""
    won = [0] * n_classes
    for (i, j), margin in pairs.items():
        won[i if margin > 0 else j] += 1
    return won.index(max(won))
