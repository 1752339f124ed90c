"""Normalised rows: each divided by its norm, its values raised to a power, or its columns brought to one scale.

Everything is computed in float64 and stored as float32. The numbers of a row are added up from the first column to the
last, so a row comes out the same alone, in any block and in any body: a zero that is stored adds nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from tasks.errors import ParamError
from tasks.later import numba
from tasks.rows.base import Array

L2: Final = "l2"
L1: Final = "l1"
POWER: Final = "power"
STANDARD: Final = "standard"
NORMS: Final = (L2, L1, POWER, STANDARD)


@dataclass(frozen=True, slots=True)
class NormalizeParams:
    """How rows are normalised.

    norm      l2: divided by the root of the sum of squares; l1: by the sum of magnitudes; rows of zeros stay so
              power: sign(x) |x|^exponent
              standard: (x - mean) / deviation of the training rows, column by column
    exponent  of power
    """

    norm: str = L2
    exponent: float = 0.5

    def __post_init__(self) -> None:
        if self.norm not in NORMS:
            raise ParamError("normalize.norm", self.norm, f"one of {', '.join(NORMS)}", "these are known")
        if not self.exponent > 0 or not np.isfinite(self.exponent):
            raise ParamError("normalize.exponent", self.exponent, "more than 0", "0 must stay 0")


@numba.njit(cache=True, nogil=True)
def divide_by_norms(values: Array, indptr: Array, squared: bool, out: Array) -> None:
    """out = values, those of each row divided by their norm; a row of zeros becomes one.

    values (n,) float, end to end; indptr (n_rows + 1,) int64: where each row begins; squared: L2, else L1
    out    (n,) float32
    """
    for i in range(indptr.size - 1):
        norm = 0.0
        for p in range(indptr[i], indptr[i + 1]):
            x = np.float64(values[p])
            norm += x * x if squared else abs(x)
        if squared:
            norm = np.sqrt(norm)
        for p in range(indptr[i], indptr[i + 1]):
            out[p] = np.float64(values[p]) / norm if norm > 0 else 0.0


@numba.njit(cache=True, nogil=True)
def raise_to_power(values: Array, exponent: float, out: Array) -> None:
    """out = sign(x) |x|^exponent; values (n,) float, out (n,) float32. Roots are their own case: rounded right."""
    for p in range(values.size):
        x = np.float64(values[p])
        size = np.sqrt(abs(x)) if exponent == 0.5 else abs(x) ** exponent
        out[p] = size if x > 0 else -size if x < 0 else 0.0


@numba.njit(cache=True, nogil=True)
def standardize(values: Array, columns: Array, mean: Array, deviation: Array, out: Array) -> None:
    """out = (x - mean) / deviation of each value's column; 0 where a column does not vary.

    values, columns (n,): numbers and their columns; mean, deviation (n_features,) float64; out (n,) float32
    """
    for p in range(values.size):
        c = columns[p]
        out[p] = (np.float64(values[p]) - mean[c]) / deviation[c] if deviation[c] > 0 else 0.0


@numba.njit(cache=True, nogil=True)
def standardize_rows(values: Array, mean: Array, deviation: Array, out: Array) -> None:
    """The same of dense rows: values and out (n_rows, n_features)."""
    columns = np.arange(values.shape[1])
    for i in range(values.shape[0]):
        standardize(values[i], columns, mean, deviation, out[i])
