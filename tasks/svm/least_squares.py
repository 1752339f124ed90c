"""Least-squares kernel machines in closed form: which classes one-vs-all confuses, without one fit a class.

Suykens & Vandewalle, Least squares support vector machine classifiers, Neural Processing Letters 1999: squared errors
in place of hinges, a bias free of penalty. One factorisation serves all classes:

    [ K + I / C   1 ] [ alpha ]   [ Y ]
    [ 1'          0 ] [   b'  ] = [ 0 ],    Y_ik = +1 where row i is of class k, else -1.
"""

from __future__ import annotations

import numpy as np

from tasks.errors import Diverged, ParamError
from tasks.later import later
from tasks.rows.base import Array

linalg = later("scipy.linalg")


def least_squares_bytes(n_train: int, n_test: int, n_classes: int) -> int:
    """Memory of `held_out_scores` beside its arguments: the factor, and a few numbers a row and class."""
    return 8 * (n_train * n_train + (3 * n_train + 2 * n_test) * (n_classes + 1))


def held_out_scores(gram_train: Array, gram_test: Array, labels: Array, n_classes: int, cost: float) -> Array:
    """(t, n_classes) float64: every class's machine, of the training rows, on the test rows.

    gram_train  (m, m) float64: kernel values of the training rows with each other
    gram_test   (t, m): of the test rows with the training rows
    labels      (m,) integers in 0..n_classes-1; a class without training rows scores -1 everywhere
    cost        C > 0 of 1/2 |w|^2 + C/2 sum of squared errors
    Raises ParamError, and Diverged when the matrix is not that of a kernel.
    """
    duals, bias = one_vs_all_duals(gram_train, labels, n_classes, cost)
    return gram_test.astype(np.float64, copy=False) @ duals + bias


def one_vs_all_duals(gram: Array, labels: Array, n_classes: int, cost: float) -> tuple[Array, Array]:
    """(alpha (m, n_classes), b (n_classes,)) float64 of the system above."""
    if not 0 < cost < np.inf:
        raise ParamError("cost", cost, "a finite number above 0", "its inverse is added to the diagonal")
    targets = np.full((len(gram), n_classes + 1), -1.0)
    targets[np.arange(len(gram)), labels] = 1.0
    targets[:, n_classes] = 1.0  # the column of ones
    solved = solve_ridge(gram, 1.0 / cost, targets)
    ones = solved[:, n_classes]  # (K + I / C)^-1 1
    bias = solved[:, :n_classes].sum(axis=0) / ones.sum()
    return solved[:, :n_classes] - ones[:, None] * bias, bias


def solve_ridge(gram: Array, ridge: float, targets: Array) -> Array:
    """(K + ridge I)^-1 targets by Cholesky; (m, m), (m, k) -> (m, k) float64.

    Kernel values of float32 may make K slightly indefinite. When the ridge does not outweigh that, it is raised to
    the most that their rounding can amount to, m eps max k(x, x). Raises Diverged when that does not help either.
    """
    rounding = len(gram) * float(np.finfo(np.float32).eps) * float(np.max(np.diagonal(gram)))
    for size in (ridge, ridge + rounding):
        matrix = np.array(gram, np.float64, order="F")
        matrix[np.diag_indices_from(matrix)] += size
        try:
            factor = linalg.cho_factor(matrix, lower=True, overwrite_a=True, check_finite=False)
        except np.linalg.LinAlgError:
            continue
        solved: Array = linalg.cho_solve(factor, targets, check_finite=False)
        if np.isfinite(solved).all():
            return solved
    what = "kernel values that are not finite, or of no kernel"
    raise Diverged(what, "least-squares machine", "look for values that are not finite, or below 0, in the rows")


def pair_votes_accuracy(
    gram_train: Array, gram_test: Array, labels_train: Array, labels_test: Array, cost: float
) -> float:
    """Share of test rows that one-against-one hinge machines, by votes, give their class (scikit-learn's SVC).

    gram_train (m, m) and gram_test (t, m), t > 0; labels of at least two classes. Every pair of classes is a small
    problem, so that many classes cost less than their one-vs-all machines.
    """
    from sklearn import config_context
    from sklearn.svm import SVC

    with config_context(assume_finite=True):
        machine = SVC(C=cost, kernel="precomputed").fit(gram_train, labels_train)
        return float(np.mean(machine.predict(gram_test) == labels_test))
