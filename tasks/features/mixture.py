"""A mixture of Gaussians with diagonal covariances, by expectation-maximisation over sums (Dempster et al. 1977).

A round broadcasts the mixture, adds up `MixtureSums` over blocks of rows in float64 and moves every component to the
moments of the rows it is responsible for. Variances stay at or above a share of the overall variance of their column:
the likelihood is largest there under that bound, and still never falls. A component that is left with less than
LEAST_ROWS rows keeps its mean and variances, and the weight of so many: its moments would be those of hardly any row.

All values are taken less `origin`, the mean of the mixture, so that squares far from zero do not cancel.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Protocol, Self

import numpy as np

from tasks.errors import ParamError
from tasks.rows.base import Array
from tasks.sums import FieldSums

LEAST_ROWS = 1e-3
NO_VARIANCE = 1e-12  # share of the largest variance of a column below which a column counts as constant
SLICE_BYTES = 2**23  # posteriors, or values, held at a time in float64


@dataclass(frozen=True, slots=True)
class MixtureParams:
    """Training of a mixture.

    components  Gaussians
    iterations  rounds at most
    tolerance   rounds end once the log-likelihood of a row rises by less
    floor       least variance of a component in a column, as a share of the variance of all rows
    """

    components: int = 16
    iterations: int = 30
    tolerance: float = 1e-3
    floor: float = 1e-4

    def __post_init__(self) -> None:
        if self.components < 1:
            raise ParamError("mixture.components", self.components, "at least 1", "it counts Gaussians")
        if self.iterations < 0:
            raise ParamError("mixture.iterations", self.iterations, "at least 0", "it counts rounds")
        if not self.tolerance >= 0:
            raise ParamError("mixture.tolerance", self.tolerance, "at least 0", "it is a difference that ends training")
        if not 0 < self.floor <= 1:
            raise ParamError("mixture.floor", self.floor, "above 0, at most 1", "it is a share of a variance")


@dataclass(frozen=True, eq=False)
class Mixture:
    """Components with weights (K,) that sum to one, means (K, D) and variances (K, D) above 0; all float64."""

    weights: Array
    means: Array
    variances: Array

    @cached_property
    def origin(self) -> Array:
        """(D,): the mean of the mixture."""
        found: Array = (self.weights[:, None] * self.means).sum(axis=0)
        return found

    @cached_property
    def _terms(self) -> tuple[Array, Array]:
        """Factors (2 D, K) and constants (K,): log w_k p_k(x) = constants + [y, y^2] @ factors with y = x - origin."""
        centred, precisions = self.means - self.origin, 1 / self.variances
        constants = np.log(self.weights) - 0.5 * (
            self.means.shape[1] * np.log(2 * np.pi)
            + np.log(self.variances).sum(axis=1)
            + (centred * centred * precisions).sum(axis=1)
        )
        factors = np.concatenate([centred * precisions, -0.5 * precisions], axis=1)
        return np.ascontiguousarray(factors.T), constants

    @cached_property
    def standard_units(self) -> tuple[Array, Array, Array]:
        """For derivatives: means less `origin`, in deviations (K, D); 1 / deviations (K, D); and what makes their
        information 1, 1 / sqrt(w) for means and 1 / sqrt(2 w) for deviations, (2, K).
        """
        per_deviation = 1 / np.sqrt(self.variances)
        scales = 1 / np.sqrt(np.stack([self.weights, 2 * self.weights]))
        return (self.means - self.origin) * per_deviation, per_deviation, scales

    def powers(self, values: Array) -> Array:
        """[y, y^2] (n, 2 D) float64 with y = values - origin; values (n, D) float32 or float64."""
        n, width = values.shape
        out = np.empty((n, 2 * width))
        centred = np.subtract(values, self.origin, out=out[:, :width])
        np.multiply(centred, centred, out=out[:, width:])
        return out

    def posteriors(self, powers: Array) -> tuple[Array, Array]:
        """Of the `powers` of n values: (q (n, K) float64, each row with sum 1; their log-likelihoods (n,) float64)."""
        factors, constants = self._terms
        logs = powers @ factors
        logs += constants
        most = logs.max(axis=1, keepdims=True)
        logs -= most
        posteriors = np.exp(logs, out=logs)
        totals = posteriors.sum(axis=1, keepdims=True)
        posteriors /= totals
        return posteriors, (most + np.log(totals))[:, 0]


@dataclass(frozen=True, eq=False)
class MixtureSums(FieldSums):
    """What rows say about a mixture: adds up, of one mixture.

    responsibilities  (K,) float64: sum over rows of q
    sums              (K, D) float64: sum of q (x - origin)
    squares           (K, D) float64: sum of q (x - origin)^2
    log_likelihood    sum over rows
    n_rows            how many
    """

    responsibilities: Array
    sums: Array
    squares: Array
    log_likelihood: float
    n_rows: int

    @property
    def variances(self) -> Array:
        """(D,): of each column over all rows, whatever the mixture."""
        means = self.sums.sum(axis=0) / max(1, self.n_rows)
        found: Array = np.maximum(self.squares.sum(axis=0) / max(1, self.n_rows) - means * means, 0.0)
        return found

    @property
    def mean_log_likelihood(self) -> float:
        return self.log_likelihood / max(1, self.n_rows)


class MixtureOracle(Protocol):
    """Where the sample lives."""

    def sums(self, mixture: Mixture) -> MixtureSums:
        """The sums over the whole sample, always added in the same order."""
        ...


@dataclass(frozen=True, eq=False)
class ArrayOracle:
    """A sample that is in memory: values (n, D) float."""

    values: Array

    def sums(self, mixture: Mixture) -> MixtureSums:
        return mixture_sums(self.values, mixture)


@dataclass(frozen=True, eq=False)
class FittedMixture:
    """A trained mixture and how the sample's log-likelihood rose.

    likelihoods  mean log-likelihood of a row before each round's update, and under the final mixture last
    lost         components of the final mixture with less than LEAST_ROWS rows
    """

    mixture: Mixture
    likelihoods: tuple[float, ...]
    lost: int

    @classmethod
    def of(cls, mixture: Mixture, sums: MixtureSums, likelihoods: list[float]) -> Self:
        return cls(mixture, tuple(likelihoods), int(np.count_nonzero(sums.responsibilities < LEAST_ROWS)))


def mixture_sums(values: Array, mixture: Mixture) -> MixtureSums:
    """The sums over rows, slice by slice; values (n, D) float32 or float64."""
    n_components, width = mixture.means.shape
    counts, sums, log_likelihood = np.zeros(n_components), np.zeros((n_components, 2 * width)), 0.0
    size = max(1, SLICE_BYTES // (8 * max(n_components, 2 * width)))
    for start in range(0, len(values), size):
        powers = mixture.powers(values[start : start + size])
        posteriors, logs = mixture.posteriors(powers)
        counts += posteriors.sum(axis=0)
        sums += posteriors.T @ powers
        log_likelihood += float(logs.sum())
    return MixtureSums(counts, sums[:, :width].copy(), sums[:, width:].copy(), log_likelihood, len(values))


def first_mixture(centroids: Array, counts: Array, errors: Array, variances: Array, floor: float) -> Mixture:
    """A mixture to start from, of the clusters of k-means.

    centroids (K, D), counts (K,), errors (K,): as `CodebookSums` has them of one subquantizer
    variances (D,): of all rows; a component's are in proportion, with the mean squared error of its cluster as sum
    floor     as in `MixtureParams`
    """
    least = floors_of(variances, floor)
    total = float(variances.sum()) or 1.0
    shares = np.where(counts > 0, errors / np.maximum(counts, 1) / total, 1.0)
    weights = np.maximum(counts, LEAST_ROWS)
    spreads = np.maximum(shares[:, None] * variances, least)
    return Mixture(weights / weights.sum(), np.asarray(centroids, np.float64), spreads)


def floors_of(variances: Array, floor: float) -> Array:
    """(D,) above 0: the least variance in each column, of columns that do not vary a share of the largest one's."""
    largest = float(variances.max(initial=0.0))
    found: Array = floor * (np.maximum(variances, NO_VARIANCE * largest) if largest > 0 else np.ones_like(variances))
    return found


