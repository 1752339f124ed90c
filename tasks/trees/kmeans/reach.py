"""Which rows reach the children of a k-means tree's node: those of their classes, and those that look like them."""

from __future__ import annotations

import numpy as np

from tasks.later import numba
from tasks.losses.child_softmax import child_of
from tasks.rows.base import Array, Rows
from tasks.trees.on_codes.slices import slices
from tasks.trees.tree import Split


def reached(rows: Rows, columns: Array, split: Split, reach: int) -> tuple[Array, Array]:
    """(index into the rows, child) of all that the children get, ascending by child, then row.

    columns  (n_rows,) int32: class columns of the node, -1 for rows of other classes
    A row of the node's classes goes to its own child and to the best `reach`; one of other classes to the best alone,
    so that no row comes to more nodes of a depth than reach + (reach - 1) for each above it.
    """
    n_children = len(split.children)
    width = min(reach, n_children)
    goes = np.full((rows.n_rows, width + 1), -1, np.int32)
    own = child_of(split.children, columns)
    for start, stop, part in slices(rows, n_children):
        best_children(split.scores(part), own[start:stop], goes[start:stop])
    index, place = np.nonzero(goes >= 0)
    child = goes[index, place]
    order = np.argsort(child, kind="stable")
    return index[order], child[order].astype(np.int64)


@numba.njit(cache=True, nogil=True)
def best_children(scores: Array, own: Array, goes: Array) -> None:
    """Fill goes (n, m + 1) int32, prefilled with -1, with the m best children of each row, and its own if that is none.

    scores (n, Q), m <= Q; own (n,) int32: -1 for a row of other classes, which gets its best child only. Ties to the
    lower child.
    """
    width = goes.shape[1] - 1
    for i in range(scores.shape[0]):
        wanted = width if own[i] >= 0 else 1
        found = False
        for turn in range(wanted):
            best = -1
            for q in range(scores.shape[1]):
                taken = False
                for t in range(turn):
                    taken = taken or goes[i, t] == q
                if not taken and (best < 0 or scores[i, q] > scores[i, best]):
                    best = q
            goes[i, turn] = best
            found = found or best == own[i]
        if own[i] >= 0 and not found:
            goes[i, width] = own[i]
