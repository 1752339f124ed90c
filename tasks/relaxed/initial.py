"""Pairs of classes to begin the coloring of a node with (Gao & Koller 2011, section 3.2, bottom-up).

The confusion of two classes is the share of the rows of one that a one-vs-rest model takes for the other, plus the same
the other way round: M_ab / n_a + M_ba / n_b, so that classes of many rows do not weigh more. Of the K (K - 1) / 2 pairs
most have none at all; which of equally confused ones are taken is a seeded choice, each set of them equally likely.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from tasks.errors import ParamError
from tasks.later import later
from tasks.rows.base import Array

if TYPE_CHECKING:
    from scipy import sparse
else:
    sparse = later("scipy.sparse")

BLOCK_CELLS = 2**21  # pairs looked at in one go


def least_confused_pairs(
    confusion: Array | sparse.csr_array[Any], samples: int, rng: np.random.Generator, counts: Array | None = None
) -> Array:
    """The `samples` least confused pairs (a, b), a < b: (min(samples, K (K - 1) / 2), 2) int64.

    confusion  (K, K) counts of rows by their class and by the answer they got (M), an array or scipy's sparse one
    samples    int >= 1
    rng        chooses among the pairs that are tied for the last places
    counts     (K,) rows of each class (n), where not all their answers are in the matrix, as when it is cut down to the
               classes of a node; else its row sums are taken. A class without rows is taken for no other.
    Pairs are ordered by confusion, then by a, then by b. O(K^2) time; memory for a block of pairs, never for all.
    Raises ParamError for `samples` below 1.
    """
    if samples < 1:
        raise ParamError("samples", samples, "1 or more", "every node begins with one pair of classes at least")
    pairs = _Pairs(confusion, counts)
    if pairs.number == 0:
        return np.empty((0, 2), np.int64)
    last = pairs.nth_least(min(samples, pairs.number))
    chosen = pairs.below(last)
    tied = pairs.tied(last, samples - len(chosen), rng)
    both = np.concatenate([chosen, tied])
    return both[np.lexsort((both[:, 1], both[:, 0], pairs.values(both)))]


class _Pairs:
    """The confusion of every pair a < b, made anew block by block: of rows a from `start` on, b from `start` on."""

    def __init__(self, confusion: Array | sparse.csr_array[Any], counts: Array | None) -> None:
        self.n_classes = confusion.shape[0]
        self.number = self.n_classes * (self.n_classes - 1) // 2
        rows = np.asarray(confusion.sum(axis=1) if counts is None else counts, np.float64).ravel()
        self.per_row = np.divide(1.0, rows, out=np.zeros_like(rows), where=rows > 0)
        dense = isinstance(confusion, np.ndarray)
        self.by_row: Any = confusion if dense else sparse.csr_array(confusion)
        self.by_column: Any = confusion if dense else sparse.csc_array(confusion)

    def block(self, start: int, stop: int) -> Array:
        """(stop - start, K - start) float64; infinite where b <= a."""
        out, back = self.by_row[start:stop, start:], self.by_column[start:, start:stop]
        if not isinstance(self.by_row, np.ndarray):
            out, back = out.toarray(), back.toarray()
        shares = out * self.per_row[start:stop, None] + (back * self.per_row[start:, None]).T
        shares[np.tril_indices(stop - start, 0, shares.shape[1])] = np.inf
        return np.asarray(shares)

    def blocks(self) -> Iterator[tuple[int, Array]]:
        start = 0
        while start < self.n_classes:
            stop = min(self.n_classes, start + max(1, BLOCK_CELLS // (self.n_classes - start)))
            yield start, self.block(start, stop)
            start = stop

    def values(self, pairs: Array) -> Array:
        """(n,) float64 of pairs (n, 2), the same bits as in a block."""
        return np.array([self.block(a, a + 1)[0, b - a] for a, b in pairs.tolist()], np.float64)

    def nth_least(self, n: int) -> float:
        """The n-th least confusion of all pairs, 1 <= n <= number; 0 as soon as n pairs have none."""
        least = np.full(n, np.inf)
        for _, shares in self.blocks():
            smaller = shares[shares < least.max()]
            if smaller.size:
                least = np.partition(np.concatenate([least, smaller]), n - 1)[:n]
            if least.max() == 0:
                break
        return float(least.max())

    def below(self, bound: float) -> Array:
        """(n, 2) int64: pairs confused less than that, in the order of a and b."""
        found = [np.empty((0, 2), np.int64)]
        if bound > 0:
            found += [np.argwhere(shares < bound) + start for start, shares in self.blocks()]
        return np.concatenate(found)

    def tied(self, value: float, n: int, rng: np.random.Generator) -> Array:
        """(n, 2) int64: pairs confused exactly that much, chosen at random."""
        ties = np.concatenate([np.count_nonzero(shares == value, axis=1) for _, shares in self.blocks()])
        ends = np.cumsum(ties)
        ranks = np.sort(rng.choice(int(ends[-1]), min(n, int(ends[-1])), replace=False))
        a = np.searchsorted(ends, ranks, side="right")
        b = [
            first + np.flatnonzero(self.block(first, first + 1)[0] == value)[ranks[a == first] - (ends - ties)[first]]
            for first in np.unique(a)
        ]
        return np.column_stack([a, np.concatenate(b)])
