"""Many classifiers over a kernel that share their support vectors: each row meets a support vector once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np

from tasks.models.errors import ModelFormat
from tasks.models.slices import check_width
from tasks.rows import Csr, Dense, Rows
from tasks.rows.base import Array
from tasks.svm.bank_checks import check_lists, named
from tasks.svm.bank_kernels import count_rows, support_block, support_margins
from tasks.svm.kernels import OF_HISTOGRAMS, Kernel, first_bad

DEFINITION = (
    "f(row) = sum over e in support_offsets[m] .. support_offsets[m + 1] - 1 of "
    "coefficients[e] k(support[support_index[e]], row) + bias[m]; f >= 0 goes positive"
)


class KernelSession:
    """Margins of some rows; kernel values are computed when a classifier first needs them, and kept."""

    def __init__(self, bank: KernelBank, rows: Rows) -> None:
        self._bank, self._rows = bank, rows
        shape = rows.n_rows, bank.support.n_rows
        self._values = np.empty(shape, np.float32)
        self._known, self._needed = np.zeros(shape, np.bool_), np.zeros(shape, np.bool_)
        self._complete = np.zeros(bank.n_support, np.bool_)  # columns known of all rows
        self._held = bank.index, bank.offsets, bank.coefficients, bank.bias
        self._asked = np.zeros(rows.n_rows, np.int32)

    def classifiers(self) -> Array:
        """(n_rows,) int32: margins asked for."""
        return self._asked

    def evaluations(self) -> Array:
        """(n_rows,) int32: the support vectors of all classifiers that the row was asked for, each counted once."""
        return np.asarray(self._needed.sum(axis=1, dtype=np.int32))

    def prepare(self, first: int, last: int) -> None:
        """Kernel values of all rows and what classifiers first .. last - 1 need, in one go; counts as nothing."""
        self._compute(np.arange(self._rows.n_rows), self._columns(first, last))

    def margins(self, rows: Array, classifiers: Array) -> Array:
        """(m,) float32: f of classifiers[i] (m,) int64 of row rows[i] (m,) int64."""
        rows, classifiers = np.asarray(rows, np.int64), np.asarray(classifiers, np.int64)
        order = np.argsort(classifiers, kind="stable")
        starts = np.flatnonzero(np.diff(classifiers[order], prepend=-1))
        for group in np.split(order, starts[1:]):
            if group.size:
                classifier = int(classifiers[group[0]])
                self._compute(rows[group], self._columns(classifier, classifier + 1))
        out = np.empty(rows.size, np.float32)
        support_margins(self._values, *self._held, rows, classifiers, self._needed, out)
        count_rows(rows, 1, self._asked)
        return out

    def block(self, rows: Array, first: int, last: int) -> Array:
        """(m, last - first) float32: of the rows (m,) int64 the classifiers first .. last - 1; bits as of `margins`."""
        rows = np.asarray(rows, np.int64)
        self._compute(rows, self._columns(first, last))
        out = np.empty((rows.size, last - first), np.float32)
        support_block(self._values, *self._held, rows, first, self._needed, out)
        count_rows(rows, last - first, self._asked)
        return out

    def _columns(self, first: int, last: int) -> Array:
        """The support vectors of classifiers first .. last - 1, ascending, but those whose values are all there."""
        lacking = np.zeros(self._bank.n_support, np.bool_)
        lacking[self._bank.index[self._bank.offsets[first] : self._bank.offsets[last]]] = True
        return np.flatnonzero(lacking & ~self._complete)

    def _compute(self, rows: Array, columns: Array) -> None:
        """Columns that any of the rows lacks, for those of the rows that lack any."""
        lacks = ~self._known[rows[:, None], columns]
        rows, columns = rows[lacks.any(axis=1)], columns[lacks.any(axis=0)]
        if not rows.size:
            return
        where = rows[:, None], columns
        bank = self._bank
        self._values[where] = bank.kernel.block(self._rows.take(rows), bank.support.take(columns))
        self._known[where] = True
        if rows.size == self._rows.n_rows:
            self._complete[columns] = True


@dataclass(frozen=True, eq=False)
class KernelBank:
    """Classifiers over a kernel.

    support       the support vectors of all of them, S rows, `Dense` or `Csr`
    offsets       (M + 1,) int64 into index and coefficients: those of each classifier
    index         (nnz,) int32, ascending in a classifier: which row of support
    coefficients  (nnz,) float32; bias (M,) float32
    """

    kernel: Kernel
    support: Rows
    offsets: Array
    index: Array
    coefficients: Array
    bias: Array
    form: ClassVar[str] = "kernel"
    is_kernel: ClassVar[bool] = True

    @property
    def n_classifiers(self) -> int:
        return int(self.bias.size)

    @property
    def n_features(self) -> int:
        return self.support.n_features

    @property
    def n_support(self) -> int:
        """Support vectors of all classifiers, each counted once."""
        return self.support.n_rows

    def cells(self, rows: Rows) -> int:
        """Numbers that a session holds for a row."""
        return 2 * self.n_support + (0 if isinstance(rows, Csr) else self.n_features)

    def check(self, rows: Rows, kind: str) -> None:
        """Raises ColumnMismatch; NegativeFeature, with its place, where the kernel takes no values below 0."""
        check_width(rows, self.n_features, kind)
        self.kernel.check(rows, "")

    def session(self, rows: Rows) -> KernelSession:
        """About rows of any body."""
        return KernelSession(self, rows.decoded())

    def header(self) -> dict[str, Any]:
        return {
            "form": self.form,
            "score": DEFINITION,
            "n_classifiers": self.n_classifiers,
            "n_support": self.n_support,
            "kernel": self.kernel.header(),
            "support_body": self.support.body,
        }

    def tensors(self) -> dict[str, Array]:
        held = {"support_offsets": self.offsets, "support_index": self.index, "coefficients": self.coefficients}
        held |= {"bias": self.bias}
        if isinstance(self.support, Csr):
            rows = self.support
            return held | {"support": rows.data, "support_columns": rows.indices, "support_starts": rows.indptr}
        return held | {"support": self.support.to_array(_width(self.support))}

    @classmethod
    def load(cls, header: Mapping[str, Any], tensors: Mapping[str, Array], n_features: int) -> Self:
        """Raises ModelFormat."""
        kernel, support = Kernel.load(header["kernel"]), _load_support(header, tensors, n_features)
        bias = named(tensors, "bias", np.float32, int(header["n_classifiers"]))
        offsets = named(tensors, "support_offsets", np.int64, bias.size + 1)
        index = named(tensors, "support_index", np.int32, None)
        coefficients = named(tensors, "coefficients", np.float32, index.size)
        check_lists(index, offsets, support.n_rows, "support vectors of the classifiers")
        if kernel.kind in OF_HISTOGRAMS and first_bad(support) is not None:
            raise ModelFormat(f"the {kernel.kind} kernel has a support vector with a value below 0")
        return cls(kernel, support, offsets, index, coefficients, bias)


def _width(rows: Rows) -> type[np.floating[Any]]:
    return np.float64 if isinstance(rows, Dense) and rows.values.dtype == np.float64 else np.float32


def _load_support(header: Mapping[str, Any], tensors: Mapping[str, Array], n_features: int) -> Rows:
    held = tensors.get("support")
    dtype = np.float64 if held is not None and held.dtype == np.float64 else np.float32
    if header["support_body"] == Dense.body:
        rows: Rows = Dense(named(tensors, "support", dtype, None, n_features))
    elif header["support_body"] == Csr.body:
        data = named(tensors, "support", dtype, None)
        columns = named(tensors, "support_columns", np.int32, data.size)
        starts = named(tensors, "support_starts", np.int64, None)
        check_lists(columns, starts, n_features, "columns of the support vectors")
        rows = Csr(data, columns, starts, n_features)
    else:
        raise ModelFormat(f"support vectors are {Dense.body} or {Csr.body}, not {header['support_body']!r}")
    if rows.n_rows != header["n_support"]:
        raise ModelFormat(f"there are {rows.n_rows:,} support vectors, model.json says {header['n_support']!r}")
    return rows
