"""Descriptors drawn from a seed, as images have them."""

from __future__ import annotations

import numpy as np

from tasks.rows import Descriptors
from tasks.rows.descriptors import SIFT_NUMBERS


def some_descriptors(seed: int, lengths: list[int], kinds: int = 12, root: bool = False) -> Descriptors:
    """Images with these numbers of descriptors: variants of a few kinds, in random places, some on the far edges."""
    rng = np.random.default_rng(seed)
    total = sum(lengths)
    shapes = rng.gamma(0.4, 40.0, (kinds, SIFT_NUMBERS))
    values = np.rint(shapes[rng.integers(kinds, size=total)] * rng.gamma(3.0, 1 / 3, (total, SIFT_NUMBERS)))
    places = rng.random((total, 2)).astype(np.float32)
    places[::7] = 1.0
    offsets = np.cumsum([0, *lengths]).astype(np.int64)
    return Descriptors(np.minimum(values, 255).astype(np.uint8), places, offsets, root)


def some_words(seed: int, n_words: int, kinds: int = 12) -> np.ndarray:
    """(n_words, 128) float32 of norm 1: descriptors of the same kinds."""
    return some_descriptors(seed, [n_words], kinds).numbers()


def by_image(rows: Descriptors) -> list[np.ndarray]:
    """Numbers (n, 128) float32 of each image."""
    return [rows.numbers(*rows.offsets[i : i + 2]) for i in range(rows.n_rows)]
