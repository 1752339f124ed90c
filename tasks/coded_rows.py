"""Rows that become codes as they arrive: their codes, and what is lost."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tasks.quantize.assign import nearest_and_squares
from tasks.rows.base import Array


@dataclass(frozen=True, eq=False)
class Coded:
    """Codes of some rows.

    codes  (n_rows, n_subquantizers) uint8
    error  sum over the rows of the squared distance to what their codes stand for
    norm   sum over the rows of their squared norm; neither is finite where a value is not
    """

    codes: Array
    error: float
    norm: float


def coded(values: Array, codebooks: Array) -> Coded:
    """Codes of rows (n_rows, n_features) of any real numbers, as float32.

    codebooks  (n_subquantizers, n_centroids <= 256, width) float32
    """
    with np.errstate(over="ignore", invalid="ignore"):  # what is beyond float32 shows in the sums
        plain = values if values.dtype == np.float16 else np.ascontiguousarray(values, np.float32)
        return Coded(*nearest_and_squares(plain, codebooks))


def zero_rows(values: Array, codes: Array, zero_codes: Array) -> int:
    """How many rows hold only zeros, as float32; only rows with the codes of such are looked at.

    codes (n_rows, n_subquantizers) of these rows, zero_codes (n_subquantizers,) of a row of zeros; both uint8
    """
    index = np.flatnonzero((codes == zero_codes).all(axis=1))
    return int(np.count_nonzero(~values[index].astype(np.float32).any(axis=1)))
