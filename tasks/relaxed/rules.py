"""How each system colors the classes of a node: the parameters, and the first colorings that they ask for."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tasks.errors import ParamError
from tasks.relaxed.ground import Ground, node_name
from tasks.relaxed.initial import least_confused_pairs
from tasks.relaxed.marszalek import relaxed_sides
from tasks.relaxed.normalized_cut import as_affinity, normalized_cut, vote
from tasks.rows.base import Array

CUT_CLASSES = 1000  # whose rows are cut at most
LEAST_AFFINITY = 1e-4  # of classes that are never confused, of the mean: keeps a graph of confusion in one part
CUT_ROWS, CUT_ROWS_A_CLASS = 400, 5  # rows at least that are cut for a top-down coloring: O(n^3)


@dataclass(frozen=True, slots=True)
class RelaxedRule:
    """Keys of the relaxed hierarchy (Gao & Koller 2011); see its section in the README. Raises ParamError."""

    rho: float
    balance: int
    initialisation: str
    samples: int
    finalists: int
    search_rows: int
    split_rows: int
    half_steps: int
    continued: bool
    least_active: float
    leaf_classes: int
    first_rho: float
    most_lost: float

    def __post_init__(self) -> None:
        if not (0 < self.rho < np.inf):
            raise ParamError("rho", self.rho, "above 0", "at 0 every class is ignored")
        if not 0 <= self.least_active <= 1:
            raise ParamError("least_active", self.least_active, "0 to 1", "it is a share of a node's classes")
        if not self.most_lost >= 0:
            raise ParamError("most_lost", self.most_lost, "0 or more", "it is a share of a node's rows")


@dataclass(frozen=True, slots=True)
class SpectralRule:
    """Splits above the one-vs-all leaves (Griffin & Perona 2008, top-down)."""

    levels: int


@dataclass(frozen=True, slots=True)
class MarszalekRule:
    """How far from pure a class may be on a side, and rows whose kernel matrix is cut (Marszalek & Schmid 2008)."""

    alpha: float
    cut_rows: int
    least_active: float


@dataclass(frozen=True, slots=True)
class AllRule:
    """No splits: one-vs-all at the root."""


Rule = RelaxedRule | SpectralRule | MarszalekRule | AllRule


def initial_colorings(ground: Ground, rule: RelaxedRule, classes: Array) -> list[Array]:
    """The colorings (K,) int8 with which a node of the relaxed hierarchy begins, each with both signs."""
    if classes.size == 2:
        return [np.array([1, -1], np.int8)]
    found = list[Array]()
    if rule.initialisation in ("bottom-up", "both"):
        rng = ground.stream(node_name(classes), "pairs")
        confusion, judged = ground.confusion(classes), ground.judged(classes)
        for one, other in least_confused_pairs(confusion, min(rule.samples, classes.size), rng, judged).tolist():
            coloring = np.zeros(classes.size, np.int8)
            coloring[one], coloring[other] = 1, -1
            found.append(coloring)
    if rule.initialisation in ("top-down", "both"):
        found.append(voted(ground, classes))
    return found


def voted(ground: Ground, classes: Array) -> Array:
    """The majority side of each class in a normalised cut of rows; a sign that is missing goes to the nearest class."""
    sides, labels = cut_rows(ground, classes, max(CUT_ROWS, min(CUT_ROWS_A_CLASS * classes.size, 2 * CUT_CLASSES)))
    coloring = vote(sides, labels, classes.size)
    counts = np.bincount(labels, minlength=classes.size)
    means = np.bincount(labels, weights=sides, minlength=classes.size) / np.maximum(counts, 1)
    if not (coloring > 0).any():
        coloring[np.argmax(means)] = 1
    if not (coloring < 0).any():
        coloring[np.argmin(means)] = -1
    if not (coloring > 0).any():  # one class was both: two classes of equal means
        coloring[(np.argmin(means) + 1) % classes.size] = 1
    return coloring


def cut_rows(ground: Ground, classes: Array, most: int) -> tuple[Array, Array]:
    """(sides (n,) int8, classes (n,) as places) of a sample of a node's rows, by a normalised cut of their kernel.

    Of more than CUT_CLASSES classes some are drawn; the others have no rows there.
    """
    cut = classes
    if classes.size > CUT_CLASSES:
        drawn = ground.stream(node_name(classes), "cut").permutation(classes.size)[:CUT_CLASSES]
        cut = classes[np.sort(drawn)]
    rows = ground.node_rows(cut, max(most, 2 * cut.size))
    held = ground.rows.take(rows.numbers)
    affinity, _ = as_affinity(ground.kernel.block(held, held))
    return normalized_cut(affinity), np.searchsorted(classes, cut)[rows.labels]


def marszalek_coloring(ground: Ground, rule: MarszalekRule, classes: Array) -> Array | None:
    """Classes by the sides of their rows; None for a node that cannot be split."""
    sides, labels = cut_rows(ground, classes, rule.cut_rows)
    coloring = relaxed_sides(sides, labels, classes.size, rule.alpha)
    if coloring is not None and too_few_active(coloring, rule.least_active):
        return None
    return coloring


def spectral_coloring(ground: Ground, classes: Array) -> Array:
    """Two sides of the classes, least confused with each other."""
    if classes.size == 2:
        return np.array([1, -1], np.int8)
    confusion = ground.confusion(classes).toarray().astype(np.float64)
    rates = confusion / np.maximum(ground.judged(classes), 1)[:, None]
    np.fill_diagonal(rates, 0.0)
    affinity = rates + rates.T
    floor = LEAST_AFFINITY * (affinity.mean() or 1.0)
    return normalized_cut(affinity + floor)


def too_few_active(coloring: Array, least: float) -> bool:
    """Whether a split would rule out so few of many classes that the hierarchy grows without end."""
    return coloring.size > 2 and int(np.count_nonzero(coloring)) < least * coloring.size
