"""How the loss curves around a point, from rows in memory, and steps by it: the inside of a Newton method.

W = P Q' over a basis. The Hessian of the risk is the mean over rows of (z z') x (diag p - p p'), z the centred
projections. Rows whose class is settled add next to nothing to it; those are left out, which is what makes weak
penalties cheap: there most rows are settled.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from tasks.exponential import LANES
from tasks.exponential import dot as float_dot
from tasks.later import later, numba
from tasks.rows.base import Array

linalg = later("scipy.linalg")

KEPT = 0.99  # of the sum over rows of 1 - |p|^2
Change = tuple[Array, Array, Array]  # of P (rank, size), of Q (n_classes, size), and of the bias, or (0,) without one


@dataclass(frozen=True, eq=False)
class Curvature:
    """The Hessian of the risk and of ridge / 2 |core|^2.

    z       (m, rank) centred projections of the rows that weigh; p (m, n_classes) their probabilities
    n_rows  all of them
    """

    z: Array
    p: Array
    n_rows: int
    ridge: float
    bias: bool

    def product(self, core: Array, bias: Array) -> tuple[Array, Array]:
        """The Hessian times a change of the core (rank, n_classes) and of the bias; float64."""
        turn = self.z @ core.astype(self.z.dtype)
        if self.bias:
            turn += bias.astype(self.z.dtype)
        bend(turn, self.p)
        n = max(1, self.n_rows)
        in_core = (self.z.T @ turn).astype(np.float64) / n + self.ridge * core
        return in_core, turn.sum(axis=0, dtype=np.float64) / n if self.bias else bias

    def along(self, u: Array, v: Array) -> Array:
        """(count,) the curvature along each u_j v_j'; u (rank, count), v (n_classes, count), of length one."""
        narrow = v.astype(self.p.dtype)
        spread = self.p @ np.square(narrow) - np.square(self.p @ narrow)
        met = np.einsum("ij,ij->j", np.square(self.z @ u.astype(self.z.dtype)), spread, dtype=np.float64)
        return np.asarray(met / max(1, self.n_rows) + self.ridge)


@numba.njit(cache=True, nogil=True)
def bend(turn: Array, p: Array) -> None:
    """Each row t of turn (m, n_classes) becomes (diag p - p p') t, p the row of p, in the same dtype."""
    lanes = np.empty(LANES)
    for i in range(turn.shape[0]):
        row, chances = turn[i], p[i]
        mean = row.dtype.type(float_dot(row, chances, lanes))
        for c in range(row.size):
            row[c] = chances[c] * (row[c] - mean)


def curvature_at(z: Array, core: Array, bias: Array, ridge: float, with_bias: bool) -> Curvature:
    """That of the rows z (n_rows, rank) at a core and the bias of centred rows."""
    p = z @ core.astype(z.dtype)
    if with_bias:
        p += bias.astype(z.dtype)
    p -= p.max(axis=1, keepdims=True, initial=0.0)
    np.exp(p, out=p)
    p /= p.sum(axis=1, keepdims=True)
    weights = np.maximum(1.0 - np.einsum("ij,ij->i", p, p, dtype=np.float64), 0.0)
    falling = np.argsort(-weights, kind="stable")
    reached = np.cumsum(weights[falling])
    count = 1 + int(np.searchsorted(reached, KEPT * reached[-1])) if reached.size else 0
    rows = np.sort(falling[:count])
    return Curvature(z[rows], p[rows], len(z), ridge, with_bias)


class Scaling:
    """An approximate inverse of the curvature in P, Q and the bias, blocks of them apart (Kronecker factors).

    The Hessian in P is about S x Q'DQ + lambda1, that in Q about D x P'SP + lambda1: S the second moments of the rows
    by their weights 1 - |p|^2, D the mean of diag p - p p', of which Q's block takes the diagonal. Each is diagonal
    between eigenvectors of its two factors. After Martens & Grosse 2015, section 3.
    """

    def __init__(self, curvature: Curvature, p_side: Array, q_side: Array, lambda1: float) -> None:
        z, p, n = curvature.z, curvature.p, max(1, curvature.n_rows)
        size = max(1, p_side.shape[1])
        weights = np.maximum(1.0 - np.einsum("ij,ij->i", p, p), 0.0)
        weighed = z * np.sqrt(weights)[:, None]
        total = float(weights.sum(dtype=np.float64)) or 1.0
        moments = (weighed.T @ weighed).astype(np.float64) / total
        by_class = p.sum(axis=0, dtype=np.float64) / n
        spread = np.maximum(by_class - np.einsum("ij,ij->j", p, p, dtype=np.float64) / n, 0.0)
        mixed = p @ q_side.astype(p.dtype)
        between = (q_side.T * by_class) @ q_side - (mixed.T @ mixed).astype(np.float64) / n
        rows, self.rows = _eigen(moments)
        inner, self.inner = _eigen(between)
        outer, self.outer = _eigen(p_side.T @ moments @ p_side)
        ridges = curvature.ridge * np.array([np.sum(np.square(q_side)), np.sum(np.square(p_side))]) / size
        self.in_p = np.outer(rows, inner) + lambda1 + ridges[0]
        self.in_q = np.outer(spread, outer) + lambda1 + ridges[1]
        self.in_bias = spread + 1e-3 * spread.mean() + 1e-12 if curvature.bias else np.ones(0)

    def __call__(self, change: Change) -> Change:
        p_side = self.rows @ ((self.rows.T @ change[0] @ self.inner) / self.in_p) @ self.inner.T
        q_side = ((change[1] @ self.outer) / self.in_q) @ self.outer.T
        return p_side, q_side, change[2] / self.in_bias


def _eigen(matrix: Array) -> tuple[Array, Array]:
    values, vectors = linalg.eigh(matrix, check_finite=False)
    return np.maximum(values, 0.0), vectors


def dot(one: Change, other: Change) -> float:
    return sum(float(np.vdot(a, b)) for a, b in zip(one, other, strict=True))


def moved(at: Change, step: float, change: Change) -> Change:
    """at + step change"""
    p, q, bias = (a + step * b for a, b in zip(at, change, strict=True))
    return p, q, bias


def newton_step(
    product: Callable[[Change], Change], gradient: Change, scaling: Scaling, accuracy: float, most: int
) -> Change:
    """About minus the inverse Hessian times the gradient: conjugate gradients, scaled, until the residual has fallen
    to `accuracy` of what it was, after `most` products at the latest, or where there is no curvature left."""
    rest = moved(gradient, -2.0, gradient)
    found = moved(gradient, -1.0, gradient)
    scaled = scaling(rest)
    ahead, size = scaled, dot(rest, scaled)
    first = size
    for _ in range(most):
        if size <= accuracy**2 * first:
            break
        turned = product(ahead)
        met = dot(ahead, turned)
        if met <= 0:
            break
        found, rest = moved(found, size / met, ahead), moved(rest, -size / met, turned)
        scaled = scaling(rest)
        new = dot(rest, scaled)
        ahead, size = moved(scaled, new / size, ahead), new
    return found
