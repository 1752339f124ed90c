"""The classifiers of a model, kept together, and what asking them costs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, ClassVar, Protocol

import numpy as np

from tasks.models.errors import ModelFormat
from tasks.rows import Csr, Rows
from tasks.rows.base import Array
from tasks.svm.classifier import Classifier, KernelClassifier, LinearClassifier
from tasks.svm.kernel_bank import KernelBank
from tasks.svm.kernels import Kernel
from tasks.svm.linear_bank import ActiveBank, LinearBank

ENTRY_BYTES = 8  # of a weight that is held with its feature; 4 without


class Session(Protocol):
    """Some rows, about which classifiers are asked. Nothing that is asked changes the bits of anything else."""

    def margins(self, rows: Array, classifiers: Array) -> Array:
        """(m,) float32: f of classifiers[i] (m,) int64 of row rows[i] (m,) int64."""
        ...

    def block(self, rows: Array, first: int, last: int) -> Array:
        """(m, last - first) float32: of the rows (m,) int64 the classifiers first .. last - 1; bits as of `margins`."""
        ...

    def prepare(self, first: int, last: int) -> None:
        """Most of the rows will be asked for most of these classifiers; counts as nothing, changes nothing."""
        ...

    def classifiers(self) -> Array:
        """(n_rows,) int32: margins asked for."""
        ...

    def evaluations(self) -> Array:
        """(n_rows,) int32: what that cost. Linear: as many; kernel: kernel values, each support vector once a row."""
        ...


class Bank(Protocol):
    """Classifiers 0 .. M - 1: a `LinearBank`, an `ActiveBank` or a `KernelBank`."""

    form: ClassVar[str]
    is_kernel: ClassVar[bool]

    @property
    def n_classifiers(self) -> int: ...

    @property
    def n_features(self) -> int: ...

    @property
    def n_support(self) -> int:
        """Support vectors of all classifiers together; 0 where they are linear."""
        ...

    def cells(self, rows: Rows) -> int:
        """Numbers that a session holds for a row, about."""
        ...

    def check(self, rows: Rows, kind: str) -> None:
        """Raises ColumnMismatch, with the kind of the model; NegativeFeature where the kernel takes no such values."""
        ...

    def session(self, rows: Rows) -> Session:
        """About rows of any body that were checked."""
        ...

    def header(self) -> dict[str, Any]: ...

    def tensors(self) -> dict[str, Array]: ...


class OfBank:
    """What a model has of its bank."""

    bank: Bank

    @property
    def n_features(self) -> int:
        return self.bank.n_features

    @property
    def is_kernel(self) -> bool:
        """Whether a row costs kernel values, and not classifiers."""
        return self.bank.is_kernel

    @property
    def n_support(self) -> int:
        """Support vectors of all classifiers together; 0 where they are linear."""
        return self.bank.n_support


def load_bank(header: Mapping[str, Any], tensors: Mapping[str, Array], n_features: int) -> Bank:
    """The bank that its header and tensors describe. Raises ModelFormat when they do not fit."""
    forms: tuple[type[LinearBank] | type[ActiveBank] | type[KernelBank], ...] = (LinearBank, ActiveBank, KernelBank)
    for kind in forms:
        if header["form"] == kind.form:
            return kind.load(header, tensors, n_features)
    raise ModelFormat(f"unknown form {header['form']!r}: expected {', '.join(kind.form for kind in forms)}")


def bank_of(
    classifiers: Iterable[Classifier],
    n_features: int,
    kernel: Kernel | None = None,
    rows_of: Callable[[Array], Rows] | None = None,
) -> Bank:
    """A bank of classifiers, in their order; they are gone through once.

    kernel   None: all are linear, and held in the form that takes fewer bytes; else all are over this kernel
    rows_of  of a kernel: gives the training rows of these numbers (s,) int64, ascending; asked once
    Raises TypeError for classifiers of the other sort, or a kernel without rows_of.
    """
    if kernel is None:
        return _linear_bank(classifiers, n_features)
    if rows_of is None:
        raise TypeError("a kernel needs rows_of: where its support vectors come from")
    return _kernel_bank(classifiers, kernel, rows_of)


def _linear_bank(classifiers: Iterable[Classifier], n_features: int) -> LinearBank | ActiveBank:
    held: list[Array | tuple[Array, Array]] = []
    biases, bytes_of_numbers = [], 0
    for one in classifiers:
        if not isinstance(one, LinearClassifier):
            raise TypeError("a linear bank takes linear classifiers")
        active = _active(one.weights)
        own = ENTRY_BYTES * active[0].size
        held.append(active if own < one.weights.nbytes else one.weights)
        bytes_of_numbers += own
        biases.append(one.bias)
    bias = np.array(biases, np.float32)
    if bytes_of_numbers >= 4 * bias.size * n_features:
        weights = np.zeros((bias.size, n_features), np.float32)
        for m, each in enumerate(held):
            if isinstance(each, tuple):
                weights[m, each[0]] = each[1]
            else:
                weights[m] = each
        return LinearBank(weights, bias)
    parts = [each if isinstance(each, tuple) else _active(each) for each in held]
    indptr = np.cumsum([0, *(features.size for features, _ in parts)], dtype=np.int64)
    features = np.concatenate([np.zeros(0, np.int32), *(one for one, _ in parts)])
    values = np.concatenate([np.zeros(0, np.float32), *(one for _, one in parts)])
    return ActiveBank(Csr(values, features, indptr, n_features), bias)


def _active(weights: Array) -> tuple[Array, Array]:
    """Features (n,) int32, ascending, and values (n,) float32 of the weights that are not 0."""
    features = np.flatnonzero(weights).astype(np.int32)
    return features, weights[features].astype(np.float32)


def _kernel_bank(classifiers: Iterable[Classifier], kernel: Kernel, rows_of: Callable[[Array], Rows]) -> KernelBank:
    numbers, coefficients, biases = [np.zeros(0, np.int64)], [np.zeros(0, np.float32)], []
    for one in classifiers:
        if not isinstance(one, KernelClassifier):
            raise TypeError("a kernel bank takes kernel classifiers")
        numbers.append(one.support)
        coefficients.append(one.coefficients)
        biases.append(one.bias)
    support = np.unique(np.concatenate(numbers))
    return KernelBank(
        kernel=kernel,
        support=rows_of(support).decoded(),
        offsets=np.cumsum([one.size for one in numbers], dtype=np.int64),
        index=np.searchsorted(support, np.concatenate(numbers)).astype(np.int32),
        coefficients=np.concatenate(coefficients).astype(np.float32),
        bias=np.array(biases, np.float32),
    )
