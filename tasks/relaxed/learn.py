"""One node learnt: its classes colored by the system's rule, its classifier, or a one-vs-all leaf.

A small node is learnt whole by one task (`learn_node`). Of a large one the parts are tasks of their own: every initial
coloring (`try_coloring`), the best of them on all rows (`finish_coloring`), ranges of classes of a one-vs-all leaf
(`leaf_range`). Both ways call the same functions, so they give the same bits.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tasks.relaxed.alternate import ColoringParams, NodeProblem, Tried, alternate
from tasks.relaxed.ground import (
    LOST,
    ONE_VS_ALL,
    SINGLE,
    SPLIT,
    Ground,
    Learnt,
    NodeTask,
    Parts,
    Summary,
    classes_at,
    node_name,
    read_node,
    read_part,
    summary_of,
    write_node,
    write_part,
)
from tasks.relaxed.price import lost_rows, saved_classifiers
from tasks.relaxed.rules import (
    MarszalekRule,
    RelaxedRule,
    SpectralRule,
    initial_colorings,
    marszalek_coloring,
    spectral_coloring,
    too_few_active,
)
from tasks.relaxed.solvers import leaf_classifiers, solver_of
from tasks.rows.base import Array
from tasks.svm.class_rows import NodeRows
from tasks.svm.classifier import Classifier
from tasks.svm.solver import BinarySolver

FIRST_HALF_STEPS = 8  # with the larger rho, whose end nobody needs


@dataclass(frozen=True, slots=True, eq=False)
class Outcome:
    """What a try has come to, small enough to travel.

    coloring (K,) int8; score: less is better; forced: see `Tried`
    """

    coloring: Array
    score: float
    forced: bool


@dataclass(frozen=True, slots=True, eq=False)
class Split:
    """A colored node with its classifier."""

    outcome: Outcome
    classifier: Classifier
    record: dict[str, Any]


def learn_node(task: NodeTask, ground: Ground) -> Summary:
    """Learn a node whole and keep it; one that is there is left alone. Raises DiskFull, and what solvers raise."""
    done = read_node(ground, task.name)
    if done is not None:
        return summary_of(ground, done)
    classes = classes_at(ground, task)
    split = split_of(ground, task, classes) if classes.size > 1 else None
    if split is not None:
        return write_node(ground, learnt_split(task, classes, split))
    if classes.size == 1:
        return write_node(ground, Learnt(SINGLE, classes, np.zeros(1, np.int8), [], {"depth": task.depth}))
    return write_node(ground, learnt_leaf(task, classes, leaf_classifiers(ground, classes, 0, classes.size)))


def learnt_split(task: NodeTask, classes: Array, split: Split) -> Learnt:
    """The node that a split makes."""
    return Learnt(SPLIT, classes, split.outcome.coloring, [split.classifier], {"depth": task.depth, **split.record})


def learnt_leaf(task: NodeTask, classes: Array, classifiers: Sequence[Classifier] | Parts) -> Learnt:
    """The one-vs-all leaf of some classes."""
    return Learnt(ONE_VS_ALL, classes, np.zeros(classes.size, np.int8), classifiers, {"depth": task.depth})


def split_of(ground: Ground, task: NodeTask, classes: Array) -> Split | None:
    """The split of two classes or more by the rule; None where it makes a one-vs-all leaf."""
    rule = ground.rule
    if isinstance(rule, RelaxedRule):
        if 2 < classes.size <= rule.leaf_classes and not rule.continued:
            return None
        return relaxed_split(ground, rule, classes)
    coloring: Array | None = None
    if isinstance(rule, SpectralRule) and (task.depth < rule.levels or classes.size == 2):
        coloring = spectral_coloring(ground, classes)
    if isinstance(rule, MarszalekRule):
        coloring = marszalek_coloring(ground, rule, classes)
    return None if coloring is None else solved(ground, classes, coloring)


def solved(ground: Ground, classes: Array, coloring: Array) -> Split:
    """The support vector machine of a coloring that is given."""
    rows = ground.node_rows(classes)
    solver = solver_of(ground, rows, classes)
    sides = coloring[rows.labels]
    fit = solver.solve(sides)
    value = fit.objective(sides, solver.costs)
    record = {"value": value, "support_vectors": fit.n_support}
    return Split(Outcome(coloring, value, False), solver.classifier(fit, sides), record)


# ---- the relaxed hierarchy ---------------------------------------------------------------------------------------


def relaxed_split(ground: Ground, rule: RelaxedRule, classes: Array) -> Split | None:
    """Try every initial coloring, finish the best; None where the classes are hard to part."""
    problem, rows = problem_of(ground, rule, classes, rule.search_rows)
    tries = [grown(problem, rule, coloring) for coloring in initial_colorings(ground, rule, classes)]
    outcomes = [outcome_of(ground, one) for one in tries]
    best = ranked(outcomes)
    if hard(rule, [outcomes[place] for place in best]):
        return None
    if ground.node_rows(classes).n_rows == rows.n_rows:
        split = priced(split_from(problem, tries[best[0]], outcomes[best[0]], len(tries)), ground, rule, classes)
        return None if left_alone(rule, split) else split
    return finished([finish_coloring(coloring, ground, classes) for coloring in finalists(rule, outcomes)], rule, tries)


def problem_of(ground: Ground, rule: RelaxedRule, classes: Array, most: int | None) -> tuple[NodeProblem, NodeRows]:
    """The node's problem on at most so many rows."""
    rows = ground.node_rows(classes, most)
    params = ColoringParams(ground.cost, rule.rho, rule.balance, rule.half_steps)
    solver: BinarySolver = solver_of(ground, rows, classes)
    return NodeProblem(solver, rows.labels, rows.weights, rows.counts, params), rows


