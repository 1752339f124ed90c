"""Label trees of rows that are in memory: the nodes of a task, samples, tests."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from tasks.fit.fit import FitResult, fit
from tasks.fit.linear import LinearScorer
from tasks.fit.local import LocalOracle
from tasks.fit.problem import SgdProblem
from tasks.fit.scorer import Parameters
from tasks.losses.child_softmax import child_of
from tasks.rows.base import Array, Rows
from tasks.rows.csr import Csr
from tasks.rows.pq import PqCodes
from tasks.trees.kmeans.node_fit import fit_whole, plain_rows, sum_likelihoods
from tasks.trees.kmeans.params import KMeansTreeParams
from tasks.trees.kmeans.reach import reached
from tasks.trees.kmeans.sharpness import likelihoods_of, sharpened
from tasks.trees.label_tree import grow_node
from tasks.trees.node import LIKELIHOODS, Grown
from tasks.trees.on_codes.local import fit_local
from tasks.trees.on_codes.slices import slices
from tasks.trees.params import LabelTreeParams, TreeParams
from tasks.trees.scale import held_likelihoods, scales_of
from tasks.trees.spherical import class_sums_of
from tasks.trees.tree import LabelTree, Path, Split, assemble
from tasks.trees.weights import active_features, narrowed, node_scores


@dataclass(frozen=True, eq=False)
class Labelled:
    """Rows with their classes: rows (n_rows, n_features), labels (n_rows,) int32."""

    rows: Rows
    labels: Array

    def take(self, index: Array) -> Labelled:
        return Labelled(self.rows.take(index), self.labels[index])


class LocalNode:
    """A node whose rows are in memory; see `Node`.

    classes     (K,) int32, ascending; rows of other classes must have been left out, unless the tree wants them
    train       training rows; validation: rows that judge
    Sparse rows are held with the features of the training rows as their only columns: the weights of all others stay 0.
    """

    def __init__(
        self,
        classes: Array,
        train: Labelled,
        validation: Labelled,
        params: TreeParams,
        seed: int,
        name: str,
        depth: int = 0,
    ) -> None:
        self.classes, self.params, self.seed, self.name, self.depth = classes, params, seed, name, depth
        own, others = train.rows, validation.rows
        if isinstance(params, KMeansTreeParams):
            own, others = plain_rows(own), plain_rows(others)
        self.features = active_features(own)
        self.n_features = own.n_features
        self.rows = narrowed(own, self.features)
        self.columns = columns_of(classes, train.labels)
        judged = columns_of(classes, validation.labels)
        self.validation = (narrowed(others, self.features), judged)
        self.judges: list[tuple[Rows, Array]] = [_of_class(*self.validation)]
        counted = (np.bincount(c[c >= 0], minlength=classes.size) for c in (self.columns, judged))
        self.balance = Balance.of(*counted)
        stand_ins = self.balance.stand_ins(self.columns)
        if stand_ins.size:
            self.judges.append((self.rows.take(stand_ins), self.columns[stand_ins]))

    def learn(self, children: Array, start: Parameters | None, alternation: int) -> FitResult:
        """See `Node.learn`. Rows of a class that no child holds pull no weights, so a label tree leaves them out."""
        name = f"{self.name}/{alternation}"
        by_tables = self.params.whole_passes
        if by_tables and self.params.foreign and isinstance(self.rows, PqCodes):
            return fit_local(self.rows, self.columns, children, self.params, self.depth)
        if isinstance(self.params, KMeansTreeParams):
            targets = child_of(children, self.columns)
            return fit_whole(self.rows, targets, len(children), self.depth > 0, self.params, self.seed, name)
        held = np.flatnonzero(classes_held(children)[self.columns])
        rows = self.rows if held.size == self.rows.n_rows else self.rows.take(held)
        if by_tables and isinstance(rows, PqCodes):
            return fit_local(rows, self.columns[held], children, self.params, self.depth, start)
        problem = node_problem(self.rows.n_features, children, self.params, self.seed, name, self.depth)
        problem = replace(problem, params=replace(problem.params, partitions=1, weighted=False))
        return fit(problem, LocalOracle(rows, self.columns[held], problem), start)

    def counts(self, weights: Parameters) -> Array:
        """See `Node.counts`."""
        shape = (weights["weights"].shape[1], self.classes.size)
        total = np.zeros(shape, np.int64)
        for rows, columns in self.judges:
            total = total + count_routes(rows, weights, columns, shape[1])
        return self.balance.weigh(total)

    def likelihoods(self, weights: Parameters, children: Array, scales: Array) -> Array:
        """See `Node.likelihoods`."""
        if not isinstance(self.params, KMeansTreeParams):
            judges = self.judges[:1] if self.judges[0][1].size else self.judges  # its own training rows flatter a node
            return judged_likelihoods(judges, weights, children, scales)
        rows, columns = self.validation
        return sum_likelihoods(rows, weights, child_of(children, columns), self.depth > 0, scales)

    def runners_up(self, weights: Parameters) -> Array:
        """See `Node.runners_up`."""
        shape = (weights["weights"].shape[1], self.classes.size)
        total = count_runners_up(self.rows, weights, self.columns, shape[1], first_too=True)
        for rows, columns in self.judges:
            total += count_runners_up(rows, weights, columns, shape[1])
        return total

    def centroids(self) -> Any:
        """See `Node.centroids`."""
        return class_sums_of(self.rows, self.columns, self.classes.size, self.seed).means()


def judged_likelihoods(
    judges: Iterable[tuple[Rows, Array]], weights: Parameters, children: Array, scales: Array
) -> Array:
    """See `scale.held_likelihoods`; judges: rows with their class columns."""
    bias, total = weights.get("bias", np.zeros(1, np.float32)), np.zeros(scales.size)
    for rows, columns in judges:
        total += held_likelihoods(rows, weights["weights"], bias, columns, children, scales)
    return total


def columns_of(classes: Array, labels: Array) -> Array:
    """(n_rows,) int32: where labels (n_rows,) are among classes (K,) int32 ascending; -1 where they are not."""
    place = np.minimum(np.searchsorted(classes, labels), max(0, classes.size - 1))
    held = classes[place] == labels if classes.size else np.zeros(labels.size, bool)
    return np.where(held, place, -1).astype(np.int32)


def _of_class(rows: Rows, columns: Array) -> tuple[Rows, Array]:
    """Those of the node's classes."""
    own = np.flatnonzero(columns >= 0)
    return (rows, columns) if own.size == columns.size else (rows.take(own), columns[own])


