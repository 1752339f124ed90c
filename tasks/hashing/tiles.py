"""Winners of a tile of rows: sixteen rows side by side, so that one comparison serves them all.

A tile is (n_slots, 16) float32: slot s holds one feature of sixteen rows, next to each other in memory. A hash then
reads `window` whole cache lines and compares them lane by lane, whatever the sparsity, instead of gathering single
numbers. Slots are the features that some hash looks at; the last slot takes all other features and is never looked at.
"""

from __future__ import annotations

import numpy as np

from tasks.later import numba
from tasks.rows.base import Array

LINE_BYTES = 64  # of a cache line
LANES = 16  # rows of a tile: a cache line of float32
STRIDE = 4  # positions compared at once; windows are filled up to a multiple of it with their first slot
EMPTY = -1  # in a tile of codes: all values of the sample are 0


def empty_tile(n_slots: int) -> Array:
    """A tile of zeros whose slots are whole cache lines: across two lines, each look-up would cost two."""
    lanes = LINE_BYTES // 4
    room = np.zeros((n_slots + 1) * lanes, np.float32)
    first = -room.ctypes.data % LINE_BYTES // 4
    return room[first : first + n_slots * lanes].reshape(n_slots, lanes)


@numba.njit(cache=True, nogil=True)
def fill_from_csr(data: Array, indices: Array, indptr: Array, first: int, slots: Array, tile: Array) -> int:
    """Put the rows from `first` on, at most LANES, into the tile; returns how many there are.

    data (nnz,) float32, indices (nnz,) int32, indptr (n_rows + 1,) int64; slots (n_features,) int32
    """
    tile[:] = 0
    n_rows: int = min(LANES, indptr.size - 1 - first)
    for r in range(n_rows):
        for p in range(indptr[first + r], indptr[first + r + 1]):
            tile[np.uint32(slots[np.uint32(indices[p])]), r] = data[p]
    return n_rows


@numba.njit(cache=True, nogil=True)
def fill_from_dense(values: Array, first: int, used: Array, tile: Array) -> int:
    """Put the rows from `first` on, at most LANES, into the tile; returns how many there are.

    values (n_rows, n_features) float32; used (n_slots - 1,) int32, the feature of each slot
    """
    n_rows: int = min(LANES, values.shape[0] - first)
    if n_rows < LANES:
        tile[:] = 0
    for s in range(used.size):
        j = np.uint32(used[s])
        for r in range(n_rows):
            tile[s, r] = values[first + r, j]
    return n_rows


@numba.njit(cache=True, nogil=True)
def find_winners(tile: Array, windows: Array, codes: Array, best: Array, found: Array, values: Array) -> None:
    """codes[h, r] = position of the first largest value of hash h in row r, or EMPTY.

    tile     (n_slots, LANES) float32
    windows  (n_hashes, multiple of STRIDE) uint32: slots; those that fill up repeat the first, which cannot win again
    codes    (n_hashes, LANES) int32
    best, found, values  (n_hashes, LANES) float32, int32, float32: room to work in
    """
    winners_of_four(tile, windows[:, :STRIDE], codes)
    if windows.shape[1] == STRIDE:
        return
    largest_of_four(tile, windows[:, :STRIDE], best)
    for k in range(STRIDE, windows.shape[1], STRIDE):
        winners_of_four(tile, windows[:, k : k + STRIDE], found)
        largest_of_four(tile, windows[:, k : k + STRIDE], values)
        keep_better(flat(found), flat(values), np.int32(k), flat(codes), flat(best))


@numba.njit(cache=True, nogil=True)
def winners_of_four(tile: Array, windows: Array, codes: Array) -> None:
    """codes[h, r] = 0..3, the first largest of the slots windows[h] (4,), or EMPTY when all four are 0.

    One store per lane and no number kept beside the arrays: so the compiler turns sixteen lanes into one instruction.
    """
    for h in range(windows.shape[0]):
        window, out = windows[h], codes[h]
        a, b, c, d = tile[window[0]], tile[window[1]], tile[window[2]], tile[window[3]]
        for r in range(LANES):
            left, right = max(a[r], b[r]), max(c[r], d[r])
            code = np.int32(2) + np.int32(d[r] > c[r]) if right > left else np.int32(b[r] > a[r])
            some = (a[r] != 0) | (b[r] != 0) | (c[r] != 0) | (d[r] != 0)
            out[r] = code if some else np.int32(EMPTY)


@numba.njit(cache=True, nogil=True)
def largest_of_four(tile: Array, windows: Array, largest: Array) -> None:
    """largest[h, r] = the largest value of the slots windows[h] (4,); largest (n_hashes, LANES) float32."""
    for h in range(windows.shape[0]):
        window, out = windows[h], largest[h]
        a, b, c, d = tile[window[0]], tile[window[1]], tile[window[2]], tile[window[3]]
        for r in range(LANES):
            out[r] = max(max(a[r], b[r]), max(c[r], d[r]))


@numba.njit(cache=True, nogil=True)
def flat(values: Array) -> Array:
    """A view (n,) of (n_hashes, LANES): one long loop, in which hashes are LANES apart."""
    return values.reshape(values.size)


@numba.njit(cache=True, nogil=True)
def keep_better(found: Array, values: Array, first: int, codes: Array, best: Array) -> None:
    """Winners of the next four positions, from `first` on, against those so far: `codes` and `best` in place.

    found, codes (n,) int32, EMPTY where all values are 0; values, best (n,) float32
    """
    for i in range(codes.size):
        # Where only zeros were met so far and no larger value comes, but some value does: position 0 has won.
        kept = max(codes[i], min(found[i], np.int32(0)))
        codes[i] = np.int32(first + max(found[i], np.int32(0))) if values[i] > best[i] else kept
    for i in range(codes.size):
        best[i] = max(best[i], values[i])


@numba.njit(cache=True, nogil=True)
def write_rows(codes: Array, n_rows: int, sentinel: int, start: int, out: Array) -> None:
    """out[r, start + h] = codes[h, r], and the sentinel for EMPTY, of the first n_rows lanes.

    codes (n_hashes, LANES) int32; out (n_rows, all hashes) uint8, uint16 or int32
    """
    for r in range(n_rows):
        target, lane = out[r, start : start + codes.shape[0]], codes[:, r]
        for h in range(codes.shape[0]):
            target[h] = sentinel if lane[h] == EMPTY else lane[h]


@numba.njit(cache=True, nogil=True)
def count_empty(codes: Array, n_rows: int) -> int:
    """How many codes (n_hashes, LANES) of the first n_rows lanes are EMPTY; those of the other lanes all are."""
    every = flat(codes)
    empty: int = 0
    for i in range(every.size):
        empty += every[i] == EMPTY
    return int(empty - (LANES - n_rows) * codes.shape[0])
