"""Where the nodes of hierarchies grow, and who shares them.

Learners that differ in their doubt alone are one hierarchy. What judges rows in doubt is one-vs-rest of the same rows,
C and classes, as an `ovr` with the same kernel learns it: whoever comes first grows it.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pipeline.config import SVM_KEYS, AnySvm, MarszalekTree, OneVsRest, RelaxedHierarchy, SpectralTree, SplitLearner
from pipeline.stage import Work
from pipeline.stages.grow import grown_in
from pipeline.stages.svm_setup import svm_step
from pipeline.store import PROGRESS
from pipeline.svm_files import shared_folder
from pipeline.svm_growth import Growth
from pipeline.watching.tree_watch import BOTH_WAYS, TreeWatch
from tasks.calls import write_array
from tasks.files import disk_room
from tasks.places import at
from tasks.relaxed.assemble import Classifiers
from tasks.relaxed.ground import ROOT, Ground, Learnt, Summary, read_node
from tasks.relaxed.rules import AllRule
from tasks.rows.base import Array

HierarchyLearner = RelaxedHierarchy | SpectralTree | MarszalekTree | OneVsRest

NODES = "nodes"
FLAT = "ovr"  # the family of judges, and the name of their random streams
NOT_GROWN = {"name", "test_rows", "doubt", "most_nodes"}  # keys that no node depends on
NODE_ROWS, KERNEL_NODE_ROWS = 100_000, 10_000  # of a node at most
LARGE_NODE, LARGE_KERNEL_NODE = 20_000, 2_000  # rows from which the parts of a node are tasks of their own


@dataclass(frozen=True)
class Grown:
    """Finished nodes by name, the root's first.

    seconds  that they took whoever grew them
    """

    summaries: dict[str, Summary]
    learnt: dict[str, Learnt]
    seconds: float

    @property
    def root(self) -> str:
        return next(iter(self.summaries))


def grow(ground: Ground, classes: Array, work: Work, name: str = "", most_nodes: int | None = None) -> Grown:
    """Grow what is not there in the ground's folder, from the root of these classes on.

    name        whom it is grown for, told to who watches; "": the judges of one-vs-rest
    most_nodes  see `nodes_allowed`
    Raises DiskFull, HierarchyTooLarge.
    """
    started, folder = time.perf_counter(), at(ground.nodes)
    with disk_room(str(folder), 0):
        folder.mkdir(parents=True, exist_ok=True)
    write_array(folder / ROOT, classes)
    large = LARGE_NODE if ground.linear else LARGE_KERNEL_NODE
    watch = TreeWatch(name, BOTH_WAYS, work.event, work.tell) if name else None
    summaries = Growth(ground, work.pool, large, watch, most_nodes).grow(classes)
    learnt = {name: found for name in summaries if (found := read_node(ground, name)) is not None}
    return Grown(summaries, learnt, grown_in(folder, time.perf_counter() - started))


@dataclass(frozen=True)
class Panel:
    """The judges of some classes, one-vs-rest; empty where there is no doubt."""

    classifiers: Classifiers = ()
    seconds: float = 0.0


def judges_of(learner: HierarchyLearner, ground: Ground, classes: Array, work: Work) -> Panel:
    """The judges of a learner that has doubt, which its ground's settings make."""
    if not doubt_of(learner):
        return Panel()
    folder = flat_folder(learner, work)
    grown = grow(replace(ground, rule=AllRule(), nodes=str(folder), name=FLAT), classes, work)
    return Panel(grown.learnt[grown.root].classifiers, grown.seconds)


def doubt_of(learner: AnySvm) -> float:
    """0 of what has no splits."""
    return learner.doubt if isinstance(learner, RelaxedHierarchy | SpectralTree | MarszalekTree) else 0.0


def nodes_folder(learner: HierarchyLearner, twins: Sequence[str], work: Work) -> Path:
    """Of the step, or what twins share until the run has finished."""
    if not twins:
        return work.folder / PROGRESS / NODES
    if isinstance(learner, OneVsRest):
        return flat_folder(learner, work)
    return _shared(work, learner, NODES, repr(grown_alike(learner)))


def flat_folder(learner: HierarchyLearner, work: Work) -> Path:
    """Of one-vs-rest of the learner's rows and classes, or of as many of these rows as it takes."""
    bound = min(most_rows(learner), work.dataset.split_counts["train"])
    return _shared(work, learner, FLAT, repr(flat_alike(learner)), str(bound))


def _shared(work: Work, learner: HierarchyLearner, what: str, *more: str) -> Path:
    return shared_folder(work, what, learner.rows, *more, str(work.seed), work.inputs[svm_step(learner)].digest)


def grown_alike(learner: HierarchyLearner) -> dict[str, Any]:
    """What decides the nodes: learners in which it is the same share them."""
    return {key: value for key, value in learner.model_dump(mode="json").items() if key not in NOT_GROWN}


def flat_alike(learner: HierarchyLearner) -> dict[str, Any]:
    """What decides one-vs-rest of a learner's rows and classes."""
    told = learner.model_dump(mode="json")
    return {"rows": learner.rows, **{key: told[key] for key in SVM_KEYS}}


def twins_of_nodes(learner: HierarchyLearner, others: Sequence[Any]) -> tuple[str, ...]:
    """Names of the other learners of a config that share its nodes: hierarchies that differ in doubt alone; of
    one-vs-rest those that have it for judges."""
    alike = list[str]()
    for other in others:
        if other.name == learner.name or not isinstance(other, HierarchyLearner):
            continue
        if isinstance(learner, OneVsRest):
            same = doubt_of(other) > 0 and flat_alike(other) == flat_alike(learner)
        else:
            same = other.kind == learner.kind and grown_alike(other) == grown_alike(learner)
        alike += [other.name] if same else []
    return tuple(alike)


def most_rows(learner: AnySvm) -> int:
    """Training rows of a node at most; of one-vs-rest and of pairs all."""
    if not isinstance(learner, SplitLearner):
        return 1 << 40
    return learner.rows_per_node or (NODE_ROWS if learner.kernel == "linear" else KERNEL_NODE_ROWS)
