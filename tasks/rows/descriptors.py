"""Local descriptors as rows: each row is an image with any number of them."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from tasks.later import numba
from tasks.rows.base import Array
from tasks.rows.unscored import UnscoredRows, places_of

SIFT_NUMBERS = 128  # of a descriptor: 4 x 4 cells of 8 directions


class Descriptors(UnscoredRows):
    """SIFT descriptors of the patches of each image.

    values   (n_descriptors, 128) uint8: histograms of gradients, as SIFT rounds them
    places   (n_descriptors, 2) float32: centre of each patch as a share of the image's width and height, 0 to 1
    offsets  (n_rows + 1,) int64: the descriptors of image i are those from offsets[i] to offsets[i + 1] - 1
    root     whether `numbers` gives their square roots
    """

    body: ClassVar[str] = "descriptors"

    def __init__(self, values: Array, places: Array, offsets: Array, root: bool = False) -> None:
        self.values, self.places, self.offsets, self.root = values, places, offsets, root
        self.shape = (offsets.size - 1, values.shape[1])

    @property
    def nbytes(self) -> int:
        return int(self.values.nbytes + self.places.nbytes + self.offsets.nbytes)

    @property
    def n_descriptors(self) -> int:
        return int(self.values.shape[0])

    def numbers(self, start: int = 0, stop: int | None = None) -> Array:
        """Descriptors start..stop-1 as they are compared, (n, 128) float32 of Euclidean norm 1 (see `normalized`)."""
        return normalized(self.values[start:stop], self.root)

    def take(self, index: Array) -> Descriptors:
        places, offsets = places_of(self.offsets, index)
        return Descriptors(self.values[places], self.places[places], offsets, self.root)

    def part(self, start: int, stop: int) -> Descriptors:
        first, last = self.offsets[start], self.offsets[stop]
        offsets = self.offsets[start : stop + 1] - first
        return Descriptors(self.values[first:last], self.places[first:last], offsets, self.root)


def normalized(values: Array, root: bool) -> Array:
    """Descriptors (n, 128) uint8 as float32 of norm 1: x / |x|, or with `root` sqrt(x / sum of x) (Arandjelovic &
    Zisserman, CVPR 2012: RootSIFT). One of zeros stays zeros. Sums are of whole numbers, and so exact.
    """
    found = np.empty(values.shape, np.float32)
    fill_normalized(values, root, found)
    return found


@numba.njit(cache=True, nogil=True)
def fill_normalized(values: Array, root: bool, found: Array) -> None:
    """As `normalized`, in float64 until it is stored; found (n, width) float32."""
    for i in range(values.shape[0]):
        row, out = values[i], found[i]
        total = np.int64(0)
        if root:
            for t in range(row.size):
                total += np.int64(row[t])
            share = 1.0 / max(total, np.int64(1))
            for t in range(row.size):
                out[t] = np.sqrt(row[t] * share)
        else:
            for t in range(row.size):
                total += np.int64(row[t]) * np.int64(row[t])
            scale = 1.0 / np.sqrt(max(total, np.int64(1)))
            for t in range(row.size):
                out[t] = row[t] * scale
