"""Codes of whole rows: tiles of sixteen rows, runs of hashes from the last to the first."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from tasks.hashing.densify import borrow, borrow_around, reduce_codes
from tasks.hashing.tiles import (
    EMPTY,
    LANES,
    STRIDE,
    count_empty,
    empty_tile,
    fill_from_csr,
    fill_from_dense,
    find_winners,
    write_rows,
)
from tasks.hashing.windows import check_window, draw_windows
from tasks.hashing.wta import DWTA, CodeParams
from tasks.later import numba
from tasks.rows import Csr, OneHot, Rows
from tasks.rows.base import Array

RUN = 256  # hashes coded at once: their codes stay in the first cache
SLICE_BYTES = 2**25  # of rows decoded or widened to float32 at a time
UNBOUNDED = 2**30  # a modulus that no code reaches


@dataclass(frozen=True, eq=False)
class CodeHash:
    """The hashes of a run: windows (n_hashes, window) int32 of features, and what becomes of their winners."""

    params: CodeParams
    n_features: int
    windows: Array

    @classmethod
    def drawn(cls, params: CodeParams, n_features: int) -> CodeHash:
        """Raises ParamError for a window that is wider than the rows."""
        return cls(params, n_features, draw_windows(n_features, params.hashes, params.window, params.seed))

    def __post_init__(self) -> None:
        check_window(self.params.window, self.n_features)

    def codes(self, rows: Rows) -> tuple[Array, int]:
        """(n_rows, n_hashes) codes in the dtype of the parameters, and how many samples were empty.

        Values are compared as float32. Rows that are codes themselves are decoded in slices.
        """
        out = np.empty((rows.n_rows, self.params.hashes), self.params.dtype)
        empty = 0
        for start, stop in slices(rows):
            empty += self._code_part(rows.part(start, stop).decoded(), out[start:stop])
        return out, empty

    def _code_part(self, rows: Rows, out: Array) -> int:
        used, windows, slots = self._layout
        tile, settings = empty_tile(used.size + 1), self._settings
        if isinstance(rows, Csr):
            data = rows.data.astype(np.float32, copy=False)
            return int(code_csr(data, rows.indices, rows.indptr, slots, tile, windows, settings, out))
        return int(code_dense(rows.to_array(), used, tile, windows, settings, out))

    @cached_property
    def _layout(self) -> tuple[Array, Array, Array]:
        """Features that some hash looks at (n_slots - 1,), windows of slots filled up, slot of each feature."""
        used, slots = np.unique(self.windows, return_inverse=True)
        slots = slots.reshape(self.windows.shape).astype(np.uint32)
        fill = -self.windows.shape[1] % STRIDE
        slot_of = np.full(self.n_features, used.size, np.int32)
        slot_of[used] = np.arange(used.size)
        return used.astype(np.int32), np.hstack([slots, np.repeat(slots[:, :1], fill, axis=1)]), slot_of

    @cached_property
    def _settings(self) -> Array:
        """(4,) int32: DENSIFY, STEP, MODULUS, ALONE of the kernels."""
        params = self.params
        modulus = params.range or UNBOUNDED
        step = params.step % modulus
        alone = 0 if params.empty == "first" and params.kind != DWTA else params.sentinel
        return np.array([params.kind == DWTA, step, modulus, alone], np.int32)


def slices(rows: Rows) -> Iterator[tuple[int, int]]:
    """Runs of rows that take at most SLICE_BYTES (or are one tile) when decoded; sparse rows stand as they are."""
    row_bytes = 8 * rows.codes.shape[1] if isinstance(rows, OneHot) else 4 * rows.n_features
    size = max(LANES, SLICE_BYTES // max(1, row_bytes)) if not isinstance(rows, Csr) else max(1, rows.n_rows)
    for start in range(0, rows.n_rows, size):
        yield start, min(start + size, rows.n_rows)


DENSIFY, STEP, MODULUS, ALONE = 0, 1, 2, 3  # of the settings; ALONE is what a sample that stays empty is written as


@numba.njit(cache=True, nogil=True)
def code_csr(
    data: Array, indices: Array, indptr: Array, slots: Array, tile: Array, windows: Array, settings: Array, out: Array
) -> int:
    """Codes of sparse rows; returns the number of empty samples.

    data (nnz,) float32, indices (nnz,) int32, indptr (n_rows + 1,) int64
    slots     (n_features,) int32: slot of each feature in a tile, the last one for features that no hash looks at
    tile      (n_slots, LANES) float32: room to work in
    windows   (n_hashes, multiple of STRIDE) uint32: slots; settings (4,) int32; out (n_rows, n_hashes)
    """
    empty = 0
    for first in range(0, out.shape[0], LANES):
        n_rows = fill_from_csr(data, indices, indptr, first, slots, tile)
        empty += code_tile(tile, windows, settings, out[first : first + n_rows])
    return empty


@numba.njit(cache=True, nogil=True)
def code_dense(values: Array, used: Array, tile: Array, windows: Array, settings: Array, out: Array) -> int:
    """Codes of dense rows; returns the number of empty samples.

    values (n_rows, n_features) float32; used (n_slots - 1,) int32: feature of each slot; the rest as of `code_csr`
    """
    empty = 0
    for first in range(0, out.shape[0], LANES):
        n_rows = fill_from_dense(values, first, used, tile)
        empty += code_tile(tile, windows, settings, out[first : first + n_rows])
    return empty


@numba.njit(cache=True, nogil=True)
def code_tile(tile: Array, windows: Array, settings: Array, out: Array) -> int:
    """Codes of the rows of a tile, into out (n_rows <= LANES, n_hashes); returns the number of empty samples."""
    n_rows, n_hashes = out.shape
    step, modulus, alone = settings[STEP], settings[MODULUS], settings[ALONE]
    size = min(RUN, n_hashes)
    room = np.full((size + 1, LANES), EMPTY, np.int32)  # one more for the hash right of the run
    best, found, values = (
        np.empty((size, LANES), np.float32),
        np.empty((size, LANES), np.int32),
        np.empty((size, LANES), np.float32),
    )
    empty = 0
    for stop in range(n_hashes, 0, -size):
        start = max(0, stop - size)
        n = stop - start
        codes = room[size - n : size]
        find_winners(tile, windows[start:stop], codes, best[:n], found[:n], values[:n])
        empty += count_empty(codes, n_rows)
        if settings[DENSIFY]:
            if modulus < windows.shape[1]:
                reduce_codes(codes, modulus)
            borrow(room[size - n :], step, modulus)
            room[size] = codes[0]
        write_rows(codes, n_rows, alone, start, out)
    if settings[DENSIFY]:
        borrow_around(room[size], step, modulus, alone, out)
    return empty
