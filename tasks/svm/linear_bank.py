"""Many hyperplanes over the features, kept together: every weight, or those alone that are not 0."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np

from tasks.models.slices import check_width
from tasks.rows import Csr, Rows
from tasks.rows.base import Array
from tasks.svm.bank_checks import check_lists, named
from tasks.svm.bank_kernels import active_margins, count_rows, csr_margins, csr_products, dense_margins
from tasks.svm.kernel_dense import LANES, PRODUCTS, ROWS_AT_ONCE, add_terms, aligned, turn
from tasks.svm.kernel_pairs import sparse
from tasks.svm.kernel_sparse import sparse_tiles

DEFINITION = "f(row) = row . weights + bias of the classifier; f >= 0 goes positive"
VECTOR = 16  # float32 numbers that are added at once: panels are a multiple as wide
PANEL = 32  # classifiers beside each other for sparse rows


class LinearSession(ABC):
    """Margins of some rows, and how many classifiers each was asked for."""

    def __init__(self, bias: Array, n_rows: int) -> None:
        self._bias, self._asked = bias, np.zeros(n_rows, np.int32)

    def classifiers(self) -> Array:
        """(n_rows,) int32: margins asked for."""
        return self._asked

    def evaluations(self) -> Array:
        """(n_rows,) int32: the same, for each costs a dot product."""
        return self._asked

    def prepare(self, first: int, last: int) -> None:  # noqa: B027 - kernels alone have what to prepare
        """Nothing is worth computing beforehand."""

    def margins(self, rows: Array, classifiers: Array) -> Array:
        """(m,) float32: f of classifiers[i] (m,) int64 of row rows[i] (m,) int64."""
        rows, classifiers = np.asarray(rows, np.int64), np.asarray(classifiers, np.int64)
        out = np.empty(rows.size, np.float32)
        self._fill(rows, classifiers, out)
        count_rows(rows, 1, self._asked)
        return out

    def block(self, rows: Array, first: int, last: int) -> Array:
        """(m, last - first) float32: of the rows (m,) int64 the classifiers first .. last - 1; bits as of `margins`."""
        rows = np.asarray(rows, np.int64)
        out = np.empty((rows.size, last - first), np.float32)
        if out.size:
            self._fill_block(rows, first, last, out)
            count_rows(rows, last - first, self._asked)
        return out

    @abstractmethod
    def _fill(self, rows: Array, classifiers: Array, out: Array) -> None: ...

    @abstractmethod
    def _fill_block(self, rows: Array, first: int, last: int, out: Array) -> None: ...


class DenseSession(LinearSession):
    """Dense rows, values (n, d) float32, and weights (M, d) float32."""

    def __init__(self, values: Array, weights: Array, bias: Array) -> None:
        super().__init__(bias, len(values))
        self._values, self._weights = values, weights

    def _fill(self, rows: Array, classifiers: Array, out: Array) -> None:
        dense_margins(self._values, self._weights, self._bias, rows, classifiers, out)

    def _fill_block(self, rows: Array, first: int, last: int, out: Array) -> None:
        values = self._values if _all_of(rows, len(self._values)) else self._values[rows]
        for start in range(first, last, LANES):
            weights, where = self._weights[start : min(start + LANES, last)], start - first
            bias = self._bias[start : start + len(weights)]
            lanes = -(-len(weights) // VECTOR) * VECTOR
            panel, part = aligned((values.shape[1], lanes), np.float32), aligned((lanes,), np.float32)
            sums = aligned((ROWS_AT_ONCE, lanes), np.float64)
            turn(weights, panel)
            for at in range(0, len(values), ROWS_AT_ONCE):
                some = values[at : at + ROWS_AT_ONCE]
                add_terms(PRODUCTS, some, panel, part, sums)
                out[at : at + len(some), where : where + len(weights)] = sums[: len(some), : len(weights)] + bias


class CsrSession(LinearSession):
    """Sparse rows and weights (M, d) float32."""

    def __init__(self, rows: Csr, weights: Array, bias: Array) -> None:
        super().__init__(bias, rows.n_rows)
        self._rows, self._weights = rows, weights

    def _fill(self, rows: Array, classifiers: Array, out: Array) -> None:
        held = self._rows
        csr_margins(held.data, held.indices, held.indptr, self._weights, self._bias, rows, classifiers, out)

    def _fill_block(self, rows: Array, first: int, last: int, out: Array) -> None:
        some = self._rows if _all_of(rows, self._rows.n_rows) else self._rows.take(rows)
        sums = np.empty((rows.size, min(PANEL, last - first)))
        for start in range(first, last, PANEL):
            weights, where = self._weights[start : min(start + PANEL, last)], start - first
            part = sums[:, : len(weights)]
            csr_products(some.data, some.indices, some.indptr, np.ascontiguousarray(weights.T), part)
            out[:, where : where + len(weights)] = part + self._bias[start : start + len(weights)]


class ActiveSession(LinearSession):
    """Sparse rows and sparse weights (M, d)."""

    def __init__(self, rows: Csr, weights: Csr, bias: Array) -> None:
        super().__init__(bias, rows.n_rows)
        self._rows, self._weights = rows, weights

    def _fill(self, rows: Array, classifiers: Array, out: Array) -> None:
        held, some = self._weights, self._rows
        weights = held.data, held.indices, held.indptr
        active_margins(some.data, some.indices, some.indptr, *weights, self._bias, rows, classifiers, out)

    def _fill_block(self, rows: Array, first: int, last: int, out: Array) -> None:
        some = self._rows if _all_of(rows, self._rows.n_rows) else self._rows.take(rows)
        for mine, theirs, sums in sparse_tiles(PRODUCTS, some, self._weights.part(first, last)):
            out[mine, theirs] = sums + self._bias[first:last][theirs]


def _all_of(rows: Array, n: int) -> bool:
    return rows.size == n and bool((rows == np.arange(n)).all())


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
