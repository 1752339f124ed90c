"""Support vector machines of pairs of classes: one task learns those of some first classes with all later ones."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tasks.fit.checkpoint import keep, load_kept
from tasks.relaxed.ground import Ground, Unpacked, packed
from tasks.relaxed.solvers import solver_of
from tasks.rows.base import Array
from tasks.svm.classifier import Classifier


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
    return Path(ground.nodes) / f"pairs-{run.index:05d}.npz"


def learn_pairs(run: PairRun, ground: Ground, classes: Array) -> int:
    """Learn the pairs of a run, lower class positive, and keep them; a run that is there is left alone.

    Returns the number of pairs. Raises DiskFull, and what solvers raise.
    """
    path = file_of(run, ground)
    if load_kept(path) is None:
        found = [
            pair_classifier(ground, np.array([classes[first], classes[second]], np.int32))
            for first in range(run.first, run.last)
            for second in range(first + 1, len(classes))
        ]
        keep(path, packed(found))
    return sum(len(classes) - 1 - first for first in range(run.first, run.last))


def pair_classifier(ground: Ground, pair: Array) -> Classifier:
    """Of two classes (2,) int32 ascending: f >= 0 is the first."""
    rows = ground.node_rows(pair)
    solver = solver_of(ground, rows, pair)
    sides = np.where(rows.labels == 0, 1, -1).astype(np.int8)
    return solver.classifier(solver.solve(sides), sides)


def read_pairs(run: PairRun, ground: Ground) -> Unpacked:
    """What `learn_pairs` has kept."""
    kept = load_kept(file_of(run, ground))
    if kept is None:
        raise FileNotFoundError(f"{file_of(run, ground)} has gone")
    return Unpacked(kept)
