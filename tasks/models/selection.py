"""Which rows of a block are predicted, and what is known of them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tasks.io import Block, read_labels, read_row_ids, read_split
from tasks.rows.base import Array

TRAIN, VALIDATION, TEST = 0, 1, 2  # the values of a dataset's split


@dataclass(frozen=True, eq=False)
class Selected:
    """Rows of one block: index (n,) int64 in the block, row_ids (n,) int64, labels (n,) int32 (-1: not known)."""

    index: Array
    row_ids: Array
    labels: Array


@dataclass(frozen=True, slots=True)
class Selection:
    """Rows of a split of a dataset, whose encodings have its rows in its order; or all rows of a bare rows store.

    dataset   path of the dataset that knows split, labels and row ids; None: rows are numbered as stored, unlabelled
    split     0 train, 1 validation, 2 test; None: all rows
    classes   the model's class for each class of the dataset, -1 for none; None: they have the same classes
    """

    dataset: str | None = None
    split: int | None = None
    classes: tuple[int, ...] | None = None

    def of(self, block: Block) -> Selected:
        """The selected rows of a block, in stored order."""
        if self.dataset is None:
            index = np.arange(block.n_rows)
            return Selected(index, index + block.start, np.full(block.n_rows, -1, np.int32))
        index = np.arange(block.n_rows)
        if self.split is not None:
            index = np.flatnonzero(read_split(self.dataset, block.start, block.stop) == self.split)
        row_ids = read_row_ids(self.dataset, block.start, block.stop)[index]
        labels = read_labels(self.dataset, block.start, block.stop)[index]
        if self.classes is not None:
            labels = np.array(self.classes, np.int32)[labels]
        return Selected(index, row_ids, labels)