def updated(mixture: Mixture, sums: MixtureSums, floors: Array) -> Mixture:
    """The components moved to the moments of their rows (see the top of this module). Of no rows: the mixture."""
    if not sums.n_rows:
        return mixture
    counts = sums.responsibilities
    stays = (counts < LEAST_ROWS)[:, None]
    divisor = np.maximum(counts, LEAST_ROWS)[:, None]
    centred = sums.sums / divisor
    means = np.where(stays, mixture.means, mixture.origin + centred)
    variances = np.where(stays, mixture.variances, np.maximum(sums.squares / divisor - centred * centred, floors))
    return Mixture(divisor[:, 0] / divisor.sum(), means, variances)


def train_mixture(oracle: MixtureOracle, first: Mixture, params: MixtureParams) -> FittedMixture:
    """At most `iterations` rounds from a first mixture, on the oracle's sample."""
    mixture, sums = first, oracle.sums(first)
    floors = floors_of(sums.variances, params.floor)
    likelihoods = [sums.mean_log_likelihood]
    for _ in range(params.iterations):
        mixture = updated(mixture, sums, floors)
        sums = oracle.sums(mixture)
        likelihoods.append(sums.mean_log_likelihood)
        if likelihoods[-1] - likelihoods[-2] < params.tolerance:
            break
    return FittedMixture.of(mixture, sums, likelihoods)
