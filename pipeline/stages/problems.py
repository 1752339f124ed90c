"""What each learner trained by one SGD fits: its scores and loss, the model they come to, and how large both are."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from pipeline.config import (
    FlatHash,
    Heshing,
    HieSvm,
    KMeansTree,
    Learner,
    MultiSvm,
    NearestClassMean,
    OneVsRest,
    TaxonomyLearner,
    TraceNorm,
    TreeLearner,
    TreeSvm,
)
from pipeline.dataset import Dataset
from pipeline.stage import Facts
from tasks.class_means import sum_ranges
from tasks.fit.class_ranges import RANGE_BYTES, ClassRange, class_ranges
from tasks.fit.fit import FitResult
from tasks.fit.linear import LinearScorer
from tasks.fit.path_linear import PathScorer
from tasks.fit.scorer import Scorer
from tasks.hashing.heshing import HashedScorer
from tasks.hashing.layout import mirror_bytes
from tasks.io import read_labels
from tasks.losses import crammer_singer, hinge, logistic, multinomial, weights
from tasks.losses.base import Loss
from tasks.models.base import Model
from tasks.models.hashed import HashedModel
from tasks.models.linear import LinearModel
from tasks.rows.base import Array
from tasks.taxonomy import Taxonomy
from tasks.trees.taxonomy_tree import TaxonomyTree

FlatLearner = OneVsRest | MultiSvm | HieSvm | TreeSvm | Heshing | FlatHash

LOSSES: dict[str, Callable[[Array | None], Loss]] = {
    "squared-hinge": lambda weight: hinge.OneVsRestHinge(squared=True, class_weight=weight),
    "hinge": lambda weight: hinge.OneVsRestHinge(squared=False, class_weight=weight),
    "logistic": lambda weight: logistic.OneVsRestLogistic(class_weight=weight),
    "multinomial": lambda weight: multinomial.Multinomial(class_weight=weight),
    "crammer-singer": lambda weight: crammer_singer.CrammerSinger(class_weight=weight),
}


@dataclass(frozen=True)
class Fitted:
    """A learner on rows of a width, with the taxonomy that it follows or takes the ids of leaves from."""

    learner: FlatLearner
    n_features: int
    taxonomy: Taxonomy

    def problem(self, dataset: Dataset) -> tuple[Scorer, Loss]:
        """Scores and loss."""
        learner, width, n_classes = self.learner, self.n_features, self.taxonomy.n_classes
        if isinstance(learner, OneVsRest):
            weight = weights.balanced(class_counts(dataset)) if learner.class_weight == "balanced" else None
            return LinearScorer(width, n_classes, learner.bias), LOSSES[learner.loss](weight)
        if isinstance(learner, MultiSvm):
            return LinearScorer(width, n_classes, learner.bias), crammer_singer.CrammerSinger()
        if isinstance(learner, HieSvm):
            return PathScorer.of(self.taxonomy, width), crammer_singer.CrammerSinger()
        if isinstance(learner, TreeSvm):
            tree = TaxonomyTree.of(self.taxonomy)
            return LinearScorer(width, tree.n_columns, learner.bias), tree.loss()
        return hashed_scorer(learner, self.taxonomy, width), LOSSES[learner.loss](None)

    def model(self, scorer: Scorer, result: FitResult) -> Model:
        """What the fitted parameters predict with."""
        parameters, kind = result.parameters, self.learner.kind
        if isinstance(scorer, HashedScorer):
            return HashedModel(scorer, parameters["table"], kind, gives_probabilities(self.learner))
        if isinstance(scorer, PathScorer):
            return LinearModel(scorer.prototypes(parameters), None, kind)
        if isinstance(self.learner, TreeSvm):
            facts = {"operations": result.operations, "ranking": BELOW}
            return TaxonomyTree.of(self.taxonomy).model(parameters["weights"], parameters.get("bias"), facts)
        return LinearModel(parameters["weights"], parameters.get("bias"), kind, gives_probabilities(self.learner))


SEPARABLE = ("squared-hinge", "hinge", "logistic")  # losses that learn every class by itself


def ranges_of(learner: Learner, n_features: int, n_classes: int) -> list[ClassRange]:
    """The ranges of classes that a learner is trained and kept by; none for one whose model is held whole."""
    if isinstance(learner, NearestClassMean):
        return sum_ranges(n_features, n_classes) if class_ranges(n_features, n_classes)[1:] else []
    if not isinstance(learner, OneVsRest) or learner.loss not in SEPARABLE:
        return []
    ranges = class_ranges(n_features, n_classes)
    return ranges if len(ranges) > 1 else []


def held_bytes(learner: Learner, facts: Facts, model: int) -> int:
    """Of the bytes of a model those that a task holds at once: of one range where there are ranges."""
    ranges = ranges_of(learner, facts.rows[learner.rows].n_features, facts.dataset.n_classes)
    return min(model, RANGE_BYTES) if ranges else model


BELOW = "the leaf walked to, then the children passed over, from the last split up, each with its score there"


def gives_probabilities(learner: Learner) -> bool:
    """Whether a learner's model tells probabilities: its loss is multinomial logistic, or its nodes' are."""
    if isinstance(learner, OneVsRest | Heshing | FlatHash):
        return learner.loss == "multinomial"
    return isinstance(learner, TraceNorm | KMeansTree)


def taxonomy_of(learner: Learner, facts: Facts) -> Taxonomy:
    """The taxonomy that a learner follows: of the file that it names, or the dataset's, or a flat one."""
    named = learner.taxonomy if isinstance(learner, TaxonomyLearner) else None
    return facts.taxonomy(named) or Taxonomy.flat(facts.dataset.n_classes)


