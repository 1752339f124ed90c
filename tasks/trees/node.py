"""A node of a growing tree: what is asked of whoever can reach its rows, and what it has become."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from tasks.fit.fit import FitResult
from tasks.fit.scorer import Parameters
from tasks.rows.base import Array
from tasks.trees.partition import Partition, ambiguity_of, loss_of
from tasks.trees.scale import SCALES
from tasks.trees.tree import Split
from tasks.trees.weights import SparseWeights

LIKELIHOODS = "likelihoods"  # of a node's record: from which its scale is found when all nodes are grown


class Node(Protocol):
    """Whoever can reach the rows of a node: in memory, or spread over blocks.

    A label tree's training rows are those that its ancestors sent here and whose class it holds; it is judged on the
    validation rows of that kind, and for classes that have none on training rows instead. Of trees that train on all
    rows that reach a node, others' rows come as well: class column -1, "none of these".
    """

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

    def centroids(self) -> Any:
        """(K, width): mean training row of each class, as of `class_sums_of`; zeros for one without."""
        ...

    def likelihoods(self, weights: Parameters, children: Array, scales: Array) -> Array:
        """(n_scales,) float64: log-probability that judging rows go to a child with their class, of scaled scores.

        children (Q, K) bool; scales (n_scales,) float64. Where others' rows come, too: of the validation rows, to the
        child with their class or to none.
        """
        ...


@dataclass(frozen=True, eq=False)
class Grown:
    """A node, learnt.

    split    what goes into the tree
    record   plain values: loss and ambiguity on the judging rows, LP value and bound of the last partition, classes
             given up, operations really done, the steps tried, what judging rows say of scales
    """

    split: Split
    record: dict[str, Any]


def grown_of(node: Node, children: Array, fits: list[FitResult], counts: Array, partition: Partition | None) -> Grown:
    """A node with the classifiers of the last of its fits.

    children (Q, K) bool; counts (Q, K) of its judging rows; partition None: there was none to be improved
    """
    parameters = fits[-1].parameters
    matrix = parameters["weights"]
    weights = matrix if node.features is None else SparseWeights.of(matrix, node.n_features, node.features)
    bias = parameters.get("bias", np.zeros(children.shape[0], matrix.dtype))
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
    record[LIKELIHOODS] = node.likelihoods(parameters, children, SCALES).tolist()
    return Grown(Split(node.classes, children, weights, bias), record)
