"""A hierarchy of two-sided classifiers grown over the pool: small nodes as tasks, large ones driven from here.

A node starts as soon as a parent is done; a set of classes that several parents come to is learnt once. Of a large node
every initial coloring is a task, then each of the best on all rows, or ranges of classes of its one-vs-all leaf.

Each child of a split lacks a class of its parent at least, so every way ends; but where it lacks no more, nearly every
subset of the classes becomes a node, and their number doubles with a few classes more. So it is bounded.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from pipeline.pool import Pool
from pipeline.watching.tree_watch import TreeWatch
from tasks.errors import UsageError
from tasks.fit.hinge_ascent import ABREAST
from tasks.relaxed.ground import (
    Ground,
    Learnt,
    NodeTask,
    Parts,
    Summary,
    classes_at,
    node_name,
    read_node,
    summary_of,
    write_node,
)
from tasks.relaxed.learn import (
    finalists,
    finish_coloring,
    finished,
    hard,
    leaf_range,
    learn_node,
    learnt_leaf,
    learnt_split,
    try_coloring,
)
from tasks.relaxed.rules import AllRule, MarszalekRule, RelaxedRule, Rule, initial_colorings
from tasks.rows.base import Array

KERNEL_RANGE = 8  # classes of a one-vs-all leaf of kernels that are one task
MOST_NODES, MOST_NODES_A_CLASS = 2_000, 100  # the larger bound counts; twenty a class are much
SHORT = 8  # half steps below which colorings hardly grow


class HierarchyTooLarge(UsageError):
    """A hierarchy has more nodes than it may: its splits leave too many classes on both sides."""


def nodes_allowed(most_nodes: int | None, n_classes: int) -> int:
    """How many nodes a hierarchy of so many classes may have: as many as were asked for, or by its classes."""
    return max(MOST_NODES, MOST_NODES_A_CLASS * n_classes) if most_nodes is None else most_nodes


def too_large(rule: Rule, allowed: int, root: Summary, n_classes: int) -> HierarchyTooLarge:
    """The error; the same whatever nodes were learnt first."""
    sides = " and ".join(f"{child.n_classes:,}" for child in root.children)
    ways = list[str]()
    if isinstance(rule, RelaxedRule):
        ways += ['leaves = "one-vs-all"'] if rule.continued else ["a larger least_active", "a smaller most_lost"]
        ways += ["more half_steps"] if rule.half_steps < SHORT else []
        ways += ["a larger rho"]
    elif isinstance(rule, MarszalekRule):
        ways += ["a larger alpha", "a larger least_active"]
    else:
        ways += ["fewer levels"]
    what = f"more than {allowed:,} nodes for {n_classes:,} classes: the first split has {sides} of them on its sides"
    hint = f"{', '.join(ways)}; or a larger most_nodes, with which a run goes on from the nodes that are there"
    return HierarchyTooLarge(what, "most_nodes", hint)


@dataclass(frozen=True)
class Growth:
    """A hierarchy under way."""

    ground: Ground
    pool: Pool
    large: int  # rows from which a node is driven
    watch: TreeWatch | None = None  # hears of every node
    most_nodes: int | None = None  # see `nodes_allowed`

    def grow(self, classes: Array) -> dict[str, Summary]:
        """Every node by name: the root's first, then level by level, whatever order they ended in.

        Raises HierarchyTooLarge, after as many nodes as there may be; they stay.
        """
        root = root_task(self.ground, classes)
        allowed = nodes_allowed(self.most_nodes, root.n_classes)
        known: dict[str, Summary] = {}
        begun = {root.name}

        def expand(task: NodeTask, summary: Summary) -> list[NodeTask]:
            known[task.name] = summary
            more = list[NodeTask]()
            for child in summary.children:
                if child.name not in begun:
                    begun.add(child.name)
                    more.append(
                        NodeTask(child.name, task.name, child.side, child.n_classes, child.n_rows, task.depth + 1)
                    )
            if self.watch is not None:
                self._told(task, summary, len(more))
            if len(begun) > allowed:
                raise too_large(self.ground.rule, allowed, known[root.name], root.n_classes)
            return more

        name = f"learn_{self.ground.name}"
        self.pool.unfold(learn_node, [root], expand, self.ground, name=name, drive=self.drive, is_driven=self.is_driven)
        if self.watch is not None:
            self.watch.close()
        return {name: known[name] for name in depths(known, root.name)}

    def _told(self, task: NodeTask, summary: Summary, begun: int) -> None:
        """A split is measured by the share of its classes that go both ways, and by the rows that it loses."""
        assert self.watch is not None
        held = sum(child.n_classes for child in summary.children)
        both = held / task.n_classes - 1.0 if summary.children else None
        accuracy = None if summary.lost is None else 1.0 - summary.lost
        self.watch.ended(task.depth, task.n_rows, begun, task.n_rows, accuracy, both)

    def is_driven(self, task: NodeTask) -> bool:
        """Whether the parts of a node are tasks of their own."""
        rule = self.ground.rule
        if isinstance(rule, RelaxedRule) and min(task.n_rows, self.ground.most_rows) <= rule.search_rows:
            return False  # what is found in the search is final
        parts = isinstance(rule, RelaxedRule | AllRule)
        return parts and task.n_classes > 2 and task.n_rows >= self.large

    def drive(self, task: NodeTask) -> Summary:
        """Learn a large node by its parts; the same bits as `learn_node`."""
        done = read_node(self.ground, task.name)
        if done is not None:
            return summary_of(self.ground, done)
        classes = classes_at(self.ground, task)
        rule = self.ground.rule
        learnt = self._split(task, rule, classes) if isinstance(rule, RelaxedRule) else None
        return write_node(self.ground, learnt or learnt_leaf(task, classes, self._leaf(task, classes)))

    def _split(self, task: NodeTask, rule: RelaxedRule, classes: Array) -> Learnt | None:
        ground, label = self.ground, task.label
        n_tries = len(initial_colorings(ground, rule, classes))
        outcomes = self.pool.map(try_coloring, range(n_tries), ground, classes, name=f"try_{label}")
        if hard(rule, outcomes):
            return None
        best = finalists(rule, outcomes)
        splits = self.pool.map(finish_coloring, best, ground, classes, name=f"finish_{label}")
        split = finished(splits, rule, outcomes)
        return None if split is None else learnt_split(task, classes, split)

    def _leaf(self, task: NodeTask, classes: Array) -> Parts:
        step = ABREAST if self.ground.linear else KERNEL_RANGE
        parts = [(cut, min(cut + step, classes.size)) for cut in range(0, classes.size, step)]
        found = self.pool.map(leaf_range, parts, self.ground, classes, name=f"leaf_{task.label}")
        return Parts(self.ground, task.name, tuple(found))


def depths(known: Mapping[str, Summary], root: str) -> dict[str, int]:
    """Edges of the shortest way from the root to each node, level by level, negative children first."""
    found = {root: 0}
    for name in (order := [root]):  # grows while it is walked
        for child in known[name].children:
            if child.name not in found:
                found[child.name] = found[name] + 1
                order.append(child.name)
    return found


def root_task(ground: Ground, classes: Array) -> NodeTask:
    """The node of all classes that are learnt, (K,) int32 ascending."""
    rows = int(np.diff(ground.starts())[classes].sum())
    return NodeTask(node_name(classes), "", 0, int(classes.size), rows, 0)
