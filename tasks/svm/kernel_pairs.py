"""What kernels are made of: a sum over features for every pair of rows, of any body, tile by tile."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import numpy as np

from tasks.models.errors import ColumnMismatch
from tasks.rows import Csr, Dense, Rows
from tasks.rows.base import Array
from tasks.svm.kernel_dense import MINIMA, PRODUCTS, RATIOS, SQUARES, dense_tiles
from tasks.svm.kernel_sparse import sparse_tiles

KernelKind = Literal["linear", "rbf", "histogram-intersection", "chi2"]

TERMS: dict[KernelKind, int] = {
    "linear": PRODUCTS,
    "rbf": SQUARES,
    "histogram-intersection": MINIMA,
    "chi2": RATIOS,
}


def pair_sums(kind: KernelKind, rows: Rows, others: Rows) -> Iterator[tuple[slice, slice, Array]]:
    """(which rows, which others, their sums float64), so that every pair comes once; a tile is overwritten later.

    linear: x . y; rbf: squared Euclidean distance; histogram-intersection: sum of min(x, y); chi2: sum of
    (x - y)^2 / (x + y), twice the distance. Rows of two bodies, one of them sparse, are both taken as sparse.
    Raises ColumnMismatch when the rows have another width than the others.
    """
    if rows.n_features != others.n_features:
        what = f"rows of {rows.n_features} columns beside rows of {others.n_features}"
        raise ColumnMismatch(what, "kernel", "compare rows of one encoding")
    left, right = (body if isinstance(body, Dense) else body.decoded() for body in (rows, others))
    if isinstance(left, Dense) and isinstance(right, Dense):
        yield from dense_tiles(TERMS[kind], left.values, right.values)
    else:
        yield from sparse_tiles(TERMS[kind], sparse(left), sparse(right))


def sparse(rows: Rows) -> Csr:
    """Dense or sparse rows as sparse ones."""
    if isinstance(rows, Csr):
        return rows
    values = rows.to_array(np.float64 if isinstance(rows, Dense) and rows.values.dtype == np.float64 else np.float32)
    owners, columns = np.nonzero(values)
    indptr = np.concatenate([[0], np.cumsum(np.bincount(owners, minlength=rows.n_rows))]).astype(np.int64)
    return Csr(values[owners, columns], columns.astype(np.int32), indptr, rows.n_features)
