"""Hashed dot products of sparse rows and their gradients, with every hash computed on the fly.

Hashing vectorises and costs a tenth of a look-up; a look-up is a load from anywhere in a row of the table. So rows of
a batch that share a column share its look-ups, and the nodes are walked level by level (`layout.py`): one row of the
table is then in cache while all columns of the batch meet all nodes of that level.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tasks.hashing.murmur import bucket_of, feature_words, is_negative, mixed_key, node_words
from tasks.later import numba
from tasks.rows.base import Array

Turned = Any  # inside kernels: the four arrays of `by_column`
Span = Any  # inside kernels: two integers

TILE_CELLS, FEWEST_NODES, MOST_NODES = 2**13, 64, 512  # scores of a tile of nodes stay in the first-level cache


@numba.njit(cache=True, nogil=True)
def by_column(data: Array, indices: Array, indptr: Array) -> tuple[Array, Array, Array, Array]:
    """Sparse rows turned: columns (n,) ascending, starts (n + 1,), then rows (nnz,) and values (nnz,) by column.

    data (nnz,) float, indices (nnz,) int32, indptr (n_rows + 1,) int64; in a column the rows ascend
    """
    order = np.argsort(indices, kind="mergesort")
    owner = np.empty(indices.size, np.int64)
    for i in range(indptr.size - 1):
        owner[indptr[i] : indptr[i + 1]] = i
    rows, values = np.empty(order.size, np.int64), np.empty_like(data)
    columns, starts = np.empty(order.size, np.uint32), np.empty(order.size + 1, np.int64)
    n = 0
    for p in range(order.size):
        rows[p], values[p] = owner[order[p]], data[order[p]]
        if p == 0 or indices[order[p]] != indices[order[p - 1]]:
            columns[n], starts[n] = np.uint32(indices[order[p]]), p
            n += 1
    starts[n] = order.size
    return columns[:n], starts[: n + 1], rows, values


@numba.njit(cache=True, nogil=True)
def tile_nodes(n_rows: int) -> int:
    """Nodes of a tile for a batch of n_rows."""
    return max(FEWEST_NODES, min(MOST_NODES, TILE_CELLS // max(1, n_rows)))


@numba.njit(cache=True, nogil=True)
def _look_up(words: Array, base: Array, table: Array, first: int, last: int, weights: Array) -> None:
    """weights[e] = xi * (base[h] + sum of table[first..last, h]), from the last row up; words (n,) of one column."""
    for e in range(words.size):
        weights[e] = base[bucket_of(words[e])]
    for level in range(last, first - 1, -1):
        source = table[level]
        for e in range(words.size):
            weights[e] += source[bucket_of(words[e])]
    for e in range(words.size):
        weights[e] = -weights[e] if is_negative(words[e]) else weights[e]


@numba.njit(cache=True, nogil=True)
def _add_multiple(value: float, weights: Array, out: Array) -> None:
    for e in range(weights.size):
        out[e] += value * weights[e]


@numba.njit(cache=True, nogil=True)
def _score_slots(
    turned: Turned, seeds: Array, slots: Span, base: Array, table: Array, levels: Span, out: Array
) -> None:
    """out[:, slots] += scores of the slots begin..end-1, which use `base` and the rows first..last of the table."""
    columns, starts, owners, values = turned
    size = tile_nodes(out.shape[0])
    words, weights = np.empty(size, np.uint32), np.empty(size, table.dtype)
    for start in range(slots[0], slots[1], size):
        stop = min(start + size, slots[1])
        n = stop - start
        for k in range(columns.size):
            node_words(mixed_key(columns[k]), seeds[start:stop], table.shape[1], words)
            _look_up(words[:n], base, table, levels[0], levels[1], weights)
            for p in range(starts[k], starts[k + 1]):
                _add_multiple(values[p], weights[:n], out[owners[p], start:stop])


@numba.njit(cache=True, nogil=True)
def sparse_node_scores(
    turned: Turned, seeds: Array, segments: Array, table: Array, tails_from: int, out: Array
) -> None:
    """out[i, slot] += <sum of the table's rows of the slot, Phi(row i)>.

    turned      `by_column` of the rows, values of the dtype of the table
    segments    (n_tables, 3) int64, see `NodeLayout`
    tails_from  rows of the table from this one on are added to a running sum, from the last row up, that short slots
                look up: one more row in memory. With n_tables they look up row after row; the bits are the same
    out         (n_rows, n_slots), dtype of the table
    """
    last = segments.shape[0] - 1
    tail = np.empty(table.shape[1] if tails_from <= last else 0, table.dtype)
    for r in range(last, -1, -1):
        begin, short, end = segments[r]
        if r == last and tail.size:
            tail[:] = table[r]
        elif r >= tails_from:
            _add_row(table[r], tail)  # before the plain slots: it brings the row near, in the order of memory
        _score_slots(turned, seeds, (begin, short), table[r], table, (0, -1), out)
        if tail.size:
            _score_slots(turned, seeds, (short, end), tail, table, (r, tails_from - 1), out)
        else:
            _score_slots(turned, seeds, (short, end), table[last], table, (r, last - 1), out)


@numba.njit(cache=True, nogil=True)
def _add_row(row: Array, out: Array) -> None:
    for b in range(row.size):
        out[b] += row[b]


@numba.njit(cache=True, nogil=True)
def _scatter(words: Array, changes: Array, row: Array) -> None:
    """row[h] -= xi * changes[e], one after the other."""
    for e in range(words.size):
        row[bucket_of(words[e])] += changes[e] if is_negative(words[e]) else -changes[e]


@numba.njit(cache=True, nogil=True)
def _subtract_slots(
    turned: Turned, seeds: Array, slots: Span, residuals: Array, base: Array, table: Array, levels: Span
) -> None:
    """Take xi * (sum over a column's rows of value * residual) from `base` and the rows first..last of the table."""
    columns, starts, owners, values = turned
    size = tile_nodes(residuals.shape[0])
    words, changes = np.empty(size, np.uint32), np.empty(size, table.dtype)
    for start in range(slots[0], slots[1], size):
        stop = min(start + size, slots[1])
        n = stop - start
        for k in range(columns.size):
            node_words(mixed_key(columns[k]), seeds[start:stop], table.shape[1], words)
            changes[:n] = 0
            for p in range(starts[k], starts[k + 1]):
                _add_multiple(values[p], residuals[owners[p], start:stop], changes[:n])
            _scatter(words[:n], changes[:n], base)
            for level in range(levels[0], levels[1] + 1):
                _scatter(words[:n], changes[:n], table[level])


@numba.njit(cache=True, nogil=True)
def sparse_subtract(
    turned: Turned, seeds: Array, segments: Array, residuals: Array, tails_from: int, table: Array
) -> None:
    """table -= gradient, for residuals (n_rows, n_slots) that touch most nodes; arguments as `sparse_node_scores`.

    What short slots take from all rows from `tails_from` on is gathered in one more row, on the way down.
    """
    last = segments.shape[0] - 1
    tail = np.zeros(table.shape[1] if tails_from <= last else 0, table.dtype)
    for r in range(last + 1):
        begin, short, end = segments[r]
        _subtract_slots(turned, seeds, (begin, short), residuals, table[r], table, (0, -1))
        if tail.size:
            _subtract_slots(turned, seeds, (short, end), residuals, tail, table, (r, tails_from - 1))
        else:
            _subtract_slots(turned, seeds, (short, end), residuals, table[last], table, (r, last - 1))
        if r >= tails_from:
            _add_row(tail, table[r])


@numba.njit(cache=True, nogil=True)
def touched_slots(residuals: Array, parent: Array, leaf_of_class: Array, scale: float) -> tuple[Array, Array, Array]:
    """Slots of non-zero residual, found by walking up from the classes: for residuals that are 0 for most classes.

    residuals (n_rows, n_classes); parent, leaf_of_class as of `NodeLayout`; scale has the dtype of the residuals
    returns   starts (n_rows + 1,), slots and their residuals by row: scale * (sum of the residuals of the classes
              below), added up class by class; a slot whose classes cancel exactly is left out
    """
    n_rows = residuals.shape[0]
    sums, known = np.zeros(parent.size, residuals.dtype), np.zeros(parent.size, np.bool_)
    starts = np.zeros(n_rows + 1, np.int64)
    slots, found = np.empty(64, np.int64), np.empty(64, residuals.dtype)
    visited, n = np.empty(parent.size, np.int64), 0
    for i in range(n_rows):
        n_visited, given = 0, residuals[i]
        for c in range(given.size):
            if given[c] == 0:
                continue
            slot = leaf_of_class[c]
            while slot >= 0:
                if not known[slot]:
                    known[slot] = True
                    visited[n_visited] = slot
                    n_visited += 1
                sums[slot] += scale * given[c]
                slot = parent[slot]
        if n + n_visited > slots.size:
            slots = np.append(slots, np.empty(n + n_visited, np.int64))
            found = np.append(found, np.empty(n + n_visited, residuals.dtype))
        for v in range(n_visited):
            slot = visited[v]
            if sums[slot] != 0:
                slots[n], found[n] = slot, sums[slot]
                n += 1
            sums[slot], known[slot] = 0, False
        starts[i + 1] = n
    return starts, slots[:n], found[:n]


@numba.njit(cache=True, nogil=True)
def sparse_subtract_touched(
    rows: tuple[Array, Array, Array],
    touched: tuple[Array, Array, Array],
    seeds: Array,
    first: Array,
    last: Array,
    table: Array,
) -> None:
    """table[level, h(j)] -= xi(j) residual x_ij for every row and every slot of `touched`, at each of its levels.

    rows     data (nnz,) of the dtype of the table, indices (nnz,) int32, indptr (n_rows + 1,) int64
    touched  as of `touched_slots`; first, last (n_slots,) int64, a slot with first < 0 is not scored
    """
    data, indices, indptr = rows
    starts, slots, residuals = touched
    longest = 0
    for i in range(indptr.size - 1):
        longest = max(longest, indptr[i + 1] - indptr[i])
    mixed, words = np.empty(longest, np.uint32), np.empty(longest, np.uint32)
    for i in range(indptr.size - 1):
        values, columns = data[indptr[i] : indptr[i + 1]], indices[indptr[i] : indptr[i + 1]]
        for p in range(columns.size):
            mixed[p] = mixed_key(np.uint32(columns[p]))
        for t in range(starts[i], starts[i + 1]):
            slot, residual = slots[t], residuals[t]
            if first[slot] < 0:
                continue
            feature_words(mixed[: columns.size], seeds[slot], table.shape[1], words)
            for level in range(first[slot], last[slot] + 1):
                target = table[level]
                for p in range(columns.size):
                    change = residual * values[p]
                    target[bucket_of(words[p])] += change if is_negative(words[p]) else -change
