"""Trace-norm models: weights of low rank, kept as their factors where that is smaller (Harchaoui et al. 2012)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from tasks.models.base import Ranking
from tasks.models.certificate import TRACE_NORM, checked_certificate, plain_certificate
from tasks.models.errors import ModelFormat
from tasks.models.flat import PROBABILISTIC, rank_flat, read_bias
from tasks.models.linear import LinearModel
from tasks.models.slices import slices
from tasks.rows.base import Array, Rows


@dataclass(frozen=True, eq=False)
class FactoredModel:
    """score(row, class) = row . U diag(theta) V' + bias: W = sum over j of theta_j u_j v_j', j < rank.

    u            (n_features, rank) float32
    theta        (rank,) float32, >= 0; rank 0 is allowed: all scores are the bias
    v            (n_classes, rank) float32
    bias         (n_classes,) float32; None for a model without
    certificate  how good the weights are: see `tasks.models.certificate`
    raises       ModelFormat when shapes, types or the certificate are others
    """

    u: Array
    theta: Array
    v: Array
    bias: Array | None
    certificate: dict[str, Any]
    kind: str = TRACE_NORM

    def __post_init__(self) -> None:
        u, theta, v, bias = self.u, self.theta, self.v, self.bias
        shaped = u.ndim == v.ndim == 2 and theta.ndim == 1 and u.shape[1] == v.shape[1] == theta.size
        typed = all(values.dtype == np.float32 for values in (u, theta, v, bias) if values is not None)
        if not (shaped and typed) or (bias is not None and bias.shape != v.shape[:1]):
            raise ModelFormat(SHAPES)
        if not np.all(theta >= 0):
            raise ModelFormat("theta must not be negative: u takes the sign")
        object.__setattr__(self, "certificate", checked_certificate(self.certificate))

    @property
    def n_features(self) -> int:
        return int(self.u.shape[0])

    @property
    def n_classes(self) -> int:
        return int(self.v.shape[0])

    @property
    def rank_of_weights(self) -> int:
        return int(self.theta.size)

    @property
    def probabilistic(self) -> bool:
        return True

    @property
    def operations(self) -> int:
        """rank x (d + k) multiplications, in dot products of d numbers."""
        return -(-self.rank_of_weights * (self.n_features + self.n_classes) // self.n_features)

    def score_slices(self, rows: Rows) -> Iterator[tuple[int, int, Array]]:
        for start, stop, part in slices(rows, max(self.n_classes, self.rank_of_weights)):
            if self.rank_of_weights:
                scores = (part.scores(self.u) * self.theta) @ self.v.T
            else:
                scores = np.zeros((part.n_rows, self.n_classes), np.float32)
            if self.bias is not None:
                scores += self.bias
            yield start, stop, scores

    def rank(self, rows: Rows, top: int) -> Ranking:
        """Two thin products; raises ColumnMismatch."""
        return rank_flat(self, rows, top)

    def header(self) -> dict[str, Any]:
        score = "row . u diag(theta) v[class] + bias[class]"
        facts = {"kind": self.kind, "bias": self.bias is not None, PROBABILISTIC: True, "score": score}
        return {**facts, "certificate": self.certificate}

    def tensors(self) -> dict[str, Array]:
        named = {"u": self.u, "theta": self.theta, "v": self.v}
        return named if self.bias is None else {**named, "bias": self.bias}

    @classmethod
    def load(cls, header: dict[str, Any], tensors: dict[str, Array]) -> Self:
        """Raises ModelFormat when tensors are missing, or do not fit each other or the header."""
        if not {"u", "theta", "v"} <= tensors.keys():
            raise ModelFormat(f"{SHAPES}; or weights (n_features, n_classes)")
        parts = (tensors["u"], tensors["theta"], tensors["v"], read_bias(header, tensors))
        return cls(*parts, header.get("certificate", {}))


SHAPES = (
    "a factored model needs u (n_features, rank), theta (rank,), v (n_classes, rank) and, if any, bias (n_classes,), "
    "all float32"
)


class TraceNormModels:
    """Reads either form of a trace-norm model: factors, or the dense weights."""

    @staticmethod
    def load(header: dict[str, Any], tensors: dict[str, Array]) -> FactoredModel | LinearModel:
        """Told apart by their tensors; raises ModelFormat when these are neither, or the header does not fit."""
        if header.get(PROBABILISTIC) is not True:
            raise ModelFormat(f"a {TRACE_NORM} model's scores are log-odds: {PROBABILISTIC} must be true")
        return (LinearModel if "weights" in tensors else FactoredModel).load(header, tensors)


def trace_norm_model(
    u: Array, theta: Array, v: Array, bias: Array | None, certificate: Mapping[str, Any]
) -> FactoredModel | LinearModel:
    """The model of weights W = u diag(theta) v' in whichever form takes fewer numbers; dense when they are equal.

    u (n_features, rank), theta (rank,) >= 0, v (n_classes, rank), bias (n_classes,): any float type, kept as float32.
    Raises ModelFormat when the shapes do not fit, or the certificate is no proper one.
    """
    single = [np.ascontiguousarray(values, np.float32) for values in (u, theta, v)]
    offset = None if bias is None else np.ascontiguousarray(bias, np.float32)
    model = FactoredModel(single[0], single[1], single[2], offset, plain_certificate(certificate))
    d, k = model.n_features, model.n_classes
    if model.rank_of_weights * (d + k + 1) < d * k:
        return model
    weights = ((np.asarray(u, np.float64) * np.asarray(theta, np.float64)) @ np.asarray(v, np.float64).T).astype("f4")
    return LinearModel(weights, offset, TRACE_NORM, True, model.certificate)
