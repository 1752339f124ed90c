"""Many hyperplanes over the features, kept together: every weight, or those alone that are not 0."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np

from tasks.models.slices import check_width
from tasks.rows import Csr, Rows
from tasks.rows.base import Array
from tasks.svm.bank_checks import check_lists, named
from tasks.svm.kernel_pairs import sparse
from tasks.svm.linear_sessions import ActiveSession, CsrSession, DenseSession, LinearSession

DEFINITION = "f(row) = row . weights + bias of the classifier; f >= 0 goes positive"


@dataclass(frozen=True, eq=False)
class LinearBank:
    """Classifiers of all features: weights (M, d) float32, C order; bias (M,) float32."""

    weights: Array
    bias: Array
    form: ClassVar[str] = "linear"
    is_kernel: ClassVar[bool] = False
    n_support: ClassVar[int] = 0

    @property
    def n_classifiers(self) -> int:
        return int(self.bias.size)

    @property
    def n_features(self) -> int:
        return int(self.weights.shape[1])

    def cells(self, rows: Rows) -> int:
        """Numbers that a session holds for a row."""
        return 1 if isinstance(rows, Csr) else self.n_features

    def check(self, rows: Rows, kind: str) -> None:
        """Raises ColumnMismatch."""
        check_width(rows, self.n_features, kind)

    def session(self, rows: Rows) -> LinearSession:
        """About rows of any body, taken as float32."""
        plain = rows.decoded()
        if isinstance(plain, Csr):
            return CsrSession(_narrow(plain), self.weights, self.bias)
        return DenseSession(plain.to_array(), self.weights, self.bias)

    def header(self) -> dict[str, Any]:
        return {"form": self.form, "score": DEFINITION, "n_classifiers": self.n_classifiers}

    def tensors(self) -> dict[str, Array]:
        return {"weights": self.weights, "bias": self.bias}

    @classmethod
    def load(cls, header: Mapping[str, Any], tensors: Mapping[str, Array], n_features: int) -> Self:
        """Raises ModelFormat."""
        bias = named(tensors, "bias", np.float32, int(header["n_classifiers"]))
        return cls(named(tensors, "weights", np.float32, bias.size, n_features), bias)


@dataclass(frozen=True, eq=False)
class ActiveBank:
    """Classifiers of which most weights are 0: weights (M, d) float32 as sparse rows; bias (M,) float32."""

    weights: Csr
    bias: Array
    form: ClassVar[str] = "active"
    is_kernel: ClassVar[bool] = False
    n_support: ClassVar[int] = 0

    @property
    def n_classifiers(self) -> int:
        return int(self.bias.size)

    @property
    def n_features(self) -> int:
        return self.weights.n_features

    def cells(self, rows: Rows) -> int:
        """Numbers that a session holds for a row."""
        return 1 if isinstance(rows, Csr) else self.n_features

    def check(self, rows: Rows, kind: str) -> None:
        """Raises ColumnMismatch."""
        check_width(rows, self.n_features, kind)

    def session(self, rows: Rows) -> LinearSession:
        """About rows of any body, taken as sparse float32 ones."""
        return ActiveSession(_narrow(sparse(rows.decoded())), self.weights, self.bias)

    def header(self) -> dict[str, Any]:
        told = (
            f"{DEFINITION}; weights of a classifier that are not 0: weights[weight_offsets[m] : weight_offsets[m + 1]]"
        )
        return {"form": self.form, "score": f"{told}, their columns: features", "n_classifiers": self.n_classifiers}

    def tensors(self) -> dict[str, Array]:
        held = self.weights
        return {"weights": held.data, "features": held.indices, "weight_offsets": held.indptr, "bias": self.bias}

    @classmethod
    def load(cls, header: Mapping[str, Any], tensors: Mapping[str, Array], n_features: int) -> Self:
        """Raises ModelFormat."""
        bias = named(tensors, "bias", np.float32, int(header["n_classifiers"]))
        weights = named(tensors, "weights", np.float32, None)
        features = named(tensors, "features", np.int32, weights.size)
        offsets = named(tensors, "weight_offsets", np.int64, bias.size + 1)
        check_lists(features, offsets, n_features, "features of the classifiers")
        return cls(Csr(weights, features, offsets, n_features), bias)


def _narrow(rows: Csr) -> Csr:
    return Csr(rows.data.astype(np.float32, copy=False), rows.indices, rows.indptr, rows.n_features)
