"""Support vector machines of pairs of classes: one task learns those of some first classes with all later ones."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tasks.fit.checkpoint import keep, load_kept
from tasks.places import at
from tasks.relaxed.ground import Ground, Unpacked, packed
from tasks.relaxed.solvers import solver_of
from tasks.rows import Csr, Dense
from tasks.rows.base import Array
from tasks.svm.class_rows import NodeRows, stacked
from tasks.svm.classifier import Classifier

HELD_BYTES, HELD_ROWS = 4 << 20, 256  # of second classes that are read at once, at most


@dataclass(frozen=True, slots=True)
class PairRun:
    """Pairs (first, second) of places first < last of the first class, first < second."""

    index: int
    first: int
    last: int


def pair_runs(n_classes: int, pairs: int) -> list[PairRun]:
    """Runs of first classes with about so many pairs each."""
    runs, first, held = list[PairRun](), 0, 0
    for place in range(n_classes - 1):
        held += n_classes - 1 - place
        if held >= pairs or place == n_classes - 2:
            runs.append(PairRun(len(runs), first, place + 1))
            first, held = place + 1, 0
    return runs


def file_of(run: PairRun, ground: Ground) -> Path:
    return at(ground.nodes) / f"pairs-{run.index:05d}.npz"


def learn_pairs(run: PairRun, ground: Ground, classes: Array) -> int:
    """Learn the pairs of a run, lower class positive, and keep them; a run that is there is left alone.

    Returns the number of pairs. Raises DiskFull, and what solvers raise.
    """
    path = file_of(run, ground)
    if load_kept(path) is None:
        starts = ground.starts()
        found = [one for first in range(run.first, run.last) for one in pairs_of(ground, starts, classes, first)]
        keep(path, packed(found))
    return sum(len(classes) - 1 - first for first in range(run.first, run.last))


def pairs_of(ground: Ground, starts: Array, classes: Array, first: int) -> Iterator[Classifier]:
    """The classifiers of one class, by its place, with each later one. Rows of small classes are read many at a time.

    starts  as of `NodeRows.of`; classes (L,) int32 ascending
    """
    own = ground.rows.take(NodeRows.of(starts, classes[first : first + 1], ground.most_rows).numbers)
    for seconds in groups(np.diff(starts)[classes], first + 1, held_rows(own)):
        held = NodeRows.of(starts, classes[seconds.start : seconds.stop], ground.most_rows)
        read = ground.rows.take(held.numbers) if ground.linear and len(seconds) > 1 and held.whole else None
        ends = np.searchsorted(held.labels, np.arange(len(seconds) + 1))
        for place, second in enumerate(seconds):
            part = None if read is None else stacked([own, read.part(*ends[place : place + 2])])
            yield pair_classifier(ground, classes[[first, second]], starts, part)


def groups(sizes: Array, first: int, most: int) -> Iterator[range]:
    """Runs of places from `first` on of at most so many rows together, or of one place; sizes (L,) int64: its rows."""
    place, held = first, 0
    for second in range(first, sizes.size):
        if held and held + sizes[second] > most:
            yield range(place, second)
            place, held = second, 0
        held += int(sizes[second])
    if place < sizes.size:
        yield range(place, sizes.size)


def held_rows(rows: Dense | Csr) -> int:
    """How many rows like these are read at once."""
    return min(HELD_ROWS, HELD_BYTES * rows.n_rows // max(1, rows.nbytes))


def pair_classifier(
    ground: Ground, pair: Array, starts: Array | None = None, held: Dense | Csr | None = None
) -> Classifier:
    """Of two classes (2,) int32 ascending: f >= 0 is the first.

    starts  number of the first row of each class; held: all rows of the two. Read where they are not given.
    """
    rows = NodeRows.of(ground.starts() if starts is None else starts, pair, ground.most_rows)
    solver = solver_of(ground, rows, pair, held if rows.whole else None)
    sides = np.where(rows.labels == 0, 1, -1).astype(np.int8)
    return solver.classifier(solver.solve(sides), sides)


def read_pairs(run: PairRun, ground: Ground) -> Unpacked:
    """What `learn_pairs` has kept."""
    kept = load_kept(file_of(run, ground))
    if kept is None:
        raise FileNotFoundError(f"{file_of(run, ground)} has gone")
    return Unpacked(kept)
