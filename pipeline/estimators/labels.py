"""Labels as they are given, and the classes that they are: any dtype goes in, and comes out of predictions again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import column_or_1d

from pipeline.estimators.errors import BadRows
from tasks.classes import ClassTable
from tasks.rows.base import Array

NAMES, NUMBERS = "names", "numbers"


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
        return [name_of(value) for value in self.classes.tolist()]


def labelled(y: Any) -> Labelled:
    """The classes of labels (n_rows,), or (n_rows, 1) with a warning. Raises ValueError, BadRows of one class alone."""
    y = column_or_1d(y, warn=True)
    check_classification_targets(y)
    classes, codes = np.unique(y, return_inverse=True)
    return Labelled(refuse_one(classes), codes.astype(np.int64))


def known(y: Any, classes: Array) -> Labelled:
    """Labels of classes that are known. Raises BadRows for others."""
    y = column_or_1d(y, warn=True)
    found, codes = np.unique(y, return_inverse=True)
    place = np.searchsorted(classes, found)
    missing = found[(place == classes.size) | (classes[np.minimum(place, classes.size - 1)] != found)]
    if missing.size:
        what = f"y holds the labels {missing[:5].tolist()}, which are none of `classes`"
        raise BadRows(what, "y", "the first partial_fit names all classes: partial_fit(X, y, classes=np.unique(y_all))")
    return Labelled(classes, place[codes].astype(np.int64))


def refuse_one(classes: Array) -> Array:
    """Raises BadRows for fewer than two classes."""
    if classes.size < 2:
        raise BadRows(
            f"y holds 1 class ({classes.tolist()}): a classifier needs at least two classes", "y", "check the labels"
        )
    return classes


def name_of(value: Any) -> str:
    """A label as text: 1.0 is "1", since labels that are floats are whole numbers."""
    return str(int(value)) if isinstance(value, float) else str(value)


def labels_of_table(table: ClassTable, dtype: str | None) -> Array:
    """The labels of a model's classes, in its order.

    dtype  as `dtype_told` has noted it when the model was fitted here; None: numbers where the names are 0, 1, 2, ...
           as integer labels are called, else the names
    """
    names = list(table.names)
    if dtype is None:
        counted = names == [str(c) for c in range(len(names))]
        return np.arange(len(names)) if counted else np.array(names)
    if dtype == "object":
        return np.array(names, object)
    kind = np.dtype(dtype)
    if kind.kind == "b":
        return np.array([name == "True" for name in names])
    if kind.kind in "Mm":
        return np.array(names).astype(kind)
    return np.array(names) if kind.kind in "US" else np.array([int(name) for name in names]).astype(kind)


def dtype_told(classes: Array) -> str:
    """What a model's folder notes of the dtype of its labels."""
    return "object" if classes.dtype.kind == "O" else "str" if classes.dtype.kind in "US" else classes.dtype.str
