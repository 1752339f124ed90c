"""Train a label tree: nodes grow over the pool as their parents finish, and end in `model/` of the step."""

from __future__ import annotations

import time
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Self

from pipeline.config import LabelTree as LabelTreeSection
from pipeline.dataset import Dataset
from pipeline.node_oracle import Field, grow_tree
from pipeline.stage import Estimate, Facts, Made, Work
from pipeline.stages.train import MEGABYTE, TrainStage, check_rows, model_facts, save, saved_bytes
from pipeline.stages.tree_size import TreeSize
from tasks.io import Block
from tasks.sums import FAN_IN
from tasks.trees.local import judges_per_class
from tasks.trees.params import LabelTreeParams
from tasks.trees.place import Ground
from tasks.trees.tree import LabelTree

NODES = "nodes"  # folder of the growing tree, within the step's progress: gone when the step is finished
ROUTE_BYTES = 12  # of one row at one depth


def tree_params(learner: LabelTreeSection, dataset: Dataset) -> LabelTreeParams:
    """The parameters of a label tree, of the keys of its section, settled. Raises ParamError, TreeShape."""
    known = {field.name for field in fields(LabelTreeParams)}
    given = {key: value for key, value in learner.model_dump().items() if key in known}
    counts = dataset.split_counts
    judges = judges_per_class(counts["train"], counts["validation"], dataset.n_classes)
    return LabelTreeParams(**given).settled(dataset.n_classes, judges)


@dataclass(frozen=True)
class GrowStage(TrainStage):
    """Train one label tree."""

    learner: LabelTreeSection
    chain: tuple[str, ...]
    n_features: int
    version: ClassVar[int] = 3

    @classmethod
    def of(cls, learner: LabelTreeSection, facts: Facts, chain: tuple[str, ...] = ()) -> Self:
        """Raises ParamError and TreeShape when a parameter does not fit, NoTrainingRows without training rows."""
        tree_params(learner, facts.dataset)
        check_rows(learner, facts.dataset)
        return cls(learner, chain, facts.rows[learner.rows].n_features)

    def estimate(self, facts: Facts) -> Estimate:
        dataset, rows = facts.dataset, self.learner.rows
        params = tree_params(self.learner, dataset)
        size = TreeSize.of(self.learner, params, facts)
        block_bytes, judge_bytes = (facts.rows[name].block_bytes for name in (rows, self.learner.tested_on))
        n_train = dataset.split_counts["train"]
        n_judged = n_train + dataset.split_counts["validation"]
        row_bytes = block_bytes / max(1, min(dataset.block_rows, dataset.n_rows))
        held = min(n_train * row_bytes, float(params.whole_node_bytes))
        judged = held * judge_bytes / block_bytes * dataset.split_counts["validation"] / max(1, n_train)
        by_blocks = size.blocks_bytes(row_bytes)
        widest, model = size.widest_children(), max(size.widest_node_bytes(), by_blocks)
        batch = 4 * 1024 * (facts.rows[rows].row_floats + 3 * widest)
        whole = int(2.2 * (held + judged)) + 64 * n_judged
        task = 2 * max(block_bytes, judge_bytes) + whole + 5 * model + batch + 64 * MEGABYTE
        weights = size.model_bytes()
        disk = saved_bytes(self.learner, weights, facts)
        spare = weights + by_blocks + ROUTE_BYTES * n_judged * params.height + MEGABYTE  # growing nodes, routes of rows
        tasks = params.alternations * params.rounds * params.partitions + widest * max(1, params.height - 1)
        return Estimate(max(task, (FAN_IN + 2) * by_blocks), disk, tasks, spare)

    def run(self, work: Work) -> Made:
        started = time.perf_counter()
        dataset = work.dataset
        ground = Ground(
            dataset=dataset.path,
            rows=work.blocks(self.learner.rows)[0].store,
            judges=work.blocks(self.learner.tested_on)[0].store,
            folder=str(work.folder / "progress" / NODES),
            params=tree_params(self.learner, dataset),
            seed=work.seed,
            name=self.learner.name,
            n_features=self.n_features,
            n_classes=dataset.n_classes,
        )
        n_train = dataset.split_counts["train"]
        tree = grow_tree(ground, field_of(work, self.learner.rows), n_train, work.pool)
        digest = save(self, work, tree, {"operations": tree.facts["operations"]})
        facts = {**model_facts(tree, float(tree.facts["operations"]), n_train), **tree_facts(tree)}
        return Made(digest, facts, {"seconds": time.perf_counter() - started})


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
