"""The tree of Bengio et al. by its definitions: one row, one pair of classes, one split at a time."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]
Answer = tuple[int, int, int, bool]  # class of a row, best answer, second best, whether it is a validation row


def affinity(answers: Sequence[Answer], n_classes: int) -> Array:
    """(M + M') / 2 without diagonal; classes that validation tells nothing of by best other answers, scaled."""
    own, other = np.zeros((n_classes, n_classes)), np.zeros((n_classes, n_classes))
    for label, best, second, validation in answers:
        if validation:
            own[label, best] += 1
        other[label, second if best == label else best] += 1
    rates, instead = _rates(own), _rates(other)
    np.fill_diagonal(rates, 0)
    confused = [c for c in range(n_classes) if rates[c].any() or rates[:, c].any()]
    mean = rates.sum() / len(confused) if confused else 1.0
    for c in range(n_classes):
        if c not in confused or not any(label == c and validation for label, _, _, validation in answers):
            rates[c] += mean * instead[c]
    return np.asarray((rates + rates.T) / 2)


def _rates(counts: Array) -> Array:
    return np.array([row / row.sum() if row.any() else row for row in counts])


Steps = Sequence[Sequence[tuple[list[int], int]]]  # of each class: (columns of a split, the right one of them)


def worst(scores: Array, steps: Sequence[tuple[list[int], int]]) -> tuple[float, int, int]:
    """(loss, right column, wrong column) of one row; (0, -1, -1) without loss."""
    found = (0.0, -1, -1)
    for columns, right in steps:
        for c in columns:
            if c != right and 1 + scores[c] - scores[right] > found[0]:
                found = (1 + scores[c] - scores[right], right, c)
    return found


def descend(
    values: Array, labels: Sequence[int], steps_of: Steps, steps: Sequence[float], batch: int, decay: float, rate: float
) -> tuple[Array, Array, float]:
    """(weights (n_features, n_columns), bias, sum of losses) after a step a batch, from zeros, rows in order."""
    n_columns = 1 + max(max(columns) for path in steps_of for columns, _ in path)
    weights, bias, total = np.zeros((values.shape[1], n_columns)), np.zeros(n_columns), 0.0
    for b, step in enumerate(steps):
        rows = range(b * batch, min((b + 1) * batch, len(labels)))
        found = [worst(values[i] @ weights + bias, steps_of[labels[i]]) for i in rows]
        weights *= 1 - step * decay
        bias *= 1 - step * decay
        for i, (loss, right, wrong) in zip(rows, found, strict=True):
            total += loss
            if right >= 0:
                for column, sign in ((right, 1), (wrong, -1)):
                    weights[:, column] += sign * step / len(rows) * values[i]
                    bias[column] += sign * step / len(rows) * rate
    return weights, bias, total


def judged(paths: Sequence[Sequence[int]], labels: Sequence[int], held: Sequence[set[int]]) -> dict[int, list[int]]:
    """Of each node that a row with its class met: rows, rows lost, classes of the children gone to, added up."""
    found: dict[int, list[int]] = {}
    for path, label in zip(paths, labels, strict=True):
        nodes = [node for node in path if node >= 0]
        for node, child in pairwise(nodes):
            if label in held[node]:
                counts = found.setdefault(node, [0, 0, 0])
                counts[0] += 1
                counts[1] += label not in held[child]
                counts[2] += len(held[child])
    return found
