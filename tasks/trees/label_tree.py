"""Growing one node of a label tree: classifiers and partition in turns (Deng et al. 2011, Algorithm 2).

A node asks a `Node` oracle to learn classifiers and to count where rows go, so it is the same whether its rows are in
memory or spread over blocks.
"""

from __future__ import annotations

import numpy as np

from tasks.fit.fit import FitResult
from tasks.rows.base import Array
from tasks.seeds import stream
from tasks.trees.kmeans.grow import grow_clusters
from tasks.trees.kmeans.params import KMeansTreeParams
from tasks.trees.node import Grown, Node, grown_of
from tasks.trees.params import LabelTreeParams, TreeParams
from tasks.trees.partition import Partition, accuracy_constrained, efficiency_constrained, spend_rest
from tasks.trees.spherical import clusters
from tasks.trees.tree import Path


def grow_node(node: Node, params: TreeParams, seed: int, path: Path) -> Grown:
    """Grow a node with at least two classes as its tree's parameters, as of `settled`, say."""
    if isinstance(params, KMeansTreeParams):
        return grow_clusters(node, params, seed, path)
    if isinstance(params, LabelTreeParams):
        return grow_learned(node, params, seed, path)
    raise TypeError(f"no tree grows with {type(params).__name__}")


def grow_learned(node: Node, params: LabelTreeParams, seed: int, path: Path) -> Grown:
    """Algorithm 2 at one node with at least two classes; params as of `settled`.

    A full split (at depth H - 1, or with fewer than Q classes) has one child per class and learns once.
    """
    n_classes = node.classes.size
    if params.kind_of(n_classes, len(path)) == "full":
        children = np.eye(n_classes, dtype=bool)
        fitted = node.learn(children, None, 0)
        counts = node.counts(fitted.parameters)
        return grown_of(node, children, [fitted], counts, None)
    children = first_partition(node, params, seed, path)
    fits: list[FitResult] = []
    for alternation in range(params.alternations):
        fits.append(node.learn(children, fits[-1].parameters if fits else None, alternation))
        counts = node.counts(fits[-1].parameters)
        partition = improve(counts, params)
        children = partition.children
        if not children.any():  # the cap leaves room for no class at all: nothing is left to be learnt
            break
    if params.runners_up and params.ambiguity is not None:
        children = spend_rest(counts, children, params.ambiguity, node.runners_up(fits[-1].parameters))
    return grown_of(node, children, fits, counts, partition)


def first_partition(node: Node, params: LabelTreeParams, seed: int, path: Path) -> Array:
    """Where Algorithm 2 starts, (Q, K) bool: one random distinct class per child, or balanced groups of centroids."""
    assert params.branching is not None
    rng = stream(seed, "label-tree", *path)
    if params.initialisation == "kmeans":
        groups = clusters(node.centroids(), params.branching, rng)
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
