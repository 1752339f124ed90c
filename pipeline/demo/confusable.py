"""Which code points are drawn (nearly) alike, so that no classifier of pictures could tell them apart.

Latin A, Greek Alpha and Cyrillic A are one drawing. Two code points are confusable when their undistorted pictures
differ by at most THRESHOLD of their ink in at least half of the faces; the first of them (lowest code point) stays a
class and stands for the others.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from tasks.later import numba

THRESHOLD = 0.02  # sum of |a - b| over sum of max(a, b): the share of the ink of both that is not common

Pictures = np.ndarray[Any, np.dtype[np.uint8]]


@numba.njit(cache=True, nogil=True)
def ink_total(pictures: np.ndarray) -> np.ndarray:
    """Ink of each picture: (n, n_pixels) uint8 -> (n,) int64."""
    n, n_pixels = pictures.shape
    totals = np.zeros(n, np.int64)
    for i in range(n):
        for p in range(n_pixels):
            totals[i] += np.int64(pictures[i, p])
    return totals


@numba.njit(cache=True, nogil=True)
def alike(a: np.ndarray, b: np.ndarray, ink_a: int, ink_b: int, threshold: float) -> bool:
    """Whether sum |a - b| <= threshold * sum max(a, b).

    a, b          (n_pixels,) uint8
    ink_a, ink_b  their sums; sum max(a, b) = (ink_a + ink_b + sum |a - b|) / 2, so the bound on the difference is
                  known beforehand and the loop can stop early
    """
    bound = threshold * (ink_a + ink_b) / (2.0 - threshold)
    if abs(ink_a - ink_b) > bound:
        return False
    difference = np.int64(0)
    for p in range(a.shape[0]):
        difference += abs(np.int64(a[p]) - np.int64(b[p]))
        if difference > bound:
            return False
    return True


@numba.njit(cache=True, nogil=True)
def count_alike(pictures: np.ndarray, threshold: float, counts: np.ndarray) -> None:
    """Add one to counts[i, j], j < i, for every pair of pictures of one face that is alike.

    pictures  (n, n_pixels) uint8
    counts    (n, n) uint8, lower triangle in use
    """
    n = pictures.shape[0]
    ink = ink_total(pictures)
    for i in range(n):
        for j in range(i):
            if alike(pictures[i], pictures[j], ink[i], ink[j], threshold):
                counts[i, j] += np.uint8(1)


@dataclass(frozen=True, slots=True)
class Likeness:
    """One code point (position in the drawn list), the one it looks like, and in how many faces."""

    code: int
    like: int
    faces: int


@dataclass(frozen=True, slots=True)
class Confusion:
    """What was found: positions that stay classes, those merged into an earlier one, and pairs alike in few faces."""

    kept: list[int]
    merged: list[Likeness]
    doubtful: list[Likeness]


def find_confusable(pictures: Pictures, threshold: float = THRESHOLD) -> Confusion:
    """Merge code points that look alike in at least half of the faces.

    pictures  (n_faces, n_codes, height, width) uint8
    """
    n_faces, n_codes = pictures.shape[:2]
    counts = np.zeros((n_codes, n_codes), np.uint8)
    for face in pictures:
        count_alike(face.reshape(n_codes, -1), threshold, counts)
    return merge(counts, (n_faces + 1) // 2)


def merge(counts: np.ndarray[Any, Any], enough: int) -> Confusion:
    """Walk the code points upwards; one that looks like a kept one in `enough` faces is merged into the most alike.

    counts  (n, n) integers, counts[i, j] for j < i: faces in which i and j are alike
    """
    kept: list[int] = []
    merged: list[Likeness] = []
    doubtful: list[Likeness] = []
    for i in range(counts.shape[0]):
        faces = counts[i, kept]
        best = int(np.argmax(faces)) if kept else -1  # ties: the lowest code point
        if best >= 0 and faces[best] >= enough:
            merged.append(Likeness(i, kept[best], int(faces[best])))
            continue
        doubtful += [Likeness(i, kept[j], int(faces[j])) for j in np.flatnonzero(faces)]
        kept.append(i)
    return Confusion(kept, merged, doubtful)
