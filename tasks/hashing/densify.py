"""Densification (Chen & Shrivastava 2018, eq. 7): an empty hash borrows from the next one to its right, around the end.

One walk from right to left: what is borrowed grows by the shift with each step. Hashes right of the last one that is
not empty borrow across the end, from what the first hash has in the end.
"""

from __future__ import annotations

import numpy as np

from tasks.hashing.tiles import EMPTY, LANES, flat
from tasks.later import numba
from tasks.rows.base import Array


@numba.njit(cache=True, nogil=True)
def borrow(codes: Array, step: int, modulus: int) -> None:
    """Fill the empty hashes of a run from the right, in place; what has nothing to its right yet stays EMPTY.

    codes    (n_hashes + 1, LANES) int32, EMPTY or below `modulus`; the last row is the hash right of the run
    step     int32, C modulo R; modulus int32, R: both at most 2**30
    """
    every = flat(codes)
    for i in range(every.size - LANES - 1, -1, -1):  # the lane's hash to the right is LANES further
        right = every[i + LANES]
        further = np.int32(right + step)
        further = np.int32(further - modulus) if further >= modulus else further
        further = further if right != EMPTY else np.int32(EMPTY)
        every[i] = every[i] if every[i] != EMPTY else further


@numba.njit(cache=True, nogil=True)
def borrow_around(first: Array, step: int, modulus: int, sentinel: int, out: Array) -> None:
    """Fill the hashes at the end of each row, which have only those at its beginning to borrow from.

    first  (LANES,) int32: code of the first hash of each row, EMPTY for a row whose samples are all empty
    out    (n_rows, n_hashes) uint8, uint16 or int32, with sentinels at the end
    """
    for r in range(out.shape[0]):
        code, h = first[r], out.shape[1] - 1
        while code != EMPTY and out[r, h] == sentinel:
            code = code + step
            code = code - modulus if code >= modulus else code
            out[r, h] = code
            h -= 1


@numba.njit(cache=True, nogil=True)
def reduce_codes(codes: Array, modulus: int) -> None:
    """codes modulo R in place; EMPTY stays. codes (n_hashes, LANES) int32."""
    for h in range(codes.shape[0]):
        for r in range(LANES):
            codes[h, r] = codes[h, r] % modulus if codes[h, r] != EMPTY else np.int32(EMPTY)
