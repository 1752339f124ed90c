"""Train a hierarchy of support vector machines: relaxed, spectral, Marszalek & Schmid's, or one-vs-rest of a kernel."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np

from pipeline.config import SVM_KEYS, AnySvm, MarszalekTree, OneVsRest, RelaxedHierarchy, SpectralTree
from pipeline.dataset import Dataset
from pipeline.stage import Estimate, Facts, Made, Work
from pipeline.stages.hierarchy_nodes import (
    Grown,
    HierarchyLearner,
    Panel,
    doubt_of,
    grow,
    judges_of,
    most_rows,
    nodes_folder,
)
from pipeline.stages.svm_setup import Settled, svm_step
from pipeline.stages.svm_size import gram_disk_bytes, kernel_task_bytes, linear_task_bytes, sorted_bytes
from pipeline.stages.train import TRAIN_SECONDS, TrainStage, check_rows, model_facts, save, saved_bytes
from pipeline.svm_files import check_rows_for, kernel_matrix, sorted_rows
from pipeline.svm_growth import depths
from tasks.errors import ParamError
from tasks.files import disk_room
from tasks.relaxed.assemble import Node, build
from tasks.relaxed.ground import ONE_VS_ALL, SINGLE, SPLIT, Ground, Learnt, Summary
from tasks.relaxed.hierarchy import Hierarchy
from tasks.relaxed.rules import AllRule, MarszalekRule, RelaxedRule, Rule, SpectralRule
from tasks.rows.base import Array
from tasks.seeds import stream
from tasks.svm.class_rows import ClassRows

SEARCH_ROWS, KERNEL_SEARCH_ROWS = 4_000, 2_000
KERNEL_SPLIT_ROWS = 2_000  # a row pays for all support vectors of its splits, which are more the more rows they had
MOST_LOST = 0.003  # chosen on validation rows of two sets: it ends the hard one at 20 to 40 classes, the other at 4
MOST_LOST_IN_ALL = 0.6  # of few classes each is more of what one-vs-rest costs
CHEAP_RHO = 0.4  # above it the price rises
CLASSIFIERS_A_CLASS = 20  # of a hierarchy, about: seen up to 20
LEVELS_SHOWN = 3


@dataclass(frozen=True)
class HierarchyStage(TrainStage):
    """Train one hierarchy."""

    learner: HierarchyLearner
    chain: tuple[str, ...]
    n_features: int
    twins: tuple[str, ...] = ()  # other learners of the config with the same nodes
    version: ClassVar[int] = 2

    @classmethod
    def of(
        cls, learner: HierarchyLearner, facts: Facts, chain: tuple[str, ...] = (), twins: tuple[str, ...] = ()
    ) -> Self:
        """Raises ParamError when a parameter is out of range, NoTrainingRows when there is nothing to learn from."""
        check_rows(learner, facts.dataset)
        check_drawn(learner, facts.dataset)
        rule_of(learner, facts.dataset.n_classes)
        return cls(learner, chain, facts.rows[learner.rows].n_features, twins)

    def settings(self) -> dict[str, Any]:
        settings = self.learner.model_dump(mode="json")
        settings.pop("most_nodes", None)  # a hierarchy within it is the same under any: with more, a run goes on
        if isinstance(self.learner, OneVsRest):  # keys of SGD are not its own
            settings = {key: settings[key] for key in ("kind", "name", "rows", "test_rows", *SVM_KEYS)}
        return settings

    @property
    def inputs(self) -> tuple[str, ...]:
        return (*super().inputs, svm_step(self.learner))

    def estimate(self, facts: Facts) -> Estimate:
        found = svm_estimate(self.learner, facts, model_bytes(self.learner, facts), most_rows(self.learner))
        if self.twins:  # the nodes stay until the run has finished
            found = replace(found, disk_bytes=found.most_disk_bytes, spare_bytes=0)
        return found

    def run(self, work: Work) -> Made:
        started = time.perf_counter()
        settled, folder = Settled.of(self.learner, work), nodes_folder(self.learner, self.twins, work)
        rule = rule_of(self.learner, work.dataset.n_classes)
        ground = ground_of(self.learner, work, folder, rule, self.learner.kind)
        classes = drawn_classes(self.learner, ground.starts(), work.seed)
        ground = replace(ground, rule=rule_of(self.learner, classes.size))
        if isinstance(self.learner, OneVsRest):
            grown = grow(ground, classes, work)
        else:
            grown = grow(ground, classes, work, self.learner.name, self.learner.most_nodes)
        doubtful = len(grown.summaries) > 1 and classes.size > 2
        judges = judges_of(self.learner, ground, classes, work) if doubtful else Panel()
        model = assembled(self.learner, ground, grown, judges, self.n_features, work.dataset.n_classes)
        digest = save(self, work, model, {"C": settled.cost})
        facts = model_facts(model, 0.0, 1) | hierarchy_results(self.learner, ground, grown, classes, settled)
        facts.pop("train_ops_per_row")
        facts |= {"findings": said} if (said := findings_of(self.learner, grown.learnt, classes)) else {}
        return Made(digest, facts, measured_since(started, self.learner, work, grown.seconds + judges.seconds))


def ground_of(learner: AnySvm, work: Work, folder: Path, rule: Rule, name: str) -> Ground:
    """Where a learner's classifiers are made, kept in `folder`. Raises NegativeFeature, DiskFull."""
    settled, rows = Settled.of(learner, work), sorted_rows(work, learner.rows)
    if learner.tested_on != learner.rows:
        check_rows_for(work, learner.tested_on, settled.kernel.kind)
    with disk_room(str(folder), 0):
        folder.mkdir(parents=True, exist_ok=True)
    return Ground(
        rows=rows,
        gram=kernel_matrix(work, learner.rows, rows, settled.kernel),
        confused=settled.confused,
        nodes=str(folder),
        kernel=settled.kernel,
        cost=settled.cost,
        rule=rule,
        seed=work.seed,
        name=name,
        most_rows=most_rows(learner),
    )


