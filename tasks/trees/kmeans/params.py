"""Parameters of a k-means tree, and the shape that suits a number of classes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import ceil
from typing import Any, ClassVar, Self

from tasks.errors import ParamError
from tasks.losses.base import Loss
from tasks.losses.child_softmax import ChildSoftmax
from tasks.rows.base import Array
from tasks.trees.params import FEW_CLASSES, FEW_JUDGES, Kind, NodeFits, TreeShape, check_shape, in_shape, is_whole
from tasks.trees.prediction.links import REACH
from tasks.trees.tree import KMEANS, Path

VISITED = 2.2  # nodes of a depth that a search opens on average, seen on sets from easy to hard: between 1.3 and 3
ROOMY = 2.0  # classes of a last split, times the children of a node above it: fewer and larger nodes lose fewer rows
DEEPEST = 6
DENSE_REACH, SPARSE_REACH = 3, 2  # routers of sparse rows know the rows they learnt from by heart


@dataclass(frozen=True, slots=True, kw_only=True)
class KMeansTreeParams(NodeFits):
    """A tree of balanced clusters of class centroids; every value has a default that works.

    A node's rows are those that reach it: of its classes, and others that its ancestors rank near it. For these it
    learns to say "none of mine", so the probabilities that it gives its classes compare with those of other nodes.

    What says how to train is of nodes whose rows are spread over the pool; of those trained whole `regularization` and
    `bias` alone: "auto" is there a C of 1 for sparse rows, of 5 for dense ones.
    """

    kind: ClassVar[str] = KMEANS
    link: ClassVar[str] = REACH
    foreign: ClassVar[bool] = True

    branching: int | None = None  # children of a node above the last split (Q); None: see `proposed`
    depth: int | None = None  # splits from root to leaf (H); None = 2, or 1 for fewer than FEW_CLASSES
    speedup: float | None = None  # wanted, of dot products: proposes what is not given of the shape
    reach: int | None = None  # children that rank best for a training row and get it beside its own; None: `reach_of`

    def __post_init__(self) -> None:
        check_shape(self.branching, self.depth)
        if self.speedup is not None and not self.speedup > 1:
            raise ParamError("speedup", self.speedup, "a number > 1", "one-vs-rest itself has 1")
        if self.reach is not None and not is_whole(self.reach, 1):
            raise ParamError("reach", self.reach, "a whole number >= 1", "a row must go on to its own child")
        NodeFits.__post_init__(self)

    def settled(self, n_classes: int, judges: float = FEW_JUDGES) -> Self:  # noqa: ARG002 - the shape is of classes
        """The same with `depth` and `branching` filled in. Raises TreeShape when the classes are too few."""
        if n_classes < 2:
            raise TreeShape("classes", n_classes, "at least 2", "with one class there is nothing to tell apart")
        branching, depth = self.branching, self.depth
        if self.speedup is not None and (branching is None or depth is None):
            branching, depth = proposed(n_classes, self.speedup, branching, depth)
        depth = depth or (1 if n_classes < FEW_CLASSES and branching is None else 2)
        room = ROOMY if depth > 1 else 1.0
        branching = branching or max(2, ceil((n_classes / room) ** (1 / depth) - 1e-9))
        if branching > n_classes:
            raise TreeShape("branching", branching, f"at most the number of classes, {n_classes}", "a child needs one")
        return replace(self, depth=depth, branching=branching)

    @property
    def height(self) -> int:
        """The depth, once settled. Raises ValueError before."""
        if self.depth is None:
            raise ValueError("depth is not settled: call settled(n_classes)")
        return self.depth

    def trained_whole(self, path: Path, n_rows: int, row_bytes: float) -> bool:
        """Whether one task trains a node: its rows, and what a fit holds of each beside it, must fit."""
        return n_rows * row_bytes <= (self.whole_node_bytes if path else self.whole_root_bytes)

    @property
    def beside_bytes(self) -> int:
        """Of a sparse row in a fit, beside the row: two float32 a child."""
        return 4 * 2 * (self.branching or 0)

    def kind_of(self, n_classes: int, depth: int) -> Kind:
        """What a node of `n_classes` classes at `depth` becomes; `branching` must be settled."""
        if n_classes < 2:
            return "leaf"
        if self.branching is None:
            raise ValueError("branching is not settled: call settled(n_classes)")
        return "full" if depth == self.height - 1 or n_classes <= self.branching else "learned"

    def reach_of(self, sparse: bool) -> int:
        """How many of the best children get a row, see `reach.reached`."""
        return self.reach or (SPARSE_REACH if sparse else DENSE_REACH)

    def loss_of(self, children: Array, depth: int) -> Loss:
        """Softmax over the children; below the root with one more output, "none of these"."""
        return ChildSoftmax(children, depth > 0)

    def rounded_loss_of(self, children: Array, depth: int, width: float) -> Loss:  # noqa: ARG002 - it has no corners
        """The same."""
        return self.loss_of(children, depth)

    def asked(self) -> dict[str, Any]:
        """See `TreeParams.asked`."""
        shape = {"branching": self.branching, "depth": self.depth, "ambiguity": None, "loss": None}
        return {**shape, "reach": self.reach, "probabilistic": True}


def proposed(n_classes: int, speedup: float, branching: int | None = None, depth: int | None = None) -> tuple[int, int]:
    """(branching, depth) for a wanted speed-up: the shallowest tree with it, with the fewest, largest nodes.

    A search meets the children of VISITED nodes a depth, so a tree of H splits costs Q (1 + VISITED (H - 2)) dot
    products and those of VISITED last splits of K / Q^(H - 1). Where no shape is as quick at that, the quickest of
    those that are if a search visits one node a depth, as on easy data. Raises TreeShape when none is.
    """
    heights = [depth] if depth else range(2, DEEPEST + 1)
    shapes = [(q, h) for h in heights if h > 1 for q in ([branching] if branching else range(2, n_classes + 1))]
    budget = n_classes / speedup
    for shape in shapes:
        if cost(n_classes, *shape) <= budget:
            return shape
    reachable = [shape for shape in shapes if cost(n_classes, *shape, visited=1.0) <= budget]
    if not reachable:
        most = max((n_classes / cost(n_classes, *shape, visited=1.0) for shape in shapes), default=1.0)
        what = f"at most {most:.3g} for {n_classes:,} classes{in_shape(branching, depth)}"
        raise TreeShape("speedup", speedup, what, "each split costs a dot product a child")
    return min(reachable, key=lambda shape: cost(n_classes, *shape))


def cost(n_classes: int, branching: int, depth: int, visited: float = VISITED) -> float:
    """Dot products of a row whose search visits so many nodes a depth."""
    return branching * (1 + visited * (depth - 2)) + visited * n_classes / float(branching ** (depth - 1))