def classes_held(children: Array) -> Array:
    """(K,) bool: the classes that some child of a partition (Q, K) holds."""
    return np.asarray(children.any(axis=0))


@dataclass(frozen=True, eq=False)
class Balance:
    """How classes without validation rows at a node are judged: by their training rows, weighted down.

    without  (K,) bool: the classes that have none
    share    validation rows / training rows of the other classes: what one training row stands for
    """

    without: Array
    share: float

    @classmethod
    def of(cls, train: Array, validation: Array) -> Self:
        """Of the rows of each class at the node, both (K,) int64; without any validation rows all count as they are."""
        judged = validation > 0
        rows = int(train[judged].sum())
        return cls(np.asarray(~judged), int(validation.sum()) / rows if rows else 1.0)

    def stand_ins(self, columns: Array) -> Array:
        """Training rows, by their class columns, that judge in place of missing validation rows."""
        return np.flatnonzero(self.without[columns] & (columns >= 0))

    def weigh(self, counts: Array) -> Array:
        """Counts (Q, K) of judging rows with the stand-ins weighted, float64."""
        return np.where(self.without, counts * self.share, counts.astype(np.float64))


def node_name(path: Path) -> str:
    """0 for the root, 0.3.7 for the seventh child of its third child: folders, streams and records use it."""
    return ".".join(["0", *map(str, path)])


def node_problem(
    n_features: int, children: Array, params: TreeParams, seed: int, name: str, depth: int = 0
) -> SgdProblem:
    """OP2 of one node at `depth` as a fit; `name` is the place its random streams come from."""
    scorer = LinearScorer(n_features, children.shape[0], params.sgd.bias)
    return SgdProblem(scorer, params.loss_of(children, depth), params.sgd, seed, name)


def routes(rows: Rows, weights: Parameters) -> Array:
    """(n_rows,) int64: the child that each row goes to, ties to the lower."""
    return np.asarray(best_two(rows, weights)[0])


def best_two(rows: Rows, weights: Parameters) -> Array:
    """(2, n_rows) int64: best and second best child of each row, ties to the lower."""
    matrix, bias = weights["weights"], weights.get("bias", np.zeros(1, np.float32))
    return _best_two(rows, lambda part: node_scores(part, matrix, bias), matrix.shape[1])


def _best_two(rows: Rows, scores_of: Callable[[Rows], Array], n_children: int) -> Array:
    """The same of any scores (n_rows, n_children), which are held by slices."""
    best = np.empty((2, rows.n_rows), np.int64)
    for start, stop, part in slices(rows, n_children):
        scores = scores_of(part)
        best[0, start:stop] = scores.argmax(axis=1)
        scores[np.arange(stop - start), best[0, start:stop]] = -np.inf
        best[1, start:stop] = scores.argmax(axis=1)
    return best


def count_routes(rows: Rows, weights: Parameters, columns: Array, n_classes: int) -> Array:
    """(Q, K) int64: rows of class column k that go to child q."""
    return _tally(routes(rows, weights), columns, (weights["weights"].shape[1], n_classes))


