"""Flat linear models: one weight vector per class (one-vs-rest, Crammer-Singer, multinomial logistic)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Self

from tasks.models.base import Ranking
from tasks.models.certificate import TRACE_NORM, checked_certificate
from tasks.models.errors import ModelFormat
from tasks.models.flat import PROBABILISTIC, rank_flat, read_bias, read_probabilistic
from tasks.models.slices import slices
from tasks.rows.base import Array, Rows


@dataclass(frozen=True, eq=False)
class LinearModel:
    """score(row, class) = row . weights[:, class] + bias[class].

    weights        (n_features, n_classes) float32
    bias           (n_classes,) float32; None for a model without
    probabilistic  whether scores are log-odds of a softmax: the model was trained with the multinomial logistic loss
    certificate    of a trace-norm model whose factors would take more room; None for other kinds
    """

    weights: Array
    bias: Array | None = None
    kind: str = "ovr"
    probabilistic: bool = False
    certificate: dict[str, Any] | None = None

    @property
    def n_features(self) -> int:
        return int(self.weights.shape[0])

    @property
    def n_classes(self) -> int:
        return int(self.weights.shape[1])

    @property
    def operations(self) -> int:
        """Every class is evaluated for every row."""
        return self.n_classes

    def score_slices(self, rows: Rows) -> Iterator[tuple[int, int, Array]]:
        for start, stop, part in slices(rows, self.n_classes):
            scores = part.scores(self.weights)
            if self.bias is not None:
                scores += self.bias
            yield start, stop, scores

    def rank(self, rows: Rows, top: int) -> Ranking:
        """Raises ColumnMismatch."""
        return rank_flat(self, rows, top)

    def header(self) -> dict[str, Any]:
        facts = {"kind": self.kind, "bias": self.bias is not None, "score": "row . weights[:, class] + bias[class]"}
        facts |= {PROBABILISTIC: True} if self.probabilistic else {}
        return facts if self.certificate is None else {**facts, "certificate": self.certificate}

    def tensors(self) -> dict[str, Array]:
        named = {"weights": self.weights}
        return named if self.bias is None else {**named, "bias": self.bias}

    @classmethod
    def load(cls, header: dict[str, Any], tensors: dict[str, Array]) -> Self:
        """Raises ModelFormat when the shapes do not fit each other or the header."""
        weights, bias = tensors.get("weights"), read_bias(header, tensors)
        if weights is None or weights.ndim != 2 or (bias is not None and bias.shape != weights.shape[1:]):
            raise ModelFormat("a linear model needs weights (n_features, n_classes) and, if any, bias (n_classes,)")
        kind, certificate = str(header["kind"]), None
        if kind == TRACE_NORM:
            certificate = checked_certificate(header.get("certificate"))
        return cls(weights, bias, kind, read_probabilistic(header), certificate)
