"""A label tree as flat arrays, and the walk down it (Deng et al. 2011, Algorithm 1)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import numba
import numpy as np

from tasks.models.base import Ranking
from tasks.models.errors import ModelFormat
from tasks.models.slices import check_width, slice_rows
from tasks.rows.base import Array, Rows
from tasks.trees.weights import SparseWeights, entries_fit, entry_dtype

NONE = -1  # no class (NULL), no node

TENSORS = ("first_child", "n_children", "offsets", "classes", "weights", "bias")
SPARSE_TENSORS = ("columns", "column_offsets", "entry_offsets", "entries")  # beside these, of a tree of sparse weights
LEARNT, GIVEN = "label-tree", "tree-svm"  # kinds: the tree was learnt with its weights, or is a taxonomy

Path = tuple[int, ...]  # a node's place: which child at each split from the root; the root is ()


@dataclass(frozen=True, eq=False)
class Split:
    """An inner node, learnt.

    classes    (K,) int32, ascending: the classes of the node
    children   (Q, K) bool: which child holds which class (P)
    weights    (n_features, Q) float32, a matrix or sparse
    bias       (Q,) float32, zeros for a tree without bias
    """

    classes: Array
    children: Array
    weights: Array | SparseWeights
    bias: Array

    def classes_of(self, child: int) -> Array:
        """Classes of one child, ascending."""
        held: Array = self.classes[self.children[child]]
        return held

    def parameters(self) -> dict[str, Array]:
        """Weights, as a matrix of all features, and bias under the names that a linear scorer gives them."""
        whole = self.weights.to_array() if isinstance(self.weights, SparseWeights) else self.weights
        return {"weights": whole, "bias": self.bias}

    def scores(self, rows: Rows) -> Array:
        """(n_rows, Q) float32."""
        return node_scores(rows, self.weights, self.bias)


def node_scores(rows: Rows, weights: Array | SparseWeights, bias: Array) -> Array:
    """X W + b at one node: weights (n_features, n_children), bias (n_children,) -> (n_rows, n_children)."""
    scores: Array = weights.scores(rows) if isinstance(weights, SparseWeights) else rows.scores(weights)
    scores += bias
    return scores


@numba.njit(cache=True, nogil=True)
def best_classes(scores: Array, first: int, offsets: Array, classes: Array, labels: Array, values: Array) -> None:
    """Classes at the last split of each row, by descending score of the child that holds them; ties to the lower child.

    scores   (n_rows, Q): scores of the children of one node; child q is node first + q
    offsets  (n_nodes + 1,) int64 into classes (total,) int32: the label set of each node, ascending
    labels   (n_rows, top) int32 out, values (n_rows, top) float32 out: filled from the left, both prefilled with "none"
    An empty best child is the answer "none" in the first place; later empty children are passed over.
    """
    top = labels.shape[1]
    for i in range(scores.shape[0]):
        used = np.zeros(scores.shape[1], np.bool_)
        found = 0
        for turn in range(scores.shape[1]):
            best = -1
            for q in range(scores.shape[1]):
                if not used[q] and (best < 0 or scores[i, q] > scores[i, best]):
                    best = q
            used[best] = True
            start, stop = offsets[first + best], offsets[first + best + 1]
            if turn == 0 and start == stop:
                found = 1
            for p in range(start, stop):
                seen = False
                for t in range(found):
                    seen = seen or labels[i, t] == classes[p]
                if not seen and found < top:
                    labels[i, found], values[i, found] = classes[p], scores[i, best]
                    found += 1
            if found >= top:
                break


@numba.njit(cache=True, nogil=True)
def name_siblings(
    scores: Array, first: int, n_children: Array, offsets: Array, classes: Array, labels: Array, values: Array
) -> None:
    """Put the classes of the children passed over at a split before those named so far, best child first.

    The children of a split share no class. The child that is walked to, the best one (ties to the lower), is named too,
    before the others, when it is a leaf. A child's classes are named in ascending order: nothing tells them apart.
    scores          (n_rows, Q), children first ... first + Q - 1; n_children, offsets, classes as of a `LabelTree`
    labels, values  (n_rows, top) int32 and float32, changed: classes from the left, and their children's scores
    """
    top, width = labels.shape[1], scores.shape[1]
    named, scored = np.empty(top, np.int32), np.empty(top, np.float32)
    for i in range(scores.shape[0]):
        used = np.zeros(width, np.bool_)
        found = 0
        for turn in range(width):
            best = -1
            for q in range(width):
                if not used[q] and (best < 0 or scores[i, q] > scores[i, best]):
                    best = q
            used[best] = True
            if turn == 0 and n_children[first + best] > 0:
                continue
            if found >= top:
                break
            for p in range(offsets[first + best], min(offsets[first + best + 1], offsets[first + best] + top - found)):
                named[found], scored[found] = classes[p], scores[i, best]
                found += 1
        for place in range(top - 1, found - 1, -1):
            labels[i, place], values[i, place] = labels[i, place - found], values[i, place - found]
        for place in range(found):
            labels[i, place], values[i, place] = named[place], scored[place]


@dataclass(frozen=True, eq=False)
class LabelTree:
    """A label tree. Node ids are breadth-first from the root, so the children of a node are consecutive.

    first_child   (n_nodes,) int32: id of the first child, -1 for a leaf
    n_children    (n_nodes,) int32: 0 for a leaf
    offsets       (n_nodes + 1,) int64 into `classes`: the label set of each node
    classes       (total,) int32, ascending within a node
    weights       1-d float32: the (n_features, n_children) matrices of the inner nodes, C order, one after another:
                  each node's is contiguous, so that a walk touches only what it needs
    bias          (n_nodes - 1,) float32: node n's is bias[n - 1]
    A tree learnt from sparse rows holds of its matrices what is not zero (`SparseWeights`), node after node:
    columns         (n_columns,) int32: the features with weights at a node, ascending within the node
    column_offsets  (n_nodes + 1,) int64 into `columns`: those of each node
    entry_offsets   (n_columns + 1,) int64 into `entries` and `weights`: those of each column
    entries         uint16 or uint32, of the length of `weights`: the child of each weight
    n_features    width of the rows; n_classes size of the class table; facts: plain values that describe its making
    kind          LEARNT; or GIVEN, where the children of a node share no class and every leaf has one
    """

    first_child: Array
    n_children: Array
    offsets: Array
    classes: Array
    weights: Array
    bias: Array
    n_features: int
    n_classes: int
    facts: Mapping[str, Any]
    columns: Array | None = None
    column_offsets: Array | None = None
    entry_offsets: Array | None = None
    entries: Array | None = None
    kind: str = LEARNT

    @property
    def n_nodes(self) -> int:
        return int(self.first_child.size)

    @cached_property
    def depth_of(self) -> Array:
        """(n_nodes,) int32: 0 at the root."""
        depth = np.zeros(self.n_nodes, np.int32)
        for node in np.flatnonzero(self.n_children):
            first = self.first_child[node]
            depth[first : first + self.n_children[node]] = depth[node] + 1
        return depth

    @cached_property
    def _weight_offsets(self) -> Array:
        sizes = self.n_children.astype(np.int64) * self.n_features
        return np.concatenate([[0], np.cumsum(sizes)])

    def label_set(self, node: int) -> Array:
        """Classes of a node, ascending."""
        held: Array = self.classes[self.offsets[node] : self.offsets[node + 1]]
        return held

    def node_weights(self, node: int) -> Array | SparseWeights:
        """(n_features, n_children) float32 of an inner node."""
        if self.columns is not None:
            return self._sparse_weights(node)
        start, stop = self._weight_offsets[node : node + 2]
        matrix: Array = self.weights[start:stop].reshape(self.n_features, -1)
        return matrix

    def _sparse_weights(self, node: int) -> SparseWeights:
        assert self.columns is not None
        assert self.column_offsets is not None
        assert self.entry_offsets is not None
        assert self.entries is not None
        first, last = self.column_offsets[node : node + 2]
        starts = self.entry_offsets[first : last + 1]
        held = slice(starts[0], starts[-1])
        return SparseWeights(
            columns=self.columns[first:last],
            starts=starts - starts[0],
            entries=self.entries[held],
            values=self.weights[held],
            shape=(self.n_features, int(self.n_children[node])),
        )

    def node_scores(self, node: int, rows: Rows) -> Array:
        """(n_rows, n_children) float32 of the rows at an inner node."""
        first = self.first_child[node] - 1
        return node_scores(rows, self.node_weights(node), self.bias[first : first + self.n_children[node]])

    def rank(self, rows: Rows, top: int) -> Ranking:
        """Walk every row down; then the classes at its last split, the leaf's class first (see `best_classes`).

        Of a taxonomy's tree, whose last splits may have few classes, those of the siblings passed over further up
        follow, the nearest to the leaf first (see `name_siblings`), each with its score at its own split.
        Raises ColumnMismatch.
        """
        check_width(rows, self.n_features, self.kind)
        n = rows.n_rows
        labels, values = np.full((n, top), NONE, np.int32), np.full((n, top), np.nan, np.float32)
        evaluations, path = np.zeros(n, np.int32), np.full((n, int(self.depth_of.max()) + 1), NONE, np.int32)
        path[:, 0] = 0
        if self.n_children[0] == 0:
            held = self.label_set(0)[:top]
            labels[:, : held.size], values[:, : held.size] = held, 0.0
        for depth in range(path.shape[1] - 1):
            for node, members in _by_node(path[:, depth], self.n_children):
                size = slice_rows(int(self.n_children[node]))
                for start in range(0, members.size, size):
                    index = members[start : start + size]
                    scores = self.node_scores(node, rows.take(index))
                    child = self.first_child[node] + scores.argmax(axis=1).astype(np.int32)
                    path[index, depth + 1] = child
                    evaluations[index] += self.n_children[node]
                    self._answer(node, index, child, scores, labels, values)
        return Ranking(labels, values, evaluations, path)

    def _answer(self, node: int, index: Array, child: Array, scores: Array, labels: Array, values: Array) -> None:
        """Fill labels and values of the rows whose walk ends at a leaf below `node`; of all rows in a taxonomy's."""
        if self.kind == GIVEN:
            found, scored = labels[index], values[index]
            first = int(self.first_child[node])
            name_siblings(scores, first, self.n_children, self.offsets, self.classes, found, scored)
            labels[index], values[index] = found, scored
            return
        ended = self.n_children[child] == 0
        if not ended.any():
            return
        shape = (int(ended.sum()), labels.shape[1])
        found, scored = np.full(shape, NONE, np.int32), np.full(shape, np.nan, np.float32)
        best_classes(scores[ended], int(self.first_child[node]), self.offsets, self.classes, found, scored)
        labels[index[ended]], values[index[ended]] = found, scored

    def header(self) -> dict[str, Any]:
        """Plain values for model.json."""
        return {"kind": self.kind, "tree": {"n_nodes": self.n_nodes, "shape": shape_counts(self), **self.facts}}

    def tensors(self) -> dict[str, Array]:
        """Arrays for weights.safetensors."""
        names = TENSORS if self.columns is None else (*TENSORS, *SPARSE_TENSORS)
        return {name: np.ascontiguousarray(getattr(self, name)) for name in names}

    @classmethod
    def load(cls, header: dict[str, Any], tensors: dict[str, Array]) -> Self:
        """The tree that `header` and `tensors` describe. Raises ModelFormat when they do not fit together."""
        if set(tensors) not in ({*TENSORS}, {*TENSORS, *SPARSE_TENSORS}):
            either = f"{', '.join(TENSORS)}, and {', '.join(SPARSE_TENSORS)} if it is sparse"
            raise ModelFormat(f"a label tree needs the tensors {either}")
        facts = {name: value for name, value in header["tree"].items() if name not in ("n_nodes", "shape")}
        tree = cls(
            **tensors,
            n_features=int(header["n_features"]),
            n_classes=int(header["n_classes"]),
            facts=facts,
            kind=str(header["kind"]),
        )
        _check(tree)
        return tree


