"""Histograms of oriented gradients (Dalal & Triggs 2005, section 6), one row of features per picture.

Votes are shared linearly between the two nearest orientations and the four nearest cells; each cell is normalised by
the four blocks of 2 x 2 cells that hold it, clipped, and the four are averaged, which keeps one value per cell and
orientation (Felzenszwalb et al. 2010, section 6.2). Rows end with unit length.
"""

from __future__ import annotations

import numpy as np

from tasks.later import numba

CELL = 4  # pixels, both ways
ORIENTATIONS = 9  # over half a turn: light on dark and dark on light are the same edge
CLIP = 0.2
TINY = 1e-3  # keeps flat cells flat


@numba.njit(cache=True, nogil=True)
def vote(cells: np.ndarray, y: float, x: float, angle: float, weight: float) -> None:
    """Add one gradient of length `weight` to the cells around the pixel (y, x).

    cells  (n_down, n_across, ORIENTATIONS) float64
    angle  in [0, pi)
    """
    n_down, n_across, n_angles = cells.shape
    place = angle / np.pi * n_angles - 0.5
    first = int(np.floor(place))
    later = place - first
    up, left = (y + 0.5) / CELL - 0.5, (x + 0.5) / CELL - 0.5
    row, column = int(np.floor(up)), int(np.floor(left))
    for r in range(row, row + 2):
        for c in range(column, column + 2):
            if 0 <= r < n_down and 0 <= c < n_across:
                part = weight * (1.0 - abs(up - r)) * (1.0 - abs(left - c))
                cells[r, c, first % n_angles] += part * (1.0 - later)
                cells[r, c, (first + 1) % n_angles] += part * later


@numba.njit(cache=True, nogil=True)
def gradient_cells(picture: np.ndarray, cells: np.ndarray) -> None:
    """Votes of all inner pixels of `picture` (height, width) float32 by central differences, into zeroed `cells`."""
    height, width = picture.shape
    for y in range(1, height - 1):
        for x in range(1, width - 1):
            down = float(picture[y + 1, x]) - float(picture[y - 1, x])
            right = float(picture[y, x + 1]) - float(picture[y, x - 1])
            length = np.sqrt(down * down + right * right)
            if length > 0.0:
                angle = np.arctan2(down, right)
                if angle < 0.0:
                    angle += np.pi
                vote(cells, float(y), float(x), angle % np.pi, length)


@numba.njit(cache=True, nogil=True)
def cell_energy(cells: np.ndarray) -> np.ndarray:
    """Sum of squares of each cell, with a rim of zeros: (n_down + 2, n_across + 2) float64."""
    n_down, n_across, n_angles = cells.shape
    energy = np.zeros((n_down + 2, n_across + 2))
    for r in range(n_down):
        for c in range(n_across):
            for a in range(n_angles):
                energy[r + 1, c + 1] += cells[r, c, a] * cells[r, c, a]
    return energy


@numba.njit(cache=True, nogil=True)
def normalise(cells: np.ndarray, row: np.ndarray) -> None:
    """Block-normalise `cells` into `row` (n_down * n_across * ORIENTATIONS,) float32 of unit length."""
    n_down, n_across, n_angles = cells.shape
    energy = cell_energy(cells)
    values = np.zeros(cells.shape)
    squares = 0.0
    for r in range(n_down):
        for c in range(n_across):
            for block in range(4):
                i, j = r + block // 2, c + block % 2  # upper left cell of the block, in the rimmed array
                total = energy[i, j] + energy[i, j + 1] + energy[i + 1, j] + energy[i + 1, j + 1]
                scale = 1.0 / np.sqrt(total + TINY)
                for a in range(n_angles):
                    values[r, c, a] += 0.25 * min(cells[r, c, a] * scale, CLIP)
            for a in range(n_angles):
                squares += values[r, c, a] * values[r, c, a]
    length = np.sqrt(squares) if squares > 0.0 else 1.0
    row[:] = (values.reshape(-1) / length).astype(np.float32)


@numba.njit(cache=True, nogil=True)
def oriented_gradients(pictures: np.ndarray) -> np.ndarray:
    """One feature row per picture.

    pictures  (n, height, width) float32, sides multiples of CELL
    returns   (n, height / CELL * width / CELL * ORIENTATIONS) float32, each row of unit length (or all zero)
    """
    n, height, width = pictures.shape
    n_down, n_across = height // CELL, width // CELL
    rows = np.empty((n, n_down * n_across * ORIENTATIONS), np.float32)
    for i in range(n):
        cells = np.zeros((n_down, n_across, ORIENTATIONS))
        gradient_cells(pictures[i], cells)
        normalise(cells, rows[i])
    return rows
