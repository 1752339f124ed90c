"""Predict the test rows block by block, and add up the metrics over the parts."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

from pipeline.config import (
    OWN_ROWS,
    BengioTree,
    EvaluateSection,
    KMeansTree,
    Learner,
    PredictSection,
    SplitLearner,
    TreeLearner,
    is_svm,
)
from pipeline.config import LabelTree as LabelTreeSection
from pipeline.dataset import Dataset, taxonomy_digest
from pipeline.stage import CARD_BYTES, FILE_BYTES, Estimate, Facts, Made, Stage, Work
from pipeline.stages.grow_params import tree_height, tree_params
from pipeline.stages.problems import gives_probabilities, held_bytes, kept_bytes, nodes, path_nodes
from pipeline.stages.train import MEGABYTE, MODEL, inputs_of, train_step
from tasks.digest import combine
from tasks.files import disk_room
from tasks.models.blocks import PredictReport, predict_block
from tasks.models.evaluate import CLASSIFIERS, HIERARCHICAL, Scores, evaluate_part
from tasks.models.folder import load_model
from tasks.models.predictions import join_parts, part_name
from tasks.models.selection import TEST, Selection
from tasks.models.slices import SLICE_CELLS
from tasks.rows.base import Array
from tasks.taxonomy import Taxonomy
from tasks.trees.measures import by_depth
from tasks.trees.tree import LabelTree

PREDICTIONS = "predictions.parquet"
PARTS = "parts"
BY_DEPTH = "by_depth"  # results of the evaluation of a tree


def predictions_bytes(learner: Learner, predict: PredictSection, facts: Facts) -> int:
    """Bytes of the predictions of all test rows, at most."""
    dataset = facts.dataset
    walked = tree_height(learner, dataset) + 1 if isinstance(learner, TreeLearner) else path_nodes(learner, facts)
    walked = WALKED if isinstance(learner, SplitLearner) else walked
    path = 4 * walked + 4 if walked else 0
    top = min(predict.top, dataset.n_classes)
    row = 20 + 8 * top + path + (4 * top + 5 if gives_probabilities(learner) else 0)
    return int(dataset.split_counts["test"]) * row + PART_BYTES


def test_block_count(dataset: Dataset) -> int:
    """Blocks that hold test rows: ingest puts these last."""
    first = dataset.n_rows - dataset.split_counts["test"]
    return sum(block.stop > first for block in dataset.blocks())


def predict_step(name: str) -> str:
    return f"predict_{name}"


def evaluate_step(name: str) -> str:
    return f"evaluate_{name}"


def beam_of(learner: Learner) -> int | None:
    """Nodes of a depth that a test row may visit, of trees that are learnt."""
    return learner.beam if isinstance(learner, TreeLearner) else None


@dataclass(frozen=True)
class PredictStage(Stage):
    """The best classes of every test row, to Parquet."""

    learner: Learner
    predict: PredictSection
    version: ClassVar[int] = 3

    @property
    def name(self) -> str:
        return predict_step(self.learner.name)

    def settings(self) -> dict[str, Any]:
        beam = {} if beam_of(self.learner) is None else {"beam": beam_of(self.learner)}
        return {"top": self.predict.top, "test_rows": self.learner.tested_on, **beam}

    @property
    def inputs(self) -> tuple[str, ...]:
        return (train_step(self.learner.name), *inputs_of(self.learner))

    @property
    def reads_rows(self) -> bool:
        return True

    def estimate(self, facts: Facts) -> Estimate:
        dataset, rows = facts.dataset, self.learner.tested_on
        model = held_bytes(self.learner, facts, model_bytes(self.learner, facts))
        scores = 4 * (1024 * facts.rows[rows].row_floats + 3 * min(1024 * nodes(self.learner, facts), SLICE_CELLS))
        task = 3 * facts.rows[rows].block_bytes + 3 * model + scores + 96 * MEGABYTE
        blocks = test_block_count(dataset)
        disk = 2 * predictions_bytes(self.learner, self.predict, facts) + PART_BYTES * blocks + CARD_BYTES
        return Estimate(task, disk, blocks)

    def run(self, work: Work) -> Made:
        started = time.perf_counter()
        parts = work.folder / PARTS
        with disk_room(str(parts), 0):
            parts.mkdir(parents=True, exist_ok=True)
        blocks = work.test_blocks(self.learner.tested_on)
        top = min(self.predict.top, work.dataset.n_classes)
        selection = Selection(work.dataset.path, TEST)
        model = str(work.folders[train_step(self.learner.name)] / MODEL)
        report: PredictReport = work.pool.sum(
            predict_block, blocks, model, top, str(parts), selection, True, beam_of(self.learner), name=self.name
        )
        found = [parts / part_name(block.index) for block in blocks]
        metadata = {"model": work.inputs[train_step(self.learner.name)].digest, "dataset": work.dataset.digest}
        join_parts(found, work.folder / PREDICTIONS, metadata, report.digests)
        seconds = time.perf_counter() - started
        rows = max(1, report.rows)
        return Made(
            combine(report.digests),
            {"rows": report.rows, "evaluations": report.evaluations, "parts": len(blocks)},
            {"seconds": seconds, "predict_us_per_row": 1e6 * report.seconds / rows},
        )


@dataclass(frozen=True)
class EvaluateStage(Stage):
    """Accuracy, hierarchical error and cost of the predictions."""

    learner: Learner
    taxonomy: Taxonomy | None = None  # on which hierarchical error is measured
    named: bool = False  # whether the config names a file for it; otherwise it is the dataset's own
    version: ClassVar[int] = 3

    @classmethod
    def of(cls, learner: Learner, evaluate: EvaluateSection, facts: Facts) -> Self:
        """The learner's evaluation on the config's tree."""
        return cls(learner, facts.taxonomy(evaluate.taxonomy), evaluate.taxonomy is not None)

    @property
    def name(self) -> str:
        return evaluate_step(self.learner.name)

    def settings(self) -> dict[str, Any]:
        return {"taxonomy": taxonomy_digest(self.taxonomy)} if self.named else {}

    @property
    def inputs(self) -> tuple[str, ...]:
        return (train_step(self.learner.name), predict_step(self.learner.name))

    def estimate(self, facts: Facts) -> Estimate:
        task = 96 * MEGABYTE + 64 * facts.dataset.block_rows
        return Estimate(task, CARD_BYTES + 2 * DETAIL_ROWS * DETAIL_BYTES, test_block_count(facts.dataset))

    def run(self, work: Work) -> Made:
        folder = work.folders[predict_step(self.learner.name)] / PARTS
        # By name: blocks are the same in every encoding, and a file that is not ours counts for nothing.
        parts = [str(folder / part_name(block.index)) for block in work.test_blocks(OWN_ROWS)]
        taxonomy = self.taxonomy
        tree = None if taxonomy is None else {"parent": taxonomy.parent, "leaf_of_class": taxonomy.leaf_of_class}
        sets = label_sets(str(work.folders[train_step(self.learner.name)] / MODEL))
        scores: Scores = work.pool.sum(evaluate_part, parts, work.dataset.n_classes, tree, sets, name=self.name)
        metrics = metrics_of(scores, tree is not None)
        if is_svm(self.learner):
            told = work.inputs[train_step(self.learner.name)].results["hierarchy"]
            metrics = relative_metrics(metrics, told, self.learner.kind)
        results: dict[str, Any] = {"metrics": metrics, "detail": scores.detail(DETAIL_ROWS)}
        if scores.local is not None:
            results |= {BY_DEPTH: by_depth(scores.local)}
        return Made(combine([repr(results)]), results)


def metrics_of(scores: Scores, with_taxonomy: bool) -> dict[str, float]:
    """The numbers of metrics.json; without a taxonomy every error has height 1, which says nothing of its own."""
    metrics = scores.metrics()
    return metrics if with_taxonomy else {name: metrics[name] for name in metrics if name not in HIERARCHICAL}


def relative_metrics(metrics: dict[str, float], told: Mapping[str, Any], kind: str) -> dict[str, float]:
    """With costs relative to one-vs-rest of the classes learnt; kernels are compared when its model is known."""
    n_classes = int(told["n_classes"])
    asked = {"ovo": n_classes * (n_classes - 1) / 2, "dag-svm": n_classes - 1.0}
    metrics = {key: value for key, value in metrics.items() if key != "speedup"}
    classifiers = metrics.setdefault(CLASSIFIERS, asked.get(kind, float(n_classes)))
    metrics[RELATIVE_CLASSIFIERS] = classifiers / n_classes
    if told["kernel"] == "linear":
        metrics |= compared(metrics, n_classes)
    return metrics


def compared(metrics: Mapping[str, float], ovr_ops: float) -> dict[str, float]:
    """Relative complexity, and speed-up, to a one-vs-rest of such cost."""
    ops = metrics["test_ops_per_row"]
    return {RELATIVE: ops / ovr_ops} | ({"speedup": ovr_ops / ops} if ops else {})


RELATIVE, RELATIVE_CLASSIFIERS = "relative_complexity", "relative_classifiers"  # metrics (Gao & Koller, section 5)


def model_bytes(learner: Learner, facts: Facts) -> int:
    """Bytes of a model's parameters; of a label tree at most about."""
    if isinstance(learner, LabelTreeSection | KMeansTree):
        from pipeline.stages.tree_size import grown_bytes

        return grown_bytes(learner, tree_params(learner, facts.dataset), facts)
    if isinstance(learner, BengioTree):
        from pipeline.stages.bengio_size import bengio_bytes

        return bengio_bytes(learner, facts)
    if is_svm(learner):
        from pipeline.stages.hierarchy import model_bytes as svm_bytes

        return svm_bytes(learner, facts)
    return kept_bytes(learner, facts)


