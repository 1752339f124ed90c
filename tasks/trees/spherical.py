"""Clusters of class centroids that are sparse: spherical k-means with groups of nearly equal size.

Centroids of text classes are compared by their angle (Dhillon & Modha 2001), in all their columns: folded to few, as
dense ones may be (`balance.class_sums`), they would all look alike.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tasks.later import numba
from tasks.rows.base import Array, Rows
from tasks.rows.csr import Csr, merged
from tasks.seeds import stream
from tasks.trees.balance import WIDEST, ClassSums, assigned, balanced_groups, class_sums
from tasks.trees.weights import active_features, narrowed

ROUNDS = 6
CENTRE_CELLS = 1 << 25  # numbers of all centres held (128 MB); with more, columns share places
SUMS_BYTES = 32 << 20  # of sums over classes that travel: with more, columns share places
ENTRY_BYTES = 12  # of such a sum


@dataclass(frozen=True, eq=False)
class SparseClassSums:
    """Sums of sparse rows by class: sums, K rows; they add."""

    sums: Csr

    def __add__(self, other: SparseClassSums) -> SparseClassSums:
        parts, n_classes = (self.sums, other.sums), self.sums.n_rows
        data, indices = (np.concatenate([getattr(part, name) for part in parts]) for name in ("data", "indices"))
        indptr = np.concatenate([parts[0].indptr, parts[0].indptr[-1] + parts[1].indptr[1:]])
        turns = np.arange(2 * n_classes).reshape(2, n_classes).T.reshape(-1)  # a class of one, the same of the other
        both = Csr(data, indices, indptr, self.sums.n_features)
        return SparseClassSums(summed(both, turns, np.arange(0, 2 * n_classes + 1, 2)))

    def means(self) -> Csr:
        """K rows of length 1; empty ones for classes without rows."""
        norms = np.sqrt(self.sums.squared_norms())
        lengths = np.repeat(np.maximum(norms, np.finfo(np.float32).tiny), np.diff(self.sums.indptr))
        data = (self.sums.data / lengths).astype(np.float32)
        return Csr(data, self.sums.indices, self.sums.indptr, self.sums.n_features)


AnyClassSums = ClassSums | SparseClassSums


def kept_columns(n_features: int, n_classes: int, n_entries: int) -> int:
    """Columns of sums over the classes of sparse rows: all features, unless the sums take more than SUMS_BYTES.

    n_entries  numbers that all rows have; no fewer columns than dense rows have, see `class_sums`
    """
    if ENTRY_BYTES * min(n_entries, n_classes * n_features) <= SUMS_BYTES:
        return n_features
    return min(n_features, max(WIDEST, SUMS_BYTES // (ENTRY_BYTES * n_classes)))


def class_sums_of(rows: Rows, columns: Array, n_classes: int, seed: int, width: int | None = None) -> AnyClassSums:
    """Sums over the rows of each class; columns (n_rows,) int32 in [0, n_classes), or -1 for rows that do not count.

    width  columns of the sums of sparse rows, see `kept_columns`: features go to random ones of fewer, with random
           signs; None: all. Of other rows at most WIDEST columns are kept, see `class_sums`.
    """
    if not isinstance(rows, Csr):
        own = np.flatnonzero(columns >= 0)
        return class_sums(rows if own.size == rows.n_rows else rows.take(own), columns[own], n_classes, seed)
    if width is not None and width < rows.n_features:
        rows = _folded(rows, width, stream(seed, "spherical", "folding"))
    order = np.argsort(columns, kind="stable")
    return SparseClassSums(summed(rows, order, np.searchsorted(columns[order], np.arange(n_classes + 1))))


def summed(rows: Csr, order: Array, starts: Array) -> Csr:
    """Sums of groups of rows, float64: those order[starts[k]:starts[k + 1]] are the k-th, added in this order."""
    features = active_features(rows)
    assert features is not None
    own = rows if features.size == rows.n_features else narrowed(rows, features)
    assert isinstance(own, Csr)
    entries = own.indices, np.asarray(own.indptr, np.int64), order.astype(np.int64), starts.astype(np.int64)
    counts = count_columns(*entries, own.n_features)
    indptr = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    data, indices = np.empty(indptr[-1]), np.empty(indptr[-1], np.int32)
    add_rows(own.data, *entries, indptr, indices, data, own.n_features)
    return Csr(data, features[indices], indptr, rows.n_features)


@numba.njit(cache=True, nogil=True)
def count_columns(indices: Array, indptr: Array, order: Array, starts: Array, n_features: int) -> Array:
    """(n_groups,) int64: different columns of the rows of each group, see `summed`."""
    counts, last = np.zeros(starts.size - 1, np.int64), np.full(n_features, -1, np.int64)
    for k in range(counts.size):
        for i in order[starts[k] : starts[k + 1]]:
            for p in range(indptr[i], indptr[i + 1]):
                if last[indices[p]] != k:
                    last[indices[p]] = k
                    counts[k] += 1
    return counts


@numba.njit(cache=True, nogil=True)
def add_rows(
    data: Array,
    indices: Array,
    indptr: Array,
    order: Array,
    starts: Array,
    sum_indptr: Array,
    sum_indices: Array,
    sum_data: Array,
    n_features: int,
) -> None:
    """Fill the sums of `summed`: sum_indices (nnz,) int32, ascending in a row, and sum_data (nnz,) float64."""
    last, total = np.full(n_features, -1, np.int64), np.empty(n_features)
    for k in range(starts.size - 1):
        own = sum_indices[sum_indptr[k] : sum_indptr[k + 1]]
        found = 0
        for i in order[starts[k] : starts[k + 1]]:
            for p in range(indptr[i], indptr[i + 1]):
                c = indices[p]
                if last[c] != k:
                    last[c], total[c], own[found] = k, 0.0, c
                    found += 1
                total[c] += data[p]
        own.sort()
        for j in range(own.size):
            sum_data[sum_indptr[k] + j] = total[own[j]]


def _folded(rows: Csr, width: int, rng: np.random.Generator) -> Csr:
    """Features at random ones of `width` columns, with random signs; what meets in a row is not added up."""
    place, sign = rng.integers(0, width, rows.n_features), rng.choice(np.array([-1.0, 1.0]), rows.n_features)
    return Csr(rows.data * sign[rows.indices], place[rows.indices].astype(np.int32), rows.indptr, width)


def clusters(points: Array | Csr, n_groups: int, rng: np.random.Generator) -> Array:
    """(n_points,) int64: groups of nearly equal size of class centroids, as `class_sums_of` gives their means."""
    return (
        spherical_groups(points, n_groups, rng) if isinstance(points, Csr) else balanced_groups(points, n_groups, rng)
    )


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
        before, groups = groups, assigned(-points.scores(centres).astype(np.float64))
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
