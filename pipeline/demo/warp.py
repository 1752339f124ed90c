"""Small seeded distortions: a random affine map per picture, bilinear resampling, noise."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from tasks.later import numba

SIDE = 32  # pixels of a distorted picture, both ways
ZOOM = 1.75  # canvas pixels per pixel of a distorted picture: 56 of the 64 are looked at


@dataclass(frozen=True, slots=True)
class Distortion:
    """How far each distortion goes; every one is drawn uniformly from -limit to +limit, noise is Gaussian."""

    rotation: float = 0.10  # radians
    scale: float = 0.08  # of the size
    shear: float = 0.10  # columns per row
    shift: float = 1.5  # canvas pixels, both ways
    noise: float = 0.06  # standard deviation, of full ink


def affine_maps(n: int, amount: Distortion, random: np.random.Generator) -> np.ndarray[Any, np.dtype[np.float64]]:
    """`n` random maps from centred output pixels to centred canvas pixels.

    returns  (n, 2, 3) float64: [y, x] = map[:, :2] @ [row, column] + map[:, 2]
    """
    angle, size, shear, down, right = random.uniform(-1.0, 1.0, (5, n))
    angle, shear = amount.rotation * angle, amount.shear * shear
    size = ZOOM * (1.0 + amount.scale * size)
    cos, sin = np.cos(angle), np.sin(angle)
    maps = np.empty((n, 2, 3))
    maps[:, 0, 0], maps[:, 0, 1] = size * cos, -size * sin
    maps[:, 1, 0], maps[:, 1, 1] = size * (sin + shear * cos), size * (cos - shear * sin)
    maps[:, 0, 2], maps[:, 1, 2] = amount.shift * down, amount.shift * right
    return maps


@numba.njit(cache=True, nogil=True)
def pixel(picture: np.ndarray, y: int, x: int) -> float:
    """Ink of a canvas pixel in [0, 255], nothing outside the canvas."""
    if y < 0 or x < 0 or y >= picture.shape[0] or x >= picture.shape[1]:
        return 0.0
    return float(picture[y, x])


@numba.njit(cache=True, nogil=True)
def sample(picture: np.ndarray, y: float, x: float) -> float:
    """Bilinear interpolation between the four pixel centres around (y, x)."""
    top, left = int(np.floor(y)), int(np.floor(x))
    down, right = y - top, x - left
    above = (1.0 - right) * pixel(picture, top, left) + right * pixel(picture, top, left + 1)
    below = (1.0 - right) * pixel(picture, top + 1, left) + right * pixel(picture, top + 1, left + 1)
    return float((1.0 - down) * above + down * below)


@numba.njit(cache=True, nogil=True)
def warp(pictures: np.ndarray, maps: np.ndarray, noise: np.ndarray) -> np.ndarray:
    """Distort each picture by its map, scale ink to [0, 1] and add its noise.

    pictures  (n, canvas, canvas) uint8
    maps      (n, 2, 3) float64, from `affine_maps`
    noise     (n, SIDE, SIDE) float32
    returns   (n, SIDE, SIDE) float32
    """
    n, height, width = noise.shape
    middle_y, middle_x = (pictures.shape[1] - 1) / 2.0, (pictures.shape[2] - 1) / 2.0
    out = np.empty((n, height, width), np.float32)
    for i in range(n):
        for r in range(height):
            for c in range(width):
                v, u = r - (height - 1) / 2.0, c - (width - 1) / 2.0
                y = maps[i, 0, 0] * v + maps[i, 0, 1] * u + maps[i, 0, 2] + middle_y
                x = maps[i, 1, 0] * v + maps[i, 1, 1] * u + maps[i, 1, 2] + middle_x
                out[i, r, c] = np.float32(sample(pictures[i], y, x) / 255.0 + noise[i, r, c])
    return out
