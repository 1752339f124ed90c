"""Flat accuracy as counts that add over blocks: top-k hits, per-class hits, confused pairs.

A label or a prediction below 0 means "none": it never hits.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np

from tasks.later import numba
from tasks.rows.base import Array


@numba.njit(cache=True, nogil=True)
def top_hits(classes: Array, labels: Array, top: int) -> int:
    """Rows whose label is among their first `top` classes.

    classes (n_rows, >= 1) int32, best first, -1 where none; labels (n_rows,) int32
    """
    hits = 0
    for i in range(labels.size):
        if labels[i] < 0:
            continue
        for j in range(min(top, classes.shape[1])):
            if classes[i, j] == labels[i]:
                hits += 1
                break
    return hits


def per_class_hits(predicted: Array, labels: Array, n_classes: int) -> tuple[Array, Array]:
    """(hits, rows) of each true class, both (n_classes,) int64; unlabelled rows are left out."""
    known = labels >= 0
    rows = np.bincount(labels[known], minlength=n_classes)
    hits = np.bincount(labels[known & (predicted == labels)], minlength=n_classes)
    return hits, rows


def mean_per_class(hits: Array, rows: Array) -> float:
    """Mean over the classes that have rows of hits / rows; 0 when no class has any."""
    present = rows > 0
    return float(np.mean(hits[present] / rows[present])) if present.any() else 0.0


@dataclass(frozen=True, eq=False)
class Confusion:
    """Wrong predictions counted per (true class, predicted class), only the pairs that occur.

    keys    (n_pairs,) int64 ascending: true * (n_classes + 1) + predicted + 1, so that "none" has its own column
    counts  (n_pairs,) int64
    """

    n_classes: int
    keys: Array
    counts: Array

    @classmethod
    def of(cls, predicted: Array, labels: Array, n_classes: int) -> Self:
        """Count one block: predicted, labels (n_rows,) int32."""
        wrong = (labels >= 0) & (predicted != labels)
        keys = labels[wrong].astype(np.int64) * (n_classes + 1) + predicted[wrong] + 1
        return cls(n_classes, *np.unique(keys, return_counts=True))

    def __add__(self, other: Confusion) -> Confusion:
        keys, where = np.unique(np.concatenate([self.keys, other.keys]), return_inverse=True)
        counts = np.zeros(keys.size, np.int64)
        np.add.at(counts, where, np.concatenate([self.counts, other.counts]))
        return Confusion(self.n_classes, keys, counts)

    def top(self, n_pairs: int) -> list[tuple[int, int, int]]:
        """(true, predicted, count) of the most confused pairs; ties to the lower true, then predicted class."""
        best = np.lexsort((self.keys, -self.counts))[:n_pairs]
        true, column = np.divmod(self.keys[best], self.n_classes + 1)
        return [(int(t), int(c) - 1, int(n)) for t, c, n in zip(true, column, self.counts[best], strict=True)]
