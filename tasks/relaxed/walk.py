"""The walk of rows down a hierarchy, all rows of a slice at once, a level at a time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

import numpy as np

from tasks.models.topk import NO_CLASS, top_classes
from tasks.rows.base import Array, Rows
from tasks.svm.bank import Session

if TYPE_CHECKING:
    from tasks.relaxed.hierarchy import Hierarchy


@dataclass(frozen=True, eq=False)
class Answers:
    """What a walk fills: classes (n, top) int32, scores (n, top) float32, evaluations (n,), path (n, longest) int32."""

    classes: Array
    scores: Array
    evaluations: Array
    path: Array

    @classmethod
    def empty(cls, n_rows: int, top: int, longest: int) -> Self:
        """No class named, no node visited."""
        shape = n_rows, top
        scores, path = np.full(shape, np.nan, np.float32), np.full((n_rows, longest), -1, np.int32)
        return cls(np.full(shape, NO_CLASS, np.int32), scores, np.zeros(n_rows, np.int32), path)

    def part(self, start: int, stop: int) -> Answers:
        """Views of some rows."""
        where = slice(start, stop)
        return Answers(self.classes[where], self.scores[where], self.evaluations[where], self.path[where])


def walk(model: Hierarchy, rows: Rows, answers: Answers) -> None:
    """Walk a slice of rows down, and fill their answers."""
    session = model.bank.session(rows)
    leaves, surest = _descend(model, session, answers.path)
    order = np.argsort(leaves, kind="stable")
    starts = np.flatnonzero(np.diff(leaves[order], prepend=-1))
    for group in np.split(order, starts[1:]) if order.size else []:
        _name(model, session, int(leaves[group[0]]), group, surest[group], answers)
    answers.evaluations[:] = session.evaluations()


def _descend(model: Hierarchy, session: Session, path: Array) -> tuple[Array, Array]:
    """The leaf of each row, (n,) int32, and the least |f| on its way, (n,) float32, 0 where there was no split."""
    at, least = np.zeros(len(path), np.int32), np.full(len(path), np.inf, np.float32)
    path[:, 0] = 0
    walking, step = np.arange(len(path) if model.is_split[0] else 0), 0
    while walking.size:
        nodes, step = at[walking], step + 1
        margins = session.margins(walking, model.first_classifier[nodes].astype(np.int64))
        least[walking] = np.minimum(least[walking], np.abs(margins))
        at[walking] = np.where(margins >= 0, model.positive[nodes], model.negative[nodes])
        path[walking, step] = at[walking]
        walking = walking[model.is_split[at[walking]]]
    return at, np.where(np.isinf(least), np.float32(0), least) if not model.is_split[0] else least


def _name(model: Hierarchy, session: Session, leaf: int, group: Array, surest: Array, answers: Answers) -> None:
    """The classes of one leaf, for the rows `group` that came to it."""
    held, top = model.label_set(leaf), answers.classes.shape[1]
    if held.size == 1:
        answers.classes[group, :1], answers.scores[group, :1] = held, surest[:, None][:, :top]
        return
    first = int(model.first_classifier[leaf])
    margins = session.block(group, first, first + held.size)
    best, scores = top_classes(margins, min(top, held.size))
    answers.classes[group, : best.shape[1]] = np.where(best >= 0, held[best], NO_CLASS)
    answers.scores[group, : best.shape[1]] = scores
