"""The parts of a growing label tree that travel: a small node whole, or one block's share of a wide node."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import reduce
from operator import add
from typing import Any

import numpy as np

from tasks.fit.average import ModelSum
from tasks.fit.blocks import Partition, choose_step, sgd_partition
from tasks.fit.problem import SgdProblem, StepTrial
from tasks.fit.scorer import Parameters
from tasks.fit.targets import TRAIN, VALIDATION
from tasks.io import Block, blocks_of, read_rows
from tasks.losses.child_softmax import child_of
from tasks.rows.base import Array, Rows
from tasks.rows.csr import Csr
from tasks.rows.pq import PqCodes
from tasks.sums import FieldSums
from tasks.trees.gather import gather
from tasks.trees.kmeans.node_fit import plain_rows, sum_likelihoods
from tasks.trees.kmeans.params import KMeansTreeParams
from tasks.trees.kmeans.sharpness import TRIED, likelihoods_of
from tasks.trees.label_tree import grow_node
from tasks.trees.local import (
    Labelled,
    LocalNode,
    classes_held,
    columns_of,
    count_routes,
    count_runners_up,
    judged_likelihoods,
    node_name,
    node_problem,
    sent_down,
)
from tasks.trees.on_codes.moments import CodeCounts, CodeFrame, counts_of
from tasks.trees.on_codes.risk import RiskSum, risk_of
from tasks.trees.params import TreeParams
from tasks.trees.place import (
    PARTS,
    WHOLE,
    Ground,
    Members,
    Summary,
    classes_at,
    finished,
    members,
    members_of_block,
    piece_of,
    write_done,
    write_piece,
)
from tasks.trees.spherical import class_sums_of
from tasks.trees.tree import LabelTree, Path, Split

# ---- nodes that are trained whole --------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class NodeTask:
    """One node to train: its place in the tree and its training rows."""

    path: Path
    n_rows: int

    @property
    def label(self) -> str:
        return node_name(self.path)


def grow_whole(task: NodeTask, ground: Ground) -> Summary:
    """Train one node, route its rows, write its folder; a node that was finished before is only checked."""
    done = finished(ground, task.path)
    if done is not None:
        return done
    classes = classes_at(ground, task.path)
    who = [members(ground, task.path, part) for part in PARTS]
    stores = (blocks_of(ground.rows), blocks_of(ground.judges))
    train, judges = (
        Labelled(gather(blocks, one.block, one.offset), one.label) for blocks, one in zip(stores, who, strict=True)
    )
    node = LocalNode(classes, train, judges, ground.params, ground.seed, ground.place(task.path), len(task.path))
    grown = grow_node(node, ground.params, ground.seed, task.path)
    if ground.params.kind_of(classes.size, len(task.path)) == "full":
        return write_done(ground, task.path, grown, {}, np.zeros((len(grown.split.children), 2), np.int64))
    chosen = [
        kept(one, labelled.rows, grown.split, part, ground)
        for one, labelled, part in zip(who, (train, judges), PARTS, strict=True)
    ]
    digest = write_piece(ground, task.path, WHOLE, chosen, len(grown.split.children))
    return write_done(ground, task.path, grown, {WHOLE: digest}, routed_counts(chosen, grown.split))


def kept(who: Members, rows: Rows, split: Split, part: int, ground: Ground) -> tuple[Members, Array]:
    """The members that the children get, and the child of each; see `sent_down`."""
    columns = columns_of(split.classes, who.label)
    index, child = sent_down(rows, columns, split, part == TRAIN, ground.params)
    return Members(who.block[index], who.offset[index], who.label[index]), child


def routed_counts(chosen: list[tuple[Members, Array]], split: Split) -> Array:
    """(Q, 2) int64: training and validation rows that each child gets."""
    n_children = len(split.children)
    return np.stack([np.bincount(child, minlength=n_children) for _, child in chosen], axis=1)


def block_row_bytes(block: Block, params: TreeParams) -> float:
    """Bytes of a row of a block, as a node that is trained whole holds it, and of what its fit holds beside it."""
    rows = read_rows(block)
    if not isinstance(params, KMeansTreeParams):
        return rows.nbytes / max(1, block.n_rows)
    rows = plain_rows(rows)
    beside = params.beside_bytes if isinstance(rows, Csr) else 0
    return rows.nbytes / max(1, block.n_rows) + beside


# ---- nodes that are trained by blocks ----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class WideNode:
    """A node to which many blocks contribute: where it grows and its place in the tree."""

    ground: Ground
    path: Path

    def problem(self, children: Array, alternation: int) -> SgdProblem:
        """OP2 for a partition (Q, K) bool, over the node's training rows whose class some child holds."""
        name = f"{self.ground.place(self.path)}/{alternation}"
        params, seed = self.ground.params, self.ground.seed
        problem = node_problem(self.ground.n_features, children, params, seed, name, len(self.path))
        return replace(problem, targets=NodeTargets(self, classes_held(children)))

    def columns(self, part: int, block: Block) -> tuple[Array, Array]:
        """(offset, class column) of the node's rows of one part in one block; -1 for a class that is not the node's."""
        offset, label = members_of_block(self.ground, self.path, part, block)
        return offset, columns_of(classes_at(self.ground, self.path), label)

    def own(self, part: int, block: Block) -> tuple[Array, Array]:
        """The same of the rows whose class the node holds."""
        offset, column = self.columns(part, block)
        return offset[column >= 0], column[column >= 0]


