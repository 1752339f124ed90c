"""Scores of a round of sparse rows, by weights of any form; bit for bit the same for all of them.

Where a node knows some features only, their places among its columns are looked up in a table that all rows of the node
share, or, for few rows, searched for.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tasks.emit import LANES, address
from tasks.later import numba
from tasks.quantize.products import COMPILED
from tasks.rows.base import Array
from tasks.trees.prediction.rounds import ENTRIES, MATRICES, Nodes, Round
from tasks.trees.prediction.vectors import MOST_GATHERED, gather1, gather2, gather3, gather4

SEARCH_STEP = 2  # a step of looking a feature up by bisection costs this many times what noting one in the table does


class Entries(NamedTuple):
    """Sparse rows: data (nnz,) float32, indices (nnz,) int32, indptr (n_rows + 1,) int64; n_features."""

    data: Array
    indices: Array
    indptr: Array
    n_features: int


@numba.njit(cache=True, nogil=True)
def gathered(n_vectors: int, out: int, places: int, factors: int, offset: int, last: int, n: int) -> None:
    """See `vectors`."""
    if n_vectors == 1:
        gather1((out, places, factors, offset, last, n))
    elif n_vectors == 2:
        gather2((out, places, factors, offset, last, n))
    elif n_vectors == 3:
        gather3((out, places, factors, offset, last, n))
    else:
        gather4((out, places, factors, offset, last, n))


@numba.njit(cache=True, nogil=True)
def gather_in_vectors(weights: Array, found: Array, factors: Array, n: int, out: Array) -> None:
    """out = sum over k < n of factors[k] times row found[k] of the weights, C order; overwrites found.

    weights (n_columns * width,) float32, found (n or more,) int64, factors float32, out (width,) float32
    """
    for k in range(n):
        found[k] = address(weights) + 4 * out.size * found[k]
    for first in range(0, out.size, MOST_GATHERED * LANES):
        left = min(out.size - first, MOST_GATHERED * LANES)
        n_vectors = (left + LANES - 1) // LANES
        last = left - (n_vectors - 1) * LANES
        target = address(out) + 4 * first
        gathered(n_vectors, target, address(found), address(factors), 4 * first, last, n)


def gather_plainly(weights: Array, found: Array, factors: Array, n: int, out: Array) -> None:
    """As `gather_in_vectors`, where nothing is compiled."""
    for k in range(n):
        out += factors[k] * weights[found[k] * out.size : (found[k] + 1) * out.size]


gather_row = gather_in_vectors if COMPILED else gather_plainly


@numba.njit(cache=True, nogil=True)
def position(columns: Array, feature: int) -> int:
    """Where a feature is among ascending columns, -1 where it is not."""
    low, high = 0, columns.size
    while low < high:
        middle = (low + high) // 2
        if columns[middle] < feature:
            low = middle + 1
        else:
            high = middle
    return low if low < columns.size and columns[low] == feature else -1


@numba.njit(cache=True, nogil=True)
def table_pays(rows: Entries, members: Array, columns: Array, table: Array) -> bool:
    """Whether a table of a node's columns costs less than to search for every entry of its rows."""
    if table.size == 0:
        return False
    entries, steps = 0, 1
    for i in members:
        entries += rows.indptr[i + 1] - rows.indptr[i]
    while (1 << steps) < columns.size:
        steps += 1
    return bool(2 * columns.size <= SEARCH_STEP * steps * entries)


@numba.njit(cache=True, nogil=True)
def find_entries(rows: Entries, i: int, columns: Array, table: Array, found: Array, factors: Array) -> int:
    """The entries of row i with a place among `columns`: their places and values, and how many they are.

    table (n_features,) int32: the place of each feature, -1 for none; or (0,), to search
    """
    n, data, indices, noted = 0, rows.data, rows.indices, table.size > 0
    for p in range(rows.indptr[i], rows.indptr[i + 1]):
        place = table[indices[p]] if noted else position(columns, indices[p])
        found[n], factors[n] = place, data[p]
        n += place >= 0  # no branch: whether a node knows a feature cannot be predicted
    return n


@numba.njit(cache=True, nogil=True)
def add_entries(nodes: Nodes, first: int, found: Array, factors: Array, n: int, out: Array) -> None:
    """out += the weights of the n columns `found` of a node, whose columns begin at `first`, times factors."""
    for k in range(n):
        c, factor = first + found[k], factors[k]
        for e in range(nodes.entry_offsets[c], nodes.entry_offsets[c + 1]):
            out[nodes.entries[e]] += factor * nodes.weights[e]


@numba.njit(cache=True, nogil=True)
def score_row(
    rows: Entries, i: int, nodes: Nodes, node: int, table: Array, room: tuple[Array, Array], out: Array
) -> None:
    """out = the scores of row i at a node, without bias. room: found (longest,) int64 and factors (longest,) float32"""
    found, factors = room
    out[:] = 0
    first, last = nodes.column_offsets[node], nodes.column_offsets[node + 1]
    if nodes.form == MATRICES:
        n = rows.indptr[i + 1] - rows.indptr[i]
        for k in range(n):
            found[k], factors[k] = rows.indices[rows.indptr[i] + k], rows.data[rows.indptr[i] + k]
    else:
        n = find_entries(rows, i, nodes.columns[first:last], table, found, factors)
    if nodes.form == ENTRIES:
        add_entries(nodes, first, found, factors, n, out)
    elif n:
        gather_row(nodes.weights[nodes.weight_starts[node] :], found, factors, n, out)


@numba.njit(cache=True, nogil=True)
def score_sparse(rows: Entries, group: Round, nodes: Nodes, table: Array, out: Array) -> None:
    """Scores of a round; out (n_scores,) float32. table (n_features,) int32, all -1, or (0,) for none: room"""
    longest = 0
    for i in range(rows.indptr.size - 1):
        longest = max(longest, rows.indptr[i + 1] - rows.indptr[i])
    room = np.empty(longest, np.int64), np.empty(longest, np.float32)
    for g in range(group.nodes.size):
        node = group.nodes[g]
        width, child = nodes.n_children[node], nodes.first_child[node] - 1
        members = group.rows[group.bounds[g] : group.bounds[g + 1]]
        columns = nodes.columns[nodes.column_offsets[node] : nodes.column_offsets[node + 1]]
        noted = nodes.form != MATRICES and table_pays(rows, members, columns, table)
        if noted:
            for c in range(columns.size):
                table[columns[c]] = c
        for t in range(members.size):
            start = group.starts[g] + t * width
            target = out[start : start + width]
            score_row(rows, members[t], nodes, node, table if noted else table[:0], room, target)
            for q in range(width):
                target[q] += nodes.bias[child + q]
        if noted:
            for c in range(columns.size):
                table[columns[c]] = -1
