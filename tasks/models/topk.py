"""The best classes of each row by selection, without sorting all scores."""

from __future__ import annotations

import numpy as np

from tasks.later import numba
from tasks.rows.base import Array

NO_CLASS = -1  # where a row names fewer classes than asked


@numba.njit(cache=True, nogil=True)
def extend_top(scores: Array, first: int, classes: Array, best: Array) -> None:
    """Insertion into the `top` best of each row, classes ascending, so that ties stay with the lower class.

    scores   (n_rows, n) float of the classes first .. first + n - 1, which come after those seen; NaN is never selected
    classes  (n_rows, top) int32, changed: best so far first, NO_CLASS where nothing is left
    best     (n_rows, top) float32 or float64, changed: their scores, NaN where classes is NO_CLASS
    """
    top = classes.shape[1]
    for i in range(scores.shape[0]):
        found = 0
        while found < top and classes[i, found] != NO_CLASS:
            found += 1
        for c in range(scores.shape[1]):
            score = scores[i, c]
            if np.isnan(score) or (found == top and score <= best[i, top - 1]):
                continue
            place = found if found < top else top - 1
            while place > 0 and score > best[i, place - 1]:
                best[i, place] = best[i, place - 1]
                classes[i, place] = classes[i, place - 1]
                place -= 1
            best[i, place] = score
            classes[i, place] = first + c
            found = min(found + 1, top)


def top_classes(scores: Array, top: int) -> tuple[Array, Array]:
    """(classes (n_rows, top) int32, scores (n_rows, top) float32) of scores (n_rows, n_classes), best first."""
    classes = np.full((scores.shape[0], top), NO_CLASS, np.int32)
    best = np.full((scores.shape[0], top), np.nan, scores.dtype)
    if top:
        extend_top(scores, 0, classes, best)
    return classes, best.astype(np.float32, copy=False)
