"""Slow, obvious twins of the demo's kernels: likeness of pictures, bilinear warping, oriented gradients."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


def alike(a: Array, b: Array, threshold: float) -> bool:
    """sum |a - b| <= threshold * sum max(a, b), in whole numbers until the last step."""
    a, b = a.astype(int), b.astype(int)
    return bool(np.abs(a - b).sum() <= threshold * np.maximum(a, b).sum())


def warp(picture: Array, matrix: Array, noise: Array) -> Array:
    """Each output pixel: where it comes from, then the area-weighted mean of the four pixels around that place."""
    padded = np.pad(picture.astype(float), 1)
    height, width = picture.shape
    out = np.zeros(noise.shape)
    for r, c in np.ndindex(*noise.shape):
        centred = np.array([r - (noise.shape[0] - 1) / 2, c - (noise.shape[1] - 1) / 2])
        y, x = matrix[:, :2] @ centred + matrix[:, 2] + np.array([(height - 1) / 2, (width - 1) / 2])
        for row in (math.floor(y), math.floor(y) + 1):
            for column in (math.floor(x), math.floor(x) + 1):
                if -1 <= row <= height and -1 <= column <= width:
                    out[r, c] += (1 - abs(y - row)) * (1 - abs(x - column)) * padded[row + 1, column + 1]
    return out / 255 + noise


def tent(distance: float) -> float:
    """Weight of linear sharing at a distance counted in bins."""
    return max(0.0, 1.0 - abs(distance))


def gradient_cells(picture: Array, cell: int, n_angles: int) -> Array:
    """Votes by definition: every inner pixel against every cell and every orientation."""
    height, width = picture.shape
    cells = np.zeros((height // cell, width // cell, n_angles))
    picture = picture.astype(float)
    for y in range(1, height - 1):
        for x in range(1, width - 1):
            gradient = complex(picture[y, x + 1] - picture[y, x - 1], picture[y + 1, x] - picture[y - 1, x])
            angle = np.angle(gradient) % math.pi if gradient else 0.0
            for r, c, a in np.ndindex(*cells.shape):
                turn = (angle / math.pi * n_angles - (a + 0.5)) % n_angles
                share = tent(turn) + tent(turn - n_angles)
                rows, columns = tent((y + 0.5) / cell - (r + 0.5)), tent((x + 0.5) / cell - (c + 0.5))
                cells[r, c, a] += abs(gradient) * rows * columns * share
    return cells


def normalise(cells: Array, clip: float, tiny: float) -> Array:
    """Each cell over the norms of its four 2 x 2 blocks, clipped, averaged; the whole scaled to unit length."""
    n_down, n_across, _ = cells.shape
    out = np.zeros(cells.shape)
    for r in range(n_down):
        for c in range(n_across):
            for dr in (-1, 0):
                for dc in (-1, 0):
                    block = cells[max(r + dr, 0) : r + dr + 2, max(c + dc, 0) : c + dc + 2]
                    out[r, c] += np.minimum(cells[r, c] / math.sqrt((block**2).sum() + tiny), clip) / 4
    length = math.sqrt((out**2).sum())
    return out.ravel() / (length or 1.0)
