"""The kernel values of all training rows with each other, in a folder: bands of rows, one task and one file each."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np

from tasks.calls import write_array
from tasks.digest import digest_arrays
from tasks.errors import ArtefactError, ParamError
from tasks.places import at, open_array, write_whole
from tasks.rows import Rows
from tasks.rows.base import Array
from tasks.svm.kernels import Kernel

COLUMNS_AT_ONCE = 2048  # rows held beside a band


class GramDamaged(ArtefactError):
    """A band of kernel values is missing, or has not the size that it should have."""


class RowSource(Protocol):
    """All training rows, of which runs are read."""

    @property
    def n_rows(self) -> int: ...

    def take(self, start: int, stop: int) -> Rows:
        """Rows start..stop-1."""
        ...


@dataclass(frozen=True, slots=True)
class GramStore:
    """Where k(row i, row j) of all training rows lies; a small value, sent to tasks.

    folder     of the bands `band-00000.npy`, ...: (band_rows, n_rows) float32 each, the last one may be shorter
    n_rows     rows, and columns
    band_rows  rows of a band
    Raises ParamError.
    """

    folder: str
    n_rows: int
    band_rows: int

    def __post_init__(self) -> None:
        if self.band_rows < 1:
            raise ParamError("band_rows", self.band_rows, "at least 1", "a band without rows holds nothing")

    @property
    def n_bands(self) -> int:
        """Files of the store."""
        return -(-self.n_rows // self.band_rows)

    def path(self, band: int) -> Path:
        """The file of a band."""
        return at(self.folder) / f"band-{band:05d}.npy"

    def span(self, band: int) -> tuple[int, int]:
        """The rows start..stop-1 of a band."""
        return band * self.band_rows, min((band + 1) * self.band_rows, self.n_rows)

    def has(self, band: int) -> bool:
        """Whether a band is there as it was written: all of it is read."""
        try:
            return self.path(band).with_suffix(".digest").read_text("ascii") == digest_arrays(self.open(band))
        except (GramDamaged, OSError, ValueError):
            return False

    def open(self, band: int) -> Array:
        """The kernel values of a band, memory-mapped. Raises GramDamaged."""
        start, stop = self.span(band)
        try:
            values = open_array(self.path(band))
        except (OSError, ValueError, EOFError) as error:
            raise self._damaged(band, str(error)) from error
        if values.shape != (stop - start, self.n_rows) or values.dtype != np.float32:
            raise self._damaged(band, f"{values.dtype} of shape {values.shape}")
        return np.asarray(values)

    def _damaged(self, band: int, why: str) -> GramDamaged:
        what = f"band {band} of the kernel values cannot be read: {why}"
        return GramDamaged(what, str(self.path(band)), "type the same command again: missing bands are made again")


def gram_bytes(n_rows: int) -> int:
    """Bytes of all bands, without the files' short headers."""
    return 4 * n_rows * n_rows


def band_bytes(n_rows: int, band_rows: int, n_features: int) -> int:
    """Most memory that `write_band` takes for rows and kernel values, of dense float32 rows; less of sparse ones."""
    columns = min(n_rows, COLUMNS_AT_ONCE)
    return 4 * (band_rows * (n_rows + n_features + columns) + columns * n_features)


def write_band(band: int, store: GramStore, rows: RowSource, kernel: Kernel) -> int:
    """Make one band, unless it is there as it was written. Returns the kernel values computed.

    Two writers of one band write the same bytes, each under a name of its own that is then renamed.
    Raises DiskFull.
    """
    if store.has(band):
        return 0
    start, stop = store.span(band)
    mine = rows.take(start, stop)
    values = np.empty((stop - start, store.n_rows), np.float32)
    for first in range(0, store.n_rows, COLUMNS_AT_ONCE):
        last = min(first + COLUMNS_AT_ONCE, store.n_rows)
        values[:, first:last] = kernel.block(mine, rows.take(first, last))
    path = store.path(band)
    write_array(path, values)
    write_whole(path.with_suffix(".digest"), digest_arrays(values).encode())
    return values.size


def read_columns(store: GramStore, rows: Array, columns: Array) -> Array:
    """(r, c) float32: k(row i, column j). rows (r,), columns (c,) integers, any order. Raises GramDamaged."""
    return _read(store, rows, columns, np.float32)


def read_square(store: GramStore, index: Array) -> Array:
    """(m, m) float64, C order: kernel values of the rows `index` (m,) with each other. Raises GramDamaged."""
    return _read(store, index, index, np.float64)


def _read(store: GramStore, rows: Array, columns: Array, dtype: type[np.float32 | np.float64]) -> Array:
    """Band by band, row by row: only what is asked for is copied."""
    out = np.empty((len(rows), len(columns)), dtype)
    bands = rows // store.band_rows
    for band in np.unique(bands):
        values, first = store.open(int(band)), int(band) * store.band_rows
        for place in np.flatnonzero(bands == band):
            out[place] = values[rows[place] - first][columns]
    return out
