"""Clusters of class centroids that are sparse: spherical k-means with groups of nearly equal size.

Centroids of text classes are compared by their angle (Dhillon & Modha 2001), in all their columns: folded to few, as
dense ones may be (`balance.class_sums`), they would all look alike.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tasks.rows.base import Array, Rows
from tasks.rows.csr import Csr, merged
from tasks.trees.balance import ClassSums, class_sums, fill_groups

ROUNDS = 6
CENTRE_CELLS = 1 << 25  # numbers of all centres held (128 MB); with more, columns share places


@dataclass(frozen=True, eq=False)
class SparseClassSums:
    """Sums of sparse rows by class: sums, K rows; they add."""

    sums: Csr

    def __add__(self, other: SparseClassSums) -> SparseClassSums:
        return SparseClassSums(_stacked_by_row(self.sums, other.sums))

    def means(self) -> Csr:
        """K rows of length 1; empty ones for classes without rows."""
        norms = np.sqrt(self.sums.squared_norms())
        lengths = np.repeat(np.maximum(norms, np.finfo(np.float32).tiny), np.diff(self.sums.indptr))
        data = (self.sums.data / lengths).astype(np.float32)
        return Csr(data, self.sums.indices, self.sums.indptr, self.sums.n_features)


AnyClassSums = ClassSums | SparseClassSums


def class_sums_of(rows: Rows, columns: Array, n_classes: int, seed: int) -> AnyClassSums:
    """Sums over the rows of each class; columns (n_rows,) int32 in [0, n_classes), or -1 for rows that do not count.

    Of sparse rows all columns are kept, of others WIDEST (see `class_sums`).
    """
    own = np.flatnonzero(columns >= 0)
    taken = rows if own.size == rows.n_rows else rows.take(own)
    if not isinstance(rows, Csr):
        return class_sums(taken, columns[own], n_classes, seed)
    order = np.argsort(columns[own], kind="stable")
    sparse = rows.take(own[order])
    starts = sparse.indptr[np.searchsorted(columns[own][order], np.arange(n_classes + 1))]
    return SparseClassSums(merged(sparse.data.astype(np.float64), sparse.indices, starts, rows.n_features))


def _stacked_by_row(left: Csr, right: Csr) -> Csr:
    """left + right."""
    owners = [np.repeat(np.arange(part.n_rows), np.diff(part.indptr)) for part in (left, right)]
    order = np.argsort(np.concatenate(owners), kind="stable")
    data, indices = (
        np.concatenate([getattr(part, name) for part in (left, right)])[order] for name in ("data", "indices")
    )
    return merged(data, indices, left.indptr + right.indptr, left.n_features)


def spherical_groups(points: Csr, n_groups: int, rng: np.random.Generator) -> Array:
    """Balanced spherical k-means: each group takes at most ceil(n_points / n_groups) points.

    points   (n_points, width) sparse, rows of length 1 or 0, float32
    returns  (n_points,) int64: the group of each; every group has one when n_points >= n_groups
    Centres start at distinct points; in each of ROUNDS rounds points choose in the order of what a wrong group would
    cost them (difference between their two best centres), ties to the lower point and group.
    """
    points = _narrowed(points, n_groups, rng)
    centres = points.take(rng.permutation(points.n_rows)[:n_groups]).to_array().T.copy()
    groups = np.full(points.n_rows, -1)
    for _ in range(ROUNDS):
        before, groups = groups, _assigned(-points.scores(centres).astype(np.float64))
        if (groups == before).all():
            break
        centres = points.gradient(np.equal(groups[:, None], np.arange(n_groups)).astype(np.float32))
        centres /= np.maximum(np.sqrt(np.einsum("ij,ij->j", centres, centres)), np.finfo(np.float32).tiny)
    return groups


def _narrowed(points: Csr, n_groups: int, rng: np.random.Generator) -> Csr:
    """The same with the columns that they have alone; where these are very many, with random ones added up."""
    found, column = np.unique(points.indices, return_inverse=True)
    width = max(1, CENTRE_CELLS // n_groups)
    if found.size <= width:
        return Csr(points.data, column.astype(np.int32), points.indptr, max(1, found.size))
    place, sign = rng.integers(0, width, found.size), rng.choice(np.array([-1.0, 1.0], np.float32), found.size)
    return merged(points.data * sign[column], place[column], points.indptr, width)


def _assigned(distances: Array) -> Array:
    """Each point to its nearest group that has room."""
    two = np.partition(distances, 1, axis=1)[:, :2] if distances.shape[1] > 2 else np.sort(distances, axis=1)
    return np.asarray(fill_groups(distances, np.argsort(two[:, 0] - two[:, -1], kind="stable")))
