"""The contract that every loss keeps."""

from __future__ import annotations

from typing import Protocol

from tasks.rows.base import Array


class Loss(Protocol):
    """A convex function of one row's scores and its label.

    curvature       the largest second derivative along any one direction of scores; 0 for piecewise linear losses
    penalty_weight  how strong a penalty suits the loss: the regularization "auto" is this times |x|^2 / n_rows
    """

    @property
    def curvature(self) -> float: ...

    @property
    def penalty_weight(self) -> float: ...

    def residuals(self, scores: Array, labels: Array) -> tuple[float, Array]:
        """Sum of losses over the rows, and its derivative in the scores.

        scores   (n_rows, n_outputs) float; labels (n_rows,) int32, meaning as the loss defines (a class, or a row of P)
        returns  (sum of losses, residuals (n_rows, n_outputs) in the dtype of the scores)
        """
        ...
