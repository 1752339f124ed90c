"""Singular values and vectors of matrices as large as the weights: a few of them, or all above a threshold."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tasks.later import later
from tasks.rows.base import Array
from tasks.seeds import stream

linalg = later("scipy.linalg")

SMALL_SIDE = 48  # up to this smaller side a full decomposition costs less than a search
ROOM = 3  # a search for more than 1 / ROOM of all pairs costs more than finding them all
MAX_SWEEPS = 1000  # Lanczos restarts; not reached by any matrix seen


@dataclass(frozen=True, eq=False)
class Pairs:
    """Some of the largest singular triplets: A v_j = values_j u_j.

    u (n_rows, count), values (count,) falling, v (n_columns, count); columns of unit length, all float64
    error  each value is within this of a singular value of A, none of the values is above the one it stands for
    """

    u: Array
    values: Array
    v: Array
    error: float


def thin_svd(matrix: Array) -> tuple[Array, Array, Array]:
    """(U, values falling, V) of matrix (m, n) = U diag(values) V', in float64; min(m, n) of them."""
    matrix = np.asarray(matrix, np.float64)
    try:
        u, values, vt = linalg.svd(matrix, full_matrices=False, check_finite=False)
    except linalg.LinAlgError:  # divide and conquer gave up, which the slower method does not
        u, values, vt = linalg.svd(matrix, full_matrices=False, check_finite=False, lapack_driver="gesvd")
    return u, values, vt.T


def signed(u: Array, v: Array) -> tuple[Array, Array]:
    """The pairs (columns) with the signs that make the largest |entry| of each u positive, the first of equal ones."""
    if not u.size:
        return u, v
    largest = u[np.argmax(np.abs(u), axis=0), np.arange(u.shape[1])]
    signs = np.where(largest < 0, -1.0, 1.0)
    return u * signs, v * signs


def top_pairs(matrix: Array, count: int = 1, tolerance: float = 0.0) -> Pairs:
    """The `count` largest singular triplets (fewer if the matrix has fewer), signs as in `signed`.

    matrix     (m, n) float
    tolerance  absolute, of the values; 0: as exact as float64 allows

    Lanczos with implicit restarts (ARPACK) on the product of the matrix with its transpose, on the smaller side, from
    a fixed start: the same bits always. Small matrices and many triplets: the full decomposition.
    """
    matrix = np.asarray(matrix, np.float64)
    smaller = min(matrix.shape)
    count = min(count, smaller)
    if smaller <= SMALL_SIDE or count * ROOM > smaller or not matrix.any():
        return _finished(matrix, thin_svd(matrix)[2][:, :count])
    tall = matrix if matrix.shape[0] >= matrix.shape[1] else matrix.T
    vectors = _leading(tall, count, tolerance)
    return _finished(matrix, vectors if tall is matrix else _unit(matrix.T @ vectors))


def _leading(tall: Array, count: int, tolerance: float) -> Array:
    """(n, count): leading eigenvectors of A'A for A (m, n), m >= n, the largest first."""
    from scipy.sparse.linalg import ArpackError, LinearOperator, eigsh  # slow to load, and seldom needed

    size = tall.shape[1]
    product = LinearOperator((size, size), matvec=lambda x: tall.T @ (tall @ x), dtype=np.float64)
    start = stream(0, "lanczos", size).standard_normal(size)
    relative = 2 * tolerance / float(linalg.norm(tall))  # of the values squared; the norm is at least the largest
    try:
        values, vectors = eigsh(product, k=count, v0=start, tol=relative, maxiter=MAX_SWEEPS, which="LA")
    except ArpackError:  # no convergence: the values are too close to each other to be told apart
        return thin_svd(tall)[2][:, :count]
    return np.asarray(vectors[:, np.argsort(-values, kind="stable")])


def _unit(columns: Array) -> Array:
    """Columns of length one; those of length zero stay."""
    lengths = np.linalg.norm(columns, axis=0)
    return columns / np.where(lengths > 0, lengths, 1.0)


def _finished(matrix: Array, v: Array) -> Pairs:
    """The triplets that belong to orthonormal v (n, count): one Rayleigh-Ritz step, and what it leaves over."""
    u, values, turn = thin_svd(matrix @ v)
    u, v = signed(u, v @ turn)
    left_over = np.linalg.norm(matrix.T @ u - v * values, axis=0)
    return Pairs(u, values, v, float(left_over.max(initial=0.0)))


def values_above(matrix: Array, threshold: float) -> Array:
    """The singular values above the threshold (>= 0), falling, float64.

    From the eigenvalues of the product with the transpose on the smaller side: values are exact to about
    1e-16 largest^2 / value, which is to float64's precision for all that weigh in sums of squares.
    """
    matrix = np.asarray(matrix, np.float64)
    if min(matrix.shape) <= SMALL_SIDE:
        values = linalg.svdvals(matrix, check_finite=False)
    else:
        product = matrix.T @ matrix if matrix.shape[0] >= matrix.shape[1] else matrix @ matrix.T
        squares = linalg.eigvalsh(product, check_finite=False)[::-1]
        values = np.sqrt(np.maximum(squares, 0.0))
    return np.asarray(values[values > threshold])
