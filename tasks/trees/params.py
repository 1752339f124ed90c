"""Parameters of a label tree, and what they make of a node (Deng et al. 2011, section 5: T_{Q,H})."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import ceil
from typing import Any, ClassVar, Literal, Protocol, Self

from tasks.errors import ParamError
from tasks.fit.sgd import AUTO, SgdParams
from tasks.losses.base import Loss
from tasks.losses.overlap_hinge import OverlapHinge
from tasks.losses.smooth_overlap import SmoothOverlap
from tasks.rows.base import Array
from tasks.trees.prediction.links import SOFTMAX
from tasks.trees.tree import LEARNT, Path

SLACK, WIDE_SLACK = 1.3, 2.0  # the ambiguity by default, times that of even, disjoint children
COPIES = 4.0  # leaves that a class stands in by default, at most about: with every split of a path it has more
WANTED_SPEEDUP = 4.5
FEW_CLASSES = 16  # below it a tree of two levels saves less than half of the classifiers, and costs accuracy: flat then
FEW_JUDGES = 10.0  # rows judging a class, below which they tell too little of where its rows go: the wider cap then

Kind = Literal["leaf", "full", "learned"]


class TreeParams(Protocol):
    """What growth asks of the parameters of any tree; the node's own algorithm is `label_tree.grow_node`'s choice.

    kind, link  of the tree, see `LabelTree`
    foreign     whether rows of classes that a node does not hold come to it: class column -1
    """

    kind: ClassVar[str]
    link: ClassVar[str]
    foreign: ClassVar[bool]

    @property
    def sgd(self) -> SgdParams: ...

    @property
    def height(self) -> int: ...

    @property
    def whole_passes(self) -> bool:
        """Whether a fit to PQ codes takes whole passes by tables."""
        ...

    @property
    def most_rows(self) -> int:
        """Rows that a fit to PQ codes meets in one pass, at most: of more a sample that is evenly spread."""
        ...

    @property
    def whole_node_bytes(self) -> int:
        """What the training rows of a node that one task trains take, at most."""
        ...

    def settled(self, n_classes: int, judges: float = ...) -> Self: ...

    def trained_whole(self, path: Path, n_rows: int, row_bytes: float) -> bool: ...

    def kind_of(self, n_classes: int, depth: int) -> Kind: ...

    def loss_of(self, children: Array, depth: int) -> Loss:
        """What a node at `depth` makes small for a partition (Q, K) bool; labels are class columns."""
        ...

    def rounded_loss_of(self, children: Array, depth: int, width: float) -> Loss:
        """The same with a gradient everywhere; width: of rounded corners, where the loss has any."""
        ...

    def asked(self) -> dict[str, Any]:
        """What a tree's facts tell of its parameters."""
        ...


class TreeShape(ParamError):
    """A tree of this shape cannot be grown over these classes."""


def check_shape(branching: int | None, depth: int | None) -> None:
    """Raises TreeShape unless what is given of a shape can be one."""
    if branching is not None and not is_whole(branching, 2):
        raise TreeShape("branching", branching, "a whole number >= 2", "one child would be the node again")
    if depth is not None and not is_whole(depth, 1):
        raise TreeShape("depth", depth, "a whole number >= 1", "a tree of depth 0 answers one class")


