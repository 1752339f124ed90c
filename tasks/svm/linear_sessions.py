"""Margins of linear classifiers of some rows, dense or sparse: by pairs, or of many classifiers at once."""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np

from tasks.rows import Csr
from tasks.rows.base import Array
from tasks.svm.bank_kernels import active_margins, count_rows, csr_margins, csr_products, dense_margins
from tasks.svm.kernel_dense import LANES, PRODUCTS, ROWS_AT_ONCE, add_terms, aligned, turn
from tasks.svm.kernel_sparse import sparse_tiles

VECTOR = 16  # float32 numbers that are added at once: panels are a multiple as wide
PANEL = 32  # classifiers beside each other for sparse rows
PANEL_CELLS = 1 << 22  # numbers of a panel at most (16 MB)
BEFORE = 8  # features made ready for a block cost as much as one entry of a row that is looked for by itself


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

    def _fill_pairs(self, rows: Array, first: int, last: int, out: Array) -> None:
        """A block pair by pair."""
        margins, count = np.empty(out.size, np.float32), last - first
        self._fill(np.repeat(rows, count), np.tile(np.arange(first, last), rows.size), margins)
        out[:] = margins.reshape(out.shape)


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
        if some.data.size * BEFORE < some.n_features:  # weights are not worth turning
            self._fill_pairs(rows, first, last, out)
        else:
            self._fill_panels(some, first, last, out)

    def _fill_panels(self, some: Csr, first: int, last: int, out: Array) -> None:
        """The block of the rows `some`, PANEL classifiers at a time, their weights turned to lie beside each other."""
        lanes = max(1, min(PANEL, PANEL_CELLS // some.n_features, last - first))
        sums = np.empty((some.n_rows, lanes))
        for start in range(first, last, lanes):
            weights, where = self._weights[start : min(start + lanes, last)], start - first
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
        if some.data.size * (last - first) * BEFORE < some.n_features:  # nor is a list of every feature worth making
            self._fill_pairs(rows, first, last, out)
        else:
            for mine, theirs, sums in sparse_tiles(PRODUCTS, some, self._weights.part(first, last)):
                out[mine, theirs] = sums + self._bias[first:last][theirs]


def _all_of(rows: Array, n: int) -> bool:
    return rows.size == n and bool((rows == np.arange(n)).all())
