"""Two models on the same test rows: which rows only one of them has right, and whether that may be chance."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from pipeline.comparing.runs import ComparedRun
from tasks.models.errors import PredictionsDamaged
from tasks.models.parquet import read_columns
from tasks.models.predictions import AGAIN, width_of
from tasks.rows.base import Array


@dataclass(frozen=True, eq=False)
class TestedRows:
    """The labelled test rows of one model, in the order of their numbers.

    row (n,) int64; label (n,) int32; right (n,) bool: whether that class was named first
    """

    row: Array
    label: Array
    right: Array


@dataclass(frozen=True, slots=True)
class Paired:
    """Two models on the same rows: rows that both, only the first, only the second, and neither have right."""

    first: str
    second: str
    both: int
    only_first: int
    only_second: int
    neither: int

    @property
    def rows(self) -> int:
        return self.both + self.only_first + self.only_second + self.neither

    @property
    def difference(self) -> float:
        """Accuracy of the first less that of the second."""
        return (self.only_first - self.only_second) / self.rows

    @property
    def p_value(self) -> float:
        """Of McNemar's exact test (1947): how probable so uneven a split is, were either model as likely to be the one
        that is right; two-sided."""
        from scipy.special import bdtr

        n, least = self.only_first + self.only_second, min(self.only_first, self.only_second)
        return min(1.0, 2 * float(bdtr(least, n, 0.5))) if n else 1.0

    def as_json(self) -> dict[str, Any]:
        names = ("first", "second", "both", "only_first", "only_second", "neither")
        told = {name: getattr(self, name) for name in names}
        return {**told, "difference": self.difference, "p_value": self.p_value}


def read_rows(run: ComparedRun, model: str) -> TestedRows:
    """Rows, labels and first classes of the predictions that a run has published. Raises PredictionsDamaged."""
    path = run.predictions(model)
    table = read_columns(path, ["row", "label", "classes"], PredictionsDamaged, AGAIN)
    top = width_of(table.schema)
    if not top:
        raise PredictionsDamaged("it is no predictions file: the columns are others", str(path), AGAIN)
    label = table["label"].combine_chunks().fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int32)
    first = table["classes"].combine_chunks().flatten().to_numpy(zero_copy_only=False).reshape(-1, top)[:, 0]
    row = table["row"].to_numpy()
    order = np.argsort(row, kind="stable")
    order = order[label[order] >= 0]
    return TestedRows(row[order], label[order], (first == label)[order])


def same_rows(one: TestedRows, other: TestedRows, classes: Mapping[str, Array] | None = None) -> bool:
    """Whether these are rows of the same numbers and classes.

    classes  where two datasets number them apart: "one" and "other", the name of each
    """
    if not np.array_equal(one.row, other.row):
        return False
    if classes is None:
        return np.array_equal(one.label, other.label)
    return np.array_equal(classes["one"][one.label], classes["other"][other.label])


def paired(names: tuple[str, str], one: TestedRows, other: TestedRows) -> Paired:
    """Counts of two models whose rows are the same."""
    a, b = one.right, other.right
    counts = [int(np.count_nonzero(mask)) for mask in (a & b, a & ~b, ~a & b, ~a & ~b)]
    return Paired(*names, *counts)
