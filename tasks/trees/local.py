"""Label trees of rows that are in memory: the nodes of a task, samples, tests."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tasks.fit.fit import FitResult, fit
from tasks.fit.linear import LinearScorer
from tasks.fit.local import LocalOracle
from tasks.fit.problem import SgdProblem
from tasks.fit.scorer import Parameters
from tasks.losses.overlap_hinge import OverlapHinge
from tasks.models.slices import slices
from tasks.rows.base import Array, Rows
from tasks.trees.balance import class_sums
from tasks.trees.label_tree import Grown, grow_node
from tasks.trees.params import LabelTreeParams
from tasks.trees.tree import LabelTree, Path, assemble


@dataclass(frozen=True, eq=False)
class Labelled:
    """Rows with their classes: rows (n_rows, n_features), labels (n_rows,) int32."""

    rows: Rows
    labels: Array

    def take(self, index: Array) -> Labelled:
        return Labelled(self.rows.take(index), self.labels[index])


class LocalNode:
    """A node whose rows are in memory; see `Node`.

    classes     (K,) int32, ascending; rows of other classes must have been left out
    train       training rows; validation: rows that judge
    """

    def __init__(
        self, classes: Array, train: Labelled, validation: Labelled, params: LabelTreeParams, seed: int, name: str
    ) -> None:
        self.classes, self.params, self.seed, self.name = classes, params, seed, name
        self.rows, self.columns = train.rows, np.searchsorted(classes, train.labels).astype(np.int32)
        judged = np.searchsorted(classes, validation.labels).astype(np.int32)
        self.judges: list[tuple[Rows, Array]] = [(validation.rows, judged)]
        stand_ins = stand_ins_of(self.columns, unjudged(judged, classes.size))
        if stand_ins.size:
            self.judges.append((train.rows.take(stand_ins), self.columns[stand_ins]))

    def learn(self, children: Array, start: Parameters | None, alternation: int) -> FitResult:
        """See `Node.learn`. Rows of a class that no child holds pull no weights, so they are left out."""
        held = np.flatnonzero(classes_held(children)[self.columns])
        rows = self.rows if held.size == self.rows.n_rows else self.rows.take(held)
        problem = node_problem(self.rows.n_features, children, self.params, self.seed, f"{self.name}/{alternation}")
        problem = replace(problem, params=replace(problem.params, partitions=1))
        return fit(problem, LocalOracle(rows, self.columns[held], problem), start)

    def counts(self, weights: Parameters) -> Array:
        """See `Node.counts`."""
        shape = (weights["weights"].shape[1], self.classes.size)
        return sum(
            (count_routes(rows, weights, columns, shape[1]) for rows, columns in self.judges), np.zeros(shape, np.int64)
        )

    def centroids(self) -> Array:
        """See `Node.centroids`."""
        return class_sums(self.rows, self.columns, self.classes.size, self.seed).means()


def classes_held(children: Array) -> Array:
    """(K,) bool: the classes that some child of a partition (Q, K) holds."""
    return np.asarray(children.any(axis=0))


def unjudged(columns: Array, n_classes: int) -> Array:
    """(n_classes,) bool: the classes that no validation row has; their training rows stand in."""
    return np.asarray(np.bincount(columns, minlength=n_classes) == 0)


def stand_ins_of(columns: Array, without: Array) -> Array:
    """Training rows that judge in place of missing validation rows; `without` as of `unjudged`."""
    return np.flatnonzero(without[columns])


def node_name(path: Path) -> str:
    """0 for the root, 0.3.7 for the seventh child of its third child: folders, streams and records use it."""
    return ".".join(["0", *map(str, path)])


def node_problem(n_features: int, children: Array, params: LabelTreeParams, seed: int, name: str) -> SgdProblem:
    """OP2 of one node as a fit; `name` is the place its random streams come from."""
    scorer = LinearScorer(n_features, children.shape[0], params.bias)
    return SgdProblem(scorer, OverlapHinge(children), params.sgd, seed, name)


def node_scores(rows: Rows, weights: Parameters) -> Array:
    """(n_rows, Q) float32."""
    scores: Array = rows.scores(weights["weights"])
    if "bias" in weights:
        scores += weights["bias"]
    return scores


def routes(rows: Rows, weights: Parameters) -> Array:
    """(n_rows,) int64: the child that each row goes to, ties to the lower; scores are held for a slice at a time."""
    n_children = weights["weights"].shape[1]
    child = np.empty(rows.n_rows, np.int64)
    for start, stop, part in slices(rows, n_children):
        child[start:stop] = node_scores(part, weights).argmax(axis=1)
    return child


def count_routes(rows: Rows, weights: Parameters, columns: Array, n_classes: int) -> Array:
    """(Q, K) int64: rows of class column k that go to child q."""
    n_children = weights["weights"].shape[1]
    cells = routes(rows, weights) * n_classes + columns
    return np.bincount(cells, minlength=n_children * n_classes).reshape(n_children, n_classes)


def grow_rows(
    train: Labelled, validation: Labelled, n_classes: int, params: LabelTreeParams, seed: int, name: str = "tree"
) -> LabelTree:
    """A label tree grown in memory; the classes are 0..n_classes-1."""
    params = params.settled(n_classes)
    every = np.arange(n_classes, dtype=np.int32)
    waiting: list[tuple[Path, Array, Labelled, Labelled]] = [((), every, train, validation)]
    grown: dict[Path, Grown] = {}
    while waiting:
        path, classes, own, judges = waiting.pop(0)
        if params.kind_of(classes.size, len(path)) == "leaf":
            continue
        if own.rows.n_rows == 0:
            continue
        node = LocalNode(classes, own, judges, params, seed, f"{name}/{node_name(path)}")
        grown[path] = grow_node(node, params, seed, path)
        split = grown[path].split
        if params.kind_of(classes.size, len(path)) == "full":
            continue
        gone = [routes(part.rows, split.parameters()) for part in (own, judges)]
        for q in range(len(split.children)):
            held = split.classes_of(q)
            chosen = [
                np.flatnonzero((child == q) & np.isin(part.labels, held))
                for part, child in zip((own, judges), gone, strict=True)
            ]
            waiting.append(((*path, q), held, own.take(chosen[0]), judges.take(chosen[1])))
    return tree_of(grown, train.rows.n_features, n_classes, params)


def tree_of(grown: Mapping[Path, Grown], n_features: int, n_classes: int, params: LabelTreeParams) -> LabelTree:
    """The tree of the grown nodes; its facts hold what was asked for and each node's record."""
    splits = {path: one.split for path, one in grown.items()}
    order = sorted(grown, key=lambda path: (len(path), path))
    facts: dict[str, Any] = {
        "branching": params.branching,
        "depth": params.depth,
        "ambiguity": params.ambiguity,
        "loss": params.loss,
        "initialisation": params.initialisation,
        "operations": sum(grown[path].record["operations"] for path in order),
        "nodes": [{"node": node_name(path), **grown[path].record} for path in order],
    }
    return assemble(splits, n_features, n_classes, facts, np.arange(n_classes, dtype=np.int32))
