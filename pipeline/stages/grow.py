"""Grow a tree: its nodes over the pool as their parents finish; it ends in `model/` of the step."""

from __future__ import annotations

import contextlib
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Self

from pipeline.config import KMeansTree, needed_models
from pipeline.config import LabelTree as LabelTreeSection
from pipeline.node_oracle import SUM_PARTS, Field, grow_tree
from pipeline.stage import Estimate, Facts, Made, Work
from pipeline.stages.grow_params import ROOT_AMBIGUITY, tree_params
from pipeline.stages.train import (
    MEGABYTE,
    TRAIN_SECONDS,
    TrainStage,
    check_rows,
    model_facts,
    save,
    saved_bytes,
    train_step,
)
from pipeline.stages.tree_size import grown_bytes, tree_size
from pipeline.store import SOLVED
from pipeline.watching.tree_watch import AMBIGUITY, TreeWatch
from tasks.digest import digest_text
from tasks.io import Block
from tasks.seeds import stream
from tasks.sums import FAN_IN
from tasks.trees.kmeans.forest import Forest
from tasks.trees.kmeans.params import KMeansTreeParams
from tasks.trees.measures import unreachable
from tasks.trees.params import LabelTreeParams, TreeParams
from tasks.trees.place import Ground, write_whole
from tasks.trees.tree import LabelTree

SECONDS = "SECONDS"
GrownSection = LabelTreeSection | KMeansTree
NODES = "nodes"  # folder of the growing tree, within the step's progress: gone when the step is finished
ROUTE_BYTES = 12  # of one row at one depth
CODED_COPIES = 48  # of a node's float32 weights, in float64: the pairs of a quasi-Newton method, and what it adds up
CODED_BYTES = 96 * MEGABYTE  # of scores, residuals and tables in a pass over codes
CODED_PASSES = 44  # over the rows or a sample of them, in one fit, at most
USUAL_PASSES = 11  # as many as fits have taken
WIDER = {  # keys that cap a label tree, and what gives its classes more room
    "speedup": "a smaller `speedup`",
    "loss": "a smaller `loss`",
    "ambiguity_of": "an `ambiguity` of its own that is larger",
}
NOT_GROWN = {"name", "beam"}  # keys that no node depends on


def grown_alike(learner: GrownSection) -> dict[str, Any]:
    """What decides a tree: learners in which it is the same grow one."""
    return {key: value for key, value in learner.model_dump(mode="json").items() if key not in NOT_GROWN}


