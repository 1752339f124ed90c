"""The penalties of points and factors, and the singular value decomposition of a point, without a d x k matrix.

J(W, b) = lambda1 |W|_* + lambda2 |W|_F^2 + R_n(W, b): equation (4) of Harchaoui et al. 2012.
"""

from __future__ import annotations

import numpy as np

from tasks.later import later
from tasks.rows.base import Array
from tasks.trace.point import Basis, Point
from tasks.trace.risk import Risk
from tasks.trace.singular import signed, thin_svd
from tasks.trace.solution import Factors, Penalty

linalg = later("scipy.linalg")

NEARLY = 0.1  # largest row sum of |U'U - 1|: its eigenvalues are within this of 1
CUT = 1e-6  # singular values below this share of the largest count as zero


def penalty_of(values: Array, penalty: Penalty) -> float:
    """lambda1 |W|_* + lambda2 |W|_F^2 for weights with these singular values."""
    return penalty.lambda1 * float(np.sum(values)) + penalty.lambda2 * float(np.sum(np.square(values)))


def objective_of(point: Point, risk: float, penalty: Penalty) -> float:
    """J of a point whose R_n is `risk`."""
    return penalty_of(singular_values(point), penalty) + risk


def singular_values(point: Point) -> Array:
    """(at most min(rank of the basis, n_features, n_classes),) float64 falling: of W = U C."""
    if not point.basis.rank:
        return np.zeros(0)
    return thin_svd(_small(point)[1])[1]


def factors_of(point: Point, cut: float = CUT) -> Factors:
    """The singular value decomposition of W = U C; values of at most `cut` times the largest are left out.

    Signs as in `signed`: of each u the largest |entry| is positive.
    """
    if not point.basis.rank:
        return no_factors(point.basis.n_features, point.core.shape[1])
    frame, small = _small(point)
    u, values, v = thin_svd(small)
    kept = values > cut * values[0]
    u = u[:, kept] if frame is None else frame @ u[:, kept]
    u, v = signed(u, v[:, kept])
    return Factors(u, values[kept], v)


def no_factors(n_features: int, n_classes: int) -> Factors:
    """W = 0."""
    return Factors(np.zeros((n_features, 0)), np.zeros(0), np.zeros((n_classes, 0)))


def point_of(risk: Risk, factors: Factors, bias: Array | None) -> Point:
    """The point whose basis are the left singular vectors, a group of their own; W is rounded to the risk's floats."""
    basis = Basis(risk.n_features)
    if factors.rank:
        basis = basis.with_group(risk.group(factors.u))
    return Point(basis, factors.theta[:, None] * factors.v.T, bias)


def weights_of(factors: Factors) -> Array:
    """W (n_features, n_classes) float64."""
    weights: Array = (factors.u * factors.theta) @ factors.v.T
    return weights


def _small(point: Point) -> tuple[Array | None, Array]:
    """(Q, S) with W = Q S and orthonormal Q (n_features, rank); Q is None for the identity, when that is no larger.

    By the Cholesky factor of the columns' inner products where these are nearly orthonormal, as a solver's mostly are:
    a quarter of the time of Householder's reflections, and as exact there (Yamamoto et al. 2015).
    """
    columns = np.asarray(point.basis.columns, np.float64)
    if columns.shape[1] >= columns.shape[0]:
        return None, columns @ point.core
    inner = columns.T @ columns
    if np.abs(inner - np.eye(len(inner))).sum(axis=1).max() < NEARLY:
        triangle = linalg.cholesky(inner, check_finite=False)
        frame = linalg.solve_triangular(triangle, columns.T, trans="T", check_finite=False).T
    else:
        frame, triangle = np.linalg.qr(columns)
    return frame, triangle @ point.core
