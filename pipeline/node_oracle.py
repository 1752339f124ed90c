"""A tree grown over the pool as parents finish: wide nodes by blocks, driven from here; all others whole, as tasks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pipeline.pool import Part, Pool
from pipeline.trace_oracle import AnswerLog
from pipeline.watching.tree_watch import TreeWatch
from tasks.digest import digest_arrays, digest_text
from tasks.fit.average import ModelSum
from tasks.fit.blocks import Partition, make_partitions
from tasks.fit.checkpoint import FileCheckpoint
from tasks.fit.fit import FitResult, fit
from tasks.fit.problem import SgdProblem, StepTrial
from tasks.fit.scorer import Parameters
from tasks.io import Block, facts_of, nonzeros_of, read_codebooks
from tasks.places import remove_folder
from tasks.rows.base import Array
from tasks.trees.blocks import (
    NodeTask,
    Routed,
    WideNode,
    block_row_bytes,
    grow_whole,
    node_centroids,
    node_class_counts,
    node_code_counts,
    node_counts,
    node_likelihoods,
    node_risk,
    node_routes,
    node_runners_up,
    node_sgd,
    node_step,
    tree_likelihoods,
)
from tasks.trees.kmeans.sharpness import sharpened
from tasks.trees.label_tree import grow_node
from tasks.trees.local import Balance, classes_held, tree_of
from tasks.trees.node import Grown
from tasks.trees.on_codes.fit import fit_codes
from tasks.trees.on_codes.local import evenly
from tasks.trees.on_codes.moments import CodeCounts, CodeFrame
from tasks.trees.on_codes.risk import RiskSum
from tasks.trees.place import Ground, Summary, classes_at, finished, read_grown, write_done
from tasks.trees.spherical import kept_columns
from tasks.trees.tree import LabelTree, Path

SUM_PARTS = 16  # parts of a sum over blocks, each a task; part of the result's definition


@dataclass(frozen=True)
class Field:
    """The blocks on which a tree grows: those with training rows, and those with training or validation rows."""

    train: Sequence[Block]
    judged: Sequence[Block]

    def train_parts(self) -> list[Partition]:
        """Runs of them, for sums that are as large as the classes are many."""
        return make_partitions(self.train, SUM_PARTS)

    def judged_parts(self) -> list[Partition]:
        """See `train_parts`."""
        return make_partitions(self.judged, SUM_PARTS)


class PoolNode:
    """A wide node: its sums are over blocks (see `tasks.trees.label_tree.Node`).

    Every fit keeps a checkpoint a round in the node's folder, so an interrupted node continues where it was.
    """

    def __init__(self, node: WideNode, field: Field, pool: Pool) -> None:
        self.node, self.field, self.pool = node, field, pool
        self.label = node.ground.place(node.path).replace("/", "_")
        self.classes = classes_at(node.ground, node.path)
        self.depth = len(node.path)
        self.n_features = node.ground.n_features
        self.features = np.arange(self.n_features, dtype=np.int32) if facts_of(node.ground.rows).body == "csr" else None
        coded = facts_of(node.ground.rows).body == "pq"
        self.codebooks = read_codebooks(node.ground.rows) if coded else None
        counts = pool.sum(node_class_counts, field.judged_parts(), node, name=f"classes_{self.label}")
        self.class_counts = counts[0]
        self.balance = Balance.of(*counts)

    def learn(self, children: Array, start: Parameters | None, alternation: int) -> FitResult:
        """See `Node.learn`."""
        if self.codebooks is not None and self.node.ground.params.whole_passes:
            return self._learn_codes(children, start, alternation)
        oracle = NodeOracle(self, children, alternation)
        problem = self.node.problem(children, alternation)
        progress = self.node.ground.node_folder(self.node.path) / f"progress-{alternation}"
        return fit(problem, oracle, start, FileCheckpoint(progress))

    def _learn_codes(self, children: Array, start: Parameters | None, alternation: int) -> FitResult:
        """What the rows have answered is kept: an interrupted fit begins anew, and asks on from there."""
        params, held = self.node.ground.params, classes_held(children)
        log = AnswerLog(self.node.ground.node_folder(self.node.path) / f"progress-{alternation}")
        passes = PoolPasses(self, children, log)
        return fit_codes(passes, children, np.where(held, self.class_counts, 0), params, self.depth, start)

    def counts(self, weights: Parameters) -> Array:
        """See `Node.counts`."""
        total = self.pool.sum(
            node_counts, self.field.judged_parts(), self.node, weights, self.balance.without, name=f"count_{self.label}"
        )
        return self.balance.weigh(total)

    def runners_up(self, weights: Parameters) -> Array:
        """See `Node.runners_up`."""
        total: Array = self.pool.sum(
            node_runners_up,
            self.field.judged_parts(),
            self.node,
            weights,
            self.balance.without,
            name=f"second_{self.label}",
        )
        return total

    def centroids(self) -> Any:
        """See `Node.centroids`."""
        store = self.node.ground.rows
        entries = sum(nonzeros_of(store)) if facts_of(store).body == "csr" else 0
        width = kept_columns(self.n_features, self.classes.size, entries)
        blocks = self.field.train
        if self.codebooks is not None:  # as many rows as tell a class's mean, not all
            most = self.node.ground.params.most_rows
            blocks = [blocks[at] for at in evenly(len(blocks), min(1.0, most / max(1, int(self.class_counts.sum()))))]
        parts = make_partitions(blocks, SUM_PARTS)
        return self.pool.sum(node_centroids, parts, self.node, width, name=f"centroids_{self.label}").means()

    def likelihoods(self, weights: Parameters, children: Array, scales: Array) -> Array:
        """See `Node.likelihoods`."""
        total: Array = self.pool.sum(
            node_likelihoods,
            self.field.judged_parts(),
            self.node,
            weights,
            children,
            scales,
            self.balance.without,
            name=f"scales_{self.label}",
        )
        return total

    def route(self, grown: Grown) -> Routed:
        """Send every row to its child, block by block."""
        found: Routed = self.pool.sum(
            node_routes,
            self.field.judged,
            self.node,
            grown.split.parameters(),
            grown.split.children,
            name=f"route_{self.label}",
        )
        return found


class NodeOracle:
    """Rounds of one fit at a wide node (see `tasks.fit.fit.Oracle`); the partition travels as a file."""

    def __init__(self, node: PoolNode, children: Array, alternation: int) -> None:
        self.node, self.children, self.alternation = node, children, alternation

    def trial(self, problem: SgdProblem) -> StepTrial:  # noqa: ARG002 - the tasks make the problem themselves
        """See `Oracle.trial`."""
        blocks = tuple(self.node.field.train)
        name = f"step_{self.node.label}"
        found: StepTrial = self.node.pool.map(
            node_step, [blocks], self.node.node, self.children, self.alternation, name=name
        )[0]
        return found

    def round(self, problem: SgdProblem, parameters: Parameters, round_index: int) -> ModelSum:
        """See `Oracle.round`."""
        total: ModelSum = self.node.pool.sum(
            node_sgd,
            make_partitions(self.node.field.train, problem.params.partitions),
            parameters,
            self.node.node,
            self.children,
            self.alternation,
            problem.settled(),
            round_index,
            name=f"sgd_{self.node.label}",
            part=Part(round_index, problem.params.rounds),
        )
        return total


class PoolPasses:
    """Passes over the codes of a wide node (see `tasks.trees.on_codes.fit.Passes`); a sample is of whole blocks."""

    def __init__(self, node: PoolNode, children: Array, log: AnswerLog) -> None:
        assert node.codebooks is not None
        self.node, self.children, self.codebooks, self.log = node, children, node.codebooks, log

    def code_counts(self) -> CodeCounts:
        """See `Passes`."""
        node = self.node
        found: CodeCounts = node.pool.sum(
            node_code_counts, node.field.train_parts(), node.node, self.children, name=f"codes_{node.label}"
        )
        return found

    def risk(self, frame: CodeFrame, point: Array, width: float, share: float) -> RiskSum:
        """See `Passes`."""
        node, narrow = self.node, point.astype(np.float32)
        blocks = [node.field.train[place] for place in evenly(len(node.field.train), share)]

        def ask() -> dict[str, Array]:
            total: RiskSum = node.pool.sum(
                node_risk,
                make_partitions(blocks, SUM_PARTS),
                node.node,
                self.children,
                frame.mean,
                frame.size,
                narrow,
                width,
                name=f"fit_{node.label}",
            )
            sums = {"rows": np.array(total.rows), "loss": np.array(total.loss)}
            return sums | {"residuals": total.residuals, "gradient": total.gradient}

        question = digest_text(digest_arrays(narrow), repr((width, share)))
        found = self.log.ask(question, ask)
        return RiskSum(int(found["rows"]), float(found["loss"]), found["residuals"], found["gradient"])


def grow_tree(ground: Ground, field: Field, n_train: int, pool: Pool, watch: TreeWatch | None = None) -> LabelTree:
    """The label tree of a dataset; what an interrupted attempt has finished is checked and kept.

    ground.params must be settled; n_train is the number of training rows. A node starts as soon as its parent is done,
    whichever others are under way: the same bits for any order, any pool and any faults. `watch` hears of every node.
    """
    row_bytes = pool.map(block_row_bytes, field.train[:1], ground.params, name=f"measure_{ground.name}")[0]
    grown: list[Path] = []

    def is_wide(task: NodeTask) -> bool:
        return not ground.params.trained_whole(task.path, task.n_rows, row_bytes)

    def wide(task: NodeTask) -> Summary:
        return grow_wide(WideNode(ground, task.path), field, pool)

    def expand(task: NodeTask, summary: Summary) -> list[NodeTask]:
        grown.append(task.path)
        more = tasks_below(ground, task.path, summary)
        if watch is not None:
            accuracy, judged = 1.0 - summary.loss, summary.judged_rows
            watch.ended(len(task.path), task.n_rows, len(more), judged, accuracy, summary.ambiguity)
        return more

    root = [NodeTask((), n_train)]
    pool.unfold(grow_whole, root, expand, ground, name=f"grow_{ground.name}", drive=wide, is_driven=is_wide)
    if watch is not None:
        watch.close()
    splits = {path: read_grown(ground, path) for path in grown}
    tree = tree_of(splits, ground.n_features, ground.n_classes, ground.params)
    return made_sure(tree, ground, field, pool) if tree.probabilistic else tree


def made_sure(tree: LabelTree, ground: Ground, field: Field, pool: Pool) -> LabelTree:
    """The tree with the sharpness that its validation rows tell."""
    shared = ground, tree.tensors(), tree.bare_header()
    return sharpened(tree, pool.sum(tree_likelihoods, field.judged, *shared, name=f"sure_{ground.name}"))


def grow_wide(node: WideNode, field: Field, pool: Pool) -> Summary:
    """Train one node by blocks; a node that was finished before is only checked."""
    ground, path = node.ground, node.path
    done = finished(ground, path)
    if done is not None:
        return done
    oracle = PoolNode(node, field, pool)
    grown = grow_node(oracle, ground.params, ground.seed, path)
    n_children = len(grown.split.children)
    routed = Routed((), np.zeros((n_children, 2), np.int64))
    if ground.params.kind_of(oracle.classes.size, len(path)) != "full":
        routed = oracle.route(grown)
    summary = write_done(ground, path, grown, dict(routed.digests), routed.counts)
    for progress in ground.node_folder(path).glob("progress-*"):
        remove_folder(progress)
    return summary


def tasks_below(ground: Ground, path: Path, summary: Summary) -> list[NodeTask]:
    """The children of a finished node that are to be split in turn: with two classes or more, and training rows."""
    return [
        NodeTask((*path, q), n_rows)
        for q, (n_classes, n_rows) in enumerate(summary.children)
        if n_rows and ground.params.kind_of(n_classes, len(path) + 1) != "leaf"
    ]
