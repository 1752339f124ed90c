"""Psi(x, y) written out (Zhao & Xing 2012, section 2.2): for tests and small uses; learners use `heshing.py`."""

from __future__ import annotations

import numpy as np

from tasks.hashing.flat import hash_rows
from tasks.rows.base import Array
from tasks.rows.dense import Dense


def psi(values: Array, path_seeds: Array, n_buckets: int) -> Array:
    """Psi(x, y) = (1 / sqrt T) [Phi(x, u_1); ...; Phi(x, u_T)] of rows for one class.

    values      (n_rows, n_features) float
    path_seeds  (n_levels,) seeds of the nodes root..leaf, the leaf repeated to the last level; (leaf,) for FlatHash
    returns     (n_rows, n_levels, n_buckets), dtype of the values
    """
    blocks = [hash_rows(Dense(values), int(u), n_buckets).to_array(values.dtype.type) for u in path_seeds]
    stacked: Array = np.stack(blocks, axis=1) / values.dtype.type(np.sqrt(len(blocks)))
    return stacked