def _by_node(nodes: Array, n_children: Array) -> list[tuple[int, Array]]:
    """(node, rows at it, ascending) for each inner node that rows are at, by node id."""
    inner = np.flatnonzero((nodes >= 0) & (n_children[np.maximum(nodes, 0)] > 0))
    order = inner[np.argsort(nodes[inner], kind="stable")]
    found, starts = np.unique(nodes[order], return_index=True)
    return (
        [(int(node), part) for node, part in zip(found, np.split(order, starts[1:]), strict=True)] if len(found) else []
    )


def assemble(
    splits: Mapping[Path, Split], n_features: int, n_classes: int, facts: Mapping[str, Any], root: Array
) -> LabelTree:
    """The tree of the learnt splits: any child without a split of its own is a leaf.

    root    (K,) int32: the root's classes, which matter when there is no split at all
    """
    nodes: list[tuple[Path, Array]] = [((), np.asarray(root, np.int32))]
    first_child, n_children = [], []
    matrices: list[Array | SparseWeights] = []
    biases: list[Array] = []
    for path, _ in nodes:  # grows while it is walked: breadth-first
        split = splits.get(path)
        first_child.append(len(nodes) if split else NONE)
        n_children.append(len(split.children) if split else 0)
        if split:
            nodes.extend(((*path, q), split.classes_of(q)) for q in range(len(split.children)))
            matrices.append(split.weights)
            biases.append(np.asarray(split.bias, np.float32))
    sizes = [held.size for _, held in nodes]
    return LabelTree(
        first_child=np.array(first_child, np.int32),
        n_children=np.array(n_children, np.int32),
        offsets=np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64),
        classes=np.concatenate([held for _, held in nodes]).astype(np.int32),
        bias=np.concatenate([np.zeros(0, np.float32), *biases]),
        n_features=n_features,
        n_classes=n_classes,
        facts=facts,
        kind=LEARNT,
        **_joined(matrices, n_children, n_features),
    )


