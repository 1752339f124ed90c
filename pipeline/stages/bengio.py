"""Train a bengio-tree: flat classifiers tell which classes are confused, these are parted, all splits learn at once."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np

from pipeline.config import BengioTree, OneVsRest, needed_models
from pipeline.dataset import Dataset
from pipeline.joint_oracle import JointOracle, Told, forget, keep_told, layout_over, parted, told_before
from pipeline.stage import Estimate, Facts, Made, Work
from pipeline.stages.bengio_size import bengio_bytes, one_model, shape_params
from pipeline.stages.grow import field_of, tree_facts
from pipeline.stages.grow_params import ROOT_AMBIGUITY
from pipeline.stages.train import (
    MEGABYTE,
    MODEL,
    TRAIN_SECONDS,
    TrainStage,
    check_rows,
    flat_estimate,
    model_facts,
    save,
    saved_bytes,
    sgd_params,
    train_flat,
    train_step,
)
from pipeline.store import PROGRESS, SOLVED
from pipeline.watching.tree_watch import AMBIGUITY, TreeWatch
from tasks.digest import digest_text
from tasks.fit.fit import FitResult
from tasks.fit.targets import SplitTargets
from tasks.io import read_labels
from tasks.rows.base import Array
from tasks.sums import FAN_IN
from tasks.taxonomy import Taxonomy
from tasks.trees.bengio.confusion import Confusion, affinity_of, confusion_block
from tasks.trees.bengio.joint_blocks import Joint, whole
from tasks.trees.bengio.joint_model import children_met, joint_model, node_paths
from tasks.trees.bengio.judged import Judged, judge_block, judged_by_depth, node_records, scales_by_depth
from tasks.trees.blocks import block_row_bytes
from tasks.trees.local import Balance, node_name
from tasks.trees.params import LabelTreeParams
from tasks.trees.taxonomy_tree import TaxonomyTree
from tasks.trees.tree import LabelTree

FLAT = "ovr"
OVR_OPERATIONS = "ovr_ops_per_row"  # results: of the flat classifiers, vector operations per training row
OVR_SECONDS = "ovr_seconds"  # measured: of the flat classifiers and their confusion


def flat_section(learner: BengioTree) -> OneVsRest:
    """The classifiers whose confusion parts the classes."""
    return OneVsRest(
        kind="ovr",
        name=f"{learner.kind}-{FLAT}",
        rows=learner.rows,
        test_rows=learner.test_rows,
        rounds=learner.ovr_rounds,
        partitions=learner.partitions,
        batch=learner.batch,
    )


def confused_alike(learner: BengioTree) -> dict[str, Any]:
    """What decides the confusion: learners in which it is the same take it from one training of flat classifiers."""
    return flat_section(learner).model_dump(mode="json")


@dataclass(frozen=True)
class BengioStage(TrainStage):
    """Train one bengio-tree."""

    learner: BengioTree
    chain: tuple[str, ...]
    n_features: int
    twins: tuple[str, ...] = ()  # other learners of the config with the same flat classifiers
    version: ClassVar[int] = 2

    @property
    def inputs(self) -> tuple[str, ...]:
        return (*super().inputs, *(train_step(name) for name in needed_models(self.learner)))

    @classmethod
    def of(cls, learner: BengioTree, facts: Facts, chain: tuple[str, ...] = (), twins: tuple[str, ...] = ()) -> Self:
        """Raises ParamError and TreeShape when a parameter does not fit, NoTrainingRows without training rows."""
        shape_params(learner, facts.dataset.n_classes)
        sgd_params(learner, doubled=True)
        check_rows(learner, facts.dataset)
        return cls(learner, chain, facts.rows[learner.rows].n_features, twins)

    def settings(self) -> dict[str, Any]:
        """The beam is of those who predict."""
        return {key: value for key, value in self.learner.model_dump(mode="json").items() if key != "beam"}

    def estimate(self, facts: Facts) -> Estimate:
        params, rows = shape_params(self.learner, facts.dataset.n_classes), facts.rows[self.learner.rows]
        weights = bengio_bytes(self.learner, facts)
        flat = Estimate(0, 0, 0) if needed_models(self.learner) else flat_estimate(flat_section(self.learner), facts)
        task = 2 * rows.block_bytes + 3 * weights + 12 * 1024 * rows.row_floats + 64 * MEGABYTE
        models = 1 if one_model(params, self.learner, facts) else min(FAN_IN, self.learner.partitions)
        adding = (models + 2) * weights if models > 1 else 0
        spare = max(flat.disk_bytes + flat.spare_bytes, 3 * weights) + 32 * facts.dataset.n_rows + MEGABYTE
        return Estimate(
            max(flat.task_bytes, task, adding),
            saved_bytes(self.learner, weights, facts),
            flat.tasks + self.learner.rounds * models + (params.branching or 1) + 4,
            spare,
            max(flat.driver_bytes, 5 * weights),
        )

    def run(self, work: Work) -> Made:
        started = time.perf_counter()
        counts = SplitCounts.of(work.dataset)
        params, folder = shape_params(self.learner, work.dataset.n_classes), work.folder / PROGRESS
        told = self._told(work, params, counts)
        affinity = affinity_of(told.confusion, work.dataset.n_classes)
        tree = parted(affinity, params, work.seed, work.pool, folder, self.learner.name)
        model, result = self._trained(work, tree, params, counts, folder)
        found = self._judged(work, model, counts)
        judged = found.weighed(Balance.of(counts.train, counts.validation))
        model = replace(
            model,
            scales=scales_by_depth(model, found.likelihoods),
            facts={**model.facts, **judging_facts(model, judged, tree, counts)},
        )
        tell_nodes(model, counts.train, TreeWatch(self.learner.name, AMBIGUITY, work.event))
        digest = save(self, work, model, {"operations": model.facts["operations"]})
        n_train, seconds = work.dataset.split_counts["train"], time.perf_counter() - started
        facts = {**model_facts(model, float(model.facts["operations"]), n_train), **tree_facts(model)}
        facts[ROOT_AMBIGUITY] = model.facts["judged"][0]["ambiguity"]
        facts |= {name: told.cost[name] for name in (OVR_OPERATIONS,) if name in told.cost}
        facts |= {"trial": result.trial.as_json(), "history": result.history}
        facts["training_bytes"] = sum(values.nbytes for values in result.parameters.values())
        before = float(told.cost.get("seconds", 0.0))
        total = seconds if told.fresh else seconds + before
        return Made(digest, facts, {"seconds": seconds, OVR_SECONDS: before, TRAIN_SECONDS: total})

    # ---- which classes are confused ------------------------------------------------------------------------------

    def _told(self, work: Work, params: LabelTreeParams, counts: SplitCounts) -> Told:
        """The confusion of flat classifiers; nothing is asked of them when no node's classes are to be parted."""
        if params.kind_of(work.dataset.n_classes, 0) != "learned":
            return Told(Confusion.nothing(), {})
        folder = self._flat_folder(work)
        told = told_before(folder)
        if told is not None:
            return told
        started = time.perf_counter()
        model, operations = self._flat_model(work, folder)
        blocks = field_of(work, self.learner.tested_on).judged
        shared = work.dataset.path, str(model), counts.without
        confusion = work.pool.sum(confusion_block, blocks, *shared, name=f"confusion_{self.learner.name}")
        cost = {OVR_OPERATIONS: operations, "seconds": time.perf_counter() - started}
        told = Told(confusion, cost, fresh=True)
        keep_told(folder, told)
        forget(folder / MODEL)
        forget(folder / PROGRESS)
        return told

    def _flat_model(self, work: Work, folder: Path) -> tuple[Path, float]:
        """(folder, operations per training row) of the flat classifiers: the ones named, or trained into `folder`."""
        for name in needed_models(self.learner):
            step = train_step(name)
            return work.folders[step] / MODEL, float(work.inputs[step].results["train_ops_per_row"])
        flat, taxonomy = flat_section(self.learner), Taxonomy.flat(work.dataset.n_classes)
        trained = train_flat(work, flat, (), self.n_features, taxonomy, folder)
        return folder / MODEL, float(trained.facts["train_ops_per_row"])

    def _flat_folder(self, work: Work) -> Path:
        """Of the step, or what twins share until the run has finished."""
        if not self.twins or needed_models(self.learner):
            return work.folder / PROGRESS / FLAT
        read = [work.inputs[name].digest for name in self.inputs]
        parts = str(self.version), repr(confused_alike(self.learner)), str(work.seed), work.dataset.digest
        return work.folder.parent.parent / SOLVED / f"{FLAT}-{digest_text(*parts, *read)[:12]}"

    # ---- all splits at once --------------------------------------------------------------------------------------

    def _trained(
        self, work: Work, tree: TaxonomyTree, params: LabelTreeParams, counts: SplitCounts, folder: Path
    ) -> tuple[LabelTree, FitResult]:
        blocks, name = work.train_blocks(self.learner.rows), self.learner.name
        sgd, n_train = sgd_params(self.learner, doubled=True), work.dataset.split_counts["train"]
        row_bytes = work.pool.map(block_row_bytes, blocks[:1], params, name=f"measure_{name}")[0]
        if params.trained_whole((), n_train, row_bytes):
            sgd = whole(sgd)
        met = float(counts.train @ children_met(tree)) / n_train
        targets = SplitTargets(work.dataset.path)
        joint = Joint(self.n_features, sgd, work.seed, self.learner.kind, targets, sparse=False, met=met)
        layout, sparse = layout_over(tree, joint, blocks, work.pool, name)
        oracle = JointOracle(replace(joint, sparse=sparse), layout, blocks, work.pool, name)
        result = oracle.fit(folder, work.event, work.tell)
        facts = {
            "branching": params.branching,
            "depth": params.depth,
            "ambiguity": None,
            "loss": None,
            "operations": result.operations,
        }
        return joint_model(tree, oracle.joint.scorer(oracle.layout), result.parameters, facts), result

    def _judged(self, work: Work, model: LabelTree, counts: SplitCounts) -> Judged:
        """Where validation rows go, and how surely."""
        blocks = field_of(work, self.learner.tested_on).judged
        shared = work.dataset.path, model.tensors(), model.bare_header(), counts.without
        found: Judged = work.pool.sum(judge_block, blocks, *shared, name=f"judge_{self.learner.name}")
        return found


