"""Dense SIFT's grid and contrast rule, patch by patch."""

from __future__ import annotations

import numpy as np


def patches(height: int, width: int, step: int, sides: tuple[int, ...]) -> list[tuple[int, int, int]]:
    """(x, y, side) of every patch with its corner on the grid that lies within the image."""
    found = []
    for side in sides:
        y = 0
        while y + side <= height:
            x = 0
            while x + side <= width:
                found.append((x, y, side))
                x += step
            y += step
    return found


def with_contrast(pixels: np.ndarray, found: list[tuple[int, int, int]], contrast: float) -> list[bool]:
    """Whether each patch's grey levels deviate enough, by their definition."""
    return [float(np.std(pixels[y : y + p, x : x + p].astype(np.float64))) >= contrast - 1e-9 for x, y, p in found]


def normalized(values: np.ndarray, root: bool) -> np.ndarray:
    """Descriptors of norm 1, number by number."""
    rows = []
    for row in values.astype(float):
        total = sum(row) if root else float(np.sqrt(sum(x * x for x in row)))
        rows.append([(x / total if total else 0.0) ** (0.5 if root else 1.0) for x in row])
    return np.array(rows).reshape(values.shape)