def _joined(matrices: list[Array | SparseWeights], n_children: list[int], n_features: int) -> dict[str, Array]:
    """`weights` of a tree, and what goes with them if any node has sparse ones: then all are stored so."""
    if not any(isinstance(one, SparseWeights) for one in matrices):
        plain = [np.asarray(one, np.float32).reshape(-1) for one in matrices if not isinstance(one, SparseWeights)]
        return {"weights": np.concatenate([np.zeros(0, np.float32), *plain])}
    sparse = [one if isinstance(one, SparseWeights) else SparseWeights.of(one, n_features) for one in matrices]
    n_columns = np.zeros(len(n_children), np.int64)
    n_columns[np.flatnonzero(n_children)] = [one.columns.size for one in sparse]
    lengths = np.concatenate([np.diff(one.starts) for one in sparse])
    return {
        "weights": np.concatenate([one.values for one in sparse]),
        "columns": np.concatenate([one.columns for one in sparse]),
        "column_offsets": np.concatenate([[0], np.cumsum(n_columns)]).astype(np.int64),
        "entry_offsets": np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64),
        "entries": np.concatenate([one.entries for one in sparse]).astype(entry_dtype(max(n_children)), copy=False),
    }


def shape_counts(tree: LabelTree) -> list[dict[str, int]]:
    """Per depth: nodes, leaves, and the sizes of the smallest and the largest label set."""
    sizes = np.diff(tree.offsets)
    counts = []
    for depth in range(int(tree.depth_of.max()) + 1):
        here = tree.depth_of == depth
        counts.append(
            {
                "nodes": int(here.sum()),
                "leaves": int((here & (tree.n_children == 0)).sum()),
                "min_classes": int(sizes[here].min()),
                "max_classes": int(sizes[here].max()),
            }
        )
    return counts


