"""Spectral clustering of classes by their affinity (Ng, Jordan and Weiss 2002), for the tree of Bengio et al. 2010.

With affinity A (no diagonal), degrees d = A 1, the rows of the leading Q eigenvectors of D^-1/2 A D^-1/2 are scaled to
length 1 and grouped by k-means. Confusions of few rows make a graph of many small components, each with an eigenvector
of eigenvalue 1 to itself; so every pair of classes gets a little affinity, SMOOTHING times the mean degree over all
(Amini et al. 2013, the regularised Laplacian): what is grouped are then large parts, not the stragglers. For the same
reason eigenvectors are not found exactly, only up to PRODUCTS products: where many components have nearly the same
eigenvalue, more of them than parts, each exact one belongs to few components, and all other classes lie at nothing, in
one part; the inexact ones mix them all. (Of 10,000 classes in 400 knots the largest of 100 parts then has 200, not
3,567; of the affinity of 7,321 classes of sparse text 21 % is cut, not 25 %.)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from tasks.later import later
from tasks.rows.base import Array

if TYPE_CHECKING:
    from scipy import sparse
else:
    sparse = later("scipy.sparse")

SMOOTHING = 0.1  # of the mean degree, spread over all pairs
PRODUCTS, BETWEEN = 50, 10  # with the affinity; between two orthonormalisations
SPARE = 10  # vectors beside those that are asked for
RESTARTS = 10  # of k-means; the best is taken
ITERATIONS = 50


def spectral_groups(affinity: sparse.csr_array[Any], n_groups: int, rng: np.random.Generator) -> Array:
    """Disjoint groups of classes, none of them empty: (n_classes,) int64 in [0, n_groups).

    affinity  (n_classes, n_classes) symmetric, no diagonal, n_classes >= n_groups
    A class without affinity to any goes to the group with the fewest classes, in ascending order, ties to the lower.
    Groups are numbered by their lowest class.
    """
    n_classes = affinity.shape[0]
    degrees = np.asarray(affinity.sum(axis=1))
    related = np.flatnonzero(degrees > 0)
    groups = np.full(n_classes, -1, np.int64)
    if related.size <= n_groups:
        groups[related] = np.arange(related.size)
    else:
        points = embedding(affinity[related][:, related], n_groups, rng)
        groups[related] = kmeans(points, n_groups, rng)
    held = np.bincount(groups[related], minlength=n_groups)
    for c in np.flatnonzero(degrees <= 0):
        groups[c] = int(held.argmin())
        held[groups[c]] += 1
    return by_lowest(groups)


def by_lowest(groups: Array) -> Array:
    """The same groups, numbered in the order of their first member."""
    _, first, place = np.unique(groups, return_index=True, return_inverse=True)
    rank = np.empty(first.size, np.int64)
    rank[np.argsort(first)] = np.arange(first.size)
    return np.asarray(rank[place])


def embedding(affinity: sparse.csr_array[Any], n_vectors: int, rng: np.random.Generator) -> Array:
    """Rows of length 1 of the leading eigenvectors of the smoothed, normalised affinity: (n, n_vectors) float64.

    affinity  (n, n) symmetric, every row with a positive sum
    Found by subspace iteration with (1 + S) / 2, whose eigenvalues are not negative, from random vectors, then
    Rayleigh and Ritz.
    """
    n = affinity.shape[0]
    degrees = np.asarray(affinity.sum(axis=1))
    spread = SMOOTHING * float(degrees.mean()) / n
    scale = 1.0 / np.sqrt(degrees + spread * n)
    scaled = (affinity * scale[None, :] * scale[:, None]).tocsr()

    def product(vectors: Array) -> Array:
        return np.asarray(scaled @ vectors + spread * np.outer(scale, scale @ vectors))

    basis = np.linalg.qr(rng.standard_normal((n, min(n, n_vectors + SPARE))))[0]
    for _ in range(PRODUCTS // BETWEEN):
        for _ in range(BETWEEN):
            basis = 0.5 * (basis + product(basis))
        basis = np.linalg.qr(basis)[0]
    inner = basis.T @ product(basis)
    vectors = (basis @ np.linalg.eigh(0.5 * (inner + inner.T))[1])[:, -n_vectors:]
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return np.asarray(np.divide(vectors, lengths, out=np.zeros_like(vectors), where=lengths > 0))


def kmeans(points: Array, n_groups: int, rng: np.random.Generator) -> Array:
    """Plain k-means, the best of RESTARTS from k-means++ centres: (n_points,) int64, every group with a point.

    points  (n_points, width) float64, n_points >= n_groups
    A group that stays empty takes the point farthest from its centre among groups with several; ties go to the lower.
    """
    best, least = np.zeros(len(points), np.int64), np.inf
    for _ in range(RESTARTS):
        groups, inertia = _lloyd(points, _spread(points, n_groups, rng))
        if inertia < least:
            best, least = groups, inertia
    return best


def _spread(points: Array, n_groups: int, rng: np.random.Generator) -> Array:
    """Centres by k-means++ (n_groups, width)."""
    chosen = [int(rng.integers(len(points)))]
    nearest = _distances(points, points[chosen])[:, 0]
    while len(chosen) < n_groups:
        nearest[chosen] = 0.0
        total = nearest.sum()
        free = np.setdiff1d(np.arange(len(points)), chosen)
        weights = nearest[free] / total if total > 0 else np.full(free.size, 1.0 / free.size)
        chosen.append(int(rng.choice(free, p=weights / weights.sum())))
        nearest = np.minimum(nearest, _distances(points, points[chosen[-1:]])[:, 0])
    return points[chosen].copy()


def _lloyd(points: Array, centres: Array) -> tuple[Array, float]:
    groups = np.full(len(points), -1, np.int64)
    for _ in range(ITERATIONS):
        before, distances = groups, _distances(points, centres)
        groups = _refilled(distances.argmin(axis=1), distances, len(centres))
        if (groups == before).all():
            break
        sums = np.zeros_like(centres)
        np.add.at(sums, groups, points)
        centres = sums / np.bincount(groups, minlength=len(centres))[:, None]
    return groups, float(((points - centres[groups]) ** 2).sum())


def _refilled(groups: Array, distances: Array, n_groups: int) -> Array:
    """The same groups with a point in each; distances (n_points, n_groups)."""
    held = np.bincount(groups, minlength=n_groups)
    own = distances[np.arange(len(groups)), groups]
    for empty in np.flatnonzero(held == 0):
        movable = np.where(held[groups] > 1, own, -1.0)
        point = int(movable.argmax())
        held[groups[point]] -= 1
        groups[point], held[empty], own[point] = empty, 1, 0.0
    return groups


def _distances(points: Array, centres: Array) -> Array:
    """(n_points, n_centres) squared."""
    squares = (points**2).sum(axis=1)[:, None] + (centres**2).sum(axis=1)[None, :]
    return np.asarray(np.maximum(squares - 2.0 * (points @ centres.T), 0.0))
