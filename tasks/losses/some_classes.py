"""A one-vs-rest loss for the outputs of some classes alone: rows of other classes are negative for all of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from tasks.losses.base import Loss
from tasks.losses.weights import row_weights
from tasks.rows.base import Array


class SeparableLoss(Loss, Protocol):
    """A loss that is a sum over outputs, each of which learns from its own score alone."""

    @property
    def class_weight(self) -> Array | None: ...

    def weighted(self, scores: Array, labels: Array, weights: Array) -> tuple[float, Array]:
        """`residuals` of rows whose weights (n_rows,) float64 are given; a label < 0 is of no output."""
        ...


@dataclass(frozen=True, eq=False)
class SomeClasses:
    """The loss's own, summed over the outputs of some classes.

    loss    of all classes: a row weighs what its class weighs, whether it has an output or not
    places  (n_classes,) int32: the output of a class, -1 where it has none
    """

    loss: SeparableLoss
    places: Array

    @classmethod
    def of(cls, loss: SeparableLoss, classes: Array, n_classes: int) -> SomeClasses:
        """classes (n_outputs,) integers: the class of each output."""
        places = np.full(n_classes, -1, np.int32)
        places[classes] = np.arange(len(classes), dtype=np.int32)
        return cls(loss, places)

    def residuals(self, scores: Array, labels: Array) -> tuple[float, Array]:
        """See `Loss.residuals`; labels (n_rows,) int32 are classes, or < 0 for a row of no class."""
        return self.loss.weighted(scores, self.outputs(labels), row_weights(labels, self.loss.class_weight))

    def outputs(self, labels: Array) -> Array:
        """(n_rows,) int32: the output of each row's class, -1 where it has none."""
        return np.where(labels >= 0, self.places[labels], np.int32(-1))

    @property
    def curvature(self) -> float:
        return self.loss.curvature

    @property
    def penalty_weight(self) -> float:
        return self.loss.penalty_weight
