"""The step of proximal Newton: a quadratic model plus the trace norm, minimised over a core."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy import linalg

from tasks.rows.base import Array

Hessian = Callable[[Array], Array]


def soft_threshold(matrix: Array, threshold: float) -> tuple[Array, Array]:
    """argmin over C of threshold |C|_* + |C - matrix|_F^2 / 2, and its singular values, falling (those above 0).

    From the eigenvectors of the Gram matrix of the smaller side: values are exact to about 1e-16 largest^2 / value,
    far below the thresholds that matter here.
    """
    if matrix.shape[0] > matrix.shape[1]:
        turned, values = soft_threshold(matrix.T, threshold)
        return turned.T, values
    if not matrix.size or not threshold:
        return matrix, np.zeros(0)
    squares, u = linalg.eigh(matrix @ matrix.T, check_finite=False)
    before = np.sqrt(np.maximum(squares, 0.0))
    kept = before > threshold
    u, values = u[:, kept], before[kept] - threshold
    return (u * (values / before[kept])) @ (u.T @ matrix), values[::-1]


def minimise_model(
    core: Array, gradient: Array, hessian: Hessian, largest: float, lambda1: float, rank: int, rough: float, steps: int
) -> Array:
    """argmin over X of <gradient, X - core> + <X - core, H (X - core)> / 2 + lambda1 |X[:rank]|_*.

    core, gradient  (rank, n_classes), or (rank + 1, n_classes) with a last row that is not penalised
    largest         at least H's largest eigenvalue
    rough           ends when a step is shorter than this times the first one; steps: at most so many

    FISTA (Beck & Teboulle 2009), restarted when its momentum points uphill (O'Donoghue & Candes 2015).
    """
    here, ahead, momentum, first = core, core, 1.0, 0.0
    for _ in range(steps):
        moved = ahead - (gradient + hessian(ahead - core)) / largest
        moved[:rank] = soft_threshold(moved[:rank], lambda1 / largest)[0]
        length = float(np.linalg.norm(moved - ahead))
        first = first or length
        if float(np.vdot(ahead - moved, moved - here)) > 0:
            momentum, ahead = 1.0, moved
        else:
            grown = (1.0 + np.sqrt(1.0 + 4.0 * momentum * momentum)) / 2.0
            ahead, momentum = moved + (momentum - 1.0) / grown * (moved - here), grown
        here = moved
        if length <= rough * first:
            break
    return here
