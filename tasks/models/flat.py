"""What all flat models do alike: score every class of a slice of rows, keep the best, and their probabilities."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol, Self, TypeGuard

import numpy as np

from tasks.models.base import Model, Probabilities, Ranking
from tasks.models.errors import ModelFormat
from tasks.models.probabilities import softmax_parts
from tasks.models.slices import check_width
from tasks.models.topk import top_classes
from tasks.rows.base import Array, Rows

PROBABILISTIC = "probabilistic"  # the field of model.json, written where it is true


class FlatModel(Model, Protocol):
    """A model that gives every class a score."""

    @property
    def probabilistic(self) -> bool:
        """Whether scores are log-odds: the softmax of a row's scores is its distribution over the classes."""
        ...

    @property
    def operations(self) -> int:
        """Dot products of n_features numbers that scoring a row costs."""
        ...

    def score_slices(self, rows: Rows) -> Iterator[tuple[int, int, Array]]:
        """(start, stop, scores (stop - start, n_classes) float) over all rows."""
        ...


class TreeModel(Model, Protocol):
    """A model that comes to some classes only, to more of them with a wider beam."""

    @property
    def beam(self) -> int:
        """Nodes expanded a depth at most, where none is asked for."""
        ...

    @property
    def probabilistic(self) -> bool:
        """Whether its scores are probabilities."""
        ...

    @property
    def searchable(self) -> bool:
        """Whether what its nodes tell compares, so that a wider beam is right more often."""
        ...

    def searched(self, beam: int) -> Self:
        """The same with another beam of its own."""
        ...

    def rank(self, rows: Rows, top: int, labels: Array | None = None, beam: int | None = None) -> Ranking:
        """As `Model.rank`; labels (n_rows,) int32, -1 where not known: with probabilities, too; beam None: its own."""
        ...


def rank_flat(model: FlatModel, rows: Rows, top: int, labels: Array | None = None) -> Ranking:
    """The `top` best classes of each row; with `labels` (n_rows,) int32, -1 where not known, their probabilities, too.

    Raises ColumnMismatch. The model must be probabilistic where labels are given.
    """
    check_width(rows, model.n_features, model.kind)
    classes = np.empty((rows.n_rows, top), np.int32)
    best = np.empty((rows.n_rows, top), np.float32)
    found = None
    if labels is not None:
        found = Probabilities(np.empty(best.shape, np.float32), np.empty(rows.n_rows, np.float32))
    for start, stop, scores in model.score_slices(rows):
        part = slice(start, stop)
        classes[part], best[part] = top_classes(scores, top)
        if found is not None and labels is not None:
            softmax_parts(scores, classes[part], labels[part], found.named[part], found.label_log[part])
    return Ranking(classes, best, np.full(rows.n_rows, model.operations, np.int32), None, found)


def is_probabilistic(model: Model) -> bool:
    """Whether a model of any kind gives probabilities."""
    return bool(getattr(model, PROBABILISTIC, False))


def is_flat(model: Model) -> TypeGuard[FlatModel]:
    """Whether a model scores every class."""
    return hasattr(model, "score_slices")


def is_tree(model: Model) -> TypeGuard[TreeModel]:
    """Whether a model is walked or searched down, by a beam."""
    return hasattr(model, "beam")


def read_probabilistic(header: dict[str, Any]) -> bool:
    """What model.json says; older ones say nothing, and mean no. Raises ModelFormat."""
    value = header.get(PROBABILISTIC, False)
    if not isinstance(value, bool):
        raise ModelFormat(f"{PROBABILISTIC} = {value!r}: expected true or false")
    return value


def read_bias(header: dict[str, Any], tensors: dict[str, Array]) -> Array | None:
    """(n_classes,), or None for a model without. Raises ModelFormat when model.json says otherwise."""
    bias = tensors.get("bias")
    if bool(header.get("bias")) != (bias is not None):
        raise ModelFormat("the header and the tensors disagree on whether the model has a bias")
    return bias
