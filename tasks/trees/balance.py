"""Groups of nearly equal size from class centroids: a start for a label tree's partition that ignores no class."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tasks.later import numba
from tasks.rows.base import Array, Rows
from tasks.rows.csr import Csr
from tasks.rows.pq import PqCodes
from tasks.seeds import stream
from tasks.sums import FieldSums
from tasks.trees.on_codes.class_sums import folded_sums

ITERATIONS = 10
WIDEST = 1024  # wider rows are folded to this many columns before centroids are taken
SLICE_ROWS = 1024


@dataclass(frozen=True, eq=False)
class ClassSums(FieldSums):
    """Sums of rows by class: sums (K, width) float64, counts (K,) int64."""

    sums: Array
    counts: Array

    def means(self) -> Array:
        """(K, width) float64; zeros for a class without rows."""
        return np.asarray(self.sums / np.maximum(self.counts, 1)[:, None])


def class_sums(rows: Rows, columns: Array, n_classes: int, seed: int) -> ClassSums:
    """Sums over the rows of each class.

    columns  (n_rows,) int32 in [0, n_classes)
    Rows of more than WIDEST columns are folded: column j goes to a random one of WIDEST columns with a random sign,
    which keeps distances between centroids in expectation; so K centroids of wide sparse rows stay small. PQ codes are
    folded by whole sub-vectors, see `folded_sums`.
    """
    if isinstance(rows, PqCodes):
        return ClassSums(folded_sums(rows, columns, n_classes, WIDEST, seed), np.bincount(columns, minlength=n_classes))
    width = min(rows.n_features, WIDEST)
    bucket, sign = _folding(rows.n_features, seed)
    sums = np.zeros((n_classes, width))
    for start in range(0, rows.n_rows, SLICE_ROWS):
        stop = min(start + SLICE_ROWS, rows.n_rows)
        part = (rows if stop - start == rows.n_rows else rows.take(np.arange(start, stop))).decoded()
        if isinstance(part, Csr):
            _add_sparse(part.data, part.indices, part.indptr, columns[start:stop], bucket, sign, sums)
        else:
            _add_dense(part.to_array(), columns[start:stop], bucket, sign, sums)
    return ClassSums(sums, np.bincount(columns, minlength=n_classes))


def _folding(n_features: int, seed: int) -> tuple[Array, Array]:
    """(column in the folded row, sign) of each feature; the identity for rows of at most WIDEST columns."""
    if n_features <= WIDEST:
        return np.arange(n_features), np.ones(n_features)
    rng = stream(seed, "label-tree", "folding")
    return rng.integers(0, WIDEST, n_features), rng.choice([-1.0, 1.0], n_features)


@numba.njit(cache=True, nogil=True)
def _add_dense(values: Array, columns: Array, bucket: Array, sign: Array, sums: Array) -> None:
    """sums[columns[i], bucket[j]] += sign[j] values[i, j]."""
    for i in range(values.shape[0]):
        target = sums[columns[i]]
        for j in range(values.shape[1]):
            target[bucket[j]] += sign[j] * values[i, j]


@numba.njit(cache=True, nogil=True)
def _add_sparse(
    data: Array, indices: Array, indptr: Array, columns: Array, bucket: Array, sign: Array, sums: Array
) -> None:
    """The same for rows in compressed sparse row form."""
    for i in range(indptr.size - 1):
        target = sums[columns[i]]
        for p in range(indptr[i], indptr[i + 1]):
            target[bucket[indices[p]]] += sign[indices[p]] * data[p]


def balanced_groups(points: Array, n_groups: int, rng: np.random.Generator) -> Array:
    """Balanced k-means: each group takes at most ceil(n_points / n_groups) points.

    points   (n_points, width) float64
    returns  (n_points,) int64: the group of each point; every group has one when n_points >= n_groups
    Centres start by k-means++; in each of ITERATIONS rounds points choose in the order of what a wrong group would cost
    them (difference between their two nearest centres), ties to the lower point and group.
    """
    squares = np.asarray((points**2).sum(axis=1))
    centres = _spread_centres(points, squares, n_groups, rng)
    groups = np.zeros(len(points), np.int64)
    for _ in range(ITERATIONS):
        before = groups
        groups = assigned(_squared_distances(points, squares, centres))
        if (groups == before).all():
            break
        for g in range(n_groups):
            if (groups == g).any():
                centres[g] = points[groups == g].mean(axis=0)
    return groups


def _spread_centres(points: Array, squares: Array, n_groups: int, rng: np.random.Generator) -> Array:
    chosen = [int(rng.integers(len(points)))]
    nearest = _squared_distances(points, squares, points[chosen])[:, 0]
    while len(chosen) < n_groups:
        total = nearest.sum()
        free = np.setdiff1d(np.arange(len(points)), chosen)
        weights = nearest[free] if total > 0 and nearest[free].sum() > 0 else np.ones(free.size)
        chosen.append(int(rng.choice(free, p=weights / weights.sum())))
        nearest = np.minimum(nearest, _squared_distances(points, squares, points[chosen[-1:]])[:, 0])
    return points[chosen].copy()


def _squared_distances(points: Array, squares: Array, centres: Array) -> Array:
    """(n_points, n_centres); squares (n_points,) are the squared norms of the points."""
    distances: Array = points @ centres.T
    distances *= -2.0
    distances += squares[:, None]
    distances += (centres**2).sum(axis=1)
    return np.maximum(distances, 0.0, out=distances)


def assigned(distances: Array) -> Array:
    """Each point to its nearest group that has room; groups that would stay empty are filled first come."""
    two = np.partition(distances, 1, axis=1)[:, :2] if distances.shape[1] > 2 else np.sort(distances, axis=1)
    order = np.argsort(two[:, 0] - two[:, -1], kind="stable")
    return np.asarray(fill_groups(distances, order))


@numba.njit(cache=True, nogil=True)
def fill_groups(distances: Array, order: Array) -> Array:
    """Points in `order`, each to its nearest group with room, ties to the lower: (n_points,) int64.

    distances (n_points, n_groups) float64; a group has room for n_points // n_groups points, and as many groups as
    there are points left over have room for one more.
    """
    n_points, n_groups = distances.shape
    size, larger = n_points // n_groups, n_points % n_groups
    held = np.zeros(n_groups, np.int64)
    groups = np.zeros(n_points, np.int64)
    for i in range(n_points):
        point, best = order[i], -1
        for g in range(n_groups):
            allowed = held[g] < size or (held[g] == size and larger > 0)
            if allowed and (best < 0 or distances[point, g] < distances[point, best]):
                best = g
        larger -= 1 if held[best] == size else 0
        held[best] += 1
        groups[point] = best
    return groups
