"""WTA and densified WTA codes by their definitions, one hash of one row at a time."""

from __future__ import annotations

from itertools import permutations
from math import comb

import numpy as np

from tasks.seeds import stream

NONE = -1


def windows(n_features: int, hashes: int, window: int, seed: int) -> np.ndarray:
    """The first features of a whole shuffle per hash."""
    rng = stream(seed, "wta")
    chosen = []
    for _ in range(hashes):
        order = list(range(n_features))
        for k in range(window):
            other = k + int(rng.random() * (n_features - k))
            order[k], order[other] = order[other], order[k]
        chosen.append(order[:window])
    return np.array(chosen, np.int32).reshape(hashes, window)


def is_empty(sample: list[float]) -> bool:
    return all(value == 0 for value in sample)


def winner(sample: list[float]) -> int:
    return sample.index(max(sample))


def wta(row: np.ndarray, chosen: np.ndarray, empty: int = 0) -> list[int]:
    """Codes from 0; `empty` is the code of an empty sample."""
    samples = [[float(row[j]) for j in window] for window in chosen]
    return [empty if is_empty(sample) else winner(sample) for sample in samples]


def dwta(row: np.ndarray, chosen: np.ndarray, shift: int, modulus: int | None = None) -> list[int]:
    """An empty sample looks to its right, hash by hash, around the end; NONE for a row of zeros."""
    plain = wta(row, chosen, NONE)
    n = len(plain)
    codes = []
    for i in range(n):
        distances = [t for t in range(n) if plain[(i + t) % n] != NONE]
        code = plain[(i + distances[0]) % n] + shift * distances[0] if distances else NONE
        codes.append(code % modulus if modulus is not None and code != NONE else code)
    return codes


def kernels(x: np.ndarray, y: np.ndarray, window: int) -> dict[str, float]:
    """Chances over all windows in all orders.

    a = both samples are empty; wta = plain codes are equal; of the windows that are not empty for both: good_raw =
    plain codes are equal, good = they are and neither sample is empty.
    """
    total = both = equal = good = raw = 0
    for chosen in permutations(range(x.size), window):
        a, b = [float(x[j]) for j in chosen], [float(y[j]) for j in chosen]
        same = (0 if is_empty(a) else winner(a)) == (0 if is_empty(b) else winner(b))
        total, equal, both = total + 1, equal + same, both + (is_empty(a) and is_empty(b))
        raw += same and not (is_empty(a) and is_empty(b))
        good += same and not is_empty(a) and not is_empty(b)
    left = total - both
    return {"a": both / total, "wta": equal / total, "good": good / left, "good_raw": raw / left}


def empty_chance(row: np.ndarray, window: int) -> float:
    zeros = sum(1 for value in row if value == 0)
    return comb(zeros, window) / comb(row.size, window)


def one_hot(codes: np.ndarray, n_codes: int, none: int) -> np.ndarray:
    out = np.zeros((codes.shape[0], codes.shape[1] * n_codes))
    for i, row in enumerate(codes):
        for h, code in enumerate(row):
            if int(code) != none:
                out[i, h * n_codes + int(code)] = 1
    return out
