"""Scores of many rows at many nodes of a tree in one call: the rows of a node are one product with its weights.

`rounds` puts the rows that are at the same node together; `scores_of` gives what scores such a round. A row's scores
do not depend on the other rows: neither a block's size nor a batch's changes an answer.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numba
import numpy as np

from tasks.quantize.products import COMPILED
from tasks.quantize.tables import address
from tasks.quantize.vectors import LANES
from tasks.rows import Csr, Dense, Rows
from tasks.rows.base import Array
from tasks.trees.vectors import (
    MOST_GATHERED,
    MOST_VECTORS,
    TILE,
    gather1,
    gather2,
    gather3,
    gather4,
    multiply_row1,
    multiply_row2,
    multiply_row3,
    multiply_tile1,
    multiply_tile2,
    multiply_tile3,
)

MATRICES, COLUMNS, ENTRIES = 0, 1, 2  # how a tree holds its weights, see `LabelTree`
CHUNK = 64  # rows that stay in the second-level cache while the weights of a wide node pass by
WIDEST_TABLE = 1 << 23  # features up to which places are looked up in a table (32 MB) and not searched for
SEARCH_STEP = 2  # looking a feature up by bisection costs this many times more a step than noting one in the table


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


class Entries(NamedTuple):
    """Sparse rows: data (nnz,) float32, indices (nnz,) int32, indptr (n_rows + 1,) int64; n_features."""

    data: Array
    indices: Array
    indptr: Array
    n_features: int


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


# ---- dense rows ----------------------------------------------------------------------------------------------------


@numba.njit(cache=True, nogil=True)
def multiply_whole(n_vectors: int, out: int, places: int, weights: int, step: int, last: int, n: int) -> None:
    """TILE rows; see `vectors`."""
    if n_vectors == 1:
        multiply_tile1((out, places, weights, step, last, n))
    elif n_vectors == 2:
        multiply_tile2((out, places, weights, step, last, n))
    else:
        multiply_tile3((out, places, weights, step, last, n))


@numba.njit(cache=True, nogil=True)
def multiply_single(n_vectors: int, out: int, places: int, weights: int, step: int, last: int, n: int) -> None:
    """One row; see `vectors`."""
    if n_vectors == 1:
        multiply_row1((out, places, weights, step, last, n))
    elif n_vectors == 2:
        multiply_row2((out, places, weights, step, last, n))
    else:
        multiply_row3((out, places, weights, step, last, n))


@numba.njit(cache=True, nogil=True)
def multiply_rows(values: Array, rows: Array, weights: Array, width: int, out: Array, places: Array) -> None:
    """out = values[rows] W, for the W of `width` columns in weights (n_features * width,); out (n * width,) float32.

    values (n_rows, n_features) float32, C order; places (TILE,) int64: room
    """
    n, step, features = rows.size, 4 * width, values.shape[1]
    whole = n - n % TILE
    for first in range(0, width, MOST_VECTORS * LANES):
        left = min(width - first, MOST_VECTORS * LANES)
        n_vectors = (left + LANES - 1) // LANES
        last, at = left - (n_vectors - 1) * LANES, address(weights) + 4 * first
        for i in range(0, whole, TILE):
            for r in range(TILE):
                places[r] = address(values) + rows[i + r] * values.strides[0]
            target = address(out) + i * step + 4 * first
            multiply_whole(n_vectors, target, address(places), at, step, last, features)
        for i in range(whole, n):
            places[0] = address(values) + rows[i] * values.strides[0]
            target = address(out) + i * step + 4 * first
            multiply_single(n_vectors, target, address(places), at, step, last, features)


@numba.njit(cache=True, nogil=True)
def multiply_in_tiles(values: Array, rows: Array, weights: Array, width: int, out: Array, room: Array) -> None:
    """As `multiply_rows`, CHUNK rows at a time; what is left of a tile is filled up with its last row.

    room  (TILE * width,) float32
    """
    places, padded = np.empty(TILE, np.int64), np.empty(TILE, np.int64)
    whole = rows.size - rows.size % TILE
    if rows.size - whole == 1:
        whole = rows.size
    for start in range(0, whole, CHUNK):
        stop = min(start + CHUNK, whole)
        multiply_rows(values, rows[start:stop], weights, width, out[start * width : stop * width], places)
    left = rows.size - whole
    if left:
        for r in range(TILE):
            padded[r] = rows[whole + min(r, left - 1)]
        multiply_rows(values, padded, weights, width, room, places)
        for j in range(left * width):
            out[whole * width + j] = room[j]


def multiply_plainly(values: Array, rows: Array, weights: Array, width: int, out: Array, _room: Array) -> None:
    """As `multiply_in_tiles`, without vectors: where nothing is compiled."""
    out[:] = (values[rows] @ weights.reshape(-1, width)).reshape(-1)


multiply_group = multiply_in_tiles if COMPILED else multiply_plainly


@numba.njit(cache=True, nogil=True)
def add_bias(scores: Array, bias: Array) -> None:
    """scores (n * width,) += bias (width,) of every row."""
    width = bias.size
    for i in range(0, scores.size, width):
        for q in range(width):
            scores[i + q] += bias[q]


@numba.njit(cache=True, nogil=True)
def score_dense(values: Array, group: Round, nodes: Nodes, out: Array) -> None:
    """Scores of a round: out (n_scores,) float32. values (n_rows, n_features) float32, C order; form MATRICES."""
    widest = 0
    for node in group.nodes:
        widest = max(widest, nodes.n_children[node])
    room = np.empty(TILE * widest, np.float32)
    for g in range(group.nodes.size):
        node = group.nodes[g]
        width, first = nodes.n_children[node], nodes.first_child[node] - 1
        start = nodes.weight_starts[node]
        weights = nodes.weights[start : start + values.shape[1] * width]
        rows, target = group.rows[group.bounds[g] : group.bounds[g + 1]], out[group.starts[g] : group.starts[g + 1]]
        if values.shape[1]:
            multiply_group(values, rows, weights, width, target, room)
        else:
            target[:] = 0
        add_bias(target, nodes.bias[first : first + width])


# ---- sparse rows ---------------------------------------------------------------------------------------------------


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


# ---- any rows ------------------------------------------------------------------------------------------------------


def scorer_of(rows: Rows, nodes: Nodes) -> Callable[[Round], Array]:
    """What gives the scores (n_scores,) float32 of a round of these rows; they are decoded at once.

    Dense rows of a tree of sparse weights are taken as sparse ones.
    """
    plain = rows.decoded()
    if isinstance(plain, Dense) and nodes.form == MATRICES:
        values = plain.to_array(np.float32)
        return lambda group: _scored(score_dense, group, values, group, nodes)
    sparse = plain if isinstance(plain, Csr) else _sparse(plain.to_array(np.float32))
    entries = Entries(
        sparse.data.astype(np.float32, copy=False),
        sparse.indices,
        np.asarray(sparse.indptr, np.int64),
        rows.n_features,
    )
    size = rows.n_features if nodes.form != MATRICES and rows.n_features <= WIDEST_TABLE else 0
    table = np.full(size, -1, np.int32)
    return lambda group: _scored(score_sparse, group, entries, group, nodes, table)


def _scored(kernel: Callable[..., None], group: Round, *arguments: Any) -> Array:
    out = np.empty(int(group.starts[-1]), np.float32)
    if out.size:
        kernel(*arguments, out)
    return out


def _sparse(values: Array) -> Csr:
    row, column = np.nonzero(values)
    indptr = np.concatenate([[0], np.cumsum(np.bincount(row, minlength=len(values)))]).astype(np.int64)
    return Csr(values[row, column], column.astype(np.int32), indptr, values.shape[1])