def measured_since(started: float, learner: AnySvm, work: Work, shared: float = 0.0) -> dict[str, float]:
    """Seconds of a training, alone and with what was settled before it.

    shared  seconds of what another learner may have made before: counted in full, and no second less than there were
    """
    seconds = time.perf_counter() - started
    before = float(work.inputs[svm_step(learner)].measured.get("seconds", 0.0))
    return {"seconds": seconds, TRAIN_SECONDS: max(seconds, shared) + before}


def rule_of(learner: HierarchyLearner, n_classes: int) -> Rule:
    """How the learner colors so many classes. Raises ParamError."""
    linear = learner.kernel == "linear"
    if isinstance(learner, RelaxedHierarchy):
        split_rows = learner.split_rows or (most_rows(learner) if linear else KERNEL_SPLIT_ROWS)
        price = price_of(learner.rho, n_classes) if linear else 1.0
        search_rows = learner.search_rows or (SEARCH_ROWS if linear else KERNEL_SEARCH_ROWS)
        return RelaxedRule(
            rho=learner.rho,
            balance=learner.balance,
            initialisation=learner.initialisation,
            samples=learner.samples,
            finalists=learner.finalists,
            search_rows=min(search_rows, split_rows),
            split_rows=split_rows,
            half_steps=learner.half_steps,
            continued=learner.leaves == "continued",
            least_active=learner.least_active,
            leaf_classes=learner.leaf_classes,
            first_rho=learner.first_rho,
            most_lost=price if learner.most_lost is None else learner.most_lost,
        )
    if isinstance(learner, SpectralTree):
        return SpectralRule(learner.levels)
    if isinstance(learner, MarszalekTree):
        return MarszalekRule(learner.alpha, learner.cut_rows, learner.least_active)
    return AllRule()


def price_of(rho: float, n_classes: int) -> float:
    """Rows that a split may lose for a classifier; who asks for a large rho wants cheap hierarchies, at any price."""
    return max(MOST_LOST, MOST_LOST_IN_ALL / n_classes) * max(1.0, (rho / CHEAP_RHO) ** 4)


def check_drawn(learner: AnySvm, dataset: Dataset) -> None:
    """Raises ParamError for more classes than there are."""
    if learner.classes is not None and learner.classes > dataset.n_classes:
        why = "so many classes cannot be drawn"
        raise ParamError("classes", learner.classes, f"at most {dataset.n_classes:,}", why)


def drawn_classes(learner: AnySvm, starts: Array, seed: int) -> Array:
    """The classes that are learnt, (K,) int32 ascending: all with training rows, or some of them, the same ones for
    every learner of this run that draws as many."""
    classes: Array = np.flatnonzero(np.diff(starts)).astype(np.int32)
    if learner.classes is None or learner.classes >= classes.size:
        return classes
    drawn = stream(seed, "drawn-classes", learner.draw).permutation(classes.size)[: learner.classes]
    return classes[np.sort(drawn)]


def model_bytes(learner: AnySvm, facts: Facts) -> int:
    """Bytes of the classifiers, about: of a hierarchy nobody knows before it has grown."""
    known, n_classes = facts.rows[learner.rows], learner.classes or facts.dataset.n_classes
    if learner.kernel != "linear":
        n_train = facts.dataset.split_counts["train"]
        return 4 * n_train * known.row_floats * 2 + 8 * n_train * 2 * n_classes
    classifiers = n_classes * (1 if isinstance(learner, OneVsRest) else CLASSIFIERS_A_CLASS)
    if learner.kind in ("ovo", "dag-svm"):
        classifiers = n_classes * (n_classes - 1) // 2
    return 4 * classifiers * (known.n_features + 1)


