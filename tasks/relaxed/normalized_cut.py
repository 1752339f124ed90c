"""Rows cut in two by their kernel, and the coloring that their sides vote for (Gao & Koller 2011, 3.2, top-down).

Normalised cut (Shi & Malik 2000): of sides A and B, Ncut = cut(A, B) / assoc(A) + cut(A, B) / assoc(B), where cut adds
up the affinities between the sides and assoc those of a side's rows to all rows, themselves included. Relaxed, it is
least at the second eigenvector of (D - W) y = lambda D y; rows are cut where, along y, Ncut itself is least.
"""

from __future__ import annotations

import numpy as np

from tasks.errors import InputError
from tasks.later import later
from tasks.rows.base import Array

linalg = later("scipy.linalg")

ROUNDING = 1e-9  # Ncut values that differ by less count as equal, lest rounding chooses between them


def as_affinity(kernel: Array) -> tuple[Array, float]:
    """A kernel matrix (n, n) as affinities: float64, none below 0; and by how much all entries were raised for it.

    Kernels with entries below 0 (linear ones) are raised by the least of them; the others stay as they are: 0.0.
    """
    shift = max(0.0, -float(kernel.min(initial=0.0)))
    return kernel.astype(np.float64) + shift, shift


def normalized_cut(affinity: Array) -> Array:
    """The side of each row, (n,) int8 of -1 and +1, both of them there.

    affinity  (n, n) float, symmetric, finite, none below 0; n >= 2
    The side of an eigenvector is free: the entry of the largest size is +1. Without any affinity the first half is -1.
    O(n^3): for samples of a few thousand rows. Raises InputError for fewer than two rows, and for other entries.
    """
    affinity = np.asarray(affinity, np.float64)
    n = len(affinity)
    if n < 2:
        raise InputError(f"{n} rows cannot be cut in two", "normalised cut", "sample two rows at least")
    if not (np.isfinite(affinity).all() and (affinity >= 0).all()):
        raise InputError("affinities below 0 or not finite", "normalised cut", "make them of a kernel by as_affinity")
    line = second_eigenvector(affinity)
    order = np.argsort(line, kind="stable")
    sides = np.ones(n, np.int8)
    sides[order[: _least_cut(affinity[np.ix_(order, order)], line[order])]] = -1
    return sides


def second_eigenvector(affinity: Array) -> Array:
    """(n,) float64: y of the least lambda above the trivial one, with y' D 1 = 0; rows without affinity are at 0.

    With z = D^1/2 y these are eigenvectors of D^-1/2 W D^-1/2. Its largest eigenvalue 1 is that of z = D^1/2 1: it is
    moved to -1, below all others, so that the next one is found even where it is 1 too (rows in separate parts).
    """
    degrees = affinity.sum(axis=1)
    roots = np.sqrt(degrees)
    scale = np.divide(1.0, roots, out=np.zeros_like(roots), where=roots > 0)
    matrix = matrix_of(affinity, roots, scale, total := degrees.sum())
    last = len(affinity) - 1
    vectors: Array = linalg.eigh(matrix, subset_by_index=[last, last], overwrite_a=True, check_finite=False)[1]
    if not vectors.size:  # of many equal eigenvalues LAPACK may find none of the one asked for
        vectors = linalg.eigh(matrix_of(affinity, roots, scale, total), check_finite=False)[1][:, -1:]
    line: Array = scale * vectors[:, 0]
    return -line if line[np.abs(line).argmax()] < 0 else line


def matrix_of(affinity: Array, roots: Array, scale: Array, total: float) -> Array:
    """D^-1/2 W D^-1/2 with its eigenvalue 1 moved to -1; roots D^1/2, scale its inverse, total the sum of D."""
    matrix = affinity * scale[:, None] * scale[None, :]
    if total > 0:
        matrix -= 2.0 * np.outer(roots, roots) / total
    return matrix


def _least_cut(affinity: Array, line: Array) -> int:
    """How many of the rows, sorted along the line, go to the lower side: 1 .. n - 1; equal ones stay together.

    A side without affinities counts 1 in Ncut, its upper bound. Of equal cuts the most even, then the lowest.
    """
    n = len(line)
    places = 1 + np.flatnonzero(line[1:] > line[:-1])
    if places.size == 0:
        return n // 2
    degrees = affinity.sum(axis=1)
    below = np.cumsum(degrees)[places - 1]
    above = np.cumsum(degrees[::-1])[::-1][places]
    within = np.cumsum(2.0 * np.tril(affinity, -1).sum(axis=1) + np.diagonal(affinity))[places - 1]
    cut = np.maximum(below - within, 0.0)
    ncut = sum(np.divide(cut, side, out=np.ones_like(cut), where=side > 0) for side in (below, above))
    equal = places[ncut <= ncut.min() + ROUNDING]
    return int(equal[np.abs(2 * equal - n).argmin()])


def vote(sides: Array, classes: Array, n_classes: int) -> Array:
    """The side of most rows of each class, 0 where they are as many: (n_classes,) int8.

    sides    (n,) of -1 and +1
    classes  (n,) int in [0, n_classes); a class without rows has no vote: 0
    The coloring may be out of balance and have one sign only; the first coloring step repairs that.
    """
    return np.sign(np.bincount(classes, weights=sides, minlength=n_classes)).astype(np.int8)
