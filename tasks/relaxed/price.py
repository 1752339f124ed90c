"""What a split costs and what it saves: where many rows go wrong to spare few classifiers, a leaf serves better.

Every split loses some rows for good, and near the leaves it spares next to nothing. A hierarchy of least loss at a
complexity loses the same everywhere for one classifier that it saves: a split is worth making below some price.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tasks.relaxed.ground import Ground
from tasks.relaxed.solvers import solver_of
from tasks.rows.base import Array
from tasks.svm.trials import FOLDS, halves


def lost_rows(ground: Ground, classes: Array, coloring: Array, most: int) -> float:
    """Share of a node's rows, of at most so many of them, that its split sends to a side where their class is not.

    coloring  (K,) int8 with both signs
    Each half of a class's rows is judged by the machine that the other halves make, with the same C for twice the
    weight. A class with one row here does not count, for none is left to learn from; 1 where a half has but one side.
    """
    rows = ground.node_rows(classes, most)
    fold, sides = halves(rows), coloring[rows.labels]
    judged = np.bincount(rows.labels, minlength=classes.size)[rows.labels] > 1
    solver = solver_of(ground, replace(rows, weights=FOLDS * rows.weights), classes)
    wrong = np.zeros(rows.n_rows, bool)
    for one in range(FOLDS):
        learnt = np.where(fold == one, sides, 0).astype(np.int8)
        if not ((learnt > 0).any() and (learnt < 0).any()):
            return 1.0
        positive = solver.solve(learnt).margins >= 0
        wrong |= judged & (fold != one) & (sides != 0) & (positive != (sides > 0))
    weights = rows.weights.astype(np.float64)
    return float(weights[wrong].sum() / weights[judged].sum()) if judged.any() else 1.0


def saved_classifiers(coloring: Array) -> float:
    """Classifiers that a row asks fewer of than at a one-vs-all leaf, if leaves follow; of both sides the mean."""
    sides = (int(np.count_nonzero(coloring <= 0)), int(np.count_nonzero(coloring >= 0)))
    return coloring.size - 1 - sum(leaf_classifiers_of(size) for size in sides) / 2


def leaf_classifiers_of(n_classes: int) -> int:
    """Classifiers that tell some classes apart with no more than one split: none, one, or one a class."""
    return n_classes - 1 if n_classes <= 2 else n_classes
