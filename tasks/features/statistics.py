"""What principal components need to know of rows, as sums over them: moments, scatter, products with the scatter.

All sums are float64 and formed slice by slice, so that no more than a slice of rows is ever dense. With c the centred
rows, the scatter is C = sum of c' c; rows are centred before they are multiplied, sparse rows implicitly:
(X - 1 m) Q = X Q - 1 (m Q).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from tasks.rows.base import Array, Rows
from tasks.rows.csr import Csr
from tasks.rows.onehot import OneHot
from tasks.sums import FieldSums

SLICE_BYTES = 2**25  # float64 rows, or products of rows, held at a time


@dataclass(frozen=True, eq=False)
class Moments(FieldSums):
    """Number of rows, their sum (n_features,) float64, and the sum of their squared norms: adds up."""

    n_rows: int
    sums: Array
    squares: float

    @property
    def mean(self) -> Array:
        """(n_features,) float64."""
        mean: Array = self.sums / max(1, self.n_rows)
        return mean

    @property
    def scatter_trace(self) -> float:
        """Sum of the squared norms of the centred rows."""
        return max(0.0, self.squares - self.n_rows * float(self.mean @ self.mean))


def moments(rows: Rows) -> Moments:
    """The moments of rows in any body."""
    sums: Array = np.zeros(rows.n_features)
    if isinstance(rows, Csr | OneHot):
        plain = rows.decoded()
        sums += np.bincount(plain.indices, weights=plain.data.astype(np.float64), minlength=rows.n_features)
    else:
        for part in parts_of(rows, rows.n_features):
            sums += part.to_array(np.float64).sum(axis=0)
    return Moments(rows.n_rows, sums, float(rows.squared_norms().sum()))


def add_scatter(rows: Rows, mean: Array, out: Array) -> None:
    """out += C of the rows; mean (n_features,) float64, out (n_features, n_features) float64 C order."""
    for part in parts_of(rows, rows.n_features):
        values = part.to_array(np.float64) - mean
        out += values.T @ values


def add_product(rows: Rows, mean: Array, basis: Array, out: Array) -> None:
    """out += C Q of the rows: basis Q and out (n_features, width) float64, C order; mean (n_features,) float64."""
    if isinstance(rows, Csr | OneHot):
        _add_sparse_product(rows, mean, basis, out)
        return
    for part in parts_of(rows, rows.n_features):
        values = part.to_array(np.float64) - mean
        out += values.T @ (values @ basis)


def _add_sparse_product(rows: Csr | OneHot, mean: Array, basis: Array, out: Array) -> None:
    offset = mean @ basis
    totals = np.zeros(basis.shape[1])
    for part in parts_of(rows, basis.shape[1]):
        projected = part.scores(basis) - offset
        totals += projected.sum(axis=0)
        part.subtract_gradient(projected, -1.0, out)
    out -= np.outer(mean, totals)


def parts_of(rows: Rows, numbers: int) -> Iterator[Rows]:
    """Runs of rows of which `numbers` float64 each take at most SLICE_BYTES (or one row)."""
    size = max(1, SLICE_BYTES // (8 * max(1, numbers)))
    for start in range(0, rows.n_rows, size):
        yield rows.part(start, min(start + size, rows.n_rows))
