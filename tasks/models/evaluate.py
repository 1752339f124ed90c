"""Metrics over predictions: counts of one part that add up over parts, and the numbers of metrics.json made of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tasks.metrics.accuracy import Confusion, mean_per_class, per_class_hits, top_hits
from tasks.metrics.calibration import Calibration
from tasks.metrics.cost import speedup
from tasks.metrics.hierarchy import LocalMeasures, hierarchical_errors, hierarchical_to_flat
from tasks.models.base import Ranking
from tasks.models.predictions import Predictions, read_part
from tasks.rows.base import Array
from tasks.taxonomy import Taxonomy

HIERARCHICAL = ("hier_err", "hier_per_error")  # of the metrics: mean something only where there is a taxonomy
CLASSIFIERS, LEAF_SHARE = "classifiers_per_row", "ovr_leaf_share"  # metrics of hierarchies
MAX_PAIRS = 1 << 20  # confused pairs kept in a sum; the rarest are forgotten first


@dataclass(frozen=True, eq=False)
class Scores:
    """Sums over the labelled rows of some parts.

    rows, evaluations     labelled rows; classifiers evaluated for them
    hits                  (top,) int64: rows whose label is among their first 1, 2, ..., top classes
    class_hits, class_rows  (n_classes,) int64 per true class
    height                sum of the heights of the lowest common ancestor of true and predicted class
    confusion             wrong (true, predicted) pairs that occur, at most MAX_PAIRS
    local                 loss and ambiguity per depth of a label tree; None for other models
    calibration           log-loss and calibration of probabilities; None for models without
    asked                 classifiers asked, and rows that came to a one-vs-all leaf: of hierarchies; None for others
    """

    rows: int
    evaluations: int
    hits: Array
    class_hits: Array
    class_rows: Array
    height: int
    confusion: Confusion
    local: LocalMeasures | None = None
    calibration: Calibration | None = None
    asked: tuple[int, int] | None = None

    def __add__(self, other: Scores) -> Scores:
        return Scores(
            self.rows + other.rows,
            self.evaluations + other.evaluations,
            self.hits + other.hits,
            self.class_hits + other.class_hits,
            self.class_rows + other.class_rows,
            self.height + other.height,
            _bounded(self.confusion + other.confusion),
            _local_sum(self.local, other.local),
            _calibration_sum(self.calibration, other.calibration),
            _asked_sum(self.asked, other.asked),
        )

    @property
    def n_classes(self) -> int:
        return int(self.class_rows.size)

    def metrics(self) -> dict[str, float]:
        """The numbers of metrics.json that predictions alone give; empty when no row is labelled.

        topK is given when predictions name at least K classes, or all there are. `speedup` is one-vs-rest's cost over
        the model's own, left out for a model that evaluates nothing; `hier_per_error` is the mean height given an
        error (SPECS 1.8).
        """
        if not self.rows:
            return {}
        top1 = int(self.hits[0]) / self.rows
        hier_err = self.height / self.rows
        test_ops = self.evaluations / self.rows
        numbers = {"top1": top1}
        for k in (5, 10):
            if min(k, self.n_classes) <= self.hits.size:
                numbers[f"top{k}"] = int(self.hits[min(k, self.n_classes) - 1]) / self.rows
        numbers |= {
            "mean_per_class_top1": mean_per_class(self.class_hits, self.class_rows),
            "hier_err": hier_err,
            "hier_per_error": hierarchical_to_flat(hier_err, 1 - top1),
            "test_ops_per_row": test_ops,
            "test_rows": self.rows,
        }
        if test_ops:
            numbers["speedup"] = speedup(self.n_classes, test_ops)
        if self.calibration is not None:
            numbers |= self.calibration.metrics()
        if self.asked is not None:
            numbers |= {CLASSIFIERS: self.asked[0] / self.rows, LEAF_SHARE: self.asked[1] / self.rows}
        return numbers | self._per_depth()

    def _per_depth(self) -> dict[str, float]:
        if self.local is None:
            return {}
        losses = {f"loss_depth_{i}": float(x) for i, x in enumerate(self.local.loss())}
        return losses | {f"ambiguity_depth_{i}": float(x) for i, x in enumerate(self.local.mean_ambiguity())}

    def worst_classes(self, n: int) -> list[tuple[int, int, int]]:
        """(class, hits, rows) of the classes recognised worst; ties to more rows, then to the lower class."""
        present = np.flatnonzero(self.class_rows)
        share = self.class_hits[present] / self.class_rows[present]
        order = present[np.lexsort((present, -self.class_rows[present], share))[:n]]
        return [(int(c), int(self.class_hits[c]), int(self.class_rows[c])) for c in order]

    def detail(self, n: int = 20) -> dict[str, Any]:
        """Plain JSON values for the report: worst classes and most confused pairs, by class number.

        top_k  share of the rows whose label is among the first 1, 2, ... classes; empty when no row is labelled
        """
        return {
            "top_k": [int(hits) / self.rows for hits in self.hits] if self.rows else [],
            "worst_classes": [list(row) for row in self.worst_classes(n)],
            "confused_pairs": [list(row) for row in self.confusion.top(n)],
        }


def evaluate_part(
    part: str | Path,
    n_classes: int,
    tree: Mapping[str, Array] | None = None,
    label_sets: Mapping[str, Array] | None = None,
) -> Scores:
    """The sums of one predictions part; rows without a label take no part.

    tree        {"parent", "leaf_of_class"} of the taxonomy that measures hierarchical error (it may be another than the
                one a model was trained with); None: flat, where every error has height 1
    label_sets  {"offsets", "classes"} of a label tree's nodes, for loss and ambiguity per depth; of a hierarchy's
                {"one_vs_all"}: whether it is a one-vs-all leaf; and {"learnt"}: classes, rows of others take no part
                either
    raises      PredictionsDamaged
    """
    return evaluate_rows(read_part(part), n_classes, tree, label_sets)


def evaluate_rows(
    found: Predictions,
    n_classes: int,
    tree: Mapping[str, Array] | None = None,
    label_sets: Mapping[str, Array] | None = None,
) -> Scores:
    """The sums of predictions in memory; arguments as in `evaluate_part`."""
    known, sets = found.label >= 0, label_sets or {}
    if "learnt" in sets:
        known &= np.isin(found.label, sets["learnt"])
    labels, classes = found.label[known], found.ranking.classes[known]
    predicted = classes[:, 0]
    class_hits, class_rows = per_class_hits(predicted, labels, n_classes)
    heights = hierarchical_errors(taxonomy_of(n_classes, tree), predicted, labels)
    local = None
    if "offsets" in sets and found.ranking.path is not None:
        local = LocalMeasures.of(found.ranking.path[known], labels, sets["offsets"], sets["classes"])
    calibration = None
    if found.ranking.probabilities is not None:
        probable = found.ranking.probabilities
        calibration = Calibration.of(probable.named[known, 0], predicted == labels, probable.label_log[known])
    return Scores(
        int(labels.size),
        int(found.ranking.evaluations[known].sum(dtype=np.int64)),
        np.array([top_hits(classes, labels, k) for k in range(1, classes.shape[1] + 1)], np.int64),
        class_hits.astype(np.int64),
        class_rows.astype(np.int64),
        int(heights.sum(dtype=np.int64)),
        _bounded(Confusion.of(predicted, labels, n_classes)),
        local,
        calibration,
        _asked(found.ranking, known, sets["one_vs_all"]) if "one_vs_all" in sets else None,
    )


def _asked(ranking: Ranking, known: Array, one_vs_all: Array) -> tuple[int, int] | None:
    """Classifiers that some rows (n,) bool of a hierarchy were asked; how many of them end in a one-vs-all leaf."""
    if ranking.path is None:
        return None
    asked = ranking.evaluations if ranking.classifiers is None else ranking.classifiers
    last = np.maximum((ranking.path >= 0).sum(axis=1) - 1, 0)
    leaf = ranking.path[np.arange(len(last)), last]
    return int(asked[known].sum(dtype=np.int64)), int(one_vs_all[leaf[known]].sum())


def _asked_sum(first: tuple[int, int] | None, second: tuple[int, int] | None) -> tuple[int, int] | None:
    if first is None or second is None:
        return first or second
    return first[0] + second[0], first[1] + second[1]


def taxonomy_of(n_classes: int, tree: Mapping[str, Array] | None) -> Taxonomy:
    """A nameless taxonomy from plain arrays, as they travel to a task; flat when there is none."""
    if tree is None:
        return Taxonomy.flat(n_classes)
    parent = np.asarray(tree["parent"], np.int32)
    return Taxonomy(parent, ("",) * parent.size, np.asarray(tree["leaf_of_class"], np.int32))


def _bounded(confusion: Confusion) -> Confusion:
    """At most MAX_PAIRS pairs, the most frequent ones; ties to the lower pair."""
    if confusion.keys.size <= MAX_PAIRS:
        return confusion
    kept = np.sort(np.lexsort((confusion.keys, -confusion.counts))[:MAX_PAIRS])
    return Confusion(confusion.n_classes, confusion.keys[kept], confusion.counts[kept])


def _calibration_sum(first: Calibration | None, second: Calibration | None) -> Calibration | None:
    return first or second if first is None or second is None else first + second


def _local_sum(first: LocalMeasures | None, second: LocalMeasures | None) -> LocalMeasures | None:
    """Sums of unequal depth are padded: a part whose rows all stop early has shorter paths."""
    if first is None or second is None:
        return first or second
    depths = max(first.counts.shape[1], second.counts.shape[1])
    return _deepened(first, depths) + _deepened(second, depths)


def _deepened(local: LocalMeasures, depths: int) -> LocalMeasures:
    missing = ((0, 0), (0, depths - local.counts.shape[1]))
    return LocalMeasures(np.pad(local.counts, missing), np.pad(local.ambiguity, missing))
