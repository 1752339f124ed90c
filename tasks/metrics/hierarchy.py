"""Errors that know the taxonomy, and the local measures of a label tree, as sums that add over blocks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np

from tasks.later import numba
from tasks.rows.base import Array
from tasks.sums import FieldSums
from tasks.taxonomy import HeightKind, Taxonomy


def hierarchical_errors(taxonomy: Taxonomy, predicted: Array, labels: Array, kind: HeightKind = "longest") -> Array:
    """Height of the lowest common ancestor of the true and the predicted class, (n_rows,) int32; 0 when right.

    A prediction of no class (-1) costs the height of the root (Zhao & Xing 2012, section 5; SPECS 1.8).
    """
    return taxonomy.lca_heights(labels, predicted, kind)


def hierarchical_to_flat(hierarchical_error: float, flat_error: float) -> float:
    """Mean height given an error: hierarchical / flat error; 0 when nothing is wrong."""
    return hierarchical_error / flat_error if flat_error > 0 else 0.0


@numba.njit(cache=True, nogil=True)
def holds(sorted_classes: Array, label: int) -> bool:
    """Is `label` in an ascending run of classes?"""
    first, last = 0, sorted_classes.size  # searchsorted compiles for a second
    while first < last:
        middle = (first + last) // 2
        if sorted_classes[middle] < label:
            first = middle + 1
        else:
            last = middle
    return bool(first < sorted_classes.size and sorted_classes[first] == label)


@numba.njit(cache=True, nogil=True)
def _add_local(path: Array, labels: Array, offsets: Array, classes: Array, counts: Array, ambiguity: Array) -> None:
    """Add each path. counts (3, depth): met, survivors, lost; ambiguity (2, depth): all, survivors."""
    for i in range(path.shape[0]):
        for depth in range(path.shape[1] - 1):
            node, child = path[i, depth], path[i, depth + 1]
            if child < 0:
                break
            below = classes[offsets[child] : offsets[child + 1]]
            share = below.size / (offsets[node + 1] - offsets[node])
            counts[0, depth] += 1
            ambiguity[0, depth] += share
            if holds(classes[offsets[node] : offsets[node + 1]], labels[i]):
                counts[1, depth] += 1
                ambiguity[1, depth] += share
                if not holds(below, labels[i]):
                    counts[2, depth] += 1


@dataclass(frozen=True, eq=False)
class LocalMeasures(FieldSums):
    """Sums behind local loss and ambiguity per depth (Deng et al. 2011, (1), (2), Table 2).

    counts     (3, n_depths) int64: rows that met an inner node; of them those whose class was still in its label set
               (survivors); of those the ones sent to a child without their class
    ambiguity  (2, n_depths) float64: sum of |child's classes| / |node's classes| over all rows met, over survivors
    """

    counts: Array
    ambiguity: Array

    @classmethod
    def of(cls, path: Array, labels: Array, offsets: Array, classes: Array) -> Self:
        """Measure one block.

        path     (n_rows, longest) int32 node ids from the root, -1 padded; labels (n_rows,) int32
        offsets  (n_nodes + 1,) int64 into classes, (total,) int32: each node's label set, ascending
        """
        depths = max(path.shape[1] - 1, 0)
        counts, ambiguity = np.zeros((3, depths), np.int64), np.zeros((2, depths))
        _add_local(path, labels, offsets, classes, counts, ambiguity)
        return cls(counts, ambiguity)

    def loss(self) -> Array:
        """Loss per depth, conditional on the class being in the node's label set (SPECS 5.5); (n_depths,) float64."""
        return _ratio(self.counts[2], self.counts[1])

    def mean_ambiguity(self, survivors: bool = False) -> Array:
        """Ambiguity per depth over all rows at inner nodes of that depth, or over survivors only (SPECS 5.7)."""
        return _ratio(self.ambiguity[int(survivors)], self.counts[int(survivors)])


def _ratio(part: Array, whole: Array) -> Array:
    return np.divide(part, whole, out=np.zeros(len(whole)), where=whole > 0)
