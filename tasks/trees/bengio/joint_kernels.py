"""Steps of joint training: a row meets the splits on its class's path and no others (Bengio et al. 2010).

Weights of a split are one matrix (features, children) in C order, and these follow one another in a vector: what a row
touches is contiguous. Of sparse rows a split has only the features that rows of its classes have.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tasks.later import numba
from tasks.rows.base import Array

SMALLEST = 1e-4  # of the common factor of all weights, before float32 loses digits


class Layout(NamedTuple):
    """Where everything is.

    starts           (n_classes + 1,) int64 into node and own: the splits on the path of each class
    node, own        (n_steps,) int32: a split's node, and which of its children leads to the class
    first, children  (n_nodes,) int32: column of a node's first child among all children of splits; its children
    weight_starts    (n_nodes + 1,) int64: a node's matrix within the weights
    columns          (n_columns,) int32: the features of each node, ascending within it; empty where all have all
    column_starts    (n_nodes + 1,) int64 into `columns`
    """

    starts: Array
    node: Array
    own: Array
    first: Array
    children: Array
    weight_starts: Array
    columns: Array
    column_starts: Array


@numba.njit(cache=True, nogil=True)
def worse(scores: Array, own: int, bias: Array, first: int, scale: float, highest: float) -> tuple[float, int]:
    """(1 + f_r - f_own, r) of the child r that exceeds `highest` by most, or (highest, -1); ties to the lower.

    scores (n_children,): products before the common factor `scale`; bias (n_columns,), empty for none
    """
    found = -1
    right = scores[own] + (bias[first + own] if bias.size else 0.0)
    for c in range(scores.size):
        if c != own:
            value = 1.0 + scale * (scores[c] + (bias[first + c] if bias.size else 0.0) - right)
            if value > highest:
                highest, found = value, c
    return highest, found


@numba.njit(cache=True, nogil=True)
def worst_dense(
    x: Array, label: int, layout: Layout, weights: Array, bias: Array, scale: float, scores: Array
) -> tuple[float, int, int]:
    """(loss, step, child) of one row: the split on its path and the sibling there that break the margin most.

    x (n_features,); scores is scratch of the widest split's size. No loss: (0, -1, -1).
    """
    highest, at, wrong = 0.0, -1, -1
    for step in range(layout.starts[label], layout.starts[label + 1]):
        node = layout.node[step]
        width = layout.children[node]
        products = scores[:width]
        products[:] = 0
        matrix = weights[layout.weight_starts[node] : layout.weight_starts[node + 1]].reshape(-1, width)
        for j in range(x.size):
            value, source = x[j], matrix[j]
            for c in range(width):
                products[c] += value * source[c]
        highest, child = worse(products, layout.own[step], bias, layout.first[node], scale, highest)
        if child >= 0:
            at, wrong = step, child
    return highest, at, wrong


@numba.njit(cache=True, nogil=True)
def find(columns: Array, low: int, high: int, feature: int) -> int:
    """The place of a feature in columns[low:high], ascending; -1 when it is not there."""
    stop = high
    while low < high:
        middle = (low + high) // 2
        if columns[middle] < feature:
            low = middle + 1
        else:
            high = middle
    return low if low < stop and columns[low] == feature else -1


@numba.njit(cache=True, nogil=True)
def worst_sparse(
    data: Array, indices: Array, label: int, layout: Layout, weights: Array, bias: Array, scale: float, scores: Array
) -> tuple[float, int, int]:
    """The same of a sparse row: data, indices (nnz,)."""
    highest, at, wrong = 0.0, -1, -1
    for step in range(layout.starts[label], layout.starts[label + 1]):
        node = layout.node[step]
        width = layout.children[node]
        products = scores[:width]
        products[:] = 0
        low, high = layout.column_starts[node], layout.column_starts[node + 1]
        for p in range(data.size):
            place = find(layout.columns, low, high, indices[p])
            if place >= 0:
                start = layout.weight_starts[node] + (place - low) * width
                value, source = data[p], weights[start : start + width]
                for c in range(width):
                    products[c] += value * source[c]
        highest, child = worse(products, layout.own[step], bias, layout.first[node], scale, highest)
        if child >= 0:
            at, wrong = step, child
    return highest, at, wrong


@numba.njit(cache=True, nogil=True)
def move_bias(layout: Layout, step: int, wrong: int, bias: Array, change: float) -> None:
    """bias += change at the right child of a step, -= at the wrong one."""
    if bias.size:
        first = layout.first[layout.node[step]]
        bias[first + layout.own[step]] += change
        bias[first + wrong] -= change


@numba.njit(cache=True, nogil=True)
def shrink(weights: Array, bias: Array, scale: float) -> float:
    """The common factor, multiplied into weights and bias when it has become small; returns what is left of it."""
    if scale >= SMALLEST:
        return scale
    for p in range(weights.size):
        weights[p] *= scale
    for p in range(bias.size):
        bias[p] *= scale
    return 1.0


@numba.njit(cache=True, nogil=True)
def dense_steps(
    values: Array,
    labels: Array,
    steps: Array,
    batch: int,
    decay: float,
    bias_rate: float,
    layout: Layout,
    weights: Array,
    bias: Array,
    scale: float,
) -> tuple[float, float]:
    """A step a batch of dense rows, in order; see `tasks.fit.sgd.descend`. Returns (sum of losses, common factor).

    values (n_rows, n_features), labels (n_rows,) int32, steps (ceil(n_rows / batch),) float64
    weights, bias  before the common factor, changed in place
    """
    scores = np.empty(layout.children.max(), weights.dtype)
    ats, wrongs = np.empty(batch, np.int64), np.empty(batch, np.int64)
    total = 0.0
    for b in range(steps.size):
        start, stop = b * batch, min((b + 1) * batch, labels.size)
        for i in range(start, stop):
            loss, ats[i - start], wrongs[i - start] = worst_dense(
                values[i], labels[i], layout, weights, bias, scale, scores
            )
            total += loss
        scale = shrink(weights, bias, scale * max(1.0 - steps[b] * decay, 0.0))
        factor = steps[b] / ((stop - start) * scale)
        for i in range(start, stop):
            at, wrong = ats[i - start], wrongs[i - start]
            if at >= 0:
                node, right = layout.node[at], layout.own[at]
                span = weights[layout.weight_starts[node] : layout.weight_starts[node + 1]]
                matrix = span.reshape(-1, layout.children[node])
                for j in range(values.shape[1]):
                    change = weights.dtype.type(factor) * values[i, j]
                    matrix[j, right] += change
                    matrix[j, wrong] -= change
                move_bias(layout, at, wrong, bias, weights.dtype.type(factor * bias_rate))
    return total, scale


@numba.njit(cache=True, nogil=True)
def sparse_steps(
    data: Array,
    indices: Array,
    indptr: Array,
    labels: Array,
    steps: Array,
    batch: int,
    decay: float,
    bias_rate: float,
    layout: Layout,
    weights: Array,
    bias: Array,
    scale: float,
) -> tuple[float, float]:
    """The same of sparse rows: data, indices (nnz,), indptr (n_rows + 1,) int64."""
    scores = np.empty(layout.children.max(), weights.dtype)
    ats, wrongs = np.empty(batch, np.int64), np.empty(batch, np.int64)
    total = 0.0
    for b in range(steps.size):
        start, stop = b * batch, min((b + 1) * batch, labels.size)
        for i in range(start, stop):
            row = slice(indptr[i], indptr[i + 1])
            loss, ats[i - start], wrongs[i - start] = worst_sparse(
                data[row], indices[row], labels[i], layout, weights, bias, scale, scores
            )
            total += loss
        scale = shrink(weights, bias, scale * max(1.0 - steps[b] * decay, 0.0))
        factor = steps[b] / ((stop - start) * scale)
        for i in range(start, stop):
            at, wrong = ats[i - start], wrongs[i - start]
            if at >= 0:
                node, right = layout.node[at], layout.own[at]
                low, high, width = layout.column_starts[node], layout.column_starts[node + 1], layout.children[node]
                for p in range(indptr[i], indptr[i + 1]):
                    place = find(layout.columns, low, high, indices[p])
                    if place >= 0:
                        change = weights.dtype.type(factor) * data[p]
                        start_of = layout.weight_starts[node] + (place - low) * width
                        weights[start_of + right] += change
                        weights[start_of + wrong] -= change
                move_bias(layout, at, wrong, bias, weights.dtype.type(factor * bias_rate))
    return total, scale


@numba.njit(cache=True, nogil=True)
def dense_losses(values: Array, labels: Array, layout: Layout, weights: Array, bias: Array) -> float:
    """Sum of the losses of dense rows."""
    scores, total = np.empty(layout.children.max(), weights.dtype), 0.0
    for i in range(labels.size):
        total += worst_dense(values[i], labels[i], layout, weights, bias, 1.0, scores)[0]
    return total


@numba.njit(cache=True, nogil=True)
def sparse_losses(
    data: Array, indices: Array, indptr: Array, labels: Array, layout: Layout, weights: Array, bias: Array
) -> float:
    """Sum of the losses of sparse rows."""
    scores, total = np.empty(layout.children.max(), weights.dtype), 0.0
    for i in range(labels.size):
        row = slice(indptr[i], indptr[i + 1])
        total += worst_sparse(data[row], indices[row], labels[i], layout, weights, bias, 1.0, scores)[0]
    return total
