"""Means and covariances of rows that are PQ codes, from how often each code stands there; and the rows seen from them.

A code names a sub-vector, so sums over rows are sums over the few centroids, times their counts: one pass of counting
says mean, spread and covariance within each subquantizer, exactly.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from tasks.later import numba
from tasks.rows.base import Array
from tasks.rows.pq import PqCodes
from tasks.sums import FieldSums

WIDEST_BLOCK = 64  # subquantizers of more features: the diagonal of their covariance only


@dataclass(frozen=True, eq=False)
class CodeCounts(FieldSums):
    """counts (n_subquantizers, n_centroids) int64: rows with each code; rows: how many there are. They add."""

    counts: Array
    rows: int


def counts_of(rows: PqCodes) -> CodeCounts:
    """Of the rows' codes."""
    counts = np.zeros(rows.codebooks.shape[:2], np.int64)
    count_codes(rows.codes, counts)
    return CodeCounts(counts, rows.n_rows)


@numba.njit(cache=True, nogil=True)
def count_codes(codes: Array, counts: Array) -> None:
    """counts[q, codes[i, q]] += 1; codes (n_rows, n_subquantizers) uint8, counts (n_subquantizers, n_centroids)."""
    for i in range(codes.shape[0]):
        for q in range(codes.shape[1]):
            counts[q, codes[i, q]] += 1


class CodeFrame(NamedTuple):
    """Rows as (x - mean) / size: mean (d,) float64, the size so that they have a mean squared norm of 1."""

    mean: Array
    size: float

    def of(self, codebooks: Array) -> Array:
        """The codebooks (m, n_centroids, width) of the rows in the frame, float32: their codes stay as they are."""
        m, _, width = codebooks.shape
        return np.asarray((codebooks - self.mean.reshape(m, 1, width)) / self.size, np.float32)

    def seen(self, rows: PqCodes) -> PqCodes:
        """The rows in the frame."""
        return PqCodes(rows.codes, self.of(rows.codebooks))

    def inside(self, weights: Array, bias: Array) -> Array:
        """(d + 1, Q) float64: weights and, last, bias for rows in the frame, to the scores of the given ones."""
        wide = weights.astype(np.float64)
        return np.vstack([wide * self.size, bias + self.mean @ wide])

    def outside(self, point: Array) -> tuple[Array, Array]:
        """The way back: weights (d, Q) and bias (Q,) float32 of plain rows."""
        weights = point[:-1] / self.size
        return weights.astype(np.float32), (point[-1] - self.mean @ weights).astype(np.float32)


def frame_of(found: CodeCounts, codebooks: Array, centred: bool) -> CodeFrame:
    """The frame of counted rows; not `centred`: their mean stays where it is."""
    share = found.counts / max(1, found.rows)
    mean = np.einsum("qc,qct->qt", share, codebooks, dtype=np.float64)
    away = codebooks - (mean if centred else np.zeros_like(mean))[:, None, :]
    spread = float(np.einsum("qc,qct,qct->", share, away, away))
    size = float(np.sqrt(spread)) if spread > 0 else 1.0
    return CodeFrame(mean.ravel() if centred else np.zeros(mean.size), size)


def covariances(found: CodeCounts, framed: Array) -> Array:
    """(m, width, width) float64 of each subquantizer's features, for codebooks in a frame: second moments about 0."""
    m, _, width = framed.shape
    share, out = found.counts / max(1, found.rows), np.zeros((m, width, width))
    for q in range(m):
        book = framed[q].astype(np.float64)
        out[q] = (book * share[q][:, None]).T @ book
    return out if width <= WIDEST_BLOCK else out * np.eye(width)
