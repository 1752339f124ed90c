"""Locality-constrained linear coding (Wang et al., CVPR 2010, section 3 and equation 7), and its spatial pyramid.

A descriptor x is written as a weighted mean of its k nearest words B (k, d). With C = (B - 1 x') (B - 1 x')', the
weights w solve (C + beta trace(C) 1) w = 1, divided by their sum: of all weights that sum to one they have the least
w' (C + beta trace(C) 1) w. Where the trace is 0 (all k words equal x) each has 1 / k.

The pyramid cuts the image into g x g cells for each level g. A cell takes of every word the largest weight that a
descriptor within gives it; 0 is the weight of all words that a descriptor does not use, and of an empty cell.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tasks.errors import ParamError
from tasks.later import numba
from tasks.rows.base import Array

MOST_NEAREST = 32  # words of a code: the systems stay small
MOST_CELLS = 32  # of a level, along each side
MOST_COLUMNS = np.iinfo(np.int32).max


@dataclass(frozen=True, slots=True)
class LlcParams:
    """Codes and pooling.

    nearest    words that share a descriptor (k in the paper)
    beta       share of the trace that is added to the diagonal: towards equal weights, and away from singular systems
    pyramid    cells along each side of the image, level by level
    normalize  divide each row by its Euclidean norm
    """

    nearest: int = 5
    beta: float = 1e-4
    pyramid: tuple[int, ...] = (1, 2, 4)
    normalize: bool = True

    def __post_init__(self) -> None:
        if not 1 <= self.nearest <= MOST_NEAREST:
            raise ParamError("llc.neighbours", self.nearest, f"1 to {MOST_NEAREST}", "it counts the words of a code")
        if not 1e-10 <= self.beta <= 1e10:
            raise ParamError("llc.beta", self.beta, "1e-10 to 1e10", "it makes the system of a code solvable")
        levels = self.pyramid
        if not levels or list(levels) != sorted(set(levels)) or not 1 <= levels[0] <= levels[-1] <= MOST_CELLS:
            why = "each is the number of cells along a side"
            raise ParamError("llc.pyramid", list(levels), f"rising numbers, 1 to {MOST_CELLS}", why)

    @property
    def n_cells(self) -> int:
        return sum(side * side for side in self.pyramid)

    def columns(self, n_words: int) -> int:
        """Of the encoded rows. Raises ParamError when they cannot be numbered, or a code needs more words."""
        if self.nearest > n_words:
            raise ParamError("llc.neighbours", self.nearest, f"1 to {n_words}", "the vocabulary has no more words")
        if self.n_cells * n_words > MOST_COLUMNS:
            why = f"{self.n_cells} cells of {n_words:,} words are more columns than int32 can number"
            raise ParamError("llc.pyramid", list(self.pyramid), "fewer cells", why)
        return self.n_cells * n_words


@numba.njit(cache=True, nogil=True)
def llc_codes(values: Array, words: Array, nearest: Array, beta: float) -> Array:
    """The weights of each descriptor's words.

    values   (n, d) float32: descriptors
    words    (n_words, d) float32
    nearest  (n, k) int32: the words of each
    beta     above 0
    returns  (n, k) float64, each row with sum 1
    """
    n, k = nearest.shape
    codes = np.empty((n, k))
    away, system = np.empty((k, values.shape[1])), np.empty((k, k))
    for i in range(n):
        for a in range(k):
            word = words[nearest[i, a]]
            for t in range(values.shape[1]):
                away[a, t] = np.float64(word[t]) - np.float64(values[i, t])
        trace = products_of(away, system)
        if trace > 0:
            for a in range(k):
                for b in range(a + 1):
                    system[a, b] /= trace  # the weights are the same
                system[a, a] += beta
            solve_ones(system, codes[i])
        else:
            codes[i] = 1.0 / k
    return codes


@numba.njit(cache=True, nogil=True)
def products_of(vectors: Array, products: Array) -> float:
    """products[a, b] = <vectors[a], vectors[b]> for b <= a; returns the trace. vectors (k, d), products (k, k)."""
    k, d = vectors.shape
    whole = d - d % 4
    trace = 0.0
    for a in range(k):
        for b in range(a + 1):
            first, second, third, fourth = 0.0, 0.0, 0.0, 0.0  # four sums side by side
            for t in range(0, whole, 4):
                first += vectors[a, t] * vectors[b, t]
                second += vectors[a, t + 1] * vectors[b, t + 1]
                third += vectors[a, t + 2] * vectors[b, t + 2]
                fourth += vectors[a, t + 3] * vectors[b, t + 3]
            for t in range(whole, d):
                first += vectors[a, t] * vectors[b, t]
            products[a, b] = (first + second) + (third + fourth)
        trace += products[a, a]
    return trace


@numba.njit(cache=True, nogil=True)
def solve_ones(system: Array, weights: Array) -> None:
    """weights (k,) = S^-1 1, divided by their sum, by Cholesky's decomposition.

    system  (k, k) positive definite, of which the lower triangle is read and overwritten
    """
    k = weights.size
    for a in range(k):
        for b in range(a + 1):
            rest = system[a, b]
            for c in range(b):
                rest -= system[a, c] * system[b, c]
            system[a, b] = np.sqrt(rest) if a == b else rest / system[b, b]
    for a in range(k):
        rest = 1.0
        for c in range(a):
            rest -= system[a, c] * weights[c]
        weights[a] = rest / system[a, a]
    total = 0.0
    for a in range(k - 1, -1, -1):
        rest = weights[a]
        for c in range(a + 1, k):
            rest -= system[c, a] * weights[c]
        weights[a] = rest / system[a, a]
        total += weights[a]
    for a in range(k):
        weights[a] /= total


@numba.njit(cache=True, nogil=True)
def pool_codes(nearest: Array, codes: Array, places: Array, pyramid: Array, pooled: Array) -> None:
    """Raise pooled[cell, word] to the codes of the descriptors in the cell, at every level.

    nearest  (n, k) int32 and codes (n, k) float64, of the descriptors of one image
    places   (n, 2) float32: x and y of each, as shares of width and height
    pyramid  (n_levels,) int64: cells along each side
    pooled   (n_cells, n_words) float64: cells level by level, row by row
    """
    for i in range(nearest.shape[0]):
        first = 0
        for side in pyramid:
            column, row = cell_of(places[i, 0], side), cell_of(places[i, 1], side)
            cell = pooled[first + row * side + column]
            for a in range(nearest.shape[1]):
                if codes[i, a] > cell[nearest[i, a]]:
                    cell[nearest[i, a]] = codes[i, a]
            first += side * side


@numba.njit(cache=True, nogil=True)
def cell_of(share: float, side: int) -> int:
    """In which of `side` equal parts a share of the whole lies; in the last one at its end."""
    return min(max(int(np.floor(np.float64(share) * side)), 0), side - 1)


@numba.njit(cache=True, nogil=True)
def take_pooled(pooled: Array, normalize: bool, columns: Array, values: Array) -> int:
    """Move what is above 0 to `columns` (int32) and `values` (float64), by rising column; returns how many.

    pooled (n,) float64, set to 0; both outputs have room for all. With `normalize` values are divided by their norm.
    """
    n, total = 0, 0.0
    for column in range(pooled.size):
        if pooled[column] > 0:
            columns[n], values[n] = column, pooled[column]
            total += pooled[column] * pooled[column]
            pooled[column] = 0.0
            n += 1
    if normalize and total > 0:
        norm = np.sqrt(total)
        for p in range(n):
            values[p] /= norm
    return n
