"""Precision and recall per distance threshold: sums over queries that add, and the curve that is made of them.

Everything within a distance is retrieved at once, so equal distances need no order (SPECS 2.8). Readings:
- pooled: sums over all queries of rows retrieved and of relevant ones (of the query's class), then one quotient.
- macro: precision is the mean over the queries that retrieve anything within the threshold, recall the mean over those
  that have relevant rows at all.
- average precision of a query: sum over thresholds of the gain in recall times precision; its mean is over the queries
  that have relevant rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from tasks.later import numba
from tasks.rows.base import Array
from tasks.sums import FieldSums

MOST_POINTS = 512  # of a curve that is shown


@numba.njit(cache=True, nogil=True)
def count_distances(distances: Array, query_labels: Array, labels: Array, retrieved: Array, relevant: Array) -> None:
    """Histograms of distances, of all rows and of those of the query's class; queries without a label are left out.

    distances  (n_queries, n_rows) int32; query_labels (n_queries,) int32, -1 for none; labels (n_rows,) int32
    retrieved, relevant  (n_queries, n_hashes + 1) int64, changed: rows at exactly this distance
    """
    for i in range(distances.shape[0]):
        label = query_labels[i]
        if label < 0:
            continue
        for j in range(labels.size):
            distance = distances[i, j]
            retrieved[i, distance] += 1
            if labels[j] == label:
                relevant[i, distance] += 1


@numba.njit(cache=True, nogil=True)
def sum_over_queries(
    retrieved: Array,
    relevant: Array,
    query_labels: Array,
    counts: Array,
    means: Array,
    average: float,
) -> tuple[int, float]:
    """Add the queries, one after the other, to the sums.

    retrieved, relevant  (n_queries, n_thresholds) int64, as of `count_distances`
    counts  (3, n_thresholds) int64, changed: rows retrieved and relevant rows at this distance, queries that have
            retrieved any within it
    means   (2, n_thresholds) float64, changed: sums over queries of precision and recall within the threshold
    average the sum of average precisions so far
    returns queries that have relevant rows, the sum of average precisions with theirs
    """
    answerable = 0
    for i in range(query_labels.size):
        if query_labels[i] < 0:
            continue
        total = relevant[i].sum()
        answerable += total > 0
        within, hits, precisions = 0, 0, 0.0
        for t in range(retrieved.shape[1]):
            within += retrieved[i, t]
            hits += relevant[i, t]
            counts[0, t] += retrieved[i, t]
            counts[1, t] += relevant[i, t]
            if within > 0:
                counts[2, t] += 1
                means[0, t] += hits / within
                precisions += relevant[i, t] * (hits / within)
            if total > 0:
                means[1, t] += hits / total
        if total > 0:
            average += precisions / total
    return answerable, average


@dataclass(frozen=True, eq=False)
class CurveSums(FieldSums):
    """Sums over labelled queries.

    queries, answerable  labelled queries; those of them that have relevant rows
    average_precision    sum over the answerable queries
    counts               (3, n_hashes + 1) int64, means (2, n_hashes + 1) float64: as of `sum_over_queries`
    hits                 (top,) int64: relevant rows among the first 1, 2, ..., top neighbours (ties to the lower row)
    """

    queries: int
    answerable: int
    average_precision: float
    counts: Array
    means: Array
    hits: Array

    @classmethod
    def none(cls, n_hashes: int, top: int) -> Self:
        """No queries yet."""
        n = n_hashes + 1
        return cls(0, 0, 0.0, np.zeros((3, n), np.int64), np.zeros((2, n)), np.zeros(top, np.int64))

    @property
    def mean_average_precision(self) -> float:
        """Tie-free; 0 when no query has relevant rows."""
        return self.average_precision / self.answerable if self.answerable else 0.0

    def precision_at(self, candidates: int) -> list[float]:
        """Of the first 1, 2, ..., top neighbours, or all rows where there are fewer, the share of the query's class."""
        found = np.minimum(np.arange(1, self.hits.size + 1), max(1, candidates))
        return [float(x) for x in self.hits / (found * max(1, self.queries))]

    def curve(self) -> Curve:
        """The whole curve, one point per threshold 0, 1, ..., n_hashes."""
        retrieved, relevant = np.cumsum(self.counts[:2], axis=1)
        return Curve(
            threshold=np.arange(retrieved.size),
            retrieved=retrieved,
            relevant=relevant,
            precision=_quotient(relevant, retrieved),
            recall=relevant / max(1, int(relevant[-1])),
            macro_precision=_quotient(self.means[0], self.counts[2]),
            macro_recall=self.means[1] / max(1, self.answerable),
        )


def _quotient(sums: Array, counts: Array) -> Array:
    """sums / counts, NaN where nothing was counted."""
    safe = np.where(counts > 0, counts, 1)
    return np.where(counts > 0, sums / safe, np.nan)


@dataclass(frozen=True, eq=False)
class Curve:
    """Points in the order of their thresholds, all (n,): counts int64, quotients float64.

    retrieved, relevant         over all queries, within the threshold
    precision, macro_precision  NaN where nothing is retrieved
    recall, macro_recall        0 where there is nothing to find
    """

    threshold: Array
    retrieved: Array
    relevant: Array
    precision: Array
    recall: Array
    macro_precision: Array
    macro_recall: Array

    def thinned(self, most: int = MOST_POINTS) -> Curve:
        """At most `most` points, even in threshold: the same ones for all curves of so many codes, to be averaged."""
        kept = np.unique(np.linspace(0, len(self.threshold) - 1, min(most, len(self.threshold))).astype(np.int64))
        return Curve(**{name: values[kept] for name, values in self.columns().items()})

    def columns(self) -> dict[str, Array]:
        """name -> values, all equally long."""
        return {name: getattr(self, name) for name in self.__dataclass_fields__}

    def as_json(self) -> dict[str, list[Any]]:
        """Plain lists; null where a quotient is undefined."""
        return {name: [plain_number(x) for x in values.tolist()] for name, values in self.columns().items()}


def plain_number(value: float) -> float | None:
    return None if isinstance(value, float) and np.isnan(value) else value
