"""Which classes a flat model takes for which: sparse counts of its answers, and the affinity of classes they give.

Bengio et al. 2010, section 4.1: M[y, a] is the rate at which validation rows of class y are answered a; the affinity of
two classes is (M + M') / 2.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from tasks.fit.targets import TRAIN, VALIDATION
from tasks.io import Block, read_labels, read_rows, read_split
from tasks.later import later
from tasks.models.base import Ranking
from tasks.models.blocks import cached_model
from tasks.rows.base import Array
from tasks.sums import FieldSums

if TYPE_CHECKING:
    from scipy import sparse
else:
    sparse = later("scipy.sparse")

NAMED = 2  # answers kept of a row: the best, and the best of another class when that is the row's own


@dataclass(frozen=True, eq=False)
class Counts:
    """Sparse counts of pairs of classes; they add exactly.

    pairs   (n,) int64, ascending: class of the row times n_classes, plus the class it was taken for
    counts  (n,) int64
    """

    pairs: Array
    counts: Array

    @classmethod
    def of(cls, pairs: Array, counts: Array | None = None) -> Self:
        """Of pairs (n,) in any order, repeats allowed, each counted `counts` (n,) times (once)."""
        found, place = np.unique(np.asarray(pairs, np.int64), return_inverse=True)
        total = np.zeros(found.size, np.int64)
        np.add.at(total, place, 1 if counts is None else counts)
        return cls(found, total)

    def __add__(self, other: Counts) -> Counts:
        return Counts.of(np.concatenate([self.pairs, other.pairs]), np.concatenate([self.counts, other.counts]))

    def matrix(self, n_classes: int) -> sparse.csr_array[Any]:
        """(n_classes, n_classes) float64, row = class of the rows."""
        where = np.divmod(self.pairs, n_classes)
        return sparse.coo_array((self.counts.astype(np.float64), where), shape=(n_classes, n_classes)).tocsr()


@dataclass(frozen=True, eq=False)
class Confusion(FieldSums):
    """What a flat model answers.

    answers  validation rows by their class and the best answer
    others   the same by the best answer of another class, right or wrong as the row may have been; with training rows
             of the classes that have no validation row
    """

    answers: Counts
    others: Counts

    @classmethod
    def nothing(cls) -> Self:
        """Of no rows."""
        return cls(*(Counts.of(np.zeros(0, np.int64)) for _ in range(2)))


def confusion_block(block: Block, dataset: str, model_folder: str, without: Array) -> Confusion:
    """The share of one block of the rows that a model is tested on.

    dataset  path of the dataset, for labels and split
    without  (n_classes,) bool: classes that have no validation row
    Raises the errors of `load_model` and of `read_rows`.
    """
    split, labels = (read(dataset, block.start, block.stop) for read in (read_split, read_labels))
    judging = (labels >= 0) & ((split == VALIDATION) | ((split == TRAIN) & without[labels]))
    index = np.flatnonzero(judging)
    if not index.size:
        return confusion_of(np.zeros((0, NAMED), np.int32), labels[index], split[index] == VALIDATION, without.size)
    ranking: Ranking = cached_model(model_folder).rank(read_rows(block).take(index), NAMED, True)
    return confusion_of(ranking.classes, labels[index], split[index] == VALIDATION, without.size)


def confusion_of(answers: Array, labels: Array, validation: Array, n_classes: int) -> Confusion:
    """Counts of rows.

    answers     (n_rows, 2) int32: best and second best class, -1 for none
    labels      (n_rows,) int32; validation (n_rows,) bool: whether it is a validation row
    """
    own = labels.astype(np.int64) * n_classes
    best = validation & (answers[:, 0] >= 0)
    other = np.where(answers[:, 0] == labels, answers[:, 1], answers[:, 0])
    told = other >= 0
    return Confusion(Counts.of((own + answers[:, 0])[best]), Counts.of((own + other)[told]))


def affinity_of(confusion: Confusion, n_classes: int) -> sparse.csr_array[Any]:
    """(M + M') / 2 without its diagonal, (n_classes, n_classes) float64, symmetric.

    A class that no validation row is taken from or for, and one without validation rows, is related by the best other
    answers of its rows instead (training rows where there are no others). Those rates are scaled to the mean rate at
    which the other classes are confused, so that a class never confused outweighs none that is.
    """
    rates = _off_diagonal(_row_rates(confusion.answers.matrix(n_classes)))
    confused = np.asarray(rates.sum(axis=1) + rates.sum(axis=0)) > 0
    validated = np.zeros(n_classes, bool)
    validated[confusion.answers.pairs // n_classes] = True
    missing = ~(confused & validated)
    mean = float(rates.sum() / confused.sum()) if confused.any() else 1.0
    instead = _row_rates(confusion.others.matrix(n_classes)).multiply((missing * mean)[:, None]).tocsr()
    total = rates + instead
    affinity = ((total + total.T) * 0.5).tocsr()
    affinity.sort_indices()
    return affinity


def _row_rates(counts: sparse.csr_array[Any]) -> sparse.csr_array[Any]:
    """Rows scaled to a sum of 1; empty ones stay empty."""
    total = np.asarray(counts.sum(axis=1))
    scaled = counts.multiply(np.divide(1.0, total, out=np.zeros_like(total), where=total > 0)[:, None])
    return scaled.tocsr()


def _off_diagonal(matrix: sparse.csr_array[Any]) -> sparse.csr_array[Any]:
    entries = matrix.tocoo()
    keep = entries.row != entries.col
    kept = sparse.coo_array((entries.data[keep], (entries.row[keep], entries.col[keep])), shape=matrix.shape)
    return kept.tocsr()