def in_shape(branching: int | None, depth: int | None) -> str:
    """What was asked for of a shape: " with branching 10 and depth 2"; "" when nothing was."""
    given = [f"{name} {value}" for name, value in (("branching", branching), ("depth", depth)) if value is not None]
    return f" with {' and '.join(given)}" if given else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeFits:
    """How the classifiers of a tree's nodes are trained, and which nodes one task trains whole."""

    doubled: ClassVar[bool] = False  # see `SgdParams`

    regularization: float | Literal["auto"] = AUTO
    passes: int = 1
    rounds: int = 5
    least_rows: int = 20_000  # rows met in one fit at least, by more passes over small nodes
    partitions: int = 4  # of nodes whose rows are spread over the pool; smaller nodes are trained whole
    step: float | Literal["auto"] = AUTO
    batch: int = 16
    bias: bool = True
    most_rows: int = 1 << 20  # of PQ codes, met in one pass at most; of more a sample that is evenly spread
    whole_root_bytes: int = 256 << 20  # a root whose training rows take more is trained by blocks over the pool ...
    whole_node_bytes: int = 256 << 20  # ... and so is any other node; of these many are trained side by side

    def __post_init__(self) -> None:
        for name in ("whole_root_bytes", "whole_node_bytes"):
            if not is_whole(getattr(self, name), 0):
                raise ParamError(name, getattr(self, name), "a whole number >= 0", "it bounds what a task holds")
        if not is_whole(self.most_rows, 1):
            raise ParamError("most_rows", self.most_rows, "a whole number >= 1", "nothing would be learnt")
        _ = self.sgd

    @property
    def whole_passes(self) -> bool:
        """Whether a fit to PQ codes takes whole passes by tables; with a step of its own it is plain SGD."""
        return self.step == AUTO

    @property
    def sgd(self) -> SgdParams:
        """Parameters of one fit."""
        return SgdParams(
            regularization=self.regularization,
            passes=self.passes,
            rounds=self.rounds,
            least_rows=self.least_rows,
            partitions=self.partitions,
            step=self.step,
            batch=self.batch,
            bias=self.bias,
            doubled=self.doubled,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelTreeParams(NodeFits):
    """A label tree T_{Q,H}; every value has a default that works.

    `ambiguity` caps the mean share of a node's classes that goes on to the child (OP3'); `loss` instead caps the share
    of rows lost at a node (OP3). With neither, the ambiguity is a little more than that of even, disjoint children.
    The paper's own procedure is initialisation = "random", training_rows = "routed", runners_up = False.
    """

    kind: ClassVar[str] = LEARNT
    link: ClassVar[str] = SOFTMAX
    foreign: ClassVar[bool] = False
    doubled: ClassVar[bool] = True  # the penalty of OP2 is lambda |w|^2, without 1/2 (SPECS, table)

    branching: int | None = None  # children of a learned node (Q); None = `depth`-th root of the classes, rounded up
    depth: int | None = None  # edges from the root to the deepest leaf (H); None = 2, or 1 for fewer than FEW_CLASSES
    ambiguity: float | None = None  # delta
    loss: float | None = None  # epsilon
    alternations: int = 3  # times that classifiers and partition are learned in turn at a node
    initialisation: Literal["random", "kmeans"] = "kmeans"  # "random": one distinct class per child
    training_rows: Literal["of-class", "routed"] = "of-class"  # a child's: all of its classes, or those sent to it only
    runners_up: bool = True  # what OP3' leaves of the ambiguity goes to the children that rows nearly went to
    whole_root_bytes: int = 32 << 20

    def __post_init__(self) -> None:
        check_shape(self.branching, self.depth)
        if not is_whole(self.alternations, 1):
            raise ParamError("alternations", self.alternations, "a whole number >= 1", "nothing would be learnt")
        if self.initialisation not in ("random", "kmeans"):
            raise ParamError("initialisation", self.initialisation, "random or kmeans", "a partition starts from one")
        if self.training_rows not in ("of-class", "routed"):
            raise ParamError("training_rows", self.training_rows, "of-class or routed", "a child learns from rows")
        self._check_caps()
        NodeFits.__post_init__(self)

    def _check_caps(self) -> None:
        if self.ambiguity is not None and self.loss is not None:
            raise ParamError("loss", self.loss, "no value beside `ambiguity`", "one of the two is capped, not both")
        if self.ambiguity is not None and not 0 < self.ambiguity <= 1:
            raise ParamError("ambiguity", self.ambiguity, "a number in (0, 1]", "it is a share of a node's classes")
        if self.loss is not None and not 0 <= self.loss < 1:
            raise ParamError("loss", self.loss, "a number in [0, 1)", "it is a share of a node's rows")

    def settled(self, n_classes: int, judges: float = FEW_JUDGES) -> Self:
        """The same with `depth`, `branching` and `ambiguity` filled in.

        judges   mean number of judging rows of a class
        Few classes are told apart at the root at once, unless `branching`, `ambiguity` or `loss` ask for a tree.
        Raises TreeShape when the classes are too few.
        """
        if n_classes < 2:
            raise TreeShape("classes", n_classes, "at least 2", "with one class there is nothing to tell apart")
        asked = any(value is not None for value in (self.branching, self.ambiguity, self.loss))
        depth = self.depth or (1 if n_classes < FEW_CLASSES and not asked else 2)
        branching = self.branching or max(2, ceil(n_classes ** (1 / depth) - 1e-9))
        if branching > n_classes:
            raise TreeShape("branching", branching, f"at most the number of classes, {n_classes}", "a child needs one")
        if self.ambiguity is not None and depth > 1 and self.ambiguity * branching * n_classes < 1:
            least = 1 / (branching * n_classes)
            why = f"below it no child of even ones can hold one of {n_classes:,} classes"
            raise ParamError("ambiguity", self.ambiguity, f"at least {least:.3g}", why)
        if self.ambiguity is not None or self.loss is not None:
            return replace(self, depth=depth, branching=branching)
        slack = SLACK if judges >= FEW_JUDGES or depth == 1 else _wide_slack(n_classes, branching, depth - 1)
        slack = min(slack, COPIES ** (1 / max(1, depth - 1)))
        return replace(self, depth=depth, branching=branching, ambiguity=min(1.0, slack / branching))

    def loss_of(self, children: Array, depth: int) -> Loss:  # noqa: ARG002 - one loss for all depths
        """OP2's."""
        return OverlapHinge(children)

    def rounded_loss_of(self, children: Array, depth: int, width: float) -> Loss:  # noqa: ARG002
        """OP2's, at most width * log(1 + pairs) above it."""
        return SmoothOverlap(children, width)

    def asked(self) -> dict[str, Any]:
        """See `TreeParams.asked`."""
        names = ("branching", "depth", "ambiguity", "loss", "initialisation", "training_rows", "runners_up")
        return {name: getattr(self, name) for name in names}

    @property
    def height(self) -> int:
        """The depth, once settled. Raises ValueError before."""
        if self.depth is None:
            raise ValueError("depth is not settled: call settled(n_classes)")
        return self.depth

    def trained_whole(self, path: Path, n_rows: int, row_bytes: float) -> bool:
        """Whether one task trains a node of `n_rows` training rows: a matter of config and data, never of workers."""
        return n_rows * row_bytes <= (self.whole_node_bytes if path else self.whole_root_bytes)

    def kind_of(self, n_classes: int, depth: int) -> Kind:
        """What a node of `n_classes` classes at `depth` becomes; `branching` must be settled."""
        if n_classes < 2:
            return "leaf"
        if self.branching is None:
            raise ValueError("branching is not settled: call settled(n_classes)")
        return "full" if depth == self.height - 1 or n_classes < self.branching else "learned"


def _wide_slack(n_classes: int, branching: int, learned: int) -> float:
    """Up to WIDE_SLACK, as long as a tree of so many learned depths stays about WANTED_SPEEDUP times cheaper than
    one-vs-rest."""
    share = max(0.0, 1 / WANTED_SPEEDUP - branching * learned / n_classes)
    return min(WIDE_SLACK, max(SLACK, branching * float(share ** (1 / learned))))


def is_whole(value: object, lowest: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= lowest
