"""Growing one node of a label tree: classifiers and partition in turns (Deng et al. 2011, Algorithm 2).

A node asks a `Node` oracle to learn classifiers and to count where rows go, so it is the same whether its rows are in
memory or spread over blocks.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from tasks.fit.fit import FitResult
from tasks.fit.scorer import Parameters
from tasks.rows.base import Array
from tasks.seeds import stream
from tasks.trees.balance import balanced_groups
from tasks.trees.params import LabelTreeParams
from tasks.trees.partition import (
    Partition,
    accuracy_constrained,
    ambiguity_of,
    efficiency_constrained,
    loss_of,
    spend_rest,
)
from tasks.trees.tree import Path, Split
from tasks.trees.weights import SparseWeights


class Node(Protocol):
    """Whoever can reach the rows of a node. Its training rows are those that its ancestors sent here and whose class it
    holds; it is judged on the validation rows of that kind, and for classes that have none on training rows instead."""

    classes: Array  # (K,) int32, ascending
    n_features: int
    features: Array | None  # (n,) int32, ascending: those that weights are of, for sparse rows; None = all of them

    def learn(self, children: Array, start: Parameters | None, alternation: int) -> FitResult:
        """OP2: classifiers for a partition (Q, K) bool, from `start` if given."""
        ...

    def counts(self, weights: Parameters) -> Array:
        """(Q, K) float64: judging rows of class k that the classifiers send to child q, see `Balance`."""
        ...

    def runners_up(self, weights: Parameters) -> Array:
        """(Q, K) int64: judging rows whose second best child is q, training rows whose best or second best is."""
        ...

    def centroids(self) -> Array:
        """(K, width) float64: mean training row of each class, as of `class_sums`; zeros for a class without rows."""
        ...


@dataclass(frozen=True, eq=False)
class Grown:
    """A node, learnt.

    split    what goes into the tree
    record   plain values: loss and ambiguity on the judging rows, LP value and bound of the last partition, classes
             given up, operations really done, the steps tried
    """

    split: Split
    record: dict[str, Any]


def grow_node(node: Node, params: LabelTreeParams, seed: int, path: Path) -> Grown:
    """Algorithm 2 at one node with at least two classes; params as of `settled`.

    A full split (at depth H - 1, or with fewer than Q classes) has one child per class and learns once.
    """
    n_classes = node.classes.size
    if params.kind_of(n_classes, len(path)) == "full":
        children = np.eye(n_classes, dtype=bool)
        fitted = node.learn(children, None, 0)
        counts = node.counts(fitted.parameters)
        return _grown(node, children, fitted, [fitted], counts, None)
    children = first_partition(node, params, seed, path)
    fits: list[FitResult] = []
    for alternation in range(params.alternations):
        fits.append(node.learn(children, fits[-1].parameters if fits else None, alternation))
        counts = node.counts(fits[-1].parameters)
        partition = improve(counts, params)
        children = partition.children
    if params.runners_up and params.ambiguity is not None:
        children = spend_rest(counts, children, params.ambiguity, node.runners_up(fits[-1].parameters))
    return _grown(node, children, fits[-1], fits, counts, partition)


def first_partition(node: Node, params: LabelTreeParams, seed: int, path: Path) -> Array:
    """Where Algorithm 2 starts, (Q, K) bool: one random distinct class per child, or balanced groups of centroids."""
    assert params.branching is not None
    rng = stream(seed, "label-tree", *path)
    if params.initialisation == "kmeans":
        groups = balanced_groups(node.centroids(), params.branching, rng)
        return np.equal(groups, np.arange(params.branching)[:, None])
    children = np.zeros((params.branching, node.classes.size), bool)
    children[np.arange(params.branching), rng.permutation(node.classes.size)[: params.branching]] = True
    return children


def improve(counts: Array, params: LabelTreeParams) -> Partition:
    """OP3 when a loss is given, otherwise OP3' with the settled ambiguity."""
    if params.loss is not None:
        return accuracy_constrained(counts, params.loss)
    if params.ambiguity is None:
        raise ValueError("ambiguity is not settled: call settled(n_classes)")
    return efficiency_constrained(counts, params.ambiguity)


def _grown(
    node: Node, children: Array, fitted: FitResult, fits: list[FitResult], counts: Array, partition: Partition | None
) -> Grown:
    matrix = fitted.parameters["weights"]
    weights = matrix if node.features is None else SparseWeights.of(matrix, node.n_features, node.features)
    bias = fitted.parameters.get("bias", np.zeros(children.shape[0], matrix.dtype))
    record: dict[str, Any] = {
        "classes": int(node.classes.size),
        "children": int(children.shape[0]),
        "judged_rows": round(float(counts.sum())),
        "loss": loss_of(counts, children),
        "ambiguity": ambiguity_of(counts, children),
        "operations": float(sum(one.operations for one in fits)),
        "given_up": [int(c) for c in node.classes[~children.any(axis=0)]],
        "steps": [one.step for one in fits],
    }
    if partition is not None:
        record |= {"lp_value": partition.lp_value, "value": partition.value, "bound": partition.bound}
    return Grown(Split(node.classes, children, weights, bias), record)
