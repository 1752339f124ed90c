"""Words of descriptors, their counts and locality-constrained codes, one number at a time from the definitions."""

from __future__ import annotations

import math

import numpy as np


def nearest_words(x: np.ndarray, words: np.ndarray, k: int) -> list[int]:
    """Places of the k nearest, of equal distances the lowest; distances are added up without rounding."""
    distances = [math.fsum((float(a) - float(b)) ** 2 for a, b in zip(x, word, strict=True)) for word in words]
    return sorted(range(len(words)), key=lambda w: (distances[w], w))[:k]


def word_counts(images: list[np.ndarray], words: np.ndarray) -> np.ndarray:
    """(n_images, n_words): how many descriptors of each image have each word as the nearest."""
    out = np.zeros((len(images), len(words)))
    for i, descriptors in enumerate(images):
        for x in descriptors:
            out[i, nearest_words(x, words, 1)[0]] += 1
    return out


def llc_system(x: np.ndarray, base: np.ndarray, beta: float) -> np.ndarray:
    """C + beta trace(C) 1 of a descriptor and its words (k, d)."""
    away = [[float(b) - float(a) for a, b in zip(x, word, strict=True)] for word in base]
    scatter = np.array([[math.fsum(p * q for p, q in zip(a, b, strict=True)) for b in away] for a in away])
    return scatter + beta * np.trace(scatter) * np.eye(len(base))


def llc_code(x: np.ndarray, base: np.ndarray, beta: float) -> np.ndarray:
    """(k,) weights with sum one."""
    system = llc_system(x, base, beta)
    if not system.any():
        return np.full(len(base), 1 / len(base))
    weights = np.linalg.solve(system, np.ones(len(base)))
    return weights / weights.sum()


def pooled_row(
    descriptors: np.ndarray,
    places: np.ndarray,
    words: np.ndarray,
    k: int,
    beta: float,
    pyramid: tuple[int, ...],
    normalize: bool,
) -> np.ndarray:
    """The whole row of an image: for each level, cell (row by row) and word the largest of 0 and the codes."""
    row = []
    codes = np.zeros((len(descriptors), len(words)))
    for i, x in enumerate(descriptors):
        nearest = nearest_words(x, words, k)
        codes[i, nearest] = llc_code(x, words[nearest], beta)
    for side in pyramid:
        for y in range(side):
            for x in range(side):
                within = [i for i, place in enumerate(places) if cell_of(place, side) == (x, y)]
                row += [max([0.0, *(codes[i, word] for i in within)]) for word in range(len(words))]
    norm = math.sqrt(math.fsum(value * value for value in row)) if normalize else 0.0
    return np.array(row) / (norm or 1.0)


def cell_of(place: np.ndarray, side: int) -> tuple[int, int]:
    x, y = (min(math.floor(float(share) * side), side - 1) for share in place)
    return x, y