def _check(tree: LabelTree) -> None:
    """Raises ModelFormat unless the arrays describe a tree in breadth-first order."""
    if not (_nodes_fit(tree) and _classes_fit(tree) and _weights_fit(tree)):
        raise ModelFormat("the arrays of the label tree do not fit together")


def _weights_fit(tree: LabelTree) -> bool:
    if tree.columns is None or tree.column_offsets is None or tree.entry_offsets is None or tree.entries is None:
        return tree.weights.shape == (tree.bias.size * tree.n_features,)
    shapes = tree.column_offsets.shape == (tree.n_nodes + 1,), tree.entry_offsets.shape == (tree.columns.size + 1,)
    if not all(shapes) or tree.weights.shape != tree.entries.shape or tree.entries.dtype.kind != "u":
        return False
    if not (_offsets_fit(tree.column_offsets, tree.columns) and _offsets_fit(tree.entry_offsets, tree.entries)):
        return False
    offsets = tree.column_offsets, tree.entry_offsets
    return bool(entries_fit(tree.columns, *offsets, tree.entries, tree.n_children, tree.n_features))


def _offsets_fit(offsets: Array, values: Array) -> bool:
    fits = values.ndim == 1 and offsets[0] == 0 and offsets[-1] == values.size and (np.diff(offsets) >= 0).all()
    return bool(fits)


def _nodes_fit(tree: LabelTree) -> bool:
    n = tree.n_nodes
    if tree.n_children.shape != (n,) or tree.bias.shape != (n - 1,) or tree.n_children.sum() != n - 1:
        return False
    inner = np.flatnonzero(tree.n_children)
    first = 1 + np.concatenate([[0], np.cumsum(tree.n_children[inner])])[:-1]  # children follow one another
    return bool((tree.first_child[inner] == first).all() and (first > inner).all() and (tree.n_children >= 0).all())


def _classes_fit(tree: LabelTree) -> bool:
    if tree.offsets.shape != (tree.n_nodes + 1,) or tree.offsets[0] != 0 or (np.diff(tree.offsets) < 0).any():
        return False
    known = (tree.classes >= 0) & (tree.classes < tree.n_classes)
    return tree.classes.shape == (tree.offsets[-1],) and bool(known.all())
