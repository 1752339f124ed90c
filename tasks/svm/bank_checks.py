"""Whether tensors of a model that was read from a file are what they should be."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from tasks.models.errors import ModelFormat
from tasks.models.tensors import not_finite
from tasks.rows.base import Array
from tasks.trees.checks import columns_fit


def named(tensors: Mapping[str, Array], name: str, dtype: Any, *shape: int | None) -> Array:
    """A tensor of a dtype and shape; None: of any length. Raises ModelFormat, also for numbers that are not finite."""
    array = tensors.get(name)
    if array is None:
        raise ModelFormat(f"the tensor {name!r} is missing")
    fits = len(array.shape) == len(shape) and all(w in (None, n) for w, n in zip(shape, array.shape, strict=True))
    if array.dtype != dtype or not fits:
        wanted = " x ".join("any" if length is None else f"{length:,}" for length in shape)
        what = f"{name!r} is {array.dtype} of shape {array.shape}: expected {np.dtype(dtype)}, {wanted}"
        raise ModelFormat(what)
    if array.dtype.kind == "f" and not_finite(array):
        raise ModelFormat(f"{name!r} holds numbers that are not finite")
    return array


def check_lists(values: Array, offsets: Array, below: int, what: str) -> None:
    """Raises ModelFormat unless offsets cut values into lists, each of which ascends in [0, below).

    values (nnz,) int, offsets (n + 1,) int64
    """
    cut = offsets.size and offsets[0] == 0 and offsets[-1] == values.size and bool((np.diff(offsets) >= 0).all())
    if not cut:
        raise ModelFormat(f"the offsets of the {what} do not fit their number")
    if not columns_fit(values, offsets, below):
        raise ModelFormat(f"the {what} must ascend between 0 and {below - 1:,}")
