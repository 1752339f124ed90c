"""Flat linear models: one weight vector per class (one-vs-rest, Crammer-Singer, multinomial logistic)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from tasks.models.base import Ranking
from tasks.models.errors import ModelFormat
from tasks.models.slices import check_width, slices
from tasks.models.topk import top_classes
from tasks.rows.base import Array, Rows


@dataclass(frozen=True, eq=False)
class LinearModel:
    """score(row, class) = row . weights[:, class] + bias[class].

    weights  (n_features, n_classes) float32
    bias     (n_classes,) float32; None for a model without
    """

    weights: Array
    bias: Array | None = None
    kind: str = "ovr"

    @property
    def n_features(self) -> int:
        return int(self.weights.shape[0])

    @property
    def n_classes(self) -> int:
        return int(self.weights.shape[1])

    def rank(self, rows: Rows, top: int) -> Ranking:
        """Every class is evaluated for every row; raises ColumnMismatch."""
        check_width(rows, self.n_features, self.kind)
        classes = np.empty((rows.n_rows, top), np.int32)
        best = np.empty((rows.n_rows, top), np.float32)
        for start, stop, part in slices(rows, self.n_classes):
            scores = part.scores(self.weights)
            if self.bias is not None:
                scores += self.bias
            classes[start:stop], best[start:stop] = top_classes(scores, top)
        return Ranking(classes, best, np.full(rows.n_rows, self.n_classes, np.int32))

    def header(self) -> dict[str, Any]:
        return {"kind": self.kind, "bias": self.bias is not None, "score": "row . weights[:, class] + bias[class]"}

    def tensors(self) -> dict[str, Array]:
        named = {"weights": self.weights}
        return named if self.bias is None else {**named, "bias": self.bias}

    @classmethod
    def load(cls, header: dict[str, Any], tensors: dict[str, Array]) -> Self:
        """Raises ModelFormat when the shapes do not fit each other."""
        weights, bias = tensors.get("weights"), tensors.get("bias")
        if weights is None or weights.ndim != 2 or (bias is not None and bias.shape != weights.shape[1:]):
            raise ModelFormat("a linear model needs weights (n_features, n_classes) and, if any, bias (n_classes,)")
        if bool(header.get("bias")) != (bias is not None):
            raise ModelFormat("the header and the tensors disagree on whether the model has a bias")
        return cls(weights, bias, str(header["kind"]))
