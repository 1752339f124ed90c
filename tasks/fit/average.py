"""Averages of models trained apart (Zinkevich et al. 2010, algorithm 3)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tasks.fit.scorer import Parameters


@dataclass(frozen=True, eq=False)
class ModelSum:
    """A weighted sum of models, and what was counted while they were trained; adds in a fixed order.

    weight      the sum of the models' weights; 0 for a partition none of whose rows takes part
    parameters  the sum of weight * parameters, in the dtype of the parameters
    loss        sum of the losses met on the way (each row before its own step)
    rows        rows met on the way, passes counted
    operations  vector operations done: a dot product and an addition per output and row
    """

    weight: float
    parameters: Parameters
    loss: float = 0.0
    rows: int = 0
    operations: float = 0.0

    @classmethod
    def of(cls, weight: float, parameters: Parameters, loss: float, rows: int, operations: float) -> ModelSum:
        """One model with its weight; one of weight 1 is held as it is, not copied."""
        if weight == 1:
            return cls(weight, parameters, loss, rows, operations)
        weighted = {name: values * values.dtype.type(weight) for name, values in parameters.items()}
        return cls(weight, weighted, loss, rows, operations)

    @classmethod
    def taking(cls, weight: float, parameters: Parameters, loss: float, rows: int, operations: float) -> ModelSum:
        """As `of`, but the model's arrays become the sum's, changed in place: a large one is not held twice."""
        for values in parameters.values():
            values *= values.dtype.type(weight)
        return cls(weight, parameters, loss, rows, operations)

    def __add__(self, other: ModelSum) -> ModelSum:
        parameters = {name: values + other.parameters[name] for name, values in self.parameters.items()}
        return ModelSum(
            self.weight + other.weight,
            parameters,
            self.loss + other.loss,
            self.rows + other.rows,
            self.operations + other.operations,
        )

    def absorb(self, other: ModelSum) -> ModelSum:
        """`self + other`, to the same bits, in the arrays of this sum: for whoever alone holds it."""
        for name, values in self.parameters.items():
            values += other.parameters[name]
        return ModelSum(
            self.weight + other.weight,
            self.parameters,
            self.loss + other.loss,
            self.rows + other.rows,
            self.operations + other.operations,
        )

    def mean(self) -> Parameters:
        """The weighted mean of the models. Raises ZeroDivisionError when no row took part."""
        if self.weight == 0:
            raise ZeroDivisionError("no rows took part in any of the models")
        if self.weight == 1:
            return self.parameters
        return {name: values / values.dtype.type(self.weight) for name, values in self.parameters.items()}

    def mean_loss(self) -> float:
        """The mean loss met on the way, NaN when there was no row."""
        return self.loss / self.rows if self.rows else float(np.nan)
