"""The empirical risk as solvers see it: sums over all rows, asked of an oracle.

R_n(W, b) = (1/n) sum over rows of logsumexp(z) - z_y, z = W' x + b (Harchaoui et al. 2012, section 2). A solver names
its weights by a `Point`, U C: the projections X U of the basis are made once and kept where the rows are, so that a
search over the core (R1D's restricted problem (8), line searches) never reads X again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from tasks.rows.base import Array, Rows
from tasks.sums import FieldSums
from tasks.trace.point import Basis, Direction, Group, Point
from tasks.trace.softmax import add_by_class, softmax_losses, softmax_residuals

SLICE_CELLS = 1 << 21  # scores held at a time
LEAST_SLICE = 256  # rows
SHRINK = np.concatenate([[1.0], 1.0 - np.logspace(-7, -0.01, 48), [0.0]])  # t of the dual points; falling from 1 to 0


@dataclass(frozen=True, eq=False)
class RiskSums(FieldSums):
    """What evaluating some rows adds up to; see `Risk.evaluate` and `Risk.gradient`, which divide it by n.

    gradient   (rank, n_classes) or (n_features, n_classes) float64: of the loss in the core, or in W
    bias       (n_classes,) float64: of the loss in the bias
    entropies  (SHRINK.size,) float64, or (0,) where none were asked for
    """

    rows: int
    loss: float
    gradient: Array
    bias: Array
    entropies: Array

    def mean(self) -> RiskSums:
        """Per row; `rows` stays."""
        n = max(1, self.rows)
        return RiskSums(self.rows, self.loss / n, self.gradient / n, self.bias / n, self.entropies / n)


class Risk(Protocol):
    """Whoever can reach the rows: in memory (`LocalRisk`), or over a pool of workers. All answers are means over rows.

    counts  (n_classes,) int64: rows of each class
    """

    @property
    def n_rows(self) -> int: ...

    @property
    def n_features(self) -> int: ...

    @property
    def n_classes(self) -> int: ...

    @property
    def counts(self) -> Array: ...

    def group(self, columns: Array) -> Group:
        """Name columns (n_features, size), so that they can join a basis; nothing is projected yet."""
        ...

    def evaluate(self, point: Point) -> RiskSums:
        """Loss and its gradient in core (rank, n_classes) and bias, on kept projections: no pass over X."""
        ...

    def losses(self, point: Point, direction: Direction, steps: Sequence[float]) -> Array:
        """(len(steps),) float64: the loss at `point.moved(direction, step)`, on kept projections."""
        ...

    def gradient(self, point: Point, scale: Array | None = None) -> RiskSums:
        """Loss, gradient in W (n_features, n_classes) and in the bias, and entropies of dual points: one pass over X.

        scale      (n_classes,) in [0, 1]: rows of class c count as scale[c] (P - Y) in both gradients; None: all 1
        entropies  of q = (1 - t) e_y + t p, t = SHRINK scale[y]: see `tasks.trace.certificate`
        """
        ...

    def confusion(self, point: Point) -> Array:
        """(n_classes, n_classes) float64: row c is the sum of p over the rows of class c, over n; no pass over X."""
        ...

    def mean(self) -> Array:
        """(n_features,) float64: the mean row."""
        ...

    def sample(self, n: int) -> LocalRisk:
        """At most n rows, always the same, in memory here."""
        ...

    def whole(self) -> LocalRisk | None:
        """All rows in memory here; None where they are too many."""
        ...


def slices(n_rows: int, n_classes: int) -> Iterator[slice]:
    """Rows whose scores are held at a time."""
    size = max(LEAST_SLICE, SLICE_CELLS // max(1, n_classes))
    for start in range(0, n_rows, size):
        yield slice(start, min(start + size, n_rows))


@dataclass(frozen=True, eq=False)
class Chunk:
    """Rows in memory, their labels (n_rows,) int32, and their projections X U (n_rows, rank) on the basis in hand."""

    rows: Rows
    labels: Array
    projections: Array

    def scores(self, where: slice, core: Array, bias: Array | None) -> Array:
        """(rows of the slice, n_classes) in the dtype of the projections."""
        scores: Array = self.projections[where] @ core.astype(self.projections.dtype, copy=False)
        if bias is not None:
            scores += bias.astype(scores.dtype)
        return scores


def evaluate_chunk(chunk: Chunk, core: Array, bias: Array | None) -> RiskSums:
    """The sums of `Risk.evaluate` over one chunk."""
    k = core.shape[1]
    gradient, by_class, loss = np.zeros(core.shape), np.zeros(k), 0.0
    none, whole = np.zeros(0), np.ones(k)
    for where in slices(chunk.labels.size, k):
        residuals = chunk.scores(where, core, bias)
        loss += softmax_residuals(residuals, chunk.labels[where], whole, none, none)
        gradient += chunk.projections[where].T @ residuals
        by_class += residuals.sum(axis=0, dtype=np.float64)
    return RiskSums(chunk.labels.size, loss, gradient, by_class, none)


def gradient_chunk(chunk: Chunk, core: Array, bias: Array | None, scale: Array | None) -> RiskSums:
    """The sums of `Risk.gradient` over one chunk."""
    k = core.shape[1]
    gradient, by_class, loss = np.zeros((chunk.rows.n_features, k)), np.zeros(k), 0.0
    entropies, weight = np.zeros(SHRINK.size), np.ones(k) if scale is None else scale
    for where in slices(chunk.labels.size, k):
        residuals = chunk.scores(where, core, bias)
        loss += softmax_residuals(residuals, chunk.labels[where], weight, SHRINK, entropies)
        gradient += chunk.rows.part(where.start, where.stop).gradient(residuals)
        by_class += residuals.sum(axis=0, dtype=np.float64)
    return RiskSums(chunk.labels.size, loss, gradient, by_class, entropies)


def losses_chunk(chunk: Chunk, point: tuple[Array, Array | None], direction: Direction, steps: Array) -> Array:
    """(len(steps),) float64: sums of losses along a direction over one chunk."""
    core, bias = point
    totals = np.zeros(steps.size)
    for where in slices(chunk.labels.size, core.shape[1]):
        here, there = chunk.scores(where, core, bias), chunk.scores(where, direction.core, direction.bias)
        for m, step in enumerate(steps):
            totals[m] += softmax_losses(here + there.dtype.type(step) * there, chunk.labels[where])
    return totals


def confusion_chunk(chunk: Chunk, core: Array, bias: Array | None) -> Array:
    """(n_classes, n_classes) float64: row c is the sum of p over the chunk's rows of class c."""
    k = core.shape[1]
    sums, none, whole = np.zeros((k, k)), np.zeros(0), np.ones(k)
    for where in slices(chunk.labels.size, k):
        probabilities, labels = chunk.scores(where, core, bias), chunk.labels[where]
        softmax_residuals(probabilities, labels, whole, none, none)
        probabilities[np.arange(labels.size), labels] += 1
        add_by_class(sums, labels, probabilities)
    return sums


