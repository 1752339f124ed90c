"""How many features a hashing loses (Zhao & Xing 2012, Definition 2, Theorem 2 and equation (20))."""

from __future__ import annotations

import math

import numpy as np

from tasks.hashing.murmur import hash_tables
from tasks.rows.base import Array


def lost_features(path_seeds: Array, n_features: int, n_buckets: int, support: Array | None = None) -> int:
    """Features that share their bucket with another feature under every seed of a class's path.

    path_seeds  (n_nodes,) seeds of the different nodes root..leaf
    support     int array: count only these features, as if the others did not exist (the non-zeros of a sparse row,
                SPECS 1.7); None counts all of them (Definition 2)
    """
    features = np.arange(n_features) if support is None else np.unique(support)
    lost = np.ones(features.size, bool)
    for seed in np.unique(np.asarray(path_seeds, np.uint32)):
        buckets = hash_tables(np.array([seed]), n_features, n_buckets)[0][0][features]
        lost &= np.bincount(buckets, minlength=n_buckets)[buckets] > 1
    return int(lost.sum())


def lost_bound(n_features: int, n_buckets: int, n_levels: int) -> float:
    """Equation (20): d ((d - 1) / m)^tau, tau the levels of the shortest path. Says nothing (> d) once m < d."""
    return float(n_features * ((n_features - 1) / n_buckets) ** n_levels)


def lost_expected(n_features: int, n_buckets: int, n_levels: int) -> float:
    """Expected number of lost features under ideal hashing: d (1 - (1 - 1/m)^(d - 1))^tau; never above the bound."""
    if n_features < 2:
        return 0.0
    if n_buckets == 1:
        return float(n_features)
    shared = -math.expm1((n_features - 1) * math.log1p(-1 / n_buckets))
    return float(n_features * shared**n_levels)
