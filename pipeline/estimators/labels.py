"""Labels as they are given, and the classes that they are: any dtype goes in, and comes out of predictions again."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import column_or_1d

from pipeline.estimators.errors import BadRows
from pipeline.estimators.given_labels import OF_ARRAYS, TEXT, refuse_labels
from pipeline.ingest.labels import normal
from tasks.classes import ClassTable
from tasks.rows.base import Array

ONE_CLASS = "check the labels"


@dataclass(frozen=True, eq=False)
class Labelled:
    """Classes of labels.

    classes  (n_classes,) sorted, of the labels' own dtype
    codes    (n_rows,) int64: the place of each row's label among them
    """

    classes: Array
    codes: Array

    @property
    def names(self) -> list[str]:
        """What a model's folder calls the classes."""
        return names_of(self.classes)


def labelled(y: Any) -> Labelled:
    """The classes of checked labels (n_rows,), or (n_rows, 1) with a warning.

    Raises BadRows (a ValueError) of one class alone, ValueError for fractions.
    """
    y = column_or_1d(y, warn=True)
    check_classification_targets(y)
    classes, codes = np.unique(y, return_inverse=True)
    return Labelled(refuse_one(classes, "y"), codes.astype(np.int64))


def all_classes(given: Any) -> Array:
    """(n_classes,) sorted: the `classes` of a first partial_fit. Raises BadRows, ValueError for fractions."""
    refuse_labels(given, "classes")
    given = column_or_1d(given)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # as many values as there are classes are no regression here
        check_classification_targets(given)
    return refuse_one(np.unique(given), "classes")


def known(y: Any, classes: Array) -> Labelled:
    """Checked labels, of classes that are known. Raises BadRows for others."""
    y = column_or_1d(y, warn=True)
    hint = "the first partial_fit names all classes: partial_fit(X, y, classes=np.unique(y_all))"
    of_y, of_classes = (OF_ARRAYS.get(array.dtype.kind, TEXT) for array in (y, classes))
    if of_y != of_classes:
        raise BadRows(f"y holds {y[0]!r}, {of_y}: none of `classes`, which are each {of_classes}", "y, row 0", hint)
    found, first, codes = np.unique(y, return_index=True, return_inverse=True)
    place = np.searchsorted(classes, found)
    absent = (place == classes.size) | (classes[np.minimum(place, classes.size - 1)] != found)
    if absent.any():
        others = found[absent]
        more = f" and {others.size - 5:,} more" if others.size > 5 else ""
        what = f"y holds the labels {others[:5].tolist()}{more}, which are none of `classes`"
        raise BadRows(what, f"y, row {int(first[absent].min())}", hint)
    return Labelled(classes, place[codes].astype(np.int64))


def refuse_one(classes: Array, name: str) -> Array:
    """Raises BadRows for fewer than two classes. name: of the argument that holds them."""
    if classes.size < 2:
        what = f"{name} holds 1 class ({classes.tolist()}): a classifier needs at least two classes"
        raise BadRows(what, name, ONE_CLASS)
    return classes


def name_of(value: Any) -> str:
    """A label as text: 1.0 is "1", since labels that are floats are whole numbers."""
    whole = isinstance(value, float | np.floating) and np.isfinite(value) and value == np.floor(value)
    return str(int(value)) if whole else str(value)


def names_of(classes: Array) -> list[str]:
    """The classes as text, from which `labels_of_table` makes them again."""
    plain = classes.tolist()
    # Of some units Python has no dates, and its time spans are not read back: NumPy writes these.
    by_numpy = classes.dtype.kind == "m" or (classes.dtype.kind == "M" and any(isinstance(date, int) for date in plain))
    return [str(value) for value in classes] if by_numpy else [name_of(value) for value in plain]


def spelled(classes: Array) -> dict[str, str]:
    """Of classes whose names a model's folder keeps in another Unicode form: how they were given, by class number."""
    if OF_ARRAYS.get(classes.dtype.kind, TEXT) != TEXT:
        return {}
    return {str(c): str(name) for c, name in enumerate(classes.tolist()) if normal(name) != name}


def labels_of_table(table: ClassTable, dtype: str | None, given: Mapping[str, str] | None = None) -> Array:
    """The labels of a model's classes, in its order.

    dtype  as `dtype_told` has noted it when the model was fitted here; None: numbers where the names are 0, 1, 2, ...
           as integer labels are called, else the names
    given  as `spelled` has noted it
    """
    names = [(given or {}).get(str(c), name) for c, name in enumerate(table.names)]
    if dtype is None:
        counted = names == [str(c) for c in range(len(names))]
        return np.arange(len(names)) if counted else np.array(names)
    if dtype == "object":
        return np.array(names, object)
    kind = np.dtype(dtype)
    if kind.kind in "US":
        return np.array(names, None if kind.itemsize == 0 else kind)
    if kind.kind == "b":
        return np.array([name == "True" for name in names])
    if kind.kind == "m":
        return np.array([int(name.split()[0]) for name in names], np.int64).astype(kind)
    return np.array(names).astype(kind) if kind.kind == "M" else np.array([int(name) for name in names], kind)


def dtype_told(classes: Array) -> str:
    """What a model's folder notes of the dtype of its labels."""
    return "object" if classes.dtype.kind == "O" else classes.dtype.str
