"""How right predictions are, where labels are known: what is held against what, and a table."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from pipeline.dataset import SPLITS, Dataset, Note
from pipeline.ingest.class_table import Classes, class_of_rows, find_integers, is_integer, notes_of_integers
from pipeline.ingest.labels import read_labels
from pipeline.ingest.source import Source
from pipeline.ingest.taxonomy_file import read_taxonomy
from pipeline.ingest.taxonomy_tree import build_taxonomy
from pipeline.outputs import text_table
from pipeline.report.numbers import percent, plain
from pipeline.stages.predict import label_sets, metrics_of
from tasks.classes import ClassTable
from tasks.errors import InputError
from tasks.io import Block, read_split
from tasks.models.evaluate import Scores, evaluate_rows
from tasks.models.folder import SavedModel
from tasks.models.predictions import Predictions, read_part
from tasks.rows.base import Array
from tasks.taxonomy import Taxonomy

ALL_ROWS = "all rows"
NONE = -1  # the class of a row without a label
NOT_USED = "LabelsNotUsed"

Tree = dict[str, Array]


# ---- which class of the model a label is -------------------------------------------------------------------------


def classes_of_model(saved: SavedModel) -> Classes:
    """The class table of a model as labels are matched with it."""
    return known_classes(saved.classes, f"the model {saved.folder}")


def known_classes(table: ClassTable, name: str) -> Classes:
    """A class table as labels are matched with it; `name` says whose it is."""
    return Classes(table, _has_ids(table), name)


def labels_of_rows(labels: str | None, source: Source, classes: Classes) -> tuple[Array | None, list[Note]]:
    """Class (n_rows,) int32 of each row of files, or None; and what there is to say about it.

    Labels that were given must be classes of the model (LabelOutOfRange). Those that the rows' files bring count when
    they are: such files often hold some number for labels that nobody knows.
    """
    if labels is not None:
        given = read_labels(labels, source.n_rows, source.name)
        return class_of_rows(given, classes), notes_of_integers([given], classes)
    own = source.labels
    if own is None:
        return None, []
    if np.unique(own.values).size < 2:
        return None, [Note(NOT_USED, f"every label in {own.source} is {own.shown(0)}: taken for no labels")]
    try:
        found = class_of_rows(own, classes)
    except InputError as error:
        return None, [Note(NOT_USED, f"the labels in {own.source} were not used: {error.what} [{error.where}]")]
    return found, [Note("LabelsFound", f"labels are those in {own.source}"), *notes_of_integers([own], classes)]


def class_map(given: ClassTable, known: ClassTable) -> Array | None:
    """The model's class (n_given,) int32 of each class of a dataset, -1 for none; None when the tables are equal.

    Classes that are numbers without names are matched as integer labels are (`find_integers`). Others by id where both
    tables have ids, otherwise by name where only one class bears it.
    """
    if given == known:
        return None
    if given.names == given.ids and all(map(is_integer, given.ids)):
        return find_integers(np.array([int(key) for key in given.ids], np.int64), known_classes(known, "the model"))
    by_id = _has_ids(given) and _has_ids(known)
    words, wanted = (known.ids, given.ids) if by_id else (known.names, given.names)
    places: dict[str, int] = {}
    for c, word in enumerate(words):
        places[word] = NONE if word in places else c
    shared = {word for word in wanted if wanted.count(word) > 1} if len(set(wanted)) < len(wanted) else set()
    return np.array([NONE if word in shared else places.get(word, NONE) for word in wanted], np.int32)


def _has_ids(table: ClassTable) -> bool:
    return table.ids != tuple(str(c) for c in range(len(table)))


# ---- hierarchical error ------------------------------------------------------------------------------------------


def tree_of_file(path: str | None, saved: SavedModel) -> Tree | None:
    """The taxonomy of a file over the model's classes; without one that of a hierarchical model, or None."""
    if path is not None:
        return _tree(build_taxonomy(read_taxonomy(path), classes_of_model(saved)))
    tensors = saved.model.tensors()
    if not {"parent", "leaf_of_class"} <= tensors.keys():
        return None
    tree = {name: np.asarray(tensors[name]) for name in ("parent", "leaf_of_class")}
    above = tree["parent"][tree["leaf_of_class"]]
    return tree if np.any(above > 0) else None  # with two levels every error has the same height