def class_counts(dataset: Dataset) -> Array:
    """(n_classes,) int64: training rows of each class."""
    counts = np.zeros(dataset.n_classes, np.int64)
    last = dataset.split_counts["train"]
    for block in dataset.blocks():
        if block.start < last:
            labels = read_labels(dataset.path, block.start, min(block.stop, last))
            counts += np.bincount(labels, minlength=dataset.n_classes)
    return counts


def hashed_scorer(learner: Heshing | FlatHash, taxonomy: Taxonomy, n_features: int) -> HashedScorer:
    """Scores along the taxonomy's paths (Zhao & Xing, section 3), or every class under its leaf's own hash."""
    if isinstance(learner, FlatHash):
        seeds = taxonomy.node_seeds[taxonomy.leaf_of_class]
        return HashedScorer.flat(seeds, learner.n_buckets, n_features)
    if learner.table == "shared":
        return HashedScorer.shared(taxonomy, learner.n_buckets * n_levels(taxonomy), n_features)
    return HashedScorer.hierarchical(taxonomy, learner.n_buckets, n_features)


def n_levels(taxonomy: Taxonomy) -> int:
    """Blocks of the hashed parameter vector: the taxonomy's levels below the root (T - 1)."""
    return max(1, taxonomy.n_levels - 1)


def parameter_bytes(learner: Learner, facts: Facts) -> int:
    """Bytes of the float32 parameters held in training (SPECS 1.12); of a label tree about, as classes may repeat."""
    if isinstance(learner, FlatHash):
        return 4 * learner.n_buckets
    if isinstance(learner, Heshing):
        return 4 * learner.n_buckets * n_levels(taxonomy_of(learner, facts))
    return 4 * (facts.rows[learner.rows].n_features + 1) * _columns(learner, facts)


def kept_bytes(learner: Learner, facts: Facts) -> int:
    """Bytes of the float32 parameters of the model."""
    if isinstance(learner, HieSvm):
        return 4 * facts.rows[learner.rows].n_features * facts.dataset.n_classes
    return parameter_bytes(learner, facts)


def _columns(learner: Learner, facts: Facts) -> int:
    if isinstance(learner, HieSvm):
        return taxonomy_of(learner, facts).n_nodes - 1
    if isinstance(learner, TreeSvm):
        return TaxonomyTree.of(taxonomy_of(learner, facts)).n_columns
    return facts.dataset.n_classes * (2 if isinstance(learner, TreeLearner) else 1)


def plain_weight_bytes(learner: Learner, facts: Facts) -> int:
    """Bytes of the plain weights that hashed steps keep beside the table (`tasks/hashing/mirror.py`), at most."""
    if not isinstance(learner, Heshing | FlatHash):
        return 0
    numbers = parameter_bytes(learner, facts) // 4
    return mirror_bytes(nodes(learner, facts), facts.rows[learner.rows].n_features, numbers)


def nodes(learner: Learner, facts: Facts) -> int:
    """Numbers that scoring one row gives, at most: one per class, or one per taxonomy node."""
    if isinstance(learner, Heshing | HieSvm | TreeSvm):
        return taxonomy_of(learner, facts).n_nodes
    return facts.dataset.n_classes


def path_nodes(learner: Learner, facts: Facts) -> int:
    """Nodes of the longest path down the tree of a model that is walked, root and leaf counted; 0 for the others."""
    if isinstance(learner, TreeSvm):
        return TaxonomyTree.of(taxonomy_of(learner, facts)).height() + 1
    return 0
