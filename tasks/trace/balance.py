"""The bias, which is not penalised: where it starts, and dual points that it cannot gain on.

With a free bias a dual point is feasible only if sum over i of (q_i - e_y) is zero in every class, or the bound that it
gives is minus infinity. See `balanced_scale` for how that is had from any weights.
"""

from __future__ import annotations

import numpy as np

from tasks.later import later
from tasks.rows.base import Array
from tasks.trace.point import Point

linalg = later("scipy.linalg")

RARER = 25.0  # a class without rows starts e^-25 times as likely as the rarest class with rows
NEVER = 1e4  # below this, e^-NEVER is zero in float32 and in float64
LEAK = 1e-11  # rate at which classes that are never mistaken for each other are held together


def log_shares(counts: Array) -> Array:
    """(n_classes,) float64: the best bias for W = 0, up to a constant: log of each class's share of the rows.

    For classes without rows the best is minus infinity; they get a bias so low that the risk is within 1e-10 of its
    infimum. The mean is zero, since a constant changes nothing.
    """
    counts = np.asarray(counts, np.float64)
    present = counts > 0
    if not present.any():
        return np.zeros(counts.size)
    logs = np.log(np.where(present, counts, 1.0))
    lowest = logs[present].min()
    bias = np.where(present, logs, lowest - RARER)
    return np.asarray(bias - bias[present].mean())


def missed_by_bias(in_bias: Array, counts: Array) -> float:
    """What the best bias would gain, about: half of each class's squared gradient over its share, the curvature there.

    in_bias (n_classes,) gradient of the risk in the bias; counts (n_classes,) rows of each class
    """
    shares = np.maximum(counts, 1) / max(1, int(np.sum(counts)))
    return 0.5 * float(np.sum(np.square(in_bias) / shares))


def without_empty(point: Point, counts: Array) -> Point:
    """The point with a bias that gives classes without rows probability zero, exactly: what q must give them."""
    if point.bias is None:
        return point
    return Point(point.basis, point.core, np.where(np.asarray(counts) > 0, point.bias, -NEVER))


def balanced_scale(confusion: Array, counts: Array) -> Array:
    """(n_classes,) in [0, 1], the largest 1: s such that q_i = e_y + s_y (p_i - e_y) has the right mean in every class.

    confusion  (n_classes, n_classes): row c is the sum over rows of class c of p, over n; columns of classes without
               rows must be zero (`without_empty`)
    counts     (n_classes,): rows of each class

    sum over i of (q_i - e_y) = 0 reads s' (M - diag(counts / n)) = 0, M the confusion. Off its diagonal M is not
    negative and the rows of M - diag(counts / n) sum to zero, since p sums to one: it generates a Markov chain among
    classes, and s is a stationary measure of it, which exists and is not negative (Perron-Frobenius). Any multiple t s,
    t in [0, 1], balances as well. Where M is symmetric enough that its columns sum to the counts (the bias is at its
    optimum) s is one everywhere, so nothing is lost there.

    Chains that fall apart (classes p never takes for each other) are joined by transitions at the rate LEAK in
    proportion to the classes' shares, for which s = 1 is stationary: the balance holds up to LEAK.
    """
    present = np.flatnonzero(np.asarray(counts) > 0)
    scale = np.ones(confusion.shape[0])
    if present.size < 2:
        return scale
    shares = np.asarray(counts, np.float64)[present]
    shares = shares / shares.sum()
    rates = confusion[np.ix_(present, present)] + LEAK * np.outer(shares, shares)
    np.fill_diagonal(rates, 0.0)
    np.fill_diagonal(rates, -rates.sum(axis=1))  # exact, where p sums to one only up to rounding
    stationary = linalg.solve((rates - shares).T, -shares, check_finite=False)  # s' rates = 0 with s' 1 = 1
    scale[present] = np.clip(stationary / stationary.max(), 0.0, 1.0)
    return scale
