"""Nodes whose rows are PQ codes, by the definitions: on decoded rows, one row, one pair of children at a time."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]


def decoded(codes: Array, codebooks: Array) -> Array:
    """The rows that codes stand for."""
    return np.array([np.concatenate([codebooks[q, c] for q, c in enumerate(row)]) for row in codes], np.float64)


def smooth_overlap(scores: Array, held: Array, width: float) -> float:
    """width * log(1 + sum over pairs of exp(violation / width)); 1 where no child holds the class."""
    inside, outside = np.flatnonzero(held), np.flatnonzero(~held)
    if not inside.size:
        return 1.0
    terms = [0.0, *((1 + scores[o] - scores[i]) / width for i in inside for o in outside)]
    return float(width * np.logaddexp.reduce(terms))


def block_covariances(rows: Array, size: int) -> Array:
    """Second moments of each run of `size` columns."""
    parts = [rows[:, at : at + size] for at in range(0, rows.shape[1], size)]
    return np.array([part.T @ part / len(rows) for part in parts])


def objective(rows: Array, columns: Array, children: Array, width: float, decay: float, point: Array) -> float:
    """Mean rounded loss of the rows + (decay / 2) |W|^2; point (d + 1, Q): weights and, last, bias."""
    scores = rows @ point[:-1] + point[-1]
    losses = [smooth_overlap(row, children[:, k], width) for row, k in zip(scores, columns, strict=True)]
    return float(np.mean(losses) + 0.5 * decay * (point[:-1] ** 2).sum())


def class_sums(codes: Array, columns: Array, codebooks: Array, places: Array, n_places: int, n_classes: int) -> Array:
    """Each sub-vector added at its place of its row's class."""
    sums = np.zeros((n_classes, n_places, codebooks.shape[2]))
    for row, k in zip(codes, columns, strict=True):
        for q, c in enumerate(row):
            sums[k, places[q]] += codebooks[q, c]
    return sums.reshape(n_classes, -1)
