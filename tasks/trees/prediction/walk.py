"""The walk down a tree (Deng et al. 2011, Algorithm 1): at every node to the child of highest score."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tasks.later import numba
from tasks.rows.base import Array
from tasks.trees.prediction.rounds import Round
from tasks.trees.prediction.search import Shape


class Answers(NamedTuple):
    """What walking fills in, a row of each for every row.

    labels (n_rows, top) int32, values (n_rows, top) float32: classes and scores, prefilled with "none"
    evaluations (n_rows,) int32; path (n_rows, n_depths + 1) int32, prefilled with -1 but for the root
    """

    labels: Array
    values: Array
    evaluations: Array
    path: Array


@numba.njit(cache=True, nogil=True)
def descend(group: Round, scores: Array, shape: Shape, at: Array, answers: Answers, used: Array, given: bool) -> None:
    """Take every row of a round one node down, name classes where its walk ends; those of a taxonomy everywhere.

    scores (n_scores,) float32; at (n_rows,) int32, changed: the node of each row; used (widest,) bool: room
    """
    rows, bounds, n_children, offsets, classes = (
        group.rows,
        group.bounds,
        shape.n_children,
        shape.offsets,
        shape.classes,
    )
    labels, values, evaluations, path = answers.labels, answers.values, answers.evaluations, answers.path
    for g in range(group.nodes.size):
        node = group.nodes[g]
        width, first, depth = n_children[node], shape.first_child[node], shape.depths[node] + 1
        inner, held = n_children[first : first + width], offsets[first : first + width + 1]
        for t in range(bounds[g], bounds[g + 1]):
            i, start = rows[t], group.starts[g] + (t - bounds[g]) * width
            row = scores[start : start + width]
            best = best_child(row)
            at[i] = path[i, depth] = first + best
            evaluations[i] += width
            if given:
                name_siblings(row, inner, held, classes, labels[i], values[i], used)
            elif inner[best] == 0:
                name_leaves(row, held, classes, labels[i], values[i], used)


@numba.njit(cache=True, nogil=True)
def best_child(scores: Array) -> int:
    """The child of highest score, ties to the lower."""
    best = 0
    for q in range(1, scores.size):
        best = q if scores[q] > scores[best] else best
    return best


@numba.njit(cache=True, nogil=True)
def best_unused(scores: Array, used: Array) -> int:
    """The child of highest score of those not used, ties to the lower; scores (n,), used (n or more,) bool."""
    best = -1
    for q in range(scores.size):
        if not used[q] and (best < 0 or scores[q] > scores[best]):
            best = q
    return best


@numba.njit(cache=True, nogil=True)
def name_leaves(scores: Array, held: Array, classes: Array, labels: Array, values: Array, used: Array) -> None:
    """Classes at the last split of a row, by descending score of the child that holds them; ties to the lower child.

    scores          (n,) float32 of the children; held (n + 1,) int64: where the classes of each begin among `classes`
    labels, values  (top,) int32 and float32, filled from the left; used (n or more,) bool: room
    An empty best child is the answer "none" in the first place; later empty children are passed over.
    """
    found = 0
    for q in range(scores.size):
        used[q] = False
    for turn in range(scores.size):
        best = best_unused(scores, used)
        used[best] = True
        if turn == 0 and held[best] == held[best + 1]:
            found = 1
        for p in range(held[best], held[best + 1]):
            seen = False
            for t in range(found):
                seen = seen or labels[t] == classes[p]
            if not seen and found < labels.size:
                labels[found], values[found] = classes[p], scores[best]
                found += 1
        if found >= labels.size:
            break


@numba.njit(cache=True, nogil=True)
def name_siblings(
    scores: Array, inner: Array, held: Array, classes: Array, labels: Array, values: Array, used: Array
) -> None:
    """Put the classes of the children passed over at a split before those named so far, best child first.

    The children of a split share no class. The child that is walked to, the best one (ties to the lower), is named too,
    before the others, when it is a leaf. A child's classes are named in ascending order: nothing tells them apart.
    inner  (n,) int32: 0 for leaves; other arguments as in `name_leaves`
    """
    top, found = labels.size, 0
    for q in range(scores.size):
        used[q] = False
    named, scored = np.empty(top, np.int32), np.empty(top, np.float32)
    for turn in range(scores.size):
        best = best_unused(scores, used)
        used[best] = True
        if turn == 0 and inner[best] > 0:
            continue
        if found >= top:
            break
        for p in range(held[best], min(held[best + 1], held[best] + top - found)):
            named[found], scored[found] = classes[p], scores[best]
            found += 1
    for place in range(top - 1, found - 1, -1):
        labels[place], values[place] = labels[place - found], values[place - found]
    for place in range(found):
        labels[place], values[place] = named[place], scored[place]
