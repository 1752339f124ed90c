"""Rows in memory that hold no numbers, or not everywhere: named with their place before anything converts them.

NumPy turns text like "1.5" and dates into numbers without a word, and forgets what a masked array hides.
"""

from __future__ import annotations

import numbers
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import numpy as np
import scipy.sparse

from pipeline.estimators.errors import BadRows, NoNumbers
from tasks.rows.base import Array

NUMERIC = "fiubc"  # kinds of dtypes; complex numbers are refused by scikit-learn, in its own words
WORDS = {"U": "text", "S": "bytes", "T": "text", "M": "dates", "m": "time spans", "V": "records"}
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


def refuse_no_numbers(rows: Any) -> None:
    """Raises NoNumbers (a BadRows and a TypeError) for text, dates and other objects, with the first place.

    rows  an array, a data frame or nested lists; objects that are numbers pass, as scikit-learn has it
    """
    if scipy.sparse.issparse(rows):
        return
    for array, column in _parts(rows):
        if array.dtype.kind in NUMERIC or array.ndim == 0 or not array.size:
            continue
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
