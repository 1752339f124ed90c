"""What one model's predictions say of every row and class: which rows are right, class by class, siblings confused.

Models that rank the same rows are compared by these: the rows that only one of them has right tell how large a
difference of two accuracies may be by chance.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from tasks.metrics.accuracy import Confusion, per_class_hits
from tasks.models.errors import PredictionsDamaged
from tasks.models.parquet import read_columns
from tasks.models.predictions import AGAIN
from tasks.places import at
from tasks.rows.base import Array

NO_PARENT = -1  # of a class whose leaf is the root's own child: that groups nothing


@dataclass(frozen=True, slots=True)
class Predicted:
    """The predictions of one model.

    index     its place among those asked about; path  the Parquet file; n_rows  of it
    learnt    (n,) classes that it has learnt; rows of others count for nothing; None: of all
    """

    index: int
    path: str
    n_rows: int
    learnt: Array | None = None


@dataclass(frozen=True, eq=False)
class Outcomes:
    """What they come to.

    right       (ceil(n_rows / 8),) uint8: one bit a row in the order of the file, whether its class is named first
    n_rows      of the file
    class_hits, class_rows  (n_classes,) int64 of each true class
    siblings    (true, predicted, rows) of the pairs of classes of one parent that are confused most; ties to the lower
    """

    right: Array
    n_rows: int
    class_hits: Array
    class_rows: Array
    siblings: tuple[tuple[int, int, int], ...]


def outcomes_of(item: Predicted, tree: Mapping[str, Array], n_siblings: int) -> Outcomes:
    """Read the labels and first classes of one file.

    tree        {"parent_of_class": (n_classes,) int32}: the taxonomy's node above each class, NO_PARENT of none
    n_siblings  pairs of classes to tell of

    Raises PredictionsDamaged.
    """
    parent = np.asarray(tree["parent_of_class"])
    n_classes = parent.size
    table = read_columns(at(item.path), ["label", "classes"], PredictionsDamaged, AGAIN)
    labels = table["label"].combine_chunks().fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int32)
    predicted = _first(table["classes"].combine_chunks())
    known = labels >= 0
    if item.learnt is not None:
        known &= np.isin(labels, item.learnt)
    hits, rows = per_class_hits(predicted[known], labels[known], n_classes)
    return Outcomes(
        np.packbits(known & (predicted == labels)),
        int(labels.size),
        hits.astype(np.int64),
        rows.astype(np.int64),
        confused_siblings(predicted[known], labels[known], parent, n_siblings),
    )


def _first(lists: object) -> Array:
    """(n,) int32: the first class of every row of a fixed-size list column; a row always names one, or -1."""
    values = lists.flatten().to_numpy(zero_copy_only=False)  # type: ignore[attr-defined]
    width = lists.type.list_size  # type: ignore[attr-defined]
    first: Array = values.reshape(-1, width)[:, 0].astype(np.int32)
    return first


def confused_siblings(predicted: Array, labels: Array, parent: Array, n: int) -> tuple[tuple[int, int, int], ...]:
    """The `n` pairs of two classes under one node that are confused most.

    predicted, labels (n_rows,) int32; parent (n_classes,) int32
    """
    wrong = (labels >= 0) & (predicted >= 0) & (predicted != labels)
    true, named = labels[wrong], predicted[wrong]
    alike = (parent[true] == parent[named]) & (parent[true] != NO_PARENT)
    return tuple(Confusion.of(named[alike], true[alike], parent.size).top(n))


def only_one(first: Outcomes, second: Outcomes) -> tuple[int, int]:
    """Rows that only the first, and only the second of two models has right; of predictions of the same rows."""
    a, b = first.right, second.right
    return int(np.bitwise_count(a & ~b).sum()), int(np.bitwise_count(b & ~a).sum())
