"""Labels before anything is made of them: of one kind, none missing, all of them text that can be written."""

from __future__ import annotations

import math
import numbers
from collections.abc import Collection
from typing import Any, NoReturn

import numpy as np

from pipeline.estimators.errors import BadRows
from pipeline.estimators.refused import COMPLEX, refuse_masked
from tasks.rows.base import Array

TEXT, NUMBER, BOOLEAN, DATE, SPAN, BYTES = "text", "a number", "a boolean", "a date", "a time span", "bytes"
OF_ARRAYS = {"U": TEXT, "b": BOOLEAN, "i": NUMBER, "u": NUMBER, "f": NUMBER, "M": DATE, "m": SPAN}
ONE_KIND = "labels are of one kind: [str(label) for label in {0}], or whole numbers alone"
MISSING = "leave out rows without a label, or give them one of their own"
SURROGATES = (0xD800, 0xDFFF)


def refuse_labels(labels: Any, name: str = "y") -> None:
    """Raises BadRows for labels that mix kinds, are missing, masked, bytes, other objects, or no Unicode, with the row.

    labels  (n_rows,) or (n_rows, 1): an array, a list, a column of a data frame; scikit-learn refuses other shapes
    name    of the argument, for messages
    """
    refuse_masked(labels, name)
    if isinstance(labels, list | tuple):  # NumPy would make text of numbers beside text
        if any(isinstance(label, list | tuple | np.ndarray) for label in labels):
            return
        _refuse_objects(labels, name)
    try:
        array = np.asarray(labels)
    except (ValueError, TypeError, OverflowError):
        return
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.ndim == 1 and array.size:
        _refuse_array(array, name)


def _refuse_array(array: Array, name: str) -> None:
    kind = array.dtype.kind
    if kind == "O":
        _refuse_objects(array.tolist(), name)
        if not isinstance(array[0], str):
            what = f"Unknown label type: {name} is an array of objects ({type(array[0]).__name__})"
            hint = f"give it a type of its own: {name}.astype('int64'), {name}.astype('datetime64[s]')"
            raise BadRows(what, f"{name}, row 0", hint)
    elif kind == "c":
        hint = "labels are names or whole numbers"
        raise BadRows(f"{COMPLEX}: {name} is of dtype {array.dtype}", name, hint)
    elif kind not in OF_ARRAYS:
        _refuse(f"a label of type {array.dtype}", name, 0, f"{name} = np.asarray({name}).astype(str)")
    elif kind in "fMm":
        missing = np.isnan(array) if kind == "f" else np.isnat(array)
        if missing.any():
            _refuse_missing(array[int(np.argmax(missing))], name, int(np.argmax(missing)))
        if kind == "f" and np.isinf(array).any():
            what = f"Input {name} contains infinity, which is no label"
            _refuse(what, name, int(np.argmax(np.isinf(array))), "labels are names or whole numbers")
    elif kind == "U" and array.dtype.itemsize:
        letters = np.ascontiguousarray(array, array.dtype.newbyteorder("=")).view(np.uint32)
        if ((letters >= SURROGATES[0]) & (letters <= SURROGATES[1])).any():
            _refuse_objects(array.tolist(), name)  # which finds the row


def _are_plain(labels: Collection[Any]) -> bool:
    """Whether labels are all text that can be written, or all numbers (NaN is looked for later), by quick means."""
    types = set(map(type, labels))
    return (types == {str} and is_unicode("".join(labels))) or types <= {int, float} or types == {bool}


def _refuse_objects(labels: Collection[Any], name: str) -> None:
    if _are_plain(labels):
        return
    first, begun = "", 0
    for row, label in enumerate(labels):
        if is_missing(label):
            _refuse_missing(label, name, row)
        kind = kind_of(label)
        if kind == BYTES:
            _refuse(f"the label {shown(label)} is bytes", name, row, "decode them: [label.decode() for label in y]")
        if not first:
            first, begun = kind, row
        if kind != first:
            what = f"the label {shown(label)} is {kind}, that of row {begun} is {first}"
            _refuse(what, name, row, ONE_KIND.format(name))
        if kind == TEXT and not is_unicode(label):
            hint = "write the names again as UTF-8; a name of bytes that are none cannot be kept"
            _refuse(f"the label {shown(label)} is no Unicode text", name, row, hint)


def _refuse_missing(label: Any, name: str, row: int) -> NoReturn:
    # By "Input y contains NaN" scikit-learn's users know it.
    said = f"Input {name} contains NaN" if isinstance(label, float | np.floating) else f"the label is {shown(label)}"
    _refuse(f"{said}: the row has no label", name, row, MISSING)


def _refuse(what: str, name: str, row: int, hint: str) -> NoReturn:
    raise BadRows(what, f"{name}, row {row}", hint)


def kind_of(label: Any) -> str:
    """What a label is, in words: labels of one word compare with each other."""
    if isinstance(label, str):
        return TEXT
    if isinstance(label, bytes | bytearray):
        return BYTES
    if isinstance(label, bool | np.bool_):
        return BOOLEAN
    if isinstance(label, np.timedelta64):
        return SPAN
    if isinstance(label, numbers.Real):
        return NUMBER
    return DATE if isinstance(label, np.datetime64) else f"a {type(label).__name__}"


def is_missing(label: Any) -> bool:
    """Whether a label stands for none: None, NaN, NaT, NA of pandas."""
    if label is None or type(label).__name__ in ("NAType", "NaTType"):
        return True
    if isinstance(label, np.datetime64 | np.timedelta64):
        return bool(np.isnat(label))
    return isinstance(label, float | np.floating) and math.isnan(label)


def is_unicode(text: str) -> bool:
    """Whether text can be written as UTF-8: half of a surrogate pair cannot."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def shown(label: Any) -> str:
    """A label in a message: short, and in characters that can be printed."""
    return ascii(label)[:80] if isinstance(label, str) and not is_unicode(label) else repr(label)[:80]
