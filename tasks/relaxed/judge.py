"""What a row in doubt is: the classes that its ways end at, compared by one-vs-rest of all classes.

A split that is wrong about a row loses it for good, however little it was wrong by. Rows within `doubt` of a split's
hyperplane therefore go both ways; where these end at different classes, the machines of one-vs-rest of the root's
classes are asked about these classes alone. A split of two classes is the better judge of these itself. Not in the
paper, whose walk is that of doubt 0.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tasks.models.topk import NO_CLASS
from tasks.rows.base import Array
from tasks.svm.bank import Session


@dataclass(frozen=True, eq=False)
class Judges:
    """One-vs-rest of some classes (K,) int32, ascending: classifiers first, first + 1, ... of a bank."""

    first: int
    classes: Array

    def margins(self, session: Session, rows: Array, classes: Array) -> Array:
        """(m,) float32: f of the judge of classes[i] of row rows[i]."""
        return session.margins(rows, self.first + np.searchsorted(self.classes, classes))


@dataclass(frozen=True, eq=False)
class Ends:
    """Rows at leaves, ascending rows, each row at one leaf or more.

    row     (m,) int64
    classes, scores  (m, top) int32 and float32: what the leaf names, best first, as in `Ranking`
    """

    row: Array
    classes: Array
    scores: Array


@dataclass(frozen=True, eq=False)
class Candidates:
    """Different first classes of the ends of a row, of rows that have several: by row, the best first.

    row, class_, end  (c,) int64; margin (c,) float32: f of one-vs-rest; place (c,): 0 of a row's best, 1, 2, ...
    end is the first one that names the class
    """

    row: Array
    class_: Array
    end: Array
    margin: Array
    place: Array


def settled(judges: Judges, session: Session, ends: Ends) -> tuple[Array, Array, Array]:
    """(end (n,) that a row's answer is of, classes (n, top), scores (n, top)); n rows, each with ends.

    Candidates come first, by their margins. The others of the best one's leaf follow, at the distances there behind
    the last candidate.
    """
    chosen = np.flatnonzero(np.diff(ends.row, prepend=-1))
    found = _candidates(judges, session, ends, chosen)
    best = found.place == 0
    chosen[found.row[best]] = found.end[best]
    classes, scores = ends.classes[chosen], ends.scores[chosen]
    if found.row.size:
        _rank(found, classes, scores)
    return chosen, classes, scores


def _candidates(judges: Judges, session: Session, ends: Ends, first: Array) -> Candidates:
    """first (n,): of the ends of each row."""
    winner = ends.classes[:, 0].astype(np.int64)
    n_ends = np.diff(first, append=ends.row.size)
    where = np.flatnonzero(np.repeat(n_ends > 1, n_ends) & (winner != NO_CLASS))
    where = where[np.unique(ends.row[where] * (1 + int(judges.classes[-1])) + winner[where], return_index=True)[1]]
    row = ends.row[where]
    where = where[np.bincount(row, minlength=first.size)[row] > 1]  # ways that agree need no judge
    row, class_ = ends.row[where], winner[where]
    margin = judges.margins(session, row, class_)
    order = np.lexsort((class_, -margin, row))
    starts = np.flatnonzero(np.diff(row, prepend=-1))
    place = np.arange(row.size) - np.repeat(starts, np.diff(starts, append=row.size))
    return Candidates(row, class_[order], where[order], margin[order], place)


def _rank(found: Candidates, classes: Array, scores: Array) -> None:
    """Put the candidates before the other classes that the best one's leaf names; classes, scores (n, top) change."""
    rows, counts = np.unique(found.row, return_counts=True)
    top, last = classes.shape[1], np.cumsum(counts) - 1
    named, told = np.full((rows.size, top), NO_CLASS, np.int32), np.full((rows.size, top), np.nan, np.float32)
    group = np.repeat(np.arange(rows.size), counts)
    inside = found.place < top
    named[group[inside], found.place[inside]] = found.class_[inside]
    told[group[inside], found.place[inside]] = found.margin[inside]
    others, behind = classes[rows], scores[rows] - scores[rows, :1] + found.margin[last][:, None]
    width = int(max(others.max(), found.class_.max())) + 1
    judged = np.isin(np.arange(rows.size)[:, None] * width + others, group * width + found.class_)
    rest = (others != NO_CLASS) & ~judged
    place = counts[:, None] - 1 + np.cumsum(rest, axis=1)
    rest &= place < top
    which = np.nonzero(rest)[0]
    named[which, place[rest]], told[which, place[rest]] = others[rest], behind[rest]
    classes[rows], scores[rows] = named, told
