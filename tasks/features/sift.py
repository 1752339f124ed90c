"""Dense upright SIFT (Lowe 2004) by OpenCV: one descriptor for every patch of a grid, at each of several sizes.

Patches of side p lie with their upper left corners at (i step, j step), wholly inside the image; each is described
around its centre with 4 x 4 cells of p / 4 pixels, not turned. Patches whose grey levels have a standard deviation
below `contrast` are left out: there is nothing to describe, and normalised noise would look like something.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from tasks.errors import ParamError
from tasks.rows.base import Array
from tasks.rows.descriptors import SIFT_NUMBERS

LEAST_PATCH, MOST_SIDE = 4, 4096
CELLS_A_SIZE = 6  # OpenCV describes 4 cells of 1.5 keypoint sizes each
GRIDS_KEPT = 64  # shapes of images whose grids stay in memory


@dataclass(frozen=True, slots=True)
class SiftParams:
    """Where descriptors are taken.

    step      pixels between patches
    patches   sides of the square patches, pixels
    contrast  least standard deviation of a patch, grey levels of 0 to 255
    max_side  pixels; images with a longer side are shrunk to it
    root      RootSIFT: square roots of the shares of each histogram
    """

    step: int = 6
    patches: tuple[int, ...] = (16, 24)
    contrast: float = 4.0
    max_side: int = 300
    root: bool = False

    def __post_init__(self) -> None:
        if self.step < 1:
            raise ParamError("sift.step", self.step, "at least 1", "it is the distance of patches in pixels")
        if not self.patches or min(self.patches) < LEAST_PATCH or len(set(self.patches)) < len(self.patches):
            why = "each is the side of a patch in pixels"
            raise ParamError("sift.patches", list(self.patches), f"different numbers from {LEAST_PATCH} on", why)
        if not max(self.patches) <= self.max_side <= MOST_SIDE:
            accepted = f"from the largest patch, {max(self.patches)}, to {MOST_SIDE}"
            raise ParamError("sift.max_side", self.max_side, accepted, "larger images are shrunk to it")
        if not 0 <= self.contrast <= 128:
            raise ParamError("sift.contrast", self.contrast, "0 to 128", "it is a deviation of grey levels")

    def most_patches(self) -> int:
        """Of the largest image there may be."""
        return sum((1 + (self.max_side - patch) // self.step) ** 2 for patch in self.patches)


@dataclass(frozen=True, eq=False)
class Grid:
    """The patches of images of one shape: corners (n, 2) int64 (x, y), sides (n,) int64, places (n, 2) float32."""

    corners: Array
    sides: Array
    places: Array
    keypoints: tuple[Any, ...]


@lru_cache(maxsize=GRIDS_KEPT)
def grid_of(height: int, width: int, params: SiftParams) -> Grid:
    """All patches of an image: size by size, row by row."""
    import cv2  # here and below: only what describes images waits for it

    corners = [
        (x, y, patch)
        for patch in params.patches
        for y in range(0, height - patch + 1, params.step)
        for x in range(0, width - patch + 1, params.step)
    ]
    table = np.array(corners, np.int64).reshape(-1, 3)
    places = (table[:, :2] + table[:, 2:] / 2) / np.array([width, height])
    keypoints = tuple(cv2.KeyPoint(float(x + p // 2), float(y + p // 2), p / CELLS_A_SIZE, 0.0) for x, y, p in corners)
    return Grid(table[:, :2], table[:, 2], places.astype(np.float32), keypoints)


def has_contrast(pixels: Array, grid: Grid, contrast: float) -> Array:
    """(n,) bool: patches of at least that standard deviation, by integral images of whole numbers and so exactly."""
    height, width = pixels.shape
    sums: Array = np.zeros((2, height + 1, width + 1), np.int64)
    grey = pixels.astype(np.int64)
    sums[0, 1:, 1:], sums[1, 1:, 1:] = (powers.cumsum(axis=0).cumsum(axis=1) for powers in (grey, grey * grey))
    (x, y), side = grid.corners.T, grid.sides
    first, second = (part[y + side, x + side] - part[y, x + side] - part[y + side, x] + part[y, x] for part in sums)
    n = side * side
    kept: Array = n * second - first * first >= (contrast * n) ** 2
    return kept


def describe(pixels: Array, params: SiftParams) -> tuple[Array, Array]:
    """Descriptors (n, 128) uint8 of a grey image (height, width) uint8, and places (n, 2) float32 of their patches.

    The histograms are OpenCV's: Gaussian weights, values capped at 0.2 of the norm, scaled to norm 512 and rounded.
    """
    grid = grid_of(*pixels.shape, params)
    kept = np.flatnonzero(has_contrast(pixels, grid, params.contrast))
    if not kept.size:
        return np.empty((0, SIFT_NUMBERS), np.uint8), np.empty((0, 2), np.float32)
    _, found = _engine().compute(pixels, [grid.keypoints[i] for i in kept])
    return found.astype(np.uint8), grid.places[kept]


@lru_cache(maxsize=1)
def _engine() -> Any:
    """One thread, as all kernels; a single layer of the pyramid, because all patches are described in the first."""
    import cv2

    cv2.setNumThreads(1)
    return cv2.SIFT.create(nOctaveLayers=1)
