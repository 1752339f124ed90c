"""k-means in every subspace at once, as sums over blocks of rows (Lloyd's algorithm; Harchaoui et al. 2012, section 4).

A round broadcasts the codebooks, adds up `CodebookSums` over the blocks in float64, and moves every centroid to its
mean. A centroid that no row chose moves beside the centroid with the largest sum of squared errors, by a seeded step of
a tenth of that cluster's spread, so that both share its rows in the next round; where no cluster has an error (fewer
distinct sub-vectors than centroids) it stays. Ties go to the lowest centroid.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, Self

import numpy as np

from tasks.quantize.assign import add_nearest, zero_sums
from tasks.quantize.products import Array
from tasks.seeds import stream
from tasks.sums import FieldSums

SPLIT_STEP = 0.1  # step of a re-seeded centroid, in root mean squared distances of the cluster that it splits
SETTLED = 1e-4  # rounds end once the error falls by less than this share


@dataclass(frozen=True, eq=False)
class CodebookSums(FieldSums):
    """What a block says about codebooks: adds up.

    sums    (n_subquantizers, n_centroids, width) float64: sum of the sub-vectors nearest to each centroid
    counts  (n_subquantizers, n_centroids) int64: how many they are
    errors  (n_subquantizers, n_centroids) float64: sum of their squared distances
    """

    sums: Array
    counts: Array
    errors: Array

    @property
    def n_rows(self) -> int:
        return int(self.counts[0].sum())

    @property
    def error(self) -> float:
        """Sum of squared distances between the rows and what their codes stand for."""
        return float(self.errors.sum())


class CodebookOracle(Protocol):
    """Where the sample lives; the outer loop asks for sums and never sees more than the first rows."""

    def initial_sample(self) -> Array:
        """Rows (n_rows, n_features) float32 among which the first centroids are chosen; a few per centroid."""
        ...

    def sums(self, codebooks: Array) -> CodebookSums:
        """The sums over the whole sample, always added in the same order."""
        ...


@dataclass(frozen=True, eq=False)
class ArrayOracle:
    """A sample that is in memory: values (n_rows, n_features) float32."""

    values: Array

    def initial_sample(self) -> Array:
        return self.values

    def sums(self, codebooks: Array) -> CodebookSums:
        return assign_and_sum(self.values, codebooks)


@dataclass(frozen=True, eq=False)
class Codebooks:
    """Trained codebooks and how the squared error of the sample fell.

    codebooks  (n_subquantizers, n_centroids, width) float32
    errors     mean squared error per row before each round's update, and of the final codebooks last
    empty      centroids of the final codebooks that no row of the sample chose
    """

    codebooks: Array
    errors: tuple[float, ...]
    empty: int

    @classmethod
    def of(cls, codebooks: Array, sums: CodebookSums, errors: list[float]) -> Self:
        return cls(codebooks, tuple(errors), int(np.count_nonzero(sums.counts == 0)))


def assign_and_sum(values: Array, codebooks: Array, *more: Array) -> CodebookSums:
    """Sums, counts and errors of the rows nearest to each centroid; of several runs of rows, one after the other.

    values (n_rows, n_features) float32; codebooks (n_subquantizers, n_centroids, width) float32
    """
    found = zero_sums(*codebooks.shape)
    add_nearest((values, *more), codebooks, *found)
    return CodebookSums(*found)


def initial_codebooks(sample: Array, n_subquantizers: int, n_centroids: int, seed: int) -> Array:
    """Centroids chosen among the sample's distinct sub-vectors, in a seeded order of their own in each subspace.

    sample   (n_rows, n_features) float, n_rows >= 1
    returns  (n_subquantizers, n_centroids, width) float32; with fewer distinct sub-vectors than centroids they repeat
    """
    parts = np.asarray(sample, np.float32).reshape(len(sample), n_subquantizers, -1) + np.float32(0)  # -0.0 becomes 0.0
    codebooks = np.empty((n_subquantizers, n_centroids, parts.shape[2]), np.float32)
    for q in range(n_subquantizers):
        order = stream(seed, "codebooks", q).permutation(len(sample))
        chosen = _first_distinct(np.ascontiguousarray(parts[:, q]), order, n_centroids)
        codebooks[q] = parts[np.resize(chosen, n_centroids), q]
    return codebooks


def _first_distinct(vectors: Array, order: Array, wanted: int) -> list[int]:
    """The first `wanted` rows in `order` that differ from all before them; fewer when there are no more."""
    seen: set[bytes] = set()
    chosen: list[int] = []
    for row in order:
        content = vectors[row].tobytes()
        if content not in seen:
            seen.add(content)
            chosen.append(int(row))
            if len(chosen) == wanted:
                break
    return chosen


def updated(codebooks: Array, sums: CodebookSums, seed: int, round_index: int) -> Array:
    """The centroids moved to the means of their rows, empty ones re-seeded (see the top of this module)."""
    means = sums.sums / np.maximum(sums.counts, 1)[:, :, None]
    moved: Array = np.where(sums.counts[:, :, None] > 0, means, codebooks)
    for q in np.flatnonzero((sums.counts == 0).any(axis=1)):
        _reseed(moved[q], sums.counts[q], sums.errors[q], stream(seed, "empty", int(q), round_index))
    return moved.astype(np.float32)


def _reseed(centroids: Array, counts: Array, errors: Array, rng: np.random.Generator) -> None:
    """Each empty centroid splits the cluster of the largest error left; centroids (n_centroids, width) in place."""
    errors, counts = errors.copy(), counts.copy()
    for empty in np.flatnonzero(counts == 0):
        largest = int(np.argmax(errors))
        if errors[largest] <= 0:
            return
        spread = np.sqrt(errors[largest] / counts[largest] / centroids.shape[1])
        step = SPLIT_STEP * spread * rng.standard_normal(centroids.shape[1])
        centroids[empty] = centroids[largest] + step
        centroids[largest] -= step
        errors[largest] /= 4  # half of the rows, at about half of the squared distance
        counts[largest] = max(1, counts[largest] // 2)


def train_codebooks(
    oracle: CodebookOracle, n_subquantizers: int, n_centroids: int, iterations: int, seed: int
) -> Codebooks:
    """At most `iterations` rounds of Lloyd's algorithm from seeded first centroids, on the oracle's sample."""
    codebooks = initial_codebooks(oracle.initial_sample(), n_subquantizers, n_centroids, seed)
    sums = oracle.sums(codebooks)
    errors = [sums.error / max(1, sums.n_rows)]
    for round_index in range(iterations):
        codebooks = updated(codebooks, sums, seed, round_index)
        sums = oracle.sums(codebooks)
        errors.append(sums.error / max(1, sums.n_rows))
        if errors[-2] - errors[-1] <= SETTLED * errors[-2] and not _can_split(sums):
            break
    return Codebooks.of(codebooks, sums, errors)


def _can_split(sums: CodebookSums) -> bool:
    """Whether an empty centroid could still take rows over."""
    return bool(((sums.counts == 0).any(axis=1) & (sums.errors > 0).any(axis=1)).any())
