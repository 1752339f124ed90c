"""Rounds: rows grouped by the node of a tree that each is to be scored at, so that a node's rows are one product."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tasks.later import numba
from tasks.rows.base import Array

MATRICES, COLUMNS, ENTRIES = 0, 1, 2  # how a tree holds its weights, see `LabelTree`


class Nodes(NamedTuple):
    """What scoring needs of a tree; fields as in `LabelTree`, but

    form            MATRICES, COLUMNS or ENTRIES
    weight_starts   (n_nodes,) int64: where each node's weights begin; of MATRICES and COLUMNS
    """

    form: int
    first_child: Array
    n_children: Array
    bias: Array
    weights: Array
    weight_starts: Array
    columns: Array
    column_offsets: Array
    entry_offsets: Array
    entries: Array


class Round(NamedTuple):
    """Rows grouped by the node that each is to be scored at.

    nodes   (n,) int32, ascending; bounds (n + 1,) int64 into rows: the rows of each node
    rows    (m,) int64: row numbers, ascending within a node
    starts  (n + 1,) int64: where the scores of each node begin, C order (rows of the node, its children)
    """

    nodes: Array
    bounds: Array
    rows: Array
    starts: Array


@numba.njit(cache=True, nogil=True)
def round_of(at: Array, n_children: Array) -> tuple[Array, Array, Array, Array]:
    """The fields of a `Round`. at (n_rows,) int32: the node each row is at, -1 for none; leaves score nothing."""
    counts = np.zeros(n_children.size + 1, np.int64)
    for i in range(at.size):
        if at[i] >= 0 and n_children[at[i]] > 0:
            counts[at[i]] += 1
    n = 0
    for node in range(n_children.size):
        n += counts[node] > 0
    nodes, bounds, starts = np.empty(n, np.int32), np.zeros(n + 1, np.int64), np.zeros(n + 1, np.int64)
    n = 0
    for node in range(n_children.size):
        if counts[node]:
            nodes[n], bounds[n + 1] = node, bounds[n] + counts[node]
            starts[n + 1] = starts[n] + counts[node] * n_children[node]
            counts[node] = bounds[n]
            n += 1
    rows = np.empty(bounds[n], np.int64)
    for i in range(at.size):
        if at[i] >= 0 and n_children[at[i]] > 0:
            rows[counts[at[i]]] = i
            counts[at[i]] += 1
    return nodes, bounds, rows, starts
