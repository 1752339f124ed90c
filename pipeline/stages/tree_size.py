"""How large a label tree may become, before anything is trained: what `plan` says of its tasks and of its model."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

from pipeline.config import KMeansTree, LabelTree
from pipeline.stage import Facts
from tasks.trees.balance import WIDEST
from tasks.trees.kmeans.params import KMeansTreeParams
from tasks.trees.params import LabelTreeParams, TreeParams
from tasks.trees.spherical import ENTRY_BYTES, kept_columns
from tasks.trees.weights import entry_dtype

UNEVEN = {"kmeans": 3, "random": 4}  # a node's classes and rows at most, times those of an even tree: seen up to 1.9
UNEVEN_REACH = 4  # rows that reach a node of a k-means tree, times those of an even tree
SUPPORTED = 16  # children of a node that a sparse row supports: seen up to 6
VALUE_BYTES = 4


@dataclass(frozen=True)
class TreeSize(ABC):
    """Bounds on the weights of a tree.

    nonzeros  of a row, when rows are sparse; 0 for rows of other bodies, whose nodes have weights for every feature
    """

    params: Any  # of the kind of tree
    n_features: int
    n_classes: int
    n_train: int
    nonzeros: int

    @abstractmethod
    def share(self, depth: int) -> float:
        """What an even node at a depth has of all classes."""

    @abstractmethod
    def row_share(self, depth: int) -> float:
        """What it has of all training rows."""

    @abstractmethod
    def uneven(self, depth: int) -> float:
        """Classes and rows of the largest node at a depth, times those of an even one."""

    @abstractmethod
    def weights_moved(self, depth: int, nodes: int) -> float:
        """Weights of all nodes at a depth that are not zero, of sparse rows, at most."""

    def nodes(self, depth: int) -> int:
        """Inner nodes at a depth, at most: each has two classes or more."""
        nodes = int((self.params.branching or 2) ** depth)
        held = self.n_classes * max(1.0, nodes * self.share(depth))  # classes at all of them together
        return max(1, min(nodes, int(held / 2)))

    def _children(self, depth: int, share: float) -> int:
        """Children of a node at a depth that holds a share of the classes."""
        left = max(1, round(share * self.n_classes))
        return left if self.params.kind_of(left, depth) != "learned" else self.params.branching or 2

    def features(self, share: float) -> float:
        """Features that a share of the training rows has, at most.

        A feature of n rows is missing from a random share s of them with probability (1 - s)^n; its mean over all
        features is at least that of the mean n. Rows of like classes have more features in common than random ones.
        """
        if not self.nonzeros:
            return float(self.n_features)
        rows_each = self.n_train * self.nonzeros / self.n_features
        found = self.n_features * (1.0 - (1.0 - share) ** max(rows_each, 1.0))
        return float(max(1.0, found))

    def widest_node_bytes(self) -> int:
        """The weights of the largest node while it learns: a matrix, even for sparse rows."""
        depths = range(self.params.height)
        rows = [min(1.0, self.row_share(depth) * self.uneven(depth)) for depth in depths]
        sizes = [(self.features(rows[depth]) + 1) * self._children(depth, self._most(depth)) for depth in depths]
        return int(VALUE_BYTES * max(sizes))

    def widest_children(self, depths: int | None = None) -> int:
        """Children of the node that has most, of those at the first depths."""
        return max(self._children(depth, self._most(depth)) for depth in range(depths or self.params.height))

    def blocks_bytes(self, row_bytes: float) -> int:
        """The weights of the largest node that is trained by blocks, with all features; 0 when none is."""
        rows = self.n_train
        if self.params.trained_whole((), rows, row_bytes):
            return 0
        depths = 1 if self.params.trained_whole((0,), rows, row_bytes) else self.params.height
        return VALUE_BYTES * (self.n_features + 1) * self.widest_children(depths)

    def sums_bytes(self, row_bytes: float) -> int:
        """The largest sum over classes of a node that is trained by blocks: centroids, or rows by child and class."""
        if not self.blocks_bytes(row_bytes):
            return 0
        routed = 8 * self.n_classes * self.widest_children()
        if not self.nonzeros:
            return max(routed, 8 * self.n_classes * min(self.n_features, WIDEST))
        entries = self.n_train * self.nonzeros
        width = kept_columns(self.n_features, self.n_classes, entries)
        return max(routed, ENTRY_BYTES * min(entries, self.n_classes * width))

    def _most(self, depth: int) -> float:
        """The share of all classes that the largest node at a depth has."""
        return min(1.0, self.share(depth) * self.uneven(depth))

    def model_bytes(self) -> int:
        """The weights of the whole tree as stored."""
        return sum(self._depth_bytes(depth) for depth in range(self.params.height))

    def _depth_bytes(self, depth: int) -> int:
        nodes, children = self.nodes(depth), self._children(depth, self.share(depth))
        features = self.features(self.row_share(depth))
        weights = nodes * (features + 1) * children
        if not self.nonzeros:
            return int(VALUE_BYTES * weights)
        entries = min(weights, self.weights_moved(depth, nodes))
        entry = VALUE_BYTES + entry_dtype(children)(0).nbytes
        return int(entry * entries + (4 + 8) * nodes * features)


@dataclass(frozen=True)
class LabelTreeSize(TreeSize):
    """Of a label tree."""

    params: LabelTreeParams

    def share(self, depth: int) -> float:
        one = self.params.ambiguity if self.params.ambiguity is not None else 1.0
        return float(one**depth)

    def row_share(self, depth: int) -> float:
        """As of classes: children learn from all rows of theirs, or from fewer."""
        return self.share(depth)

    def uneven(self, depth: int) -> float:
        return UNEVEN[self.params.initialisation] if depth else 1

    def weights_moved(self, depth: int, nodes: int) -> float:
        """A row met moves two children of each of its features."""
        rows = nodes * self.share(depth) * self.n_train
        fits = self.params.alternations if depth < self.params.height - 1 else 1
        met = max(rows * self.params.rounds * self.params.passes, nodes * self.params.least_rows + rows)
        return self.nonzeros * (rows + fits * met)


@dataclass(frozen=True)
class KMeansTreeSize(TreeSize):
    """Of a k-means tree: groups of classes are even, rows reach several nodes."""

    params: KMeansTreeParams

    def share(self, depth: int) -> float:
        return float((self.params.branching or 2) ** -depth)

    def row_share(self, depth: int) -> float:
        return float(min(1.0, (self.params.reach_of(self.nonzeros > 0) + 1) / (self.params.branching or 2)) ** depth)

    def uneven(self, depth: int) -> float:
        return UNEVEN_REACH if depth else 1

    def weights_moved(self, depth: int, nodes: int) -> float:
        """A row supports few children of those that it reaches, and only features of supporting rows have weights."""
        return SUPPORTED * self.nonzeros * nodes * self.row_share(depth) * self.n_train


def tree_size(learner: LabelTree | KMeansTree, params: TreeParams, facts: Facts) -> TreeSize:
    """Of the tree that a section and its settled parameters come to."""
    dataset, rows = facts.dataset, facts.rows[learner.rows]
    n_train = dataset.split_counts["train"]
    size = KMeansTreeSize if isinstance(params, KMeansTreeParams) else LabelTreeSize
    sparse = ("csr", "onehot") if isinstance(params, KMeansTreeParams) else ("csr",)
    nonzeros = rows.row_floats if rows.body in sparse else 0
    return size(params, rows.n_features, dataset.n_classes, n_train, nonzeros)  # type: ignore[arg-type]


def grown_bytes(learner: LabelTree | KMeansTree, params: TreeParams, facts: Facts) -> int:
    """The weights of all trees of a learner, as stored."""
    trees = learner.trees if isinstance(learner, KMeansTree) else 1
    return trees * tree_size(learner, params, facts).model_bytes()
