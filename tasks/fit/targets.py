"""Which rows of a block take part in a fit, and with which labels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from tasks.io import Block, read_labels, read_split
from tasks.rows.base import Array

TRAIN, VALIDATION, TEST = 0, 1, 2


class Targets(Protocol):
    """Picklable and small: it travels with the problem and looks things up by block on the worker."""

    def of(self, block: Block) -> tuple[Array, Array]:
        """(index within the block, int64 ascending; labels int32 as the loss means them), of the same length."""
        ...


@dataclass(frozen=True, slots=True)
class SplitTargets:
    """Every row of one split, labelled with its class.

    dataset  path of the dataset store
    split    0 train, 1 validation, 2 test
    """

    dataset: str
    split: int = TRAIN

    def of(self, block: Block) -> tuple[Array, Array]:
        """See `Targets.of`."""
        chosen = np.flatnonzero(read_split(self.dataset, block.start, block.stop) == self.split)
        labels = read_labels(self.dataset, block.start, block.stop)
        return chosen.astype(np.int64), labels[chosen].astype(np.int32)
