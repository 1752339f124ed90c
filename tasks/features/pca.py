"""Principal components of rows that live in blocks: the outer loop asks an oracle for sums, and never sees a row.

With few features the scatter matrix of the centred rows travels and is decomposed. With many, randomized subspace
iteration (Halko, Martinsson & Tropp 2011, Algorithm 4.4, with the Rayleigh-Ritz step of section 5.1) multiplies it with
a slowly turning basis, a slice of columns at a time, so that what travels stays small; the rows are centred implicitly
and never written out. A component's sign makes its entry of largest magnitude positive (the first of equals).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from threadpoolctl import threadpool_limits

from tasks.errors import ParamError
from tasks.features.statistics import Moments, add_product, add_scatter, moments
from tasks.later import later
from tasks.rows.base import Array, Rows
from tasks.seeds import stream

linalg = later("scipy.linalg")

EXACT_FEATURES = 2048  # up to here the whole scatter matrix travels
SUM_BYTES = 2**26  # largest slice of a product that travels
EQUAL = 1 - 1e-6  # share of the largest magnitude from which on an entry counts as large as it
NO_VARIANCE = 1e-12  # share of the largest variance below which there is none to be whitened


@dataclass(frozen=True, slots=True)
class PcaParams:
    """Principal component analysis.

    components    columns that are left
    whiten        divide each column by its standard deviation
    power_rounds  products with the scatter matrix before the last one; only where it is not formed
    oversample    further columns of the basis that turn with it; only there
    """

    components: int = 64
    whiten: bool = False
    power_rounds: int = 6
    oversample: int = 10

    def __post_init__(self) -> None:
        if self.components < 1:
            raise ParamError("pca.components", self.components, "at least 1", "it is the number of columns left")
        if self.power_rounds < 0:
            raise ParamError("pca.power_rounds", self.power_rounds, "at least 0", "it counts products")
        if self.oversample < 0:
            raise ParamError("pca.oversample", self.oversample, "at least 0", "it counts further columns")

    def check(self, n_features: int, n_rows: int) -> None:
        """Raises ParamError when rows of this width, or so few training rows, have not so many components."""
        most = min(n_features, n_rows)
        if self.components > most:
            why = f"{n_rows:,} training rows of {n_features:,} features have no more components"
            raise ParamError("pca.components", self.components, f"1 to {most}", why)


class PcaOracle(Protocol):
    """Where the training rows live."""

    def moments(self) -> Moments: ...

    def scatter(self, mean: Array) -> Array:
        """C (n_features, n_features) float64, the scatter of the rows about `mean`."""
        ...

    def product(self, mean: Array, basis: Array) -> Array:
        """C Q (n_features, width) float64 of a slice of columns of the basis."""
        ...


class BasisCheckpoint(Protocol):
    """Keeps the basis after each product, for an attempt that is interrupted."""

    def load(self) -> tuple[int, Array] | None:
        """(products done, basis), None when there is none."""
        ...

    def save(self, done: int, basis: Array) -> None: ...


@dataclass(frozen=True, eq=False)
class RowsOracle:
    """Rows that are in memory."""

    rows: Rows

    def moments(self) -> Moments:
        return moments(self.rows)

    def scatter(self, mean: Array) -> Array:
        out = np.zeros((self.rows.n_features, self.rows.n_features))
        add_scatter(self.rows, mean, out)
        return out

    def product(self, mean: Array, basis: Array) -> Array:
        out = np.zeros(basis.shape)
        add_product(self.rows, mean, basis, out)
        return out


@dataclass(frozen=True, eq=False)
class Components:
    """Principal components, by falling variance.

    mean        (n_features,) float64
    components  (n_features, n_components) float64, orthonormal columns
    variances   (n_components,) float64 of the training rows (divided by n_rows - 1)
    total       the variance of all columns together
    """

    mean: Array
    components: Array
    variances: Array
    total: float

    @property
    def ratios(self) -> Array:
        """(n_components,): the share of the total variance that each explains; 0 where rows do not vary."""
        ratios: Array = self.variances / self.total if self.total > 0 else np.zeros_like(self.variances)
        return ratios

    def projection(self, whiten: bool) -> Array:
        """(n_features, n_components) float32: what centred rows are multiplied with.

        Whitened columns have variance 1, those without variance are 0.
        """
        if not whiten:
            return self.components.astype(np.float32)
        varies = self.variances > NO_VARIANCE * self.variances[0]
        scale = np.divide(1.0, np.sqrt(self.variances), out=np.zeros_like(self.variances), where=varies)
        return (self.components * scale).astype(np.float32)


def fit_components(
    oracle: PcaOracle, params: PcaParams, seed: int, checkpoint: BasisCheckpoint | None = None
) -> Components:
    """Mean, components and variances of the oracle's rows. Raises ParamError for more components than there are."""
    found = oracle.moments()
    params.check(found.sums.size, found.n_rows)
    with threadpool_limits(1):  # decompositions differ in their last bits with the number of threads
        if found.sums.size <= EXACT_FEATURES:
            values, vectors, trace = _exact(oracle, found.mean, params.components)
        else:
            values, vectors = _subspace(oracle, found, params, seed, checkpoint)
            trace = found.scatter_trace
    freedom = max(1, found.n_rows - 1)
    variances = np.maximum(values, 0.0) / freedom
    return Components(found.mean, _with_signs(vectors), variances, max(trace, float(values.sum())) / freedom)