def project(rows: Rows, basis: Basis, dtype: type[np.floating]) -> Array:
    """X U (n_rows, rank), group by group."""
    parts = [rows.scores(np.ascontiguousarray(g.columns, dtype))[:, list(kept)] for g, kept in _parts(basis)]
    return np.concatenate([np.zeros((rows.n_rows, 0), dtype), *parts], axis=1)


def _parts(basis: Basis) -> Iterator[tuple[Group, tuple[int, ...]]]:
    return zip(basis.groups, basis.kept, strict=True)


class LocalRisk:
    """Rows in memory: one matrix, labels (n_rows,) int32 in [0, n_classes).

    dtype  of scores and projections: float64, or float32 for speed; sums are float64 in either
    """

    def __init__(self, rows: Rows, labels: Array, n_classes: int, dtype: type[np.floating] = np.float64) -> None:
        self.rows, self.labels = rows, np.asarray(labels, np.int32)
        self._n_classes, self.dtype = n_classes, dtype
        self.counts = np.bincount(self.labels, minlength=n_classes)
        self._kept: dict[str, Array] = {}
        self._groups = 0

    @property
    def n_rows(self) -> int:
        return self.rows.n_rows

    @property
    def n_features(self) -> int:
        return self.rows.n_features

    @property
    def n_classes(self) -> int:
        return self._n_classes

    def group(self, columns: Array) -> Group:
        self._groups += 1
        return Group(str(self._groups), np.ascontiguousarray(columns, self.dtype), columns.shape[1])

    def evaluate(self, point: Point) -> RiskSums:
        return evaluate_chunk(self._chunk(point.basis), point.core, point.bias).mean()

    def losses(self, point: Point, direction: Direction, steps: Sequence[float]) -> Array:
        chunk = self._chunk(point.basis)
        return losses_chunk(chunk, (point.core, point.bias), direction, np.asarray(steps)) / max(1, self.n_rows)

    def gradient(self, point: Point, scale: Array | None = None) -> RiskSums:
        return gradient_chunk(self._chunk(point.basis), point.core, point.bias, scale).mean()

    def confusion(self, point: Point) -> Array:
        return confusion_chunk(self._chunk(point.basis), point.core, point.bias) / max(1, self.n_rows)

    def mean(self) -> Array:
        ones = np.full((self.n_rows, 1), 1.0 / max(1, self.n_rows), self.dtype)
        return np.asarray(self.rows.gradient(ones)[:, 0], np.float64)

    def sample(self, n: int) -> LocalRisk:
        """The first rows: a dataset's training rows are stored shuffled."""
        if n >= self.n_rows:
            return self
        return LocalRisk(self.rows.part(0, n), self.labels[:n], self._n_classes, self.dtype)

    def whole(self) -> LocalRisk:
        return self

    def _chunk(self, basis: Basis) -> Chunk:
        """The rows with their projections, which are kept for as long as a basis names their group."""
        self._kept = {group.token: self._projected(group) for group in basis.groups}
        if len(basis.groups) == 1 and basis.rank == basis.groups[0].size:
            return Chunk(self.rows, self.labels, self._kept[basis.groups[0].token])
        parts = [self._kept[group.token][:, list(kept)] for group, kept in _parts(basis)]
        return Chunk(self.rows, self.labels, np.concatenate([np.zeros((self.n_rows, 0), self.dtype), *parts], axis=1))

    def _projected(self, group: Group) -> Array:
        found = self._kept.get(group.token)
        return self.rows.scores(np.ascontiguousarray(group.columns, self.dtype)) if found is None else found
