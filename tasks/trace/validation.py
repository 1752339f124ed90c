"""What the validation rows say of a pair of penalties: rows right, their losses, and a sample of them row by row."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tasks.fit.targets import SplitTargets
from tasks.io import Block
from tasks.rows.base import Array
from tasks.sums import FieldSums
from tasks.trace.blocks import Arrays, taking_part
from tasks.trace.softmax import softmax_row_losses

WRONG, LOSS = range(2)  # columns of a sample: 1 where the best class is another one than the row's, else 0; log-loss


@dataclass(frozen=True, slots=True, eq=False)
class Validation(FieldSums):
    """Sums over validation rows: rows, those whose best class is their own (ties to the lower class), and losses.

    samples  of each block in turn, the rows that are looked at one by one: (m, 2) float32, columns WRONG and LOSS
    """

    rows: int
    hits: int
    loss: float
    samples: tuple[Array, ...] = ()

    def sample(self) -> Array:
        """(m, 2) float32: of all blocks, in the order of the rows."""
        return np.concatenate([np.zeros((0, 2), np.float32), *self.samples])


def validate_block(block: Block, model: Arrays, targets: SplitTargets, stride: int) -> Validation:
    """The validation rows of a block.

    model   u (n_features, rank), core (rank, n_classes), and bias (n_classes,) if there is one
    stride  rows whose place in the dataset it divides are sampled: the same ones for every model
    """
    index, labels = targets.of(block)
    rows = taking_part(block, index)
    scores = rows.scores(np.ascontiguousarray(model["u"], np.float32)) @ model["core"].astype(np.float32)
    if "bias" in model:
        scores += model["bias"].astype(np.float32)
    wrong = scores.argmax(axis=1) != labels
    losses = softmax_row_losses(scores, labels)
    sample = np.stack([wrong, losses], axis=1).astype(np.float32)[(block.start + index) % stride == 0]
    return Validation(int(labels.size), int(labels.size - wrong.sum()), float(losses.sum()), (sample,))