def _exact(oracle: PcaOracle, mean: Array, n_components: int) -> tuple[Array, Array, float]:
    """The largest eigenvalues of the scatter, falling, their vectors as columns, and its trace."""
    scatter = oracle.scatter(mean)
    size = len(scatter)
    trace = float(np.trace(scatter))
    values, vectors = linalg.eigh(scatter, overwrite_a=True, subset_by_index=[size - n_components, size - 1])
    return values[::-1], vectors[:, ::-1], trace


def _subspace(
    oracle: PcaOracle, found: Moments, params: PcaParams, seed: int, checkpoint: BasisCheckpoint | None
) -> tuple[Array, Array]:
    """The same of a scatter that is only multiplied with; the basis is turned in place, slice by slice."""
    mean, size = found.mean, found.sums.size
    width = min(params.components + params.oversample, size, found.n_rows)
    kept = checkpoint.load() if checkpoint is not None else None
    done, basis = kept if kept is not None else (0, _first_basis(size, width, seed))
    basis = np.asfortranarray(basis)
    while done < params.power_rounds:
        for where in column_slices(size, width):
            basis[:, where] = oracle.product(mean, np.ascontiguousarray(basis[:, where]))
        basis, done = _orthonormal(basis), done + 1
        if checkpoint is not None:
            checkpoint.save(done, basis)
    small = np.empty((width, width))
    for where in column_slices(size, width):
        small[:, where] = basis.T @ oracle.product(mean, np.ascontiguousarray(basis[:, where]))
    values, turn = linalg.eigh((small + small.T) / 2)
    return values[::-1][: params.components], basis @ turn[:, ::-1][:, : params.components]


def _first_basis(size: int, width: int, seed: int) -> Array:
    return _orthonormal(stream(seed, "pca").standard_normal((width, size)).T)


def _orthonormal(basis: Array) -> Array:
    """An orthonormal basis (size, width) of what the columns span, whatever their rank; `basis` is used up."""
    q: Array = linalg.qr(np.asfortranarray(basis), mode="economic", overwrite_a=True, check_finite=False)[0]
    return q


def column_slices(size: int, width: int) -> Iterator[slice]:
    """Slices of the columns of a float64 matrix (size, width), each of at most SUM_BYTES (or one column)."""
    step = max(1, SUM_BYTES // (8 * size))
    for start in range(0, width, step):
        yield slice(start, min(start + step, width))


def _with_signs(vectors: Array) -> Array:
    """The columns with their entry of largest magnitude positive, in place."""
    vectors *= np.array([_sign(column) for column in vectors.T])
    return vectors


def _sign(column: Array) -> float:
    magnitudes = np.abs(column)
    first = np.argmax(magnitudes >= magnitudes.max() * EQUAL)
    return -1.0 if column[first] < 0 else 1.0
