"""One hyperplane as a model keeps it: f(x) >= 0 is the positive side."""

from __future__ import annotations

from dataclasses import dataclass

from tasks.rows.base import Array


@dataclass(frozen=True, eq=False)
class LinearClassifier:
    """f(x) = w . x + b: weights (n_features,) float32."""

    weights: Array
    bias: float


@dataclass(frozen=True, eq=False)
class KernelClassifier:
    """f(x) = sum of coefficient_i k(x_i, x) + b.

    support       (s,) int64, ascending: numbers of training rows
    coefficients  (s,) float32: dual times side
    """

    support: Array
    coefficients: Array
    bias: float


Classifier = LinearClassifier | KernelClassifier
