"""The walk down a tree (Deng et al. 2011, Algorithm 1): at every node to the child of highest score."""

from __future__ import annotations

from typing import NamedTuple

import numba
import numpy as np

from tasks.rows.base import Array
from tasks.trees.products import Round
from tasks.trees.search import Shape


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
    for g in range(group.nodes.size):
        node = group.nodes[g]
        width, first = shape.n_children[node], shape.first_child[node]
        depth = shape.depths[node] + 1
        for t in range(group.bounds[g], group.bounds[g + 1]):
            i, start = group.rows[t], group.starts[g] + (t - group.bounds[g]) * width
            row = scores[start : start + width]
            child = first + best_unused(row, used[:0])
            at[i] = answers.path[i, depth] = child
            answers.evaluations[i] += width
            if given:
                name_siblings(row, first, shape, answers.labels[i], answers.values[i], used)
            elif shape.n_children[child] == 0:
                name_leaves(row, first, shape, answers.labels[i], answers.values[i], used)


@numba.njit(cache=True, nogil=True)
def best_unused(scores: Array, used: Array) -> int:
    """The child of highest score of those not used, ties to the lower. used (n,) bool, or (0,): none is"""
    best = -1
    for q in range(scores.size):
        if (used.size == 0 or not used[q]) and (best < 0 or scores[q] > scores[best]):
            best = q
    return best


@numba.njit(cache=True, nogil=True)
def name_leaves(scores: Array, first: int, shape: Shape, labels: Array, values: Array, used: Array) -> None:
    """Classes at the last split of a row, by descending score of the child that holds them; ties to the lower child.

    scores (n,) float32 of the children first, first + 1, ...; labels (top,) and values (top,) are filled from the left
    An empty best child is the answer "none" in the first place; later empty children are passed over.
    """
    found, used[: scores.size] = 0, False
    for turn in range(scores.size):
        best = best_unused(scores, used[: scores.size])
        used[best] = True
        start, stop = shape.offsets[first + best], shape.offsets[first + best + 1]
        if turn == 0 and start == stop:
            found = 1
        for p in range(start, stop):
            seen = False
            for t in range(found):
                seen = seen or labels[t] == shape.classes[p]
            if not seen and found < labels.size:
                labels[found], values[found] = shape.classes[p], scores[best]
                found += 1
        if found >= labels.size:
            break


@numba.njit(cache=True, nogil=True)
def name_siblings(scores: Array, first: int, shape: Shape, labels: Array, values: Array, used: Array) -> None:
    """Put the classes of the children passed over at a split before those named so far, best child first.

    The children of a split share no class. The child that is walked to, the best one (ties to the lower), is named too,
    before the others, when it is a leaf. A child's classes are named in ascending order: nothing tells them apart.
    Arguments as in `name_leaves`.
    """
    top, found, used[: scores.size] = labels.size, 0, False
    named, scored = np.empty(top, np.int32), np.empty(top, np.float32)
    for turn in range(scores.size):
        best = best_unused(scores, used[: scores.size])
        used[best] = True
        if turn == 0 and shape.n_children[first + best] > 0:
            continue
        if found >= top:
            break
        start = shape.offsets[first + best]
        for p in range(start, min(shape.offsets[first + best + 1], start + top - found)):
            named[found], scored[found] = shape.classes[p], scores[best]
            found += 1
    for place in range(top - 1, found - 1, -1):
        labels[place], values[place] = labels[place - found], values[place - found]
    labels[:found], values[:found] = named[:found], scored[:found]
