"""The best classes of each row by selection, without sorting all scores."""

from __future__ import annotations

import numba
import numpy as np

from tasks.rows.base import Array

NO_CLASS = -1  # where a row names fewer classes than asked


@numba.njit(cache=True, nogil=True)
def select_top(scores: Array, classes: Array, best: Array) -> None:
    """Insertion into the `top` best of each row, classes ascending, so that ties stay with the lower class.

    scores   (n_rows, n_classes) float; NaN is never selected
    classes  (n_rows, top) int32, filled: best first, NO_CLASS where nothing is left
    best     (n_rows, top) float32 or float64, filled: their scores, NaN where classes is NO_CLASS
    """
    top = classes.shape[1]
    for i in range(scores.shape[0]):
        found = 0
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
            classes[i, place] = c
            found = min(found + 1, top)
        for place in range(found, top):
            best[i, place] = np.nan
            classes[i, place] = NO_CLASS


def top_classes(scores: Array, top: int) -> tuple[Array, Array]:
    """(classes (n_rows, top) int32, scores (n_rows, top) float32) of scores (n_rows, n_classes), best first."""
    classes = np.empty((scores.shape[0], top), np.int32)
    best = np.empty((scores.shape[0], top), scores.dtype)
    if top:
        select_top(scores, classes, best)
    return classes, best.astype(np.float32, copy=False)