def svm_estimate(learner: AnySvm, facts: Facts, model: int, most: int) -> Estimate:
    """Of a learner of support vector machines."""
    n_train, n_classes = facts.dataset.split_counts["train"], facts.dataset.n_classes
    spare, disk = sorted_bytes(facts, learner.rows) + model, saved_bytes(learner, model, facts)
    if learner.kernel == "linear":
        task = linear_task_bytes(facts, learner.rows, most, min(n_classes, 128))
    else:
        task, spare = kernel_task_bytes(facts, learner.rows, most), spare + gram_disk_bytes(n_train)
    return Estimate(task, disk, 4 * n_classes, spare, 3 * model)


def assembled(
    learner: HierarchyLearner,
    ground: Ground,
    grown: Grown,
    judges: Panel,
    n_features: int,
    n_classes: int,
) -> Hierarchy:
    """The model of the nodes that were grown."""
    nodes = {name: node_of(grown.learnt[name], summary) for name, summary in grown.summaries.items()}
    kind = "svm-ovr" if isinstance(learner, OneVsRest) else learner.kind
    facts = made_of(learner, ground) | {"rule": repr(ground.rule)}
    kernel = None if ground.linear else ground.kernel
    doubt, taker = doubt_of(learner), rows_taker(ground.rows)
    return build(
        kind, nodes, grown.root, n_features, n_classes, facts, kernel, taker, doubt=doubt, judges=judges.classifiers
    )


def made_of(learner: AnySvm, ground: Ground) -> dict[str, Any]:
    """What a model of this family says of its making; `drawn` where it knows a sample of the classes on purpose."""
    drawn = {} if learner.classes is None else {"drawn": learner.classes}
    return {"C": ground.cost, "training_rows": int(ground.rows.n_rows), **drawn}


def rows_taker(rows: ClassRows) -> Any:
    """What gives support vectors by number."""
    return rows.take


def node_of(learnt: Learnt, summary: Summary) -> Node:
    """A learnt node as the model takes it."""
    children = {child.side: child.name for child in summary.children}
    if learnt.kind != SPLIT:
        return Node(learnt.classes, learnt.classifiers)
    return Node(learnt.classes, learnt.classifiers, learnt.coloring, children[-1], children[1])


def hierarchy_results(
    learner: HierarchyLearner,
    ground: Ground,
    grown: Grown,
    classes: Array,
    settled: Settled,
) -> dict[str, Any]:
    """What the report says of a hierarchy."""
    learnt, depth = grown.learnt, depths(grown.summaries, grown.root)  # in a node's file: by its first parent
    counts, leaves = np.diff(ground.starts()), [one for one in learnt.values() if one.kind == ONE_VS_ALL]
    shown = [name for name, one in learnt.items() if depth[name] < LEVELS_SHOWN and one.classes.size > 1]
    said = family_facts(learner, settled, classes, int(counts[classes].sum())) | {
        "nodes": len(learnt),
        "splits": sum(one.kind == SPLIT for one in learnt.values()),
        "single_leaves": sum(one.kind == SINGLE for one in learnt.values()),
        "ovr_leaves": len(leaves),
        "ovr_leaf_classes": sum(int(one.classes.size) for one in leaves),
        "records": [record_of(learnt[name], counts) | {"depth": depth[name]} for name in shown],
    }
    return {"hierarchy": said, "nodes": said["nodes"], "C": settled.cost}


def family_facts(learner: AnySvm, settled: Settled, classes: Array, rows: int) -> dict[str, Any]:
    """What tells a model of this family from others: its setting, its kernel, what it has learnt of."""
    setting = {key: getattr(learner, key) for key in ("rho", "alpha", "levels") if hasattr(learner, key)}
    setting |= {"doubt": doubt} if (doubt := doubt_of(learner)) else {}
    drawn = {} if learner.classes is None else {"draw": learner.draw}
    return {
        "family": learner.kind,
        "setting": setting,
        "kernel": settled.kernel.kind,
        "n_classes": int(classes.size),
        "n_rows": rows,
        **drawn,
    }


def findings_of(learner: HierarchyLearner, learnt: dict[str, Learnt], classes: Array) -> list[str]:
    """That nothing could be parted: the model is one-vs-rest under another name."""
    if isinstance(learner, OneVsRest) or len(learnt) > 1 or classes.size < 2:
        return []
    text = f"NothingParted: {learner.name}: the {classes.size:,} classes could not be parted: it is one-vs-rest"
    relaxed = "another rho, mostly a larger one, a smaller least_active or a larger most_lost"
    ways = {"relaxed-hierarchy": relaxed, "marszalek": "a larger alpha"}
    return [f"{text}: {ways.get(learner.kind, 'more levels')} may part them"]


def record_of(learnt: Learnt, counts: Array) -> dict[str, Any]:
    """A node of the first levels."""
    classes, colors = learnt.classes, learnt.coloring
    split = learnt.kind == SPLIT
    return {
        **learnt.record,
        "kind": learnt.kind,
        "n_classes": int(classes.size),
        "n_rows": int(counts[classes].sum()),
        "positive": classes[colors > 0].tolist(),
        "negative": classes[colors < 0].tolist(),
        "ignored": (classes[colors == 0] if split else classes).tolist(),
    }
