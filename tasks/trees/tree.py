"""A label tree as flat arrays: a model that ranks by a walk down it, or a search."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Self

import numpy as np

from tasks.models.base import Ranking
from tasks.models.errors import ModelFormat
from tasks.models.flat import PROBABILISTIC
from tasks.models.slices import check_width
from tasks.rows.base import Array, Rows
from tasks.trees.checks import check_tree
from tasks.trees.prediction.links import LINKS, SOFTMAX, link_children, room_for
from tasks.trees.prediction.naming import Holders, holders_of
from tasks.trees.prediction.ranking import likelihoods_by_sharpness, rank_by_search, rank_by_walk, rank_leaf
from tasks.trees.prediction.rounds import COLUMNS, ENTRIES, MATRICES, Nodes
from tasks.trees.prediction.search import Shape
from tasks.trees.weights import (
    ActiveWeights,
    AnyWeights,
    SparseWeights,
    joined,
    node_scores,
)

NONE = -1  # no class (NULL), no node

TENSORS = ("first_child", "n_children", "offsets", "classes", "weights", "bias")
COLUMN_TENSORS = ("columns", "column_offsets")  # beside these, of a tree of weights of some features
SPARSE_TENSORS = (*COLUMN_TENSORS, "entry_offsets", "entries")  # beside these, of a tree of sparse weights
SCALES = "scales"  # beside these, where they are not all 1
BEAM, LINK, SHARPNESS = "beam", "link", "sharpness"  # fields of model.json, written where they are not 1 and SOFTMAX
LEARNT, GIVEN = "label-tree", "tree-svm"  # kinds: the tree was learnt with its weights, or is a taxonomy
BENGIO, KMEANS = "bengio-tree", "kmeans-tree"  # kinds: learnt otherwise

Path = tuple[int, ...]  # a node's place: which child at each split from the root; the root is ()


@dataclass(frozen=True, eq=False)
class Split:
    """An inner node, learnt.

    classes    (K,) int32, ascending: the classes of the node
    children   (Q, K) bool: which child holds which class (P)
    weights    (n_features, Q) float32, a matrix or sparse
    bias       (Q,) float32, zeros for a tree without bias
    scale      what scores are multiplied by to give the children's probabilities
    """

    classes: Array
    children: Array
    weights: AnyWeights
    bias: Array
    scale: float = 1.0

    def classes_of(self, child: int) -> Array:
        """Classes of one child, ascending."""
        held: Array = self.classes[self.children[child]]
        return held

    def parameters(self) -> dict[str, Array]:
        """Weights, as a matrix of all features, and bias under the names that a linear scorer gives them."""
        whole = self.weights if isinstance(self.weights, np.ndarray) else self.weights.to_array()
        return {"weights": whole, "bias": self.bias}

    def scores(self, rows: Rows) -> Array:
        """(n_rows, Q) float32."""
        return node_scores(rows, self.weights, self.bias)


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
    A tree learnt from sparse rows holds of its matrices the rows that are not zero (`ActiveWeights`), node after node:
    columns         (n_columns,) int32: the features with weights at a node, ascending within the node
    column_offsets  (n_nodes + 1,) int64 into `columns`: those of each node
    or, where that takes less room, of these rows the numbers that are not zero (`SparseWeights`):
    entry_offsets   (n_columns + 1,) int64 into `entries` and `weights`: those of each column
    entries         uint16 or uint32, of the length of `weights`: the child of each weight
    n_features    width of the rows; n_classes size of the class table; facts: plain values that describe its making
    kind          LEARNT, BENGIO or KMEANS; or GIVEN, where the children of a node share no class and every leaf has one
    beam          nodes expanded a depth at most; 1: the walk
    link          one of LINKS: from scores, times the node's scale, to probabilities of the children
    scales        (n_nodes,) float32; None: all are 1, of trees whose margins were not compared with probabilities
    sharpness     what path values that do not add up to 1 are raised to before they are divided by their sum
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
    beam: int = 1
    link: str = SOFTMAX
    scales: Array | None = None
    sharpness: float = 1.0

    @property
    def probabilistic(self) -> bool:
        """Whether its scores are probabilities, as its making says."""
        return bool(self.facts.get(PROBABILISTIC, False))

    @property
    def searchable(self) -> bool:
        """Whether its nodes tell probabilities, or have scales that make some of their margins."""
        return self.probabilistic or self.scales is not None

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
    def parent_of(self) -> Array:
        """(n_nodes,) int32: -1 of the root."""
        inner = np.flatnonzero(self.n_children)
        owners = np.repeat(inner, self.n_children[inner])  # children follow one another, from node 1 on
        return np.concatenate([[NONE], owners]).astype(np.int32)

    @property
    def _form(self) -> int:
        return MATRICES if self.columns is None else COLUMNS if self.entries is None else ENTRIES

    @cached_property
    def _weight_offsets(self) -> Array:
        rows = self.n_features if self.column_offsets is None else np.diff(self.column_offsets)
        return np.concatenate([[0], np.cumsum(self.n_children.astype(np.int64) * rows)])

    @cached_property
    def _nodes(self) -> Nodes:
        none, n = np.zeros(0, np.int32), self.n_nodes
        offsets = np.zeros(n + 1, np.int64) if self.column_offsets is None else self.column_offsets
        return Nodes(
            form=self._form,
            first_child=self.first_child,
            n_children=self.n_children,
            bias=self.bias,
            weights=self.weights,
            weight_starts=self._weight_offsets,
            columns=none if self.columns is None else self.columns,
            column_offsets=offsets,
            entry_offsets=np.zeros(1, np.int64) if self.entry_offsets is None else self.entry_offsets,
            entries=np.zeros(0, np.uint16) if self.entries is None else self.entries,
        )

    @cached_property
    def _shape(self) -> Shape:
        return Shape(
            first_child=self.first_child,
            n_children=self.n_children,
            offsets=self.offsets,
            classes=self.classes,
            sizes=np.diff(self.offsets),
            depths=self.depth_of,
            parents=self.parent_of,
            scales=np.ones(self.n_nodes, np.float32) if self.scales is None else self.scales,
            link=LINKS.index(self.link),
            sharpness=self.sharpness,
        )

    @cached_property
    def _holders(self) -> Holders:
        return holders_of(self.offsets, self.classes, self.n_classes)

    def label_set(self, node: int) -> Array:
        """Classes of a node, ascending."""
        held: Array = self.classes[self.offsets[node] : self.offsets[node + 1]]
        return held

    def node_weights(self, node: int) -> AnyWeights:
        """(n_features, n_children) float32 of an inner node."""
        if self.entries is not None:
            return self._sparse_weights(node)
        start, stop = self._weight_offsets[node : node + 2]
        matrix: Array = self.weights[start:stop].reshape(-1, int(self.n_children[node]))
        if self.columns is None or self.column_offsets is None:
            return matrix
        first, last = self.column_offsets[node : node + 2]
        return ActiveWeights(self.columns[first:last], matrix, (self.n_features, matrix.shape[1]))

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

    def searched(self, beam: int) -> Self:
        """The same tree with another beam of its own."""
        return replace(self, beam=beam)

    def chances(self, node: int, scores: Array) -> Array:
        """(n_children,) float64: what an inner node tells of its children by their scores (n_children,) float32."""
        out, scale = np.empty(scores.size), self._shape.scales[node]
        link_children(LINKS.index(self.link), node == 0, scores, scale, 1.0, out, room_for(scores.size))
        return out

    def rank(self, rows: Rows, top: int, labels: Array | None = None, beam: int | None = None) -> Ranking:
        """The best classes of the leaves that each row comes to.

        labels  (n_rows,) int32, -1 where not known: with them a probabilistic tree gives probabilities
        beam    None: the tree's own
        A walk (beam 1, but of a probabilistic tree) names the classes at its last split, the leaf's class first, with
        their scores there (see `walk.name_leaves`); of a taxonomy's tree, whose last splits may have few classes, also
        those of the siblings passed over further up, the nearest to the leaf first, each with its score at its own
        split. A search (see `search`) names the classes of all leaves of the nodes that it expanded, by the
        probability of their paths. What comes after the last class that was named is -1 with NaN.
        Raises ColumnMismatch.
        """
        check_width(rows, self.n_features, self.kind)
        beam = self.beam if beam is None else beam
        if self.n_children[0] == 0:
            return rank_leaf(self.label_set(0), rows.n_rows, top, self.probabilistic, labels)
        if beam == 1 and not self.probabilistic:
            return rank_by_walk(rows, top, self._nodes, self._shape, self.kind == GIVEN)
        known = labels if self.probabilistic else None
        return rank_by_search(rows, top, self._nodes, self._shape, beam, self.n_classes, known, self._holders)

    def likelihoods(self, rows: Rows, labels: Array, beam: int, tried: Array) -> Array:
        """(n_tried,) float64: log-probability of the rows' labels (n_rows,) int32, summed, at each sharpness tried."""
        shape = self._nodes, self._shape
        return likelihoods_by_sharpness(rows, *shape, beam, self.n_classes, labels, self._holders, tried)

    def header(self) -> dict[str, Any]:
        """Plain values for model.json."""
        facts: dict[str, Any] = {
            "kind": self.kind,
            "tree": {"n_nodes": self.n_nodes, "shape": shape_counts(self), **self.facts},
        }
        facts |= {BEAM: self.beam} if self.beam != 1 else {}
        facts |= {LINK: self.link} if self.link != SOFTMAX else {}
        facts |= {SHARPNESS: self.sharpness} if self.sharpness != 1 else {}
        return facts | ({PROBABILISTIC: True} if self.probabilistic else {})

    def bare_header(self) -> dict[str, Any]:
        """What `load` needs beside the tensors, without the facts of its making: for trees that travel with tasks."""
        bare = replace(self, facts={}).header()
        return {**bare, "n_features": self.n_features, "n_classes": self.n_classes}

    def tensors(self) -> dict[str, Array]:
        """Arrays for weights.safetensors."""
        held = {name: getattr(self, name) for name in (*TENSORS, *SPARSE_TENSORS, SCALES)}
        return {name: np.ascontiguousarray(values) for name, values in held.items() if values is not None}

    @classmethod
    def load(cls, header: dict[str, Any], tensors: dict[str, Array]) -> Self:
        """The tree that `header` and `tensors` describe. Raises ModelFormat when they do not fit together."""
        beside = set(tensors) - {SCALES} - {*TENSORS}
        if not {*TENSORS} <= set(tensors) or beside not in (set(), {*COLUMN_TENSORS}, {*SPARSE_TENSORS}):
            either = f"{', '.join(TENSORS)}, and {' or '.join(', '.join(s) for s in (COLUMN_TENSORS, SPARSE_TENSORS))}"
            raise ModelFormat(f"a label tree needs the tensors {either} if it is sparse")
        facts = {name: value for name, value in header["tree"].items() if name not in ("n_nodes", "shape")}
        tree = cls(
            **tensors,
            n_features=int(header["n_features"]),
            n_classes=int(header["n_classes"]),
            facts=facts,
            kind=str(header["kind"]),
            beam=header.get(BEAM, 1),
            link=header.get(LINK, SOFTMAX),
            sharpness=header.get(SHARPNESS, 1.0),
        )
        check_tree(tree)
        return tree


def assemble(
    splits: Mapping[Path, Split],
    n_features: int,
    n_classes: int,
    facts: Mapping[str, Any],
    root: Array,
    *,
    kind: str = LEARNT,
    beam: int = 1,
    link: str = SOFTMAX,
) -> LabelTree:
    """The tree of the learnt splits: any child without a split of its own is a leaf.

    root    (K,) int32: the root's classes, which matter when there is no split at all
    """
    nodes: list[tuple[Path, Array]] = [((), np.asarray(root, np.int32))]
    first_child, n_children = [], []
    matrices: list[AnyWeights] = []
    biases: list[Array] = []
    scales = []
    for path, _ in nodes:  # grows while it is walked: breadth-first
        split = splits.get(path)
        first_child.append(len(nodes) if split else NONE)
        n_children.append(len(split.children) if split else 0)
        scales.append(float(split.scale) if split else 1.0)
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
        kind=kind,
        beam=beam,
        link=link,
        scales=np.array(scales, np.float32),
        sharpness=1.0,
        **joined(matrices, np.array(n_children, np.int32)),
    )


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