@dataclass(frozen=True, eq=False)
class SplitCounts:
    """Training and validation rows of each class, (n_classes,) int64."""

    train: Array
    validation: Array

    @classmethod
    def of(cls, dataset: Dataset) -> Self:
        """Ingest puts training rows first, then validation rows."""
        cuts = np.cumsum([0, dataset.split_counts["train"], dataset.split_counts["validation"]])
        counts = np.zeros((2, dataset.n_classes), np.int64)
        for block in dataset.blocks():
            for part in range(2):
                start, stop = max(block.start, int(cuts[part])), min(block.stop, int(cuts[part + 1]))
                if start < stop:
                    labels = read_labels(dataset.path, start, stop)
                    counts[part] += np.bincount(labels[labels >= 0], minlength=dataset.n_classes)
        return cls(*counts)

    @property
    def without(self) -> Array:
        """(n_classes,) bool: classes that have no validation row."""
        return np.asarray(self.validation == 0)


def tell_nodes(tree: LabelTree, rows: Array, watch: TreeWatch) -> None:
    """Of a tree whose splits were learnt together: all its nodes. rows (n_classes,): training rows of each class."""
    for node, one in zip(np.flatnonzero(tree.n_children).tolist(), tree.facts["nodes"], strict=True):
        here = int(rows[tree.label_set(node)].sum())
        watch.add(one["depth"], here, 1, one["judged_rows"], 1.0 - one["loss"], one["ambiguity"])
    watch.close()


def judging_facts(model: LabelTree, judged: Array, tree: TaxonomyTree, counts: SplitCounts) -> dict[str, Any]:
    """`judged` and `nodes`, as all trees have them."""
    below = np.zeros(tree.n_nodes, np.int64)
    for c, path in enumerate(tree.paths()):
        below[[0, *path]] += counts.train[c]
    dots = below * tree.n_children
    share = model.facts["operations"] / max(1, int(dots.sum()))
    names, records = [node_name(path) for path in node_paths(tree)], node_records(model, judged)
    nodes = [
        {**one, "node": names[one["node"]], "operations": share * float(dots[one["node"]]), "given_up": []}
        for one in records
    ]
    return {"judged": judged_by_depth(model, judged), "nodes": nodes}
