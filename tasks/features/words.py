"""The words nearest to descriptors: what bags of words and locality-constrained codes begin with.

|x - w|^2 and |w|^2 / 2 - <x, w> have the same order over words w. The products come from BLAS in float32, whose last
bits depend on how many rows are multiplied at once; so every word that they leave in doubt is compared again by its
distance in float64, added up in one order. The answer for a descriptor therefore depends on it and the words alone.

What is in doubt: the half distance as computed has d + 2 roundings at most in each of its terms, in whatever order they
are added, so it is within g = (d + 2) u / (1 - (d + 2) u) times |w|^2 / 2 + |x| |w| of the true one (u = 2^-24; Higham
2002, section 3.1), but for (d + 2) 2^-149 of underflow; the distance in float64 is within the same with u = 2^-53 times
(|x| + |w|)^2. Words that are further than twice both from the k-th least half distance are not among the k nearest.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np

from tasks.later import numba
from tasks.quantize.assign import add_assigned
from tasks.quantize.kmeans import CodebookSums
from tasks.rows.base import Array

SLICE_CELLS = 2**22  # products held at once (16 MB)
GROUPS = 128  # words w, w + 128, w + 256, ... are a group whose least half distance is looked at first
ROUND32, ROUND64 = 2.0**-24, 2.0**-53
UNDERFLOW = 2.0**-149
OVERFLOW = 2.0**125  # from here on float32 products may be infinite, and all words are in doubt
FAR = np.float32(np.inf)


@dataclass(frozen=True, eq=False)
class Words:
    """A vocabulary, and what is computed of it once.

    words    (n_words, d) float32, C order, finite
    halves   (n_words,) float32: half of the squared norms
    largest  the largest norm, float64
    """

    words: Array
    halves: Array
    largest: float

    @classmethod
    def of(cls, words: Array) -> Self:
        """words (n_words, d) float"""
        plain = np.ascontiguousarray(words, np.float32)
        squares = np.einsum("wt,wt->w", plain, plain, dtype=np.float64)
        with np.errstate(over="ignore"):  # then all words are in doubt
            halves = (squares / 2).astype(np.float32)
        return cls(plain, halves, float(np.sqrt(squares.max(initial=0.0))))

    @property
    def n_words(self) -> int:
        return int(self.words.shape[0])


def nearest_words(values: Array, words: Words, k: int) -> Array:
    """The k nearest words of each descriptor, nearest first; of equal distances (in float64) the lowest word.

    values   (n, d) float32, finite
    returns  (n, k) int32, 1 <= k <= n_words
    """
    values = np.ascontiguousarray(values, np.float32)
    found = np.empty((len(values), k), np.int32)
    size = max(1, SLICE_CELLS // words.n_words)
    products = np.empty((min(size, len(values)), words.n_words), np.float32)
    for start in range(0, len(values), size):
        part = values[start : start + size]
        with np.errstate(over="ignore", invalid="ignore"):  # of products that are infinite all words are in doubt
            np.matmul(part, words.words.T, out=products[: len(part)])
            select_nearest(products, part, words.words, words.halves, words.largest, found[start : start + size])
    return found


def word_sums(values: Array, words: Words) -> CodebookSums:
    """Sums, counts and squared errors of the descriptors nearest to each word: a round of k-means over one block.

    values (n, d) float32; the sums are those of one subquantizer whose centroids are the words
    """
    values = np.ascontiguousarray(values, np.float32)
    books = words.words[None]
    sums, counts, errors = np.zeros(books.shape), np.zeros(books.shape[:2], np.int64), np.zeros(books.shape[:2])
    add_assigned(values, nearest_words(values, words, 1), books, sums, counts, errors)
    return CodebookSums(sums, counts, errors)


@numba.njit(cache=True, nogil=True)
def squared_distance(x: Array, y: Array) -> float:
    """|x - y|^2 in float64, four sums side by side that are added at the end; x and y (d,) float32."""
    a, b, c, d = 0.0, 0.0, 0.0, 0.0
    whole = x.size - x.size % 4
    for t in range(0, whole, 4):
        first, second = np.float64(x[t]) - np.float64(y[t]), np.float64(x[t + 1]) - np.float64(y[t + 1])
        third, fourth = np.float64(x[t + 2]) - np.float64(y[t + 2]), np.float64(x[t + 3]) - np.float64(y[t + 3])
        a += first * first
        b += second * second
        c += third * third
        d += fourth * fourth
    for t in range(whole, x.size):
        away = np.float64(x[t]) - np.float64(y[t])
        a += away * away
    return (a + b) + (c + d)


@numba.njit(cache=True, nogil=True)
def error_bound(norm: float, largest: float, d: int) -> float:
    """How far a half distance as computed is at most from that of float64 (top of this module); infinity: from any.

    norm  of the descriptor; largest  norm of a word; d  numbers of each
    """
    reach = norm * largest + largest * largest / 2
    if not reach < OVERFLOW or (d + 3) * ROUND32 >= 0.5:
        return np.inf
    share = (d + 3) * ROUND32 / (1 - (d + 3) * ROUND32)  # one more than needed, for the roundings of this bound
    return share * reach + (d + 3) * (2 * ROUND64 * (norm + largest) ** 2 + UNDERFLOW)


@numba.njit(cache=True, nogil=True)
def least_of_groups(products: Array, halves: Array, least: Array) -> None:
    """least[g] = the least of halves[w] - products[w] over the words w of group g; all (n_words,) float32."""
    least[:] = FAR
    for start in range(0, products.size, GROUPS):
        here, half = products[start : start + GROUPS], halves[start : start + GROUPS]
        for i in range(here.size):  # one comparison for each group: vectors
            candidate = half[i] - here[i]
            least[i] = candidate if candidate < least[i] else least[i]


@numba.njit(cache=True, nogil=True)
def kth_least(values: Array, kept: Array) -> float:
    """The k-th least of some values (n,), infinity of fewer; kept (k,) is written: the k least, rising."""
    kept[:] = FAR
    last = kept.size - 1
    for value in values:
        if value < kept[last]:
            place = last
            while place > 0 and value < kept[place - 1]:
                kept[place] = kept[place - 1]
                place -= 1
            kept[place] = value
    return float(kept[last])


@numba.njit(cache=True, nogil=True)
def gather_below(products: Array, halves: Array, least: Array, limit: float, doubtful: Array) -> int:
    """Write the words whose half distance is not above the limit to the front of `doubtful`; returns how many.

    Groups whose least is above the limit have none.
    """
    n = 0
    for group in range(min(GROUPS, products.size)):
        if least[group] > limit:
            continue
        for word in range(group, products.size, GROUPS):
            if not (halves[word] - products[word] > limit):  # so that what is no number is in doubt, too
                doubtful[n] = word
                n += 1
    return n


@numba.njit(cache=True, nogil=True)
def sort_by_distance(x: Array, words: Array, doubtful: Array, distances: Array, chosen: Array) -> None:
    """chosen (k,) int32 = the nearest of the words `doubtful`, of equals the lowest; distances (k,) is scratch."""
    n = 0
    for word in doubtful:
        distance = squared_distance(x, words[word])
        place = n
        while place > 0 and (
            distance < distances[place - 1] or (distance == distances[place - 1] and word < chosen[place - 1])
        ):
            if place < chosen.size:
                distances[place], chosen[place] = distances[place - 1], chosen[place - 1]
            place -= 1
        if place < chosen.size:
            distances[place], chosen[place] = distance, word
            n = min(n + 1, chosen.size)


@numba.njit(cache=True, nogil=True)
def select_nearest(products: Array, values: Array, words: Array, halves: Array, largest: float, found: Array) -> None:
    """found[i] = the words nearest to values[i], by its products where they tell, else by distances.

    products (at least n, n_words) float32, values (n, d) float32; words, halves and largest as in `Words`
    found (n, k) int32, written
    """
    k = found.shape[1]
    least, kept = np.empty(GROUPS, np.float32), np.empty(k, np.float32)
    doubtful, distances = np.empty(words.shape[0], np.int32), np.empty(k)
    zeros = np.zeros(values.shape[1], np.float32)
    for i in range(values.shape[0]):
        bound = error_bound(np.sqrt(squared_distance(values[i], zeros)), largest, values.shape[1])
        limit = np.inf
        if bound < np.inf:
            least_of_groups(products[i], halves, least)
            limit = kth_least(least, kept) + 2 * bound
        else:
            least[:] = FAR
        n = gather_below(products[i], halves, least, limit, doubtful)
        if n == 1:
            found[i, 0] = doubtful[0]
        else:
            sort_by_distance(values[i], words, doubtful[:n], distances, found[i])