def tree_of_dataset(dataset: Dataset, saved: SavedModel, mapped: Array | None) -> Tree | None:
    """The taxonomy of a dataset over the model's classes; None when it has none, or lacks some of them."""
    taxonomy = dataset.taxonomy
    if taxonomy is None or mapped is None:
        return None if taxonomy is None else _tree(taxonomy)
    n_classes = len(saved.classes)
    if not np.array_equal(np.sort(mapped), np.arange(n_classes)):
        return None
    leaves = np.empty(n_classes, np.int32)
    leaves[mapped] = taxonomy.leaf_of_class
    return {"parent": taxonomy.parent, "leaf_of_class": leaves}


def _tree(taxonomy: Taxonomy) -> Tree:
    return {"parent": taxonomy.parent, "leaf_of_class": taxonomy.leaf_of_class}


# ---- sums and table ----------------------------------------------------------------------------------------------


class Accuracy:
    """Sums over predictions, one for each part of the data."""

    def __init__(self, saved: SavedModel, tree: Tree | None) -> None:
        self.tree, self.n_classes = tree, len(saved.classes)
        self.sets = label_sets(saved.folder)
        self.scores: dict[str, Scores] = {}

    def add(self, name: str, found: Predictions) -> None:
        scores = evaluate_rows(found, self.n_classes, self.tree, self.sets)
        if scores.rows:
            self.scores[name] = self.scores[name] + scores if name in self.scores else scores

    def add_blocks(self, dataset: Dataset, blocks: Sequence[Block], parts: Sequence[Path], split: str | None) -> None:
        """Predictions of the blocks of a dataset: of one part of it, or of all rows, each counted with its part."""
        for block, part in zip(blocks, parts, strict=True):
            found = read_part(part)
            if split is not None:
                self.add(split, found)
                continue
            owner = read_split(dataset.path, block.start, block.stop)
            for number, name in enumerate(SPLITS):
                self.add(name, found.where(owner == number))

    def metrics(self) -> dict[str, dict[str, float]]:
        """Numbers of each part under the names that metrics.json of a run has."""
        found = {}
        for name, scores in self.scores.items():
            width = int(scores.hits.size)
            top = {f"top{width}": int(scores.hits[-1]) / scores.rows} if width > 1 else {}
            found[name] = {**metrics_of(scores, self.tree is not None), **top}
            found[name]["rows"] = found[name].pop("test_rows")
        return found

    def table(self) -> str:
        """One line a part of the data: rows, accuracy, best of the classes named, mean over classes, hierarchical.

        Then what the probabilities are worth, where the model gives some.
        """
        lines = [["", "rows", "accuracy"]]
        for name, numbers in self.metrics().items():
            width = int(self.scores[name].hits.size)
            line, heading = [name, f"{numbers['rows']:,}", percent(numbers["top1"])], ["", "rows", "accuracy"]
            if width > 1:
                heading.append(f"top-{width}")
                line.append(percent(numbers[f"top{width}"]))
            heading.append("per class")
            line.append(percent(numbers["mean_per_class_top1"]))
            if self.tree is not None:
                heading.append("hier. error")
                line.append(plain(numbers["hier_err"]))
            if "log_loss" in numbers:
                heading += ["log-loss", "calibration error"]
                line += [f"{numbers['log_loss']:.4f}", f"{numbers['calibration_error']:.4f}"]
            lines[0] = heading
            lines.append(line)
        return text_table(lines)
