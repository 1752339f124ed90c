"""Scores of a round of dense rows: tiles of rows and vectors of children, no copy of either.

A row's scores do not depend on the other rows: what is left of a tile is filled up, and every sum has one order.
"""

from __future__ import annotations

import numpy as np

from tasks.emit import LANES, address
from tasks.later import numba
from tasks.quantize.products import COMPILED
from tasks.rows.base import Array
from tasks.trees.prediction.rounds import Nodes, Round
from tasks.trees.prediction.vectors import (
    MOST_VECTORS,
    TILE,
    multiply_row1,
    multiply_row2,
    multiply_row3,
    multiply_tile1,
    multiply_tile2,
    multiply_tile3,
)

CHUNK = 64  # rows that stay in the second-level cache while the weights of a wide node pass by


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
