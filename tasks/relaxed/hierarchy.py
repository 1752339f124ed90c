"""Hierarchies of binary splits, relaxed ones and their rivals, as flat arrays: a model that ranks by a walk down it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Self

import numpy as np

from tasks.models.base import Ranking
from tasks.models.errors import ModelFormat
from tasks.models.registry import config_word
from tasks.models.slices import slices
from tasks.relaxed.hierarchy_checks import check_hierarchy
from tasks.relaxed.walk import Answers, walk
from tasks.rows.base import Array, Rows
from tasks.svm.bank import Bank, OfBank, load_bank
from tasks.svm.bank_checks import named

NONE = -1  # no child, no classifier
RELAXED, SPECTRAL, MARSZALEK, ONE_VS_ALL = "relaxed-hierarchy", "spectral-tree", "marszalek", "svm-ovr"  # kinds
BANK, FACTS, DOUBT = "classifiers", "facts", "doubt"  # fields of model.json
TENSORS = {
    "negative": np.int32,
    "positive": np.int32,
    "first_classifier": np.int32,
    "offsets": np.int64,
    "classes": np.int32,
    "colors": np.int8,
}
WALK = (
    "from node 0 on, a split asks its classifier: f >= 0 goes to the positive child, else to the negative one; a leaf "
    "of one class names it; any other leaf asks one classifier a class and names them by f, the highest first. Where "
    "|f| < doubt at a split of more than two classes both children are visited. If the leaves of a row differ in their "
    "first class, these classes are named first, by f of their judges: the last classifiers, one for each class of "
    "node 0, in their order"
)


@dataclass(frozen=True, eq=False)
class Hierarchy(OfBank):
    """A directed acyclic graph of nodes, whose ids are such that children come after their parents; the root is 0.

    negative, positive  (n_nodes,) int32: the children of a split, -1 of a leaf
    first_classifier    (n_nodes,) int32: the split's classifier, the first of a one-vs-all leaf, -1 of a leaf of one
                        class; they follow one another in the order of the nodes
    offsets             (n_nodes + 1,) int64 into classes and colors: the label set of each node
    classes             (total,) int32, ascending within a node
    colors              (total,) int8: of a split, the class goes to the negative side (-1), the positive one (+1) or
                        both (0); 0 in leaves
    bank                all classifiers; those of a one-vs-all leaf in the order of its classes. With doubt, then one
                        for each class of the root, one-vs-rest: the judges (see `judge`)
    n_classes           size of the class table; the root's label set may have fewer
    facts               plain values that describe its making
    doubt               rows with |f| below it go both ways at a split of more than two classes; 0: none does
    """

    negative: Array
    positive: Array
    first_classifier: Array
    offsets: Array
    classes: Array
    colors: Array
    bank: Bank
    n_classes: int
    kind: str
    facts: Mapping[str, Any]
    doubt: float = 0.0

    @property
    def n_nodes(self) -> int:
        return int(self.negative.size)

    @cached_property
    def is_split(self) -> Array:
        """(n_nodes,) bool: nodes with children."""
        return np.asarray(self.negative >= 0)

    @cached_property
    def sizes(self) -> Array:
        """(n_nodes,) int64: classes of each node."""
        return np.diff(self.offsets)

    @cached_property
    def classifiers_of_node(self) -> Array:
        """(n_nodes,) int32: 1 of a split, L of a one-vs-all leaf of L classes, 0 of a leaf of one class."""
        return np.where(self.is_split, 1, np.where(self.sizes > 1, self.sizes, 0)).astype(np.int32)

    @cached_property
    def n_node_classifiers(self) -> int:
        """Classifiers of all nodes; judges come after them."""
        return int(self.classifiers_of_node.sum(dtype=np.int64))

    @property
    def n_judges(self) -> int:
        """One for each class of the root, or none."""
        return self.bank.n_classifiers - self.n_node_classifiers

    @cached_property
    def one_vs_all(self) -> Array:
        """(n_nodes,) bool: leaves of several classes."""
        return np.asarray(~self.is_split & (self.sizes > 1))

    @cached_property
    def depth_of(self) -> Array:
        """(n_nodes,) int32: edges of the longest way from the root; 0 at the root."""
        depth = np.zeros(self.n_nodes, np.int32)
        for node in np.flatnonzero(self.is_split):
            for child in (self.negative[node], self.positive[node]):
                depth[child] = max(depth[child], depth[node] + 1)
        return depth

    def label_set(self, node: int) -> Array:
        """Classes of a node, ascending."""
        held: Array = self.classes[self.offsets[node] : self.offsets[node + 1]]
        return held

    def colors_of(self, node: int) -> Array:
        """Colors of the classes of a node, in their order."""
        held: Array = self.colors[self.offsets[node] : self.offsets[node + 1]]
        return held

    def doubting(self, doubt: float) -> Self:
        """The same with another doubt; above 0 it needs judges."""
        return replace(self, doubt=doubt)

    def rank(self, rows: Rows, top: int) -> Ranking:
        """The class of the leaf that a row comes to, or all classes of a one-vs-all leaf.

        Scores are margins f there; of a leaf of one class the least |f| on the way to it, how sure the least sure
        split was (0 where there was none). Of a row in doubt they are margins of judges, and of the others of its leaf
        their distances behind the leaf's first, taken from the last judge's. The path is the way to the first class.
        What comes after the last class named is -1 with NaN.
        Raises ColumnMismatch; NegativeFeature where the kernel takes no values below 0.
        """
        self.bank.check(rows, config_word(self.kind))
        answers = Answers.empty(rows.n_rows, top, int(self.depth_of.max()) + 1)
        named = top * int(np.count_nonzero(~self.is_split)) if self.doubt else 0  # a row may come to every leaf
        for start, stop, part in slices(rows, max(self.bank.cells(rows), int(self.classifiers_of_node.max()), named)):
            walk(self, part, answers.part(start, stop))
        classifiers = answers.classifiers if self.is_kernel else None
        return Ranking(answers.classes, answers.scores, answers.evaluations, answers.path, classifiers=classifiers)

    def header(self) -> dict[str, Any]:
        """Plain values for model.json."""
        shape = {"n_nodes": self.n_nodes, "levels": level_counts(self), DOUBT: self.doubt}
        return {"kind": self.kind, "walk": WALK, "hierarchy": shape, BANK: self.bank.header(), FACTS: dict(self.facts)}

    def tensors(self) -> dict[str, Array]:
        """Arrays for weights.safetensors."""
        held = {name: np.ascontiguousarray(getattr(self, name)) for name in TENSORS}
        return held | self.bank.tensors()

    @classmethod
    def load(cls, header: dict[str, Any], tensors: dict[str, Array]) -> Self:
        """The hierarchy that header and tensors describe. Raises ModelFormat when they do not fit together."""
        bank = load_bank(header[BANK], tensors, int(header["n_features"]))
        arrays = {name: named(tensors, name, dtype, None) for name, dtype in TENSORS.items()}
        model = cls(
            **arrays,
            bank=bank,
            n_classes=int(header["n_classes"]),
            kind=str(header["kind"]),
            facts=dict(header[FACTS]),
            doubt=_doubt_in(header["hierarchy"]),
        )
        check_hierarchy(model)
        return model


def _doubt_in(told: Mapping[str, Any]) -> float:
    """0 where an older version has said nothing. Raises ModelFormat for what is no number."""
    doubt = told.get(DOUBT, 0.0)
    if isinstance(doubt, bool) or not isinstance(doubt, int | float):
        raise ModelFormat(f"doubt is {doubt!r}, and must be a number of 0 or more")
    return float(doubt)


def level_counts(model: Hierarchy) -> list[dict[str, int]]:
    """Per depth: nodes, splits, one-vs-all leaves, and the size of the largest label set."""
    counts = []
    for depth in range(int(model.depth_of.max()) + 1):
        here = model.depth_of == depth
        counts.append(
            {
                "nodes": int(here.sum()),
                "splits": int((here & model.is_split).sum()),
                "one_vs_all": int((here & model.one_vs_all).sum()),
                "max_classes": int(model.sizes[here].max()),
            }
        )
    return counts