@dataclass(frozen=True, slots=True, eq=False)
class NodeTargets:
    """Training rows of a node whose class some child holds, labelled with their class column; held (K,) bool.

    Rows of other nodes' classes take part, labelled -1, where the tree's parameters say so.
    """

    node: WideNode
    held: Array

    def of(self, block: Block) -> tuple[Array, Array]:
        """See `Targets.of`."""
        offset, column = self.node.columns(TRAIN, block)
        taken = np.where(column >= 0, self.held[column], self.node.ground.params.foreign)
        return offset[taken].astype(np.int64), column[taken]


def node_step(blocks: tuple[Block, ...], node: WideNode, children: Array, alternation: int) -> StepTrial:
    """The step size of one fit, tried on a sample."""
    return choose_step(blocks, node.problem(children, alternation))


def node_sgd(
    partition: Partition,
    parameters: Parameters,
    node: WideNode,
    children: Array,
    alternation: int,
    trial: StepTrial,
    round_index: int,
) -> ModelSum:
    """One partition's model of one round."""
    problem = node.problem(children, alternation).with_trial(trial)
    return sgd_partition(partition, parameters, problem, round_index)


def node_code_counts(part: Partition, node: WideNode, children: Array) -> CodeCounts:
    """Of the codes of a partition's rows that take part."""
    return reduce(add, (counts_of(rows) for rows, _ in _learning(part, node, children)))


def node_risk(
    part: Partition, node: WideNode, children: Array, mean: Array, size: float, point: Array, width: float
) -> RiskSum:
    """A partition's share of `Passes.risk`; point (d + 1, Q) float32: weights and bias of rows in the frame."""
    loss = node.ground.params.rounded_loss_of(children, len(node.path), width)
    weights, bias, frame = point[:-1], point[-1], CodeFrame(mean, size)
    total = RiskSum.zero(*weights.shape)
    for rows, columns in _learning(part, node, children):
        total = total + risk_of(frame.seen(rows), columns, loss, weights, bias)
    return total


def _learning(part: Partition, node: WideNode, children: Array) -> Iterator[tuple[PqCodes, Array]]:
    """Rows of each block that take part in a fit, and their class columns."""
    targets = NodeTargets(node, classes_held(children))
    for block in part.blocks:
        index, columns = targets.of(block)
        rows = read_rows(block)
        assert isinstance(rows, PqCodes)
        yield (rows if index.size == rows.n_rows else rows.take(index)), columns


def over(part: Partition, one: Callable[[Block], Any]) -> Any:
    """The sum of what a partition's blocks give, in their order: sums over classes are too large for one a block."""
    return reduce(add, (one(block) for block in part.blocks))


def node_class_counts(part: Partition, node: WideNode) -> Array:
    """(2, K) int64: training and validation rows of each class at the node."""
    n_classes = classes_at(node.ground, node.path).size

    def one(block: Block) -> Array:
        return np.stack([np.bincount(node.own(which, block)[1], minlength=n_classes) for which in PARTS])

    return np.asarray(over(part, one))


