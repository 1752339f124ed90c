"""Product quantisation (Harchaoui et al. 2012, section 4): one byte per sub-vector names its nearest centroid."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tasks.errors import InputError, ParamError, UsageError
from tasks.quantize.assign import nearest
from tasks.quantize.products import Array, decode

__all__ = ["PQShape", "PQTooFewRows", "PqParams", "decode", "encode"]

WIDEST_DEFAULT = 8  # dimensions per byte when the config names no number of subquantizers
SUGGESTIONS = 4
ROWS_AT_ONCE = 4096  # rows narrowed to float32 at a time


class PQShape(UsageError):
    """The features cannot be cut into this many equal parts."""


class PQTooFewRows(InputError):
    """Fewer rows to learn from than centroids."""


@dataclass(frozen=True, slots=True)
class PqParams:
    """Product quantiser: `subquantizers` parts of equal width, 2^bits centroids each, learnt on a seeded sample.

    subquantizers  bytes per row; None: the parts are as wide as divides n_features, up to WIDEST_DEFAULT dimensions
    bits           1 to 8: log2 of the centroids per part
    sample         training rows that codebooks are learnt on
    iterations     most rounds of k-means
    """

    subquantizers: int | None = None
    bits: int = 8
    sample: int = 16384
    iterations: int = 15

    def __post_init__(self) -> None:
        if self.subquantizers is not None and self.subquantizers < 1:
            raise ParamError("pq.subquantizers", self.subquantizers, "at least 1", "every part of a row takes one byte")
        if not 1 <= self.bits <= 8:
            raise ParamError("pq.bits", self.bits, "1 to 8", "a code is one byte")
        if self.sample < self.n_centroids:
            why = f"{self.n_centroids} centroids are chosen among the sampled rows"
            raise ParamError("pq.sample", self.sample, f"at least {self.n_centroids}", why)
        if self.iterations < 0:
            raise ParamError("pq.iterations", self.iterations, "at least 0", "it counts rounds of k-means")

    @property
    def n_centroids(self) -> int:
        return 1 << self.bits

    def resolve(self, n_features: int) -> int:
        """The number of subquantizers for rows of this width. Raises PQShape with the nearest values that divide it."""
        if self.subquantizers is None:
            width = max(w for w in range(1, WIDEST_DEFAULT + 1) if n_features % w == 0)
            return n_features // width
        if n_features % self.subquantizers:
            near = ", ".join(str(value) for value in _near_divisors(n_features, self.subquantizers))
            raise PQShape(
                f"{n_features} features cannot be cut into {self.subquantizers} equal parts",
                "pq.subquantizers",
                f"values near it that divide {n_features}: {near}; or cut principal components (pca), as "
                "many as a multiple of it",
            )
        return self.subquantizers

    def check_rows(self, n_rows: int) -> None:
        """Raises PQTooFewRows when the training rows are fewer than the centroids."""
        if n_rows < self.n_centroids:
            fits = f"the most bits that fit are {n_rows.bit_length() - 1}" if n_rows > 1 else "two rows are the least"
            raise PQTooFewRows(f"{n_rows} training rows for {self.n_centroids} centroids", "pq.bits", fits)


def _near_divisors(n_features: int, wanted: int) -> list[int]:
    """The divisors nearest to `wanted` by ratio, ascending."""
    divisors = [value for value in range(1, n_features + 1) if n_features % value == 0]
    return sorted(sorted(divisors, key=lambda value: max(value / wanted, wanted / value))[:SUGGESTIONS])


def encode(values: Array, codebooks: Array) -> Array:
    """Codes of dense rows: the nearest centroid (Euclidean, ties lowest) of each sub-vector.

    values     (n_rows, n_subquantizers * width) float16, float32 or float64, finite
    codebooks  (n_subquantizers, n_centroids <= 256, width) float32
    returns    (n_rows, n_subquantizers) uint8
    """
    if values.dtype in (np.float16, np.float32):
        return nearest(values, codebooks)
    codes = np.empty((values.shape[0], codebooks.shape[0]), np.uint8)
    for start in range(0, values.shape[0], ROWS_AT_ONCE):
        where = slice(start, start + ROWS_AT_ONCE)
        codes[where] = nearest(values[where], codebooks)
    return codes
