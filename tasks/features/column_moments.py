"""Mean and variance of every column, as a sum over rows: parts add up without a second look at the rows.

Two parts are joined by the pairwise update of Chan, Golub & LeVeque (1983), whose error does not grow with the size of
the mean. Of float32 rows a column of one value keeps a variance of exactly 0: sums of up to 2^29 copies of a float32
number are exact in float64, so its means are that number and their differences 0.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np

from tasks.features.statistics import parts_of
from tasks.rows.base import Array, Rows
from tasks.rows.csr import Csr
from tasks.rows.onehot import OneHot
from tasks.sums import add_up


@dataclass(frozen=True, eq=False)
class ColumnMoments:
    """Of n_rows rows: means (n_features,) float64, and squares (n_features,), sums of squares about them. Adds up."""

    n_rows: int
    means: Array
    squares: Array

    def __add__(self, other: Self) -> Self:
        if not self.n_rows or not other.n_rows:
            return self if self.n_rows else other
        n_rows = self.n_rows + other.n_rows
        apart = other.means - self.means
        means = self.means + apart * (other.n_rows / n_rows)
        squares = self.squares + other.squares + apart * apart * (self.n_rows * (other.n_rows / n_rows))
        return type(self)(n_rows, means, squares)

    @property
    def deviations(self) -> Array:
        """(n_features,) float64, the root of the mean square about the mean; exactly 0 where a column has one value."""
        found: Array = np.sqrt(self.squares / max(1, self.n_rows))
        return found


def column_moments(rows: Rows) -> ColumnMoments:
    """Of rows in any body, slice by slice; zeros that sparse rows do not store count as well."""
    empty = ColumnMoments(0, np.zeros(rows.n_features), np.zeros(rows.n_features))
    if isinstance(rows, Csr | OneHot):
        return _of_sparse(rows.decoded()) if rows.n_rows else empty
    found: ColumnMoments = add_up(
        [empty, *(_of_dense(part.to_array(np.float64)) for part in parts_of(rows, rows.n_features))]
    )
    return found


def _of_dense(values: Array) -> ColumnMoments:
    means = values.mean(axis=0)
    values = values - means
    return ColumnMoments(len(values), means, np.einsum("ij,ij->j", values, values))


def _of_sparse(rows: Csr) -> ColumnMoments:
    values, columns, size = rows.data.astype(np.float64), rows.indices, rows.n_features
    means = np.bincount(columns, weights=values, minlength=size) / rows.n_rows
    values -= means[columns]
    absent = rows.n_rows - np.bincount(columns, minlength=size)
    squares = np.bincount(columns, weights=values * values, minlength=size) + absent * (means * means)
    return ColumnMoments(rows.n_rows, means, squares)
