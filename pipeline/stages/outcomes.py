"""What the predictions of all models say side by side: the classes, the pairs of siblings, differences row by row."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence

import numpy as np

from pipeline.config import RunConfig, is_svm
from pipeline.dataset import SPLITS, Dataset
from pipeline.report.advice import Pair, paired_error
from pipeline.report.class_facts import ClassFacts
from pipeline.stage import Work
from pipeline.stages.predict import PREDICTIONS, label_sets, predict_step
from pipeline.stages.train import MODEL, train_step
from tasks import io
from tasks.models.outcomes import NO_PARENT, Outcomes, Predicted, only_one, outcomes_of
from tasks.rows.base import Array
from tasks.taxonomy import ROOT, Taxonomy

ROW_BYTES = 256  # of a test row in memory while labels and classes of one model are read


def outcomes_by_model(config: RunConfig, work: Work, taxonomy: Taxonomy | None, name: str) -> dict[str, Outcomes]:
    """Of every model that was tested, in the config's order.

    taxonomy  whose siblings are counted; name  of the tasks. Raises PredictionsDamaged.
    """
    tested = [one for one in config.train if predict_step(one.name) in work.inputs]
    items = []
    for place, one in enumerate(tested):
        done, folder = work.inputs[predict_step(one.name)], work.folders[predict_step(one.name)]
        learnt = None
        if is_svm(one):  # it may have learnt a sample of the classes
            sets = label_sets(str(work.folders[train_step(one.name)] / MODEL)) or {}
            learnt = sets.get("learnt")
        items.append(Predicted(place, str(folder / PREDICTIONS), int(done.results["rows"]), learnt))
    if not items:
        return {}
    tree = {"parent_of_class": grouping_parent(taxonomy, work.dataset.n_classes)}
    found = work.pool.map(outcomes_of, items, tree, config.report.worst_classes, name=name)
    return {one.name: outcome for one, outcome in zip(tested, found, strict=True)}


def grouping_parent(taxonomy: Taxonomy | None, n_classes: int) -> Array:
    """(n_classes,) int32: the node above each class; NO_PARENT without a taxonomy, and below the root, which groups
    nothing."""
    if taxonomy is None:
        return np.full(n_classes, NO_PARENT, np.int32)
    parent = taxonomy.parent[taxonomy.leaf_of_class]
    return np.where(parent == ROOT, NO_PARENT, parent).astype(np.int32)


def paired_errors(outcomes: Mapping[str, Outcomes], comparable: Sequence[str]) -> dict[Pair, float]:
    """Standard errors of the differences in accuracy of all pairs of some models, which rank the same rows."""
    found = {}
    for first, second in itertools.combinations([name for name in comparable if name in outcomes], 2):
        one, other = outcomes[first], outcomes[second]
        if one.n_rows == other.n_rows:
            found[(first, second)] = paired_error(*only_one(one, other), one.n_rows)
    return found


def rows_by_class(dataset: Dataset) -> Array:
    """(3, n_classes) int64: rows of each part, of every class; raises MissingChunk and DamagedChunk."""
    counts = np.zeros((len(SPLITS), dataset.n_classes), np.int64)
    for block in dataset.blocks():
        labels = io.read_labels(dataset.path, block.start, block.stop)
        split = io.read_split(dataset.path, block.start, block.stop)
        for part in range(len(SPLITS)):
            counts[part] += np.bincount(labels[split == part], minlength=dataset.n_classes)
    return counts


def class_facts(dataset: Dataset, outcomes: Mapping[str, Outcomes], taxonomy: Taxonomy | None) -> ClassFacts:
    """Of the dataset's classes and the models that were tested; taxonomy: what names the parents of classes."""
    counts = rows_by_class(dataset)
    parent = grouping_parent(taxonomy, dataset.n_classes)
    names = [] if taxonomy is None else ["" if node == NO_PARENT else taxonomy.names[node] for node in parent]
    return ClassFacts(
        counts[SPLITS.index("train")],
        counts[SPLITS.index("test")],
        names,
        {name: one.class_hits for name, one in outcomes.items()},
        {name: one.class_rows for name, one in outcomes.items()},
        {name: one.siblings for name, one in outcomes.items()},
    )
