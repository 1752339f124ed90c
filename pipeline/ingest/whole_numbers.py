"""Whole numbers that float32 or float16 does not hold: float32 has all up to 2^24, then one in two, in four..."""

from __future__ import annotations

import numpy as np

from tasks.rows import Csr, Dense, Rows
from tasks.rows.base import Array

ALL_UP_TO = {"float32": 2**24, "float16": 2**11}  # every whole number up to it is stored as it is


def changed(rows: Rows, peaks: Array, dtype: str) -> tuple[Array, Array, Array]:
    """Where finite rows hold whole numbers that are others once they are stored in `dtype`, in order.

    rows   values as they stand in the files; peaks (n_rows,) float64: the largest absolute value of each row
    returns rows (n,), columns (n,) and values (n,), of the type in the files
    """
    values = rows.values if isinstance(rows, Dense) else _csr(rows).data
    limit = ALL_UP_TO[dtype]
    wide = np.flatnonzero((peaks > limit) & (peaks < np.inf))
    if not wide.size or _most_exact(values.dtype) <= limit:  # nearly always: no value is looked at
        return wide[:0], wide[:0], values[:0].reshape(-1)
    if isinstance(rows, Dense):
        part = values[wide]
        at, columns = np.nonzero(_beyond(part, limit))
        found, places = part[at, columns], wide[at]
    else:
        matrix = _csr(rows)
        entries = np.flatnonzero(_beyond(values, limit))
        places = np.searchsorted(matrix.indptr, entries, side="right") - 1
        finite = peaks[places] < np.inf
        entries, places = entries[finite], places[finite]
        found, columns = values[entries], matrix.indices[entries]
    lost = is_changed(found, dtype)
    return places[lost], columns[lost], found[lost]


def is_changed(values: Array, dtype: str) -> Array:
    """Of each value (n,) whether it is a whole number that `dtype` does not hold. Compared without rounding.

    Floats count, too: integers that stand beside floats in a file arrive as such.
    """
    lost: Array
    if values.dtype.kind in "iub":
        # A whole number is held when what is left of it without its factors of 2 has few enough bits.
        signed = values.dtype.kind == "i"
        size = np.abs(values.astype(np.int64)).view(np.uint64) if signed else values.astype(np.uint64)
        lowest = size & (~size + np.uint64(1))
        lost = size // np.maximum(lowest, np.uint64(1)) > np.uint64(ALL_UP_TO[dtype])
    else:
        with np.errstate(over="ignore"):
            lost = (np.rint(values) == values) & (values.astype(dtype) != values)
    return lost


def _most_exact(dtype: np.dtype) -> int:
    """Up to which whole number a type has all of them."""
    if dtype.kind == "b":
        return 1
    return int(np.iinfo(dtype).max) if dtype.kind in "iu" else int(2 ** (np.finfo(dtype).nmant + 1))


def _beyond(values: Array, limit: int) -> Array:
    found: Array = (values > limit) | (values < -limit)
    return found


def _csr(rows: Rows) -> Csr:
    assert isinstance(rows, Csr)
    return rows
