"""Weights of rows by class: how unbalanced classes are made to count alike."""

from __future__ import annotations

import numpy as np

from tasks.errors import ParamError
from tasks.rows.base import Array


def checked_class_weight(weight: Array | None) -> Array | None:
    """The weights as float64, or None for no weighting. Raises ParamError when one is negative or not finite."""
    if weight is None:
        return None
    weight = np.asarray(weight, np.float64)
    if weight.ndim != 1 or not np.all(np.isfinite(weight)) or np.any(weight < 0):
        raise ParamError("class_weight", weight, "one finite number >= 0 per class", "a loss must stay convex")
    return weight


def check_positive_weight(weight: float) -> None:
    """Raises ParamError unless the weight of a row's own output is a number > 0."""
    if not (np.isfinite(weight) and weight > 0):
        raise ParamError("positive_weight", weight, "a number > 0", "a loss must stay convex")


def row_weights(labels: Array, class_weight: Array | None) -> Array:
    """(n_rows,) float64: the weight of each row's class; 1 for a row without a class (label < 0)."""
    if class_weight is None:
        return np.ones(labels.size)
    return np.asarray(np.where(labels >= 0, class_weight[labels], 1.0))


def balanced(counts: Array) -> Array:
    """Class weights that give every class the same total weight, and the rows a mean weight of 1.

    counts   (n_classes,) integers: training rows per class
    returns  (n_classes,) float64; a class without rows gets weight 0
    """
    counts = np.asarray(counts, np.float64)
    present = counts > 0
    share = counts.sum() / max(int(present.sum()), 1)
    return np.asarray(np.divide(share, counts, out=np.zeros_like(counts), where=present))