def try_coloring(place: int, ground: Ground, classes: Array) -> Outcome:
    """What one of the initial colorings leads to, on the rows of the search."""
    rule = ground.rule
    problem, _ = problem_of(ground, rule, classes, rule.search_rows)
    return outcome_of(ground, grown(problem, rule, initial_colorings(ground, rule, classes)[place]))


def grown(problem: NodeProblem, rule: RelaxedRule, coloring: Array) -> Tried:
    """Where an initial coloring leads, by way of where it leads with a larger rho.

    A machine of two classes has few others within a small rho of it, and would stay with these: a poor local optimum.
    With `first_rho` it gathers all that are on its sides about, and the small one then drops those in doubt.
    """
    if rule.first_rho > rule.rho and coloring.size > 2:
        wide = replace(problem.params, rho=rule.first_rho, half_steps=min(FIRST_HALF_STEPS, rule.half_steps))
        coloring = alternate(replace(problem, params=wide), coloring).coloring
    return alternate(problem, coloring)


def finish_coloring(coloring: Array, ground: Ground, classes: Array) -> Split:
    """Where a coloring leads on the rows that a split learns from."""
    problem, _ = problem_of(ground, ground.rule, classes, ground.rule.split_rows)
    tried = alternate(problem, coloring)
    return priced(split_from(problem, tried, outcome_of(ground, tried), 1), ground, ground.rule, classes)


def priced(split: Split, ground: Ground, rule: RelaxedRule, classes: Array) -> Split:
    """The split with the share of rows that it loses in its record, where that decides."""
    if rule.most_lost < 1 and not split_stays(rule, split.outcome):
        split.record[LOST] = lost_rows(ground, classes, split.outcome.coloring, rule.search_rows)
    return split


def outcome_of(ground: Ground, tried: Tried) -> Outcome:
    """Scored by the objective (linear kernel) or by support vectors (equation 3)."""
    return Outcome(tried.coloring, tried.value if ground.linear else tried.support_score(), tried.forced)


def split_from(problem: NodeProblem, tried: Tried, outcome: Outcome, n_tried: int) -> Split:
    """What is kept of a try."""
    record = {
        "value": tried.value,
        "support_vectors": tried.fit.n_support,
        "objective": tried.objective,
        "steps": tried.steps,
        "tried": n_tried,
    }
    sides = tried.coloring[problem.labels]
    return Split(outcome, problem.solver.classifier(tried.fit, sides), record)


def ranked(outcomes: Sequence[Outcome]) -> list[int]:
    """Places of the outcomes, the best first: unforced ones, then the least score, then the first."""
    return sorted(range(len(outcomes)), key=lambda i: (outcomes[i].forced, outcomes[i].score, i))


def finalists(rule: RelaxedRule, outcomes: Sequence[Outcome]) -> list[Array]:
    """The best different colorings."""
    chosen = list[Array]()
    for place in ranked(outcomes):
        coloring = outcomes[place].coloring
        if not any(np.array_equal(coloring, one) or np.array_equal(-coloring, one) for one in chosen):
            chosen.append(coloring)
        if len(chosen) == rule.finalists:
            break
    return chosen


def finished(splits: Sequence[Split], rule: RelaxedRule, tried: Sequence[Any]) -> Split | None:
    """The best of the splits on all rows; None where it is to be left alone."""
    best = splits[ranked([split.outcome for split in splits])[0]]
    best.record["tried"] = len(tried)
    return None if left_alone(rule, best) else best


def hard(rule: RelaxedRule, outcomes: Sequence[Outcome]) -> bool:
    """Whether classes are hard to part: every try had to force a class (SPECS 4, reading 2)."""
    return not rule.continued and outcomes[0].coloring.size > 2 and all(one.forced for one in outcomes)


def split_stays(rule: RelaxedRule, outcome: Outcome) -> bool:
    """Whether a split is made whatever it is like."""
    return rule.continued or outcome.coloring.size == 2


def left_alone(rule: RelaxedRule, split: Split) -> bool:
    """Whether a node is better one-vs-all: its best split is forced, rules out too few classes, or loses too much."""
    outcome = split.outcome
    if split_stays(rule, outcome):
        return False
    if outcome.forced or too_few_active(outcome.coloring, rule.least_active):
        return True
    return bool(split.record.get(LOST, 0.0) > rule.most_lost * max(0.0, saved_classifiers(outcome.coloring)))


def leaf_range(part: tuple[int, int], ground: Ground, classes: Array) -> int:
    """Learn and keep the classifiers of classes part[0] ... part[1] - 1 of a one-vs-all leaf; returns part[0].

    A range that is there is left alone.
    """
    first, last = part
    name = node_name(np.asarray(classes))
    if read_part(ground, name, first) is None:
        write_part(ground, name, first, leaf_classifiers(ground, np.asarray(classes), first, last))
    return first
