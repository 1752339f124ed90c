"""Scores X W + b: one weight column per output."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tasks.fit.scorer import Parameters
from tasks.rows.base import Array, Rows


@dataclass(frozen=True, slots=True)
class LinearScorer:
    """Parameters {"weights": (n_features, n_outputs), "bias": (n_outputs,)}; without `bias` the second is absent.

    bias_rate  how much longer the steps of the bias are than those of the weights: the bias acts as the weight of a
               constant feature of value sqrt(bias_rate), best near the norm of a row (`with_trial` sets it so)
    """

    n_features: int
    n_outputs: int
    bias: bool = True
    bias_rate: float = 1.0

    @property
    def squared_scale(self) -> float:
        """1: scores are not scaled."""
        return 1.0

    def initial(self, dtype: type) -> Parameters:
        """Parameters that score everything 0."""
        parameters: Parameters = {"weights": np.zeros((self.n_features, self.n_outputs), dtype)}
        if self.bias:
            parameters["bias"] = np.zeros(self.n_outputs, dtype)
        return parameters

    def scores(self, parameters: Parameters, rows: Rows) -> Array:
        """(n_rows, n_outputs) in the dtype of the parameters."""
        scores = rows.scores(parameters["weights"])
        if self.bias:
            scores += parameters["bias"]
        return scores

    def subtract(self, parameters: Parameters, rows: Rows, residuals: Array, step: float) -> None:
        """weights -= step X' R and bias -= step * bias_rate * (column sums of R), in place."""
        rows.subtract_gradient(residuals, step, parameters["weights"])
        if self.bias:
            bias = parameters["bias"]
            bias -= bias.dtype.type(step * self.bias_rate) * residuals.sum(axis=0)

    def centred(self, parameters: Parameters, centre: Array, sign: float = 1.0) -> Parameters:
        """The same scores for rows from which `centre` (n_features,) was taken away; sign = -1 undoes it."""
        if not self.bias:
            raise ValueError("without a bias, centred rows have other scores")
        shift = centre.astype(parameters["weights"].dtype) @ parameters["weights"]
        return {**parameters, "bias": parameters["bias"] + shift.dtype.type(sign) * shift}

    def operations_per_row(self) -> float:
        """One dot product per output."""
        return float(self.n_outputs)