def count_runners_up(rows: Rows, weights: Parameters, columns: Array, n_classes: int, first_too: bool = False) -> Array:
    """(Q, K) int64: rows of class column k whose second best child is q; with `first_too`, or whose best is."""
    first, second = best_two(rows, weights)
    shape = (weights["weights"].shape[1], n_classes)
    total = _tally(second, columns, shape)
    return np.asarray(total + _tally(first, columns, shape)) if first_too else total


def _tally(child: Array, columns: Array, shape: tuple[int, int]) -> Array:
    return np.bincount(child * shape[1] + columns, minlength=shape[0] * shape[1]).reshape(shape)


def sent_down(rows: Rows, columns: Array, split: Split, training: bool, params: TreeParams) -> tuple[Array, Array]:
    """Which rows of a node its children get: (index into the rows, child), ascending by child, then row.

    A row goes to its best child, if that holds its class. With training_rows = "of-class" a training row goes to every
    child that holds its class, so that a class shared by several children is learned from all its rows in each.
    In a k-means tree it goes to all that it reaches, see `reach.reached`; columns (n_rows,) are -1 for other classes.
    """
    if isinstance(params, KMeansTreeParams):
        return reached(rows, columns, split, params.reach_of(isinstance(plain_rows(rows), Csr)))
    assert isinstance(params, LabelTreeParams)
    if training and params.training_rows == "of-class":
        child, index = np.nonzero(split.children[:, columns])
        return index, child
    gone = _best_two(rows, split.scores, len(split.children))[0]
    stays = np.flatnonzero(split.children[gone, columns])
    order = stays[np.argsort(gone[stays], kind="stable")]
    return order, gone[order]


def grow_rows(
    train: Labelled, validation: Labelled, n_classes: int, params: TreeParams, seed: int, name: str = "tree"
) -> LabelTree:
    """A label tree, or k-means tree, grown in memory; the classes are 0..n_classes-1."""
    params = params.settled(n_classes, judges_per_class(train.labels.size, validation.labels.size, n_classes))
    every = np.arange(n_classes, dtype=np.int32)
    waiting: list[tuple[Path, Array, Labelled, Labelled]] = [((), every, train, validation)]
    grown: dict[Path, Grown] = {}
    while waiting:
        path, classes, own, judges = waiting.pop(0)
        if params.kind_of(classes.size, len(path)) == "leaf":
            continue
        if own.rows.n_rows == 0:
            continue
        node = LocalNode(classes, own, judges, params, seed, f"{name}/{node_name(path)}", len(path))
        grown[path] = grow_node(node, params, seed, path)
        split = grown[path].split
        if params.kind_of(classes.size, len(path)) == "full":
            continue
        sent = [
            (part, *sent_down(part.rows, columns_of(classes, part.labels), split, part is own, params))
            for part in (own, judges)
        ]
        for q in range(len(split.children)):
            first, second = (part.take(index[child == q]) for part, index, child in sent)
            waiting.append(((*path, q), split.classes_of(q), first, second))
    tree = tree_of(grown, train.rows.n_features, n_classes, params)
    return sharpened(tree, likelihoods_of(tree, validation.rows, validation.labels)) if tree.probabilistic else tree


def judges_per_class(n_train: int, n_validation: int, n_classes: int) -> float:
    """Mean number of judging rows of a class: validation rows, or training rows when there are none."""
    return (n_validation or n_train) / n_classes


def judged_by_depth(grown: Mapping[Path, Grown]) -> list[dict[str, float]]:
    """Local loss and ambiguity per depth, means over the rows that judged the nodes of that depth.

    These rows' classes are all still in their node's label set, so the losses are conditional on that (SPECS 5.5).
    """
    found = []
    for depth in sorted({len(path) for path in grown}):
        records = [grown[path].record for path in sorted(grown) if len(path) == depth]
        rows = sum(record["judged_rows"] for record in records)
        means = {
            name: sum(record["judged_rows"] * record[name] for record in records) / max(1, rows)
            for name in ("loss", "ambiguity")
        }
        found.append({"depth": depth, "rows": rows, **means})
    return found


def tree_of(grown: Mapping[Path, Grown], n_features: int, n_classes: int, params: TreeParams) -> LabelTree:
    """The tree of the grown nodes; its facts hold what was asked for and each node's record."""
    scales = scales_of({path: np.array(one.record[LIKELIHOODS]) for path, one in grown.items()})
    splits = {path: replace(one.split, scale=scales[path]) for path, one in grown.items()}
    records = {
        path: {key: value for key, value in one.record.items() if key != LIKELIHOODS} for path, one in grown.items()
    }
    order = sorted(grown, key=lambda path: (len(path), path))
    facts: dict[str, Any] = {
        **params.asked(),
        "operations": sum(grown[path].record["operations"] for path in order),
        "judged": judged_by_depth(grown),
        "nodes": [{"node": node_name(path), **records[path]} for path in order],
    }
    root = np.arange(n_classes, dtype=np.int32)
    return assemble(splits, n_features, n_classes, facts, root, kind=params.kind, link=params.link)
