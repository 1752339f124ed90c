"""One classifier for every pair of classes: Max Wins (Friedman 1996), and DAGSVM (Platt et al. 2000)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from tasks.later import numba
from tasks.models.base import Ranking
from tasks.models.errors import ModelFormat
from tasks.models.slices import slices
from tasks.models.topk import NO_CLASS, top_classes
from tasks.rows import Rows
from tasks.rows.base import Array
from tasks.svm.bank import Bank, OfBank, Session, bank_of, load_bank
from tasks.svm.bank_checks import named
from tasks.svm.classifier import Classifier
from tasks.svm.kernels import Kernel

MAX_WINS, DAG = "ovo", "dag-svm"  # kinds
BANK, FACTS = "classifiers", "facts"  # fields of model.json
PAIRS_AT_ONCE = 1024  # margins of a row that are held at a time
DEFINITIONS = {
    MAX_WINS: "the classifier of a pair of classes i < j, in lexicographic order, votes for i where f >= 0, else for j;"
    " score = votes, ties to the lower class",
    DAG: "a list of all classes, ascending: the classifier of its first and its last, f >= 0 for the first, drops the"
    " loser, until one is left; score = the round in which a class was dropped, the highest for the one left",
}


@dataclass(frozen=True, eq=False)
class PairModel(OfBank):
    """A classifier for each pair of L classes.

    classes  (L,) int32, ascending: those that are told apart
    bank     L (L - 1) / 2 classifiers, of (0, 1), (0, 2), ..., (1, 2), ...: f >= 0 is the first, lower class
    kind     MAX_WINS or DAG
    """

    classes: Array
    bank: Bank
    n_classes: int
    kind: str
    facts: Mapping[str, Any]

    @property
    def classifiers_per_row(self) -> int:
        """Classifiers that a row is asked for."""
        return self.bank.n_classifiers if self.kind == MAX_WINS else self.classes.size - 1

    def rank(self, rows: Rows, top: int) -> Ranking:
        """All classes, by votes or by how long they stayed in the list; the lower class first among equals.

        Raises ColumnMismatch; NegativeFeature where the kernel takes no values below 0.
        """
        self.bank.check(rows, self.kind)
        classes = np.full((rows.n_rows, top), NO_CLASS, np.int32)
        scores = np.full((rows.n_rows, top), np.nan, np.float32)
        evaluations = np.zeros(rows.n_rows, np.int32)
        count, n = (votes if self.kind == MAX_WINS else rounds), min(top, self.classes.size)
        for start, stop, part in slices(rows, self.bank.cells(rows) + self.classes.size + PAIRS_AT_ONCE):
            session = self.bank.session(part)
            best, scores[start:stop, :n] = top_classes(count(session, part.n_rows, self.classes.size), n)
            classes[start:stop, :n] = self.classes[best]
            evaluations[start:stop] = session.evaluations()
        return Ranking(classes, scores, evaluations)

    def header(self) -> dict[str, Any]:
        """Plain values for model.json."""
        definition = DEFINITIONS[self.kind]
        return {"kind": self.kind, "ranking": definition, BANK: self.bank.header(), FACTS: dict(self.facts)}

    def tensors(self) -> dict[str, Array]:
        """Arrays for weights.safetensors."""
        return {"pair_classes": self.classes, **self.bank.tensors()}

    @classmethod
    def load(cls, header: dict[str, Any], tensors: dict[str, Array]) -> Self:
        """Raises ModelFormat when header and tensors do not fit together."""
        bank = load_bank(header[BANK], tensors, int(header["n_features"]))
        classes = named(tensors, "pair_classes", np.int32, None)
        return cls(classes, bank, int(header["n_classes"]), str(header["kind"]), dict(header[FACTS])).checked()

    @classmethod
    def build(
        cls,
        kind: str,
        classes: Array,
        classifiers: Iterable[Classifier],
        n_features: int,
        n_classes: int,
        facts: Mapping[str, Any],
        kernel: Kernel | None = None,
        rows_of: Callable[[Array], Rows] | None = None,
    ) -> Self:
        """Of the classifiers of all pairs, in lexicographic order; kernel and rows_of as in `bank_of`."""
        bank = bank_of(classifiers, n_features, kernel, rows_of)
        return cls(np.asarray(classes, np.int32), bank, n_classes, kind, facts).checked()

    def checked(self) -> Self:
        """Itself. Raises ModelFormat when its parts do not fit together."""
        n = self.classes.size
        known = n and self.classes[0] >= 0 and self.classes[-1] < self.n_classes and (np.diff(self.classes) > 0).all()
        if not known or self.kind not in DEFINITIONS:
            raise ModelFormat(f"a model of pairs needs ascending classes between 0 and {self.n_classes - 1:,}")
        if self.bank.n_classifiers != n * (n - 1) // 2:
            raise ModelFormat(f"{n:,} classes have {n * (n - 1) // 2:,} pairs, not {self.bank.n_classifiers:,}")
        return self


def pair_number(first: Array, second: Array, n: int) -> Array:
    """The classifier of a pair of places first < second among n classes: its place in lexicographic order."""
    return np.asarray(first * (2 * n - first - 1) // 2 + (second - first - 1))


def votes(session: Session, n_rows: int, n: int) -> Array:
    """(n_rows, n) float32: how many of the n - 1 classifiers of a class vote for it."""
    counts, rows, total = np.zeros((n_rows, n), np.float32), np.arange(n_rows), n * (n - 1) // 2
    session.prepare(0, total)
    lower, higher = np.triu_indices(n, 1)
    for start in range(0, total, PAIRS_AT_ONCE):
        stop = min(start + PAIRS_AT_ONCE, total)
        count_votes(session.block(rows, start, stop), lower[start:stop], higher[start:stop], counts)
    return counts


@numba.njit(cache=True, nogil=True)
def count_votes(margins: Array, lower: Array, higher: Array, counts: Array) -> None:
    """counts[i, lower[p] where margins[i, p] >= 0, else higher[p]] += 1.

    margins (n_rows, m) float32; lower, higher (m,) int64; counts (n_rows, n) float32
    """
    for i in range(margins.shape[0]):
        for p in range(margins.shape[1]):
            counts[i, lower[p] if margins[i, p] >= 0 else higher[p]] += 1


def rounds(session: Session, n_rows: int, n: int) -> Array:
    """(n_rows, n) float32: the round 1 .. n - 1 in which a class left the list, n of the one that never did."""
    left, rows = np.full((n_rows, n), n, np.float32), np.arange(n_rows)
    low, high = np.zeros(n_rows, np.int64), np.full(n_rows, n - 1, np.int64)
    session.prepare(0, n * (n - 1) // 2)
    for number in range(1, n):
        stays = session.margins(rows, pair_number(low, high, n)) >= 0  # the first of the list
        left[rows, np.where(stays, high, low)] = number
        low, high = np.where(stays, low, low + 1), np.where(stays, high - 1, high)
    return left


def baseline_evaluations(n_classes: int) -> dict[str, float]:
    """Classifiers that a row is asked for, relative to one-vs-all with its one classifier a class (Gao & Koller, 5)."""
    pairs = n_classes * (n_classes - 1) / 2
    return {"one_vs_all": 1.0, "one_vs_one": pairs / n_classes, "dagsvm": (n_classes - 1) / n_classes}
