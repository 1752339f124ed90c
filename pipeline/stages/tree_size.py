"""How large a label tree may become, before anything is trained: what `plan` says of its tasks and of its model."""

from __future__ import annotations

from dataclasses import dataclass

from pipeline.config import LabelTree as LabelTreeSection
from pipeline.stage import Facts
from tasks.trees.balance import WIDEST
from tasks.trees.params import LabelTreeParams
from tasks.trees.weights import entry_dtype

UNEVEN = {"kmeans": 3, "random": 4}  # a node's classes and rows at most, times those of an even tree: seen up to 1.9
VALUE_BYTES = 4


@dataclass(frozen=True)
class TreeSize:
    """Bounds on the weights of a label tree.

    nonzeros  of a row, when rows are sparse; 0 for rows of other bodies, whose nodes have weights for every feature
    """

    params: LabelTreeParams
    n_features: int
    n_classes: int
    n_train: int
    nonzeros: int

    @classmethod
    def of(cls, learner: LabelTreeSection, params: LabelTreeParams, facts: Facts) -> TreeSize:
        dataset = facts.dataset
        rows = facts.rows[learner.rows]
        n_train = dataset.split_counts["train"]
        nonzeros = rows.row_floats if rows.body == "csr" else 0
        return cls(params, rows.n_features, dataset.n_classes, n_train, nonzeros)

    def share(self, depth: int) -> float:
        """What an even node at a depth has of all classes and, when children learn from all rows of theirs, of rows."""
        one = self.params.ambiguity if self.params.ambiguity is not None else 1.0
        return float(one**depth)

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
        shares = [self._uneven(depth) for depth in range(self.params.height)]
        sizes = [(self.features(share) + 1) * self._children(depth, share) for depth, share in enumerate(shares)]
        return int(VALUE_BYTES * max(sizes))

    def widest_children(self, depths: int | None = None) -> int:
        """Children of the node that has most, of those at the first depths."""
        return max(self._children(depth, self._uneven(depth)) for depth in range(depths or self.params.height))

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
        return 8 * self.n_classes * max(self.widest_children(), min(self.n_features, WIDEST))

    def _uneven(self, depth: int) -> float:
        """The share of the largest node at a depth."""
        return min(1.0, self.share(depth) * (UNEVEN[self.params.initialisation] if depth else 1))

    def model_bytes(self) -> int:
        """The weights of the whole tree as stored."""
        return sum(self._depth_bytes(depth) for depth in range(self.params.height))

    def _depth_bytes(self, depth: int) -> int:
        share, nodes = self.share(depth), self.nodes(depth)
        weights = nodes * (self.features(share) + 1) * self._children(depth, share)
        if not self.nonzeros:
            return int(VALUE_BYTES * weights)
        entries = min(weights, self._weights_moved(depth, nodes, share))
        entry = VALUE_BYTES + entry_dtype(self._children(depth, share))(0).nbytes
        return int(entry * entries + (4 + 8) * nodes * self.features(share))

    def _weights_moved(self, depth: int, nodes: int, share: float) -> float:
        """Weights that are not zero, at most: a row met moves two children of each of its features."""
        rows = nodes * share * self.n_train
        fits = self.params.alternations if depth < self.params.height - 1 else 1
        met = max(rows * self.params.rounds * self.params.passes, nodes * self.params.least_rows + rows)
        return self.nonzeros * (rows + fits * met)
