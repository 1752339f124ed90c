"""One-vs-all on half of the rows, tried on the other half: what chooses C, and which classes are confused.

The rows of a class, a sample of them, are dealt to two folds in turn; each fold is judged by classifiers of the other.
Linear rows: squared hinges. Kernels: least squares in closed form (see `least_squares`), for the confusion and C alike.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tasks.rows import Csr, Dense
from tasks.rows.base import Array
from tasks.seeds import stream
from tasks.svm.class_rows import ClassRows, NodeRows
from tasks.svm.gram import GramStore, read_columns, read_square
from tasks.svm.kernels import Kernel, mean_distance
from tasks.svm.least_squares import held_out_scores
from tasks.svm.one_vs_all import centred, one_vs_all

FOLDS = 2


@dataclass(frozen=True, slots=True)
class Judges:
    """What all trials know.

    most  rows of the sample at most; seed: of the order in which rows are visited
    """

    rows: ClassRows
    gram: GramStore | None
    most: int
    seed: int


@dataclass(frozen=True, slots=True)
class Trial:
    """Classifiers of classes first ... last - 1, of one fold's rows with one C."""

    cost: float
    fold: int
    first: int
    last: int

    @property
    def label(self) -> str:
        return f"{self.fold}-{self.first:05d}"


@dataclass(frozen=True, slots=True, eq=False)
class Held:
    """Of each row of the other fold the best of these classes: score (n,) float32, and class (n,) int32."""

    score: Array
    label: Array

    def or_better(self, other: Held) -> Held:
        """The better of two ranges of classes; this one where they are equal."""
        better = other.score > self.score
        return Held(np.where(better, other.score, self.score), np.where(better, other.label, self.label))


def halves(rows: NodeRows) -> Array:
    """(n,) int: the fold of each row of a sample; a class of one row is in fold 0 alone."""
    firsts = np.searchsorted(rows.labels, np.arange(rows.counts.size))
    place: Array = np.arange(rows.n_rows) - firsts[rows.labels]
    return place % FOLDS


def try_classes(trial: Trial, judges: Judges, starts: Array, classes: Array) -> Held:
    """Train on the rows of a fold, score those of the other.

    starts (n_classes + 1,), classes (K,): see `NodeRows.of`
    """
    rows = NodeRows.of(np.asarray(starts), np.asarray(classes), judges.most)
    fold = halves(rows)
    learn, judge = np.flatnonzero(fold == trial.fold), np.flatnonzero(fold != trial.fold)
    if not learn.size:  # classes of one row alone
        scores = np.zeros((judge.size, trial.last - trial.first), np.float32)
    elif judges.gram is None:
        rng = stream(judges.seed, "svm-trial", trial.fold)
        held = judges.rows.take(rows.numbers)
        fitted = one_vs_all(
            held.take(learn), rows.labels[learn], classes.size, trial.cost, rng, range(trial.first, trial.last)
        )
        scores = held.take(judge).scores(fitted[0]) + fitted[1]
    else:
        square = read_square(judges.gram, rows.numbers[learn])
        block = read_columns(judges.gram, rows.numbers[judge], rows.numbers[learn])
        scores = held_out_scores(square, block, rows.labels[learn], classes.size, trial.cost)
        scores = scores[:, trial.first : trial.last]
    best = scores.argmax(axis=1)
    return Held(
        scores[np.arange(len(best)), best].astype(np.float32),
        (best + trial.first).astype(np.int32),
    )


def scale_of(rows: Dense | Csr, kernel: Kernel) -> float:
    """Mean k(x, x); of dense rows far from zero mean |x - mean|^2, since biases are free."""
    return float(kernel.diagonal(centred(rows)[0] if kernel.kind == "linear" else rows).mean())


def sample_scale(judges: Judges, starts: Array, kernel: Kernel, width: float | None = None) -> tuple[float, float]:
    """(mean k(x, x), width or mean distance of two rows or 1.0) of a sample: the unit of C, the width of a kernel.

    Raises NoKernelWidth where no width is given, and the rows have none.
    """
    counts = np.diff(starts)
    rows = NodeRows.of(np.asarray(starts), np.flatnonzero(counts).astype(np.int32), judges.most)
    held = judges.rows.take(rows.numbers)
    return scale_of(held, kernel), width or mean_distance(kernel.kind, held)
