"""The walk of rows down a hierarchy, all rows of a slice at once, a level at a time; in doubt, down both sides."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Self

import numpy as np

from tasks.models.topk import NO_CLASS, top_classes
from tasks.relaxed.judge import Ends, Judges, settled
from tasks.rows.base import Array, Rows
from tasks.svm.bank import Session

if TYPE_CHECKING:
    from tasks.relaxed.hierarchy import Hierarchy


@dataclass(frozen=True, eq=False)
class Answers:
    """What a walk fills: classes (n, top) int32, scores (n, top) float32, evaluations (n,), classifiers (n,), path
    (n, longest) int32."""

    classes: Array
    scores: Array
    evaluations: Array
    classifiers: Array
    path: Array

    @classmethod
    def empty(cls, n_rows: int, top: int, longest: int) -> Self:
        """No class named, no node visited."""
        shape = n_rows, top
        scores, path = np.full(shape, np.nan, np.float32), np.full((n_rows, longest), -1, np.int32)
        evaluations, classifiers = np.zeros((2, n_rows), np.int32)
        return cls(np.full(shape, NO_CLASS, np.int32), scores, evaluations, classifiers, path)

    def part(self, start: int, stop: int) -> Answers:
        """Views of some rows."""
        where = slice(start, stop)
        counts = self.evaluations[where], self.classifiers[where]
        return Answers(self.classes[where], self.scores[where], *counts, self.path[where])


@dataclass(frozen=True, slots=True, eq=False)
class Visits:
    """Rows at nodes, each pair once.

    row, node  (m,) int64
    least      (m,) float32: the least |f| on the way there, inf at the root
    before     (m,) int64: the visit that a visit came from, among those of the levels above; -1 at the root
    """

    row: Array
    node: Array
    least: Array
    before: Array

    @classmethod
    def joined(cls, parts: list[Visits]) -> Visits:
        """One after another."""
        return cls(*(np.concatenate([getattr(one, key.name) for one in parts]) for key in fields(cls)))

    def take(self, which: Array) -> Visits:
        """Some of them: numbers, or a mask."""
        return Visits(self.row[which], self.node[which], self.least[which], self.before[which])


def walk(model: Hierarchy, rows: Rows, answers: Answers) -> None:
    """Walk a slice of rows down, and fill their answers."""
    session, top = model.bank.session(rows), answers.classes.shape[1]
    visits = _descend(model, session, rows.n_rows)
    last = np.flatnonzero(~model.is_split[visits.node])
    last = last[np.lexsort((visits.node[last], visits.row[last]))]
    ends = _named(model, session, visits.take(last), max(1, top))
    chosen, classes, scores = settled(Judges(model.n_node_classifiers, model.label_set(0)), session, ends)
    answers.classes[:], answers.scores[:] = classes[:, :top], scores[:, :top]
    _trace(visits, last[chosen], answers.path)
    answers.evaluations[:], answers.classifiers[:] = session.evaluations(), session.classifiers()


def _descend(model: Hierarchy, session: Session, n_rows: int) -> Visits:
    """All visits, by the longest ways to their nodes: who is in doubt goes both ways, and meets itself again below."""
    everywhere = np.zeros(n_rows, np.int64)
    waiting = Visits(np.arange(n_rows), everywhere, np.full(n_rows, np.inf, np.float32), everywhere - 1)
    done, n_done = list[Visits](), 0
    for depth in range(int(model.depth_of.max()) + 1):
        here = model.depth_of[waiting.node] == depth
        now, later = waiting.take(here), waiting.take(~here)
        if model.doubt:
            now = _each_once(now)
        splits = np.flatnonzero(model.is_split[now.node])
        at = now.take(splits)
        margins = session.margins(at.row, model.first_classifier[at.node].astype(np.int64))
        least = np.minimum(at.least, np.abs(margins))
        doubtful = np.abs(margins.astype(np.float64)) < model.doubt
        doubtful &= model.sizes[at.node] > 2  # a pair's own machine is its judge
        waiting = Visits.joined([later])
        for goes, child in (
            (~(margins >= 0) | doubtful, model.negative),
            ((margins >= 0) | doubtful, model.positive),
        ):
            came = n_done + splits[goes]
            step = Visits(at.row[goes], child[at.node[goes]].astype(np.int64), least[goes], came)
            waiting = Visits.joined([waiting, step])
        done.append(now)
        n_done += now.row.size
    return Visits.joined(done)


def _each_once(visits: Visits) -> Visits:
    """By row and node; of those that meet, the one that came from the first node."""
    order = np.lexsort((visits.before, visits.node, visits.row))
    ordered = visits.take(order)
    again = (np.diff(ordered.row, prepend=-1) == 0) & (np.diff(ordered.node, prepend=-1) == 0)
    return ordered.take(~again)


def _named(model: Hierarchy, session: Session, visits: Visits, top: int) -> Ends:
    """The classes that each visit of a leaf names, `top` of them at most."""
    shape = visits.row.size, top
    classes, scores = np.full(shape, NO_CLASS, np.int32), np.full(shape, np.nan, np.float32)
    order = np.argsort(visits.node, kind="stable")
    starts = np.flatnonzero(np.diff(visits.node[order], prepend=-1))
    for group in np.split(order, starts[1:]) if order.size else []:
        leaf = int(visits.node[group[0]])
        held = model.label_set(leaf)
        if held.size == 1:
            classes[group, 0] = held[0]
            scores[group, 0] = np.where(np.isinf(visits.least[group]), 0, visits.least[group])
            continue
        first = int(model.first_classifier[leaf])
        best, found = top_classes(session.block(visits.row[group], first, first + held.size), min(top, held.size))
        classes[group, : best.shape[1]] = np.where(best >= 0, held[best], NO_CLASS)
        scores[group, : best.shape[1]] = found
    return Ends(visits.row, classes, scores)


def _trace(visits: Visits, last: Array, path: Array) -> None:
    """The nodes on the ways to the visits `last` (n,), from the root on."""
    found, lengths, at = np.full(path.shape, -1, np.int32), np.zeros(len(path), np.int64), last
    for step in range(path.shape[1]):  # backwards
        on = np.flatnonzero(at >= 0)
        found[on, step] = visits.node[at[on]]
        lengths[on] += 1
        at = np.where(at >= 0, visits.before[at], -1)
    places = lengths[:, None] - 1 - np.arange(path.shape[1])
    path[:] = np.where(places >= 0, np.take_along_axis(found, np.maximum(places, 0), 1), -1)