def label_sets(model_folder: str) -> dict[str, Array] | None:
    """What of a model tells what its walks cost and lose, by name, for `evaluate_part`; None where there is nothing.

    offsets, classes  of each node of a tree that is walked, for loss and ambiguity per depth
    one_vs_all  of each node of a hierarchy: whether it is such a leaf
    learnt  the classes that were learnt, where these are a sample: rows of others count for nothing. Rows of a class
            that has no training rows do count, as everywhere
    """
    model = load_model(model_folder).model
    if isinstance(model, LabelTree):
        return {"offsets": model.offsets, "classes": model.classes}
    from tasks.relaxed.hierarchy import Hierarchy
    from tasks.relaxed.pairs import PairModel

    sets: dict[str, Array] = {}
    if isinstance(model, Hierarchy):
        sets |= {"one_vs_all": model.one_vs_all}
    if isinstance(model, Hierarchy | PairModel) and "drawn" in model.facts:
        sets["learnt"] = model.label_set(0) if isinstance(model, Hierarchy) else model.classes
    return sets or None


WALKED = 64  # nodes on a way down a hierarchy whose depth nobody knows yet
PART_BYTES = 2 * FILE_BYTES  # of a Parquet file beside its columns
DETAIL_BYTES = 80  # a line of them in DONE.json
DETAIL_ROWS = 200  # worst classes and confused pairs kept; the report shows as many of them as it is told
