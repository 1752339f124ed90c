"""The features that winner-take-all codes compare: K different ones per hash, drawn without a table of permutations.

A permutation of d features per hash would be d x n_hashes numbers; only its first K entries are ever looked at (Chen &
Shrivastava 2018, section 2), so only those are drawn: K steps of a Fisher-Yates shuffle, undone after each hash.
"""

from __future__ import annotations

import numpy as np

from tasks.errors import ParamError
from tasks.later import numba
from tasks.rows.base import Array
from tasks.seeds import stream

DRAWS_AT_ONCE = 1 << 20  # random numbers held at a time


def draw_windows(n_features: int, hashes: int, window: int, seed: int) -> Array:
    """(hashes, window) int32: the first `window` entries of an independent random permutation per hash.

    Each entry takes one number of the stream, hash by hash: the first hashes of a longer list are the same.
    Raises ParamError for a window that is wider than the rows.
    """
    check_window(window, n_features)
    rng = stream(seed, "wta")
    spare = np.arange(n_features, dtype=np.int32)
    windows = np.empty((hashes, window), np.int32)
    at_once = max(1, DRAWS_AT_ONCE // window)
    for start in range(0, hashes, at_once):
        part = windows[start : start + at_once]
        shuffle_firsts(rng.random(part.shape), spare, part)
    return windows


def check_window(window: int, n_features: int) -> None:
    """Raises ParamError for a window that is wider than the rows."""
    if window > n_features:
        accepted = f"at most {n_features}, the features of the rows"
        raise ParamError("window", window, accepted, "a hash compares so many different features")


@numba.njit(cache=True, nogil=True)
def shuffle_firsts(uniform: Array, spare: Array, windows: Array) -> None:
    """windows[h, k] = entry k of a shuffle of 0..n_features - 1 that is steered by uniform[h].

    uniform  (n_hashes, window) float64 in [0, 1): entry k trades places with entry k + floor(uniform (n_features - k))
    spare    (n_features,) int32, 0..n_features - 1 in order, and so again afterwards
    windows  (n_hashes, window) int32
    """
    n_features = spare.size
    for h in range(windows.shape[0]):
        for k in range(windows.shape[1]):
            other = k + np.int64(uniform[h, k] * (n_features - k))
            spare[k], spare[other] = spare[other], spare[k]
            windows[h, k] = spare[k]
        for k in range(windows.shape[1] - 1, -1, -1):
            other = k + np.int64(uniform[h, k] * (n_features - k))
            spare[k], spare[other] = spare[other], spare[k]
