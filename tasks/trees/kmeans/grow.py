"""Growing one node of a k-means tree: balanced clusters of class centroids, classifiers of the rows that reach it.

What the field of extreme classification uses (PECOS: Yu et al. 2022, Parabel: Prabhu et al. 2018), with one turn more.
There, a node learns from the rows of its classes alone and the values of a path are multiplied, or from negatives that
the tree confuses. Here a row goes on to the child of its class and to those others that the node ranks best (`reach`);
below the root it learns to answer "none of mine", an output of score 0. That a row reaches a node is a function of the
row, so what the node tells of its class is its probability as it stands: values are not multiplied down the path, and
a router's doubts do not spoil the last split's knowledge.
"""

from __future__ import annotations

import numpy as np

from tasks.rows.base import Array
from tasks.seeds import stream
from tasks.trees.kmeans.params import KMeansTreeParams
from tasks.trees.node import Grown, Node, grown_of
from tasks.trees.spherical import clusters
from tasks.trees.tree import Path


def grow_clusters(node: Node, params: KMeansTreeParams, seed: int, path: Path) -> Grown:
    """Grow a node with at least two classes; params as of `settled`."""
    children = first_clusters(node, params, seed, path)
    fitted = node.learn(children, None, 0)
    counts = node.counts(fitted.parameters)
    return grown_of(node, children, [fitted], counts, None)


def first_clusters(node: Node, params: KMeansTreeParams, seed: int, path: Path) -> Array:
    """(Q, K) bool: one child per class at the last split, otherwise clusters of nearly equal numbers of classes."""
    n_classes = node.classes.size
    if params.kind_of(n_classes, len(path)) == "full":
        return np.eye(n_classes, dtype=bool)
    assert params.branching is not None
    groups = clusters(node.centroids(), params.branching, stream(seed, params.kind, *path))
    return np.equal(groups, np.arange(params.branching)[:, None])
