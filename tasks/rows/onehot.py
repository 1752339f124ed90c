"""Rows held as codes, each of which stands for one feature that is 1 (Chen & Shrivastava 2018, section 4)."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from tasks.errors import ParamError
from tasks.later import numba
from tasks.rows.base import Array, Rows
from tasks.rows.csr import Csr

CACHE_BYTES = 2**18  # of the weights that a run of hashes looks up: what stays in a core's own cache
USUAL_CODES = 64  # of a hash, however many there could be: samples are seldom borrowed from afar
LEAST_RUN = 4
MOST_FEATURES = 2**31 - 1  # feature numbers are int32


class OneHot(Rows):
    """codes (n_rows, n_hashes) uint8, uint16 or int32; feature h * n_codes + codes[i, h] of row i is 1, all others 0.

    The sentinel (255, 65535, or -1 of int32) stands for no code: it gives no feature.
    """

    body: ClassVar[str] = "onehot"

    def __init__(self, codes: Array, n_codes: int) -> None:
        """Raises ParamError when there are more features than int32 can number."""
        self.codes, self.n_codes = codes, n_codes
        self.shape = (codes.shape[0], count_features(codes.shape[1], n_codes))

    @property
    def nbytes(self) -> int:
        return int(self.codes.nbytes)

    def _run(self, weights: Array) -> int:
        """Hashes whose weights fill the cache: all rows are taken through them before the next."""
        hash_bytes = min(self.n_codes, USUAL_CODES) * int(weights.shape[1]) * weights.itemsize
        return max(LEAST_RUN, CACHE_BYTES // max(1, hash_bytes))

    def scores(self, weights: Array) -> Array:
        out = np.zeros((self.n_rows, weights.shape[1]), weights.dtype)
        add_chosen(self.codes, self.n_codes, self._run(weights), weights, out)
        return out

    def gradient(self, residuals: Array) -> Array:
        out = np.zeros((self.n_features, residuals.shape[1]), residuals.dtype)
        self.subtract_gradient(residuals, -1.0, out)
        return out

    def subtract_gradient(self, residuals: Array, step: float, weights: Array) -> None:
        scaled = np.ascontiguousarray(residuals, weights.dtype) * weights.dtype.type(-step)
        add_to_chosen(self.codes, self.n_codes, self._run(weights), scaled, weights)

    def take(self, index: Array) -> OneHot:
        return OneHot(self.codes[index], self.n_codes)

    def part(self, start: int, stop: int) -> OneHot:
        return OneHot(self.codes[start:stop], self.n_codes)

    def decoded(self) -> Csr:
        indices, indptr = chosen_features(self.codes, self.n_codes)
        return Csr(np.ones(indices.size, np.float32), indices, indptr, self.n_features)

    def to_array(self, dtype: type[np.floating[Any]] = np.float32) -> Array:
        return self.decoded().to_array(dtype)

    def squared_norms(self) -> Array:
        return np.asarray(count_codes(self.codes, self.n_codes), np.float64)


def count_features(n_hashes: int, n_codes: int) -> int:
    """Features of one-hot rows; raises ParamError when there are more than int32 can number."""
    if n_hashes * n_codes > MOST_FEATURES:
        why = f"{n_hashes:,} hashes of {n_codes:,} codes would be more features than int32 numbers (set `range`)"
        raise ParamError("range", n_codes, f"at most {MOST_FEATURES // max(1, n_hashes):,} codes", why)
    return n_hashes * n_codes


@numba.njit(cache=True, nogil=True)
def add_chosen(codes: Array, n_codes: int, run: int, weights: Array, out: Array) -> None:
    """out[i] += sum over h of weights[h * n_codes + codes[i, h]], hash by hash; codes >= n_codes or < 0 add nothing.

    codes (n_rows, n_hashes), run = hashes at a time, weights (n_hashes * n_codes, n_outputs), out (n_rows, n_outputs)
    """
    chosen = np.empty(run, np.int64)
    for start in range(0, codes.shape[1], run):
        stop = min(start + run, codes.shape[1])
        for i in range(codes.shape[0]):
            row, n = out[i], choose(codes[i], start, stop, n_codes, chosen)
            whole = n - n % 4
            for p in range(0, whole, 4):  # four at a time, added in the same order as one by one
                first, second = weights[chosen[p]], weights[chosen[p + 1]]
                third, fourth = weights[chosen[p + 2]], weights[chosen[p + 3]]
                for c in range(row.size):
                    row[c] = row[c] + first[c] + second[c] + third[c] + fourth[c]
            for p in range(whole, n):
                source = weights[chosen[p]]
                for c in range(row.size):
                    row[c] += source[c]


@numba.njit(cache=True, nogil=True)
def add_to_chosen(codes: Array, n_codes: int, run: int, values: Array, out: Array) -> None:
    """out[h * n_codes + codes[i, h]] += values[i], row by row; codes >= n_codes or < 0 are passed over.

    codes (n_rows, n_hashes), run = hashes at a time, values (n_rows, n_outputs), out (n_hashes * n_codes, n_outputs)
    """
    chosen = np.empty(run, np.int64)
    for start in range(0, codes.shape[1], run):
        stop = min(start + run, codes.shape[1])
        for i in range(codes.shape[0]):
            source, n = values[i], choose(codes[i], start, stop, n_codes, chosen)
            for p in range(n):
                row = out[chosen[p]]
                for c in range(source.size):
                    row[c] += source[c]


@numba.njit(cache=True, nogil=True)
def choose(codes: Array, start: int, stop: int, n_codes: int, chosen: Array) -> int:
    """Features of the hashes start..stop - 1 of a row, into chosen (n,) int64; returns how many there are."""
    n: int = 0
    for h in range(start, stop):
        code = np.int64(codes[h])
        chosen[n] = h * n_codes + code
        n += 1 if 0 <= code < n_codes else 0
    return n


@numba.njit(cache=True, nogil=True)
def count_codes(codes: Array, n_codes: int) -> Array:
    """(n_rows,) int64: how many of a row's codes are codes, and not the sentinel."""
    counts = np.zeros(codes.shape[0], np.int64)
    for i in range(codes.shape[0]):
        for h in range(codes.shape[1]):
            counts[i] += 0 <= codes[i, h] < n_codes
    return counts


@numba.njit(cache=True, nogil=True)
def chosen_features(codes: Array, n_codes: int) -> tuple[Array, Array]:
    """indices (nnz,) int32, ascending in a row, and indptr (n_rows + 1,) int64 of the features that are 1."""
    counts = count_codes(codes, n_codes)
    indptr = np.zeros(counts.size + 1, np.int64)
    for i in range(counts.size):
        indptr[i + 1] = indptr[i] + counts[i]
    indices = np.empty(indptr[-1], np.int32)
    at = 0
    for i in range(codes.shape[0]):
        for h in range(codes.shape[1]):
            code = np.int64(codes[i, h])
            if 0 <= code < n_codes:
                indices[at] = h * n_codes + code
                at += 1
    return indices, indptr