def node_centroids(part: Partition, node: WideNode, width: int) -> Any:
    """Sums of training rows by class; width: see `spherical.class_sums_of`."""
    n_classes = classes_at(node.ground, node.path).size

    def one(block: Block) -> Any:
        offset, column = node.own(TRAIN, block)
        return class_sums_of(read_rows(block).take(offset), column, n_classes, node.ground.seed, width)

    return over(part, one)


def judging(block: Block, node: WideNode, without: Array) -> Iterator[tuple[Rows, Array]]:
    """Judging rows of one block, and their class columns; `without` as in `Balance`."""
    for part in (VALIDATION, TRAIN):
        offset, column = node.own(part, block)
        if part == TRAIN:  # those that stand in
            offset, column = offset[without[column]], column[without[column]]
        if offset.size:
            yield read_rows(node.ground.source(block, part)).take(offset), column


def node_counts(part: Partition, node: WideNode, weights: Parameters, without: Array) -> Array:
    """(Q, K) int64: where the judging rows go."""
    total = np.zeros((weights["weights"].shape[1], without.size), np.int64)
    for block in part.blocks:
        for rows, columns in judging(block, node, without):
            total += count_routes(rows, weights, columns, without.size)
    return total


def node_runners_up(part: Partition, node: WideNode, weights: Parameters, without: Array) -> Array:
    """(Q, K) int64: a partition's share of `Node.runners_up`."""
    total = np.zeros((weights["weights"].shape[1], without.size), np.int64)
    for block in part.blocks:
        offset, column = node.own(TRAIN, block)
        total += count_runners_up(read_rows(block).take(offset), weights, column, without.size, first_too=True)
        for rows, columns in judging(block, node, without):
            total += count_runners_up(rows, weights, columns, without.size)
    return total


def node_likelihoods(
    part: Partition, node: WideNode, weights: Parameters, children: Array, scales: Array, without: Array
) -> Array:
    """(n_scales,) float64: a partition's share of `Node.likelihoods`; without: as in `Balance`.

    Training rows stand in only where there are no validation rows at all: they flatter the node that learnt from them.
    """
    total, without = np.zeros(scales.size), np.full(without.size, bool(without.all()))
    for block in part.blocks:
        if not node.ground.params.foreign:
            total += judged_likelihoods(judging(block, node, without), weights, children, scales)
            continue
        offset, column = node.columns(VALIDATION, block)
        rows = read_rows(node.ground.source(block, VALIDATION)).take(offset)
        total += sum_likelihoods(rows, weights, child_of(children, column), len(node.path) > 0, scales)
    return total


@dataclass(frozen=True, slots=True, eq=False)
class Routed(FieldSums):
    """What routing came to: digests of the pieces by name, and rows kept by each child, (Q, 2) int64."""

    digests: tuple[tuple[str, str], ...]
    counts: Array


def node_routes(block: Block, node: WideNode, weights: Parameters, children: Array) -> Routed:
    """Route the rows of one block and write its piece."""
    split = Split(classes_at(node.ground, node.path), children, weights["weights"], weights["bias"])
    chosen = []
    for part in PARTS:
        offset, label = members_of_block(node.ground, node.path, part, block)
        who = Members(np.full(offset.size, block.index), offset, label)
        rows = read_rows(node.ground.source(block, part)).take(offset)
        chosen.append(kept(who, rows, split, part, node.ground))
    name = piece_of(block.index)
    digest = write_piece(node.ground, node.path, name, chosen, len(children))
    return Routed(((name, digest),), routed_counts(chosen, split))


# ---- the grown tree as a whole ------------------------------------------------------------------------------------


def tree_likelihoods(block: Block, ground: Ground, tree: Mapping[str, Array], header: Mapping[str, Any]) -> Array:
    """(n_tried,) float64: what the validation rows of one block say of the tree's sharpness.

    tree, header  tensors of the grown tree, and its header with n_features and n_classes
    """
    offset, labels = members_of_block(ground, (), VALIDATION, block)
    if not offset.size:
        return np.zeros(TRIED.size)
    model = LabelTree.load(dict(header), {name: np.asarray(values) for name, values in tree.items()})
    return likelihoods_of(model, read_rows(ground.source(block, VALIDATION)).take(offset), labels)