@dataclass(frozen=True)
class GrowStage(TrainStage):
    """Grow one tree."""

    learner: GrownSection
    chain: tuple[str, ...]
    n_features: int
    twins: tuple[str, ...] = ()  # other learners of the config with the same tree: whoever is first grows it
    version: ClassVar[int] = 6

    @classmethod
    def of(cls, learner: GrownSection, facts: Facts, chain: tuple[str, ...] = (), twins: tuple[str, ...] = ()) -> Self:
        """Raises ParamError and TreeShape when a parameter does not fit, NoTrainingRows without training rows."""
        tree_params(learner, facts.dataset)
        check_rows(learner, facts.dataset)
        return cls(learner, chain, facts.rows[learner.rows].n_features, twins)

    def settings(self) -> dict[str, Any]:
        """The beam is of those who predict."""
        return {key: value for key, value in self.learner.model_dump(mode="json").items() if key != "beam"}

    @property
    def inputs(self) -> tuple[str, ...]:
        return (*super().inputs, *(train_step(name) for name in needed_models(self.learner)))

    def estimate(self, facts: Facts) -> Estimate:
        dataset, rows = facts.dataset, self.learner.rows
        params = tree_params(self.learner, dataset)
        size = tree_size(self.learner, params, facts)
        block_bytes, judge_bytes = (facts.rows[name].block_bytes for name in (rows, self.learner.tested_on))
        n_train = dataset.split_counts["train"]
        n_judged = n_train + dataset.split_counts["validation"]
        row_bytes = block_bytes / max(1, min(dataset.block_rows, dataset.n_rows))
        if params.foreign and facts.rows[rows].body == "onehot":
            row_bytes = 4.0 * facts.rows[rows].row_floats  # nodes hold them as sparse rows
        if isinstance(params, KMeansTreeParams) and facts.rows[rows].body in ("csr", "onehot"):
            row_bytes += params.beside_bytes
        held = min(n_train * row_bytes, float(params.whole_node_bytes))
        judged = held * judge_bytes / block_bytes * dataset.split_counts["validation"] / max(1, n_train)
        by_blocks = size.blocks_bytes(row_bytes)
        widest, model = size.widest_children(), max(size.widest_node_bytes(), by_blocks)
        batch = 4 * 1024 * (facts.rows[rows].row_floats + 3 * widest)
        whole = int(2.2 * (held + judged)) + 64 * n_judged
        coded = facts.rows[rows].body == "pq" and params.whole_passes
        copies = CODED_COPIES if coded else 5
        beside = 4 * facts.rows[rows].encoder_bytes + CODED_BYTES if coded else 0
        task = 2 * max(block_bytes, judge_bytes) + whole + copies * model + batch + beside + 64 * MEGABYTE
        weights = grown_bytes(self.learner, params, facts)
        disk = saved_bytes(self.learner, weights, facts)
        sent = (
            params.reach_of(size.nonzeros > 0) + 1 if isinstance(params, KMeansTreeParams) else 1
        )  # copies of a row's route
        spare = weights + by_blocks + sent * ROUTE_BYTES * n_judged * params.height + MEGABYTE
        fits = params.alternations if isinstance(params, LabelTreeParams) else 1
        tasks = sum(size.nodes(depth) for depth in range(params.height))
        if by_blocks:  # the root is many tasks, whose rows are also read to start, to count and to be sent on
            blocks = -(-n_judged // dataset.block_rows)
            rounds = USUAL_PASSES * min(SUM_PARTS, blocks) if coded else params.sgd.rounds * params.sgd.partitions
            tasks += fits * rounds + (fits + 5) * blocks
            spare += fits * CODED_PASSES * 2 * by_blocks if coded else 0  # what the rows have answered
        if self.twins:  # the nodes stay until the run has finished
            disk, spare = disk + spare, 0
        adding = (FAN_IN + 2) * max((2 if coded else 1) * by_blocks, size.sums_bytes(row_bytes))
        return Estimate(max(task, adding), disk, tasks, spare, CODED_COPIES * by_blocks if coded else 0)

    def run(self, work: Work) -> Made:
        started = time.perf_counter()
        dataset = work.dataset
        nodes = self._nodes_folder(work)
        params = tree_params(self.learner, dataset, self._ambiguity(work))
        n_train, field = dataset.split_counts["train"], field_of(work, self.learner.rows)
        trees = [
            grow_tree(self._ground(work, params, nodes, tree), field, n_train, work.pool, self._watch(work, tree))
            for tree in range(self.n_trees)
        ]
        model = trees[0] if len(trees) == 1 else Forest(tuple(trees))
        operations = sum(float(tree.facts["operations"]) for tree in trees)
        digest = save(self, work, model, {"operations": operations})
        facts = {**model_facts(model, operations, n_train), **tree_facts(trees[0])}
        facts |= {"findings": found} if (found := findings_of(self.learner, trees[0])) else {}
        seconds = time.perf_counter() - started
        return Made(digest, facts, {"seconds": seconds, TRAIN_SECONDS: grown_in(nodes, seconds)})

    def _watch(self, work: Work, tree: int) -> TreeWatch:
        """Tells of a tree as it grows."""
        name = f"{self.learner.name} {tree + 1}" if self.n_trees > 1 else self.learner.name
        return TreeWatch(name, AMBIGUITY, work.event, work.tell)

    @property
    def n_trees(self) -> int:
        """Trees of a forest; 1: it is none."""
        return self.learner.trees if isinstance(self.learner, KMeansTree) else 1

    def _ground(self, work: Work, params: TreeParams, nodes: Path, tree: int) -> Ground:
        """Where one of the trees grows; the name, from which random streams come, is no learner's: twins are alike."""
        seed = int(stream(work.seed, "forest", tree).integers(1 << 31)) if tree else work.seed
        return Ground(
            dataset=work.dataset.path,
            rows=work.blocks(self.learner.rows)[0].store,
            judges=work.blocks(self.learner.tested_on)[0].store,
            folder=str(nodes / f"tree-{tree}"),
            params=params,
            seed=seed,
            name=self.learner.kind,
            n_features=self.n_features,
            n_classes=work.dataset.n_classes,
        )

    def _ambiguity(self, work: Work) -> float | None:
        """That of the root of the tree that the section names."""
        for name in needed_models(self.learner):
            return float(work.inputs[train_step(name)].results[ROOT_AMBIGUITY])
        return None

    def _nodes_folder(self, work: Work) -> Path:
        """Of the step, or what twins share until the run has finished."""
        if not self.twins:
            return work.folder / "progress" / NODES
        read = [work.inputs[name].digest for name in self.inputs]
        tree = digest_text(
            str(self.version), repr(grown_alike(self.learner)), str(work.seed), work.dataset.digest, *read
        )
        return work.folder.parent.parent / SOLVED / tree[:12]


def findings_of(learner: GrownSection, tree: LabelTree) -> list[str]:
    """Classes that the partitions have given up: nothing the tree is shown can bring them back."""
    lost = unreachable(tree).size
    if not lost:
        return []
    text = f"GivenUp: {learner.name}: {lost:,} of {tree.n_classes:,} classes are in no leaf and are never answered"
    given = {key: one for key, one in WIDER.items() if getattr(learner, key, None) is not None}
    wider = next(iter(given.values()), "a larger `ambiguity`")
    return [f"{text}: more validation rows of them, or {wider}, keep them"]


def grown_in(nodes: Path, seconds: float) -> float:
    """Seconds that a tree took: those of whoever grew it first, which a file beside its nodes tells the twins."""
    mark = nodes / SECONDS
    with contextlib.suppress(OSError, ValueError):
        return float(mark.read_text("ascii"))
    write_whole(mark, repr(seconds).encode())
    return seconds


def field_of(work: Work, rows: str) -> Field:
    """The blocks that hold training rows, and those that hold training or validation rows: ingest puts these first."""
    last = work.dataset.split_counts["train"] + work.dataset.split_counts["validation"]
    judged: list[Block] = [block for block in work.blocks(rows) if block.start < last]
    return Field(work.train_blocks(rows), judged)


def tree_facts(tree: LabelTree) -> dict[str, Any]:
    """What the report says of a tree: its shape, and what was settled for it."""
    shape = tree.header()["tree"]["shape"]
    return {
        "shape": shape,
        "nodes": int(tree.n_nodes),
        "leaves": int((tree.n_children == 0).sum()),
        **{name: tree.facts[name] for name in ("branching", "depth", "ambiguity", "loss", "judged")},
    }
