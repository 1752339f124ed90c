"""The numbers of a matrix that are not 0, row by row: what sparse weights are made from."""

from __future__ import annotations

import numba
import numpy as np

from tasks.rows.base import Array


@numba.njit(cache=True, nogil=True)
def count_entries(matrix: Array) -> Array:
    """(n,) int64: the numbers of each row of a matrix (n, m) that are not 0."""
    counts = np.zeros(matrix.shape[0], np.int64)
    for i in range(matrix.shape[0]):
        for j in range(matrix.shape[1]):
            counts[i] += 1 if matrix[i, j] != 0 else 0
    return counts


@numba.njit(cache=True, nogil=True)
def take_entries(matrix: Array, used: Array, entries: Array, values: Array) -> None:
    """Fill entries and values, both (n_entries,), with the columns and numbers that are not 0 of the rows `used`."""
    at = 0
    for i in used:
        for j in range(matrix.shape[1]):
            if matrix[i, j] != 0:
                entries[at], values[at] = j, matrix[i, j]
                at += 1
