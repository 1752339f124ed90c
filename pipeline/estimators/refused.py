"""Rows in memory that hold no numbers, or not everywhere: named with their place before anything converts them.

NumPy turns text like "1.5" and dates into numbers without a word, and forgets what a masked array hides.
"""

from __future__ import annotations

import numbers
from collections.abc import Iterator
from contextlib import contextmanager
from decimal import Decimal
from typing import Any

import numpy as np
import scipy.sparse

from pipeline.estimators.errors import BadRows, NoNumbers
from tasks.rows.base import Array

NUMERIC = "fiub"  # kinds of dtypes
WORDS = {"U": "text", "S": "bytes", "T": "text", "M": "dates", "m": "time spans", "V": "records"}
COMPLEX = "Complex data not supported"  # in the words of scikit-learn
REAL = "make real numbers of them: np.hstack([X.real, X.imag]), or abs(X)"
FINITE = "leave such rows out, X[np.isfinite(X).all(axis=1)], or fill them (SimpleImputer)"
ENCODE = "encode text and dates as numbers first (OneHotEncoder, OrdinalEncoder, FeatureHasher), or X.astype('float32')"


def refuse_masked(values: Any, name: str, first_row: int = 0) -> None:
    """Raises BadRows for a masked array that hides a value, with the first place.

    name  of the argument, for messages; first_row: the place of row 0 among all rows, where this is a block
    """
    if not isinstance(values, np.ma.MaskedArray):
        return
    hidden = np.ma.getmaskarray(values)
    if hidden.any():
        place = np.unravel_index(int(np.argmax(hidden)), hidden.shape)
        what = f"{np.count_nonzero(hidden):,} values of the masked array {name} are masked"
        raise BadRows(what, _place(name, place, first_row), f"leave such rows out, or fill them: {name}.filled(0)")


@contextmanager
def named_rows(rows: Any) -> Iterator[None]:
    """What scikit-learn says of rows that are not finite, or no table, as BadRows with the first place, without them.

    Its words stay, by which its users know it. Only where it refuses are rows looked at again.
    """
    try:
        yield
    except BadRows:
        raise
    except ValueError as error:
        said, _, more = str(error).partition("\n")
        if said.startswith("Expected 2D array"):
            raise BadRows(
                f"{said.rstrip(':')}: X is a table of rows and features", "X", more.rpartition("\n")[2]
            ) from None
        if not said.startswith("Input X contains"):
            raise
        place = first_non_finite(rows, np.float64)
        if not place:
            raise
        kind = "NaN" if "NaN" in said else "infinity"
        raise BadRows(f"Input X contains {kind}, where numbers are expected", f"X, {place}", FINITE) from None


def first_non_finite(rows: Any, dtype: type[np.floating[Any]]) -> str:
    """Where the first value is that is no finite number once it is of this type, as in "row 3, column 2"; "" if none.

    rows  (n_rows, n_features): an array, a data frame, nested lists or a SciPy matrix
    """
    with np.errstate(over="ignore"):
        if scipy.sparse.issparse(rows):
            matrix = rows.tocsr()
            wrong = np.flatnonzero(~np.isfinite(matrix.data.astype(dtype)))
            if not wrong.size:
                return ""
            row = int(np.searchsorted(matrix.indptr, wrong[0], "right")) - 1
            stored = wrong[wrong < matrix.indptr[row + 1]]
            return f"row {row}, column {int(matrix.indices[stored].min())}"
        try:
            finite = np.isfinite(np.asarray(rows, dtype))
        except (TypeError, ValueError):  # of pandas, with what no array of numbers holds
            finite = np.isfinite(np.asarray(rows.to_numpy(dtype, na_value=np.nan)))
    if finite.all():
        return ""
    place = np.unravel_index(int(np.argmin(finite)), finite.shape)
    return f"row {place[0]}, column {place[1]}"


def refuse_no_numbers(rows: Any) -> None:
    """Raises NoNumbers (a BadRows and a TypeError) for text, dates and other objects, with the first place.

    rows  an array, a data frame or nested lists; objects that are numbers pass, as scikit-learn has it
    """
    if scipy.sparse.issparse(rows):
        if rows.dtype.kind == "c":
            raise NoNumbers(f"{COMPLEX}: X is of dtype {rows.dtype}", "X", REAL)
        return
    for array, column in _parts(rows):
        if array.dtype.kind in NUMERIC or array.ndim == 0 or not array.size:
            continue
        if array.dtype.kind == "c":
            where = "X" if column is None else f"X, column {column}"
            raise NoNumbers(f"{COMPLEX}: X is of dtype {array.dtype}", where, REAL)
        if array.dtype.kind != "O":
            kind = WORDS.get(array.dtype.kind, "no numbers")
            what = f"X holds {kind} (dtype {array.dtype}), where numbers are expected"
            raise NoNumbers(what, _place("X", (0,) * array.ndim, 0, column), ENCODE)
        for place, value in np.ndenumerate(array):
            if why := _no_number(value):
                raise NoNumbers(why, _place("X", place, 0, column), ENCODE)


def _parts(rows: Any) -> Iterator[tuple[Array, int | None]]:
    """Arrays to be looked at: of a data frame the columns that are no plain numbers, each with its place."""
    if hasattr(rows, "iloc") and hasattr(rows, "dtypes") and len(getattr(rows, "shape", ())) == 2:
        for column, dtype in enumerate(rows.dtypes):
            if getattr(dtype, "kind", "O") not in NUMERIC:
                yield np.asarray(rows.iloc[:, column]), column
        return
    try:
        yield np.asarray(rows), None
    except (ValueError, TypeError):  # no array at all: scikit-learn says so
        return


def _no_number(value: Any) -> str:
    """Why a value of an array of objects is no real number; "" if it is one."""
    shown = f"{value!r}"[:80]
    if isinstance(value, str | bytes):
        return f"X holds {'text' if isinstance(value, str) else 'bytes'}, {shown}, where numbers are expected"
    if isinstance(value, np.timedelta64) or not isinstance(value, numbers.Real | np.bool_ | Decimal):
        # In the words of Python, by which scikit-learn's contract knows the error.
        name = type(value).__name__
        return f"{shown} in X: float() argument must be a string or a real number, not {name!r}"
    try:
        float(value)
    except (OverflowError, ValueError) as error:
        return f"a {type(value).__name__} in X cannot be converted: {error}"
    return ""


def _place(name: str, place: Any, first_row: int, column: int | None = None) -> str:
    """As in "X, row 3, column 2", both from 0."""
    found = [int(i) for i in place] + ([] if column is None else [column])
    words = ("row", "column", "depth")
    found[0] += first_row
    return ", ".join([name, *(f"{word} {i}" for word, i in zip(words, found, strict=False))])
