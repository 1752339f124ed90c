"""Scores of all splits of a tree, trained together: each row meets the splits on its class's path alone.

Objective (Bengio et al. 2010; margin 1 as in SPECS 5.11): gamma sum |w|^2 + mean over rows of a slack, see `TreeHinge`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tasks.fit.linear import LinearScorer
from tasks.fit.scaled import ScaledParameters
from tasks.fit.scorer import Parameters
from tasks.losses.base import Loss
from tasks.losses.tree_hinge import TreeHinge
from tasks.rows import Csr, Dense
from tasks.rows.base import Array, Rows
from tasks.trees.bengio.joint_kernels import Layout, dense_losses, dense_steps, sparse_losses, sparse_steps
from tasks.trees.taxonomy_tree import TaxonomyTree
from tasks.trees.weights import narrowed

ROWS_AT_ONCE = 1024  # rows decoded at a time


def layout_of(tree: TaxonomyTree, n_features: int, active: tuple[Array, Array] | None = None) -> Layout:
    """Where the weights of a tree's splits are.

    active  (columns, column_starts): the features of each node, ascending, one node after another, and where each
            node's begin; None: every split has all features
    """
    path_lengths, nodes, own = [], [], []
    for path in tree.paths():
        above = tree.parent[path]
        path_lengths.append(len(path))
        nodes.append(above)
        own.append(path - tree.first_child[above])
    columns, column_starts = active if active is not None else (np.zeros(0, np.int32), np.zeros(1, np.int64))
    inner = tree.n_children > 0
    widths = inner * n_features if active is None else np.diff(column_starts)
    return Layout(
        starts=np.concatenate([[0], np.cumsum(path_lengths)]).astype(np.int64),
        node=np.concatenate(nodes).astype(np.int32),
        own=np.concatenate(own).astype(np.int32),
        first=np.where(inner, tree.first_child - 1, 0).astype(np.int32),
        children=tree.n_children.astype(np.int32),
        weight_starts=np.concatenate([[0], np.cumsum(widths * tree.n_children.astype(np.int64))]).astype(np.int64),
        columns=columns.astype(np.int32),
        column_starts=column_starts.astype(np.int64) if active is not None else np.zeros(inner.size + 1, np.int64),
    )


def tree_hinge(layout: Layout) -> TreeHinge:
    """The loss over the columns of all splits."""
    first, children = layout.first[layout.node], layout.children[layout.node]
    return TreeHinge(layout.starts, first, children, (first + layout.own).astype(np.int32))


@dataclass(frozen=True, slots=True, eq=False)
class JointScorer(LinearScorer):
    """Parameters {"weights": 1-d, as `Layout` says, "bias": (n_outputs,)}; outputs are the children of all splits.

    layout   where the weights are
    sparse   whether a split has only the features that its rows have
    met      children that a training row meets on its class's path, on average
    """

    layout: Layout = field(kw_only=True)
    sparse: bool = field(kw_only=True)
    met: float = field(kw_only=True)

    def initial(self, dtype: type) -> Parameters:
        """See `Scorer.initial`."""
        parameters: Parameters = {"weights": np.zeros(self.layout.weight_starts[-1], dtype)}
        if self.bias:
            parameters["bias"] = np.zeros(self.n_outputs, dtype)
        return parameters

    def operations_per_row(self) -> float:
        """A dot product for each child on the row's path."""
        return self.met

    # ---- any split of any row: what the kernels do, one node after another ---------------------------------------

    def inner(self) -> Iterator[tuple[int, slice]]:
        """(node, its children's columns) of every split."""
        for node in np.flatnonzero(self.layout.children):
            first = int(self.layout.first[node])
            yield int(node), slice(first, first + int(self.layout.children[node]))

    def matrix(self, weights: Array, node: int) -> Array:
        """(features of the node, children): a view."""
        start, stop = self.layout.weight_starts[node : node + 2]
        return weights[start:stop].reshape(-1, int(self.layout.children[node]))

    def features(self, node: int) -> Array | None:
        """(n,) int32: the features of a node, None when it has all."""
        if not self.sparse:
            return None
        return self.layout.columns[self.layout.column_starts[node] : self.layout.column_starts[node + 1]]

    def scores(self, parameters: Parameters, rows: Rows) -> Array:
        """(n_rows, n_outputs): every child of every split."""
        out = np.empty((rows.n_rows, self.n_outputs), parameters["weights"].dtype)
        for node, columns in self.inner():
            out[:, columns] = narrowed(rows.decoded(), self.features(node)).scores(
                self.matrix(parameters["weights"], node)
            )
        if self.bias:
            out += parameters["bias"]
        return out

    def subtract(self, parameters: Parameters, rows: Rows, residuals: Array, step: float) -> None:
        """See `LinearScorer.subtract`."""
        for node, columns in self.inner():
            part = np.ascontiguousarray(residuals[:, columns])
            if part.any():
                own = narrowed(rows.decoded(), self.features(node))
                own.subtract_gradient(part, step, self.matrix(parameters["weights"], node))
        if self.bias:
            bias = parameters["bias"]
            bias -= bias.dtype.type(step * self.bias_rate) * residuals.sum(axis=0)

    def centred(self, parameters: Parameters, centre: Array, sign: float = 1.0) -> Parameters:
        """See `LinearScorer.centred`; rows that are centred are dense."""
        if not self.bias:
            raise ValueError("without a bias, centred rows have other scores")
        bias = parameters["bias"].copy()
        for node, columns in self.inner():
            shift = centre.astype(bias.dtype) @ self.matrix(parameters["weights"], node)
            bias[columns] += bias.dtype.type(sign) * shift
        return {**parameters, "bias": bias}

    # ---- training (see `tasks.fit.sgd.Fused`) --------------------------------------------------------------------

    def descend(
        self,
        loss: Loss,  # noqa: ARG002 - the one of `tree_hinge`, which the kernels know
        state: ScaledParameters,
        rows: Rows,
        labels: Array,
        order: Array,
        steps: Array,
        batch: int,
        decay: float,
        centre: Array | None = None,
    ) -> float:
        """See `tasks.fit.sgd.descend`."""
        weights, bias = state.values["weights"], _bias(state.values)
        size, total = batch * max(1, ROWS_AT_ONCE // batch), 0.0
        for start in range(0, order.size, size):
            chosen = order[start : start + size]
            taken = steps[start // batch : (start + size) // batch]
            own = labels[chosen], taken, batch, decay, self.bias_rate, self.layout, weights, bias, state.scale
            part = plain(rows.take(chosen), centre, weights.dtype)
            if isinstance(part, Csr):
                found = sparse_steps(part.data, part.indices, part.indptr, *own)
            else:
                found = dense_steps(part.to_array(weights.dtype.type), *own)
            total += found[0]
            state.scale = found[1]
        return total

    def sum_of_losses(self, loss: Loss, parameters: Parameters, rows: Rows, labels: Array) -> float:  # noqa: ARG002
        """Sum of the losses of rows."""
        weights, bias, total = parameters["weights"], _bias(parameters), 0.0
        for start in range(0, rows.n_rows, ROWS_AT_ONCE):
            stop = min(start + ROWS_AT_ONCE, rows.n_rows)
            part = plain(rows.part(start, stop), None, weights.dtype)
            own = labels[start:stop], self.layout, weights, bias
            if isinstance(part, Csr):
                total += sparse_losses(part.data, part.indices, part.indptr, *own)
            else:
                total += dense_losses(part.to_array(weights.dtype.type), *own)
        return total

    def blank_loss(self, labels: Array) -> float:
        """1 for every split on the rows' paths."""
        return float((self.layout.starts[labels + 1] - self.layout.starts[labels]).sum())


def _bias(parameters: Parameters) -> Array:
    return parameters.get("bias", np.zeros(0, parameters["weights"].dtype))


def plain(rows: Rows, centre: Array | None, dtype: Any) -> Rows:
    """Rows as `Csr` or `Dense` in a dtype, without their centre if there is one (then dense)."""
    part = rows.decoded()
    if centre is not None:
        return Dense(part.to_array(dtype.type) - centre.astype(dtype))
    if isinstance(part, Csr):
        indptr = np.asarray(part.indptr, np.int64)
        return Csr(part.data.astype(dtype, copy=False), part.indices, indptr, part.n_features)
    return part
