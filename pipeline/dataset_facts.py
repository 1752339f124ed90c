"""What a dataset is like: sizes, values, classes, taxonomy, where it comes from. Its rows are read once, by block."""

from __future__ import annotations

from typing import Any

import numpy as np

from pipeline.dataset import SPLITS, Dataset
from pipeline.spread import Spread, WholeSpread
from tasks import io
from tasks.classes import ClassTable
from tasks.places import at, sizes_below
from tasks.rows import Csr, Rows
from tasks.rows.base import Array
from tasks.rows.unscored import UnscoredRows
from tasks.taxonomy import Taxonomy

FEW_ROWS = 5  # a class with fewer training rows is one of the tail
SLICE_BYTES = 2**26  # of rows that are looked at at once, as numbers
TOP_SHARE = 0.1  # of the classes, the largest ones


def dataset_facts(dataset: Dataset) -> dict[str, Any]:
    """Everything that `inspect DATASET` shows, as plain values; raises MissingChunk and DamagedChunk."""
    attrs = io.read_attrs(dataset.path)
    blocks, taxonomy = dataset.blocks(), dataset.taxonomy
    rows, counts = _pass(dataset)
    stored = io.read_attrs(f"{dataset.path}/digests")
    return {
        "dataset": dataset.path,
        "format": attrs["format"],
        "version": attrs["version"],
        "n_rows": dataset.n_rows,
        "n_features": dataset.n_features,
        "n_classes": dataset.n_classes,
        "split_counts": dict(dataset.split_counts),
        "body": dataset.body,
        "dtype": dataset.dtype,
        "encoding": dataset.encoding,
        "blocks": len(blocks),
        "block_rows": dataset.block_rows,
        "disk_bytes": disk_bytes(dataset.path),
        "rows_disk_bytes": disk_bytes(dataset.rows_store),
        **rows,
        "classes": {name: class_facts(counts[part], dataset.classes) for part, name in enumerate(SPLITS)},
        "taxonomy": None if taxonomy is None else taxonomy_facts(taxonomy),
        "made_from": attrs.get("made_from", {}),
        "notes": [{"level": note.level, "code": note.code, "text": note.text} for note in dataset.notes],
        "digests": {"content": dataset.digest, "classes": stored["classes"], "taxonomy": stored["taxonomy"]},
    }


def disk_bytes(path: str) -> int:
    """Bytes of all files below a path."""
    return sum(sizes_below(at(path)).values())


def _pass(dataset: Dataset) -> tuple[dict[str, Any], Array]:
    """What the rows hold, and how many rows of each class each part has, (3, n_classes)."""
    values, sizes = ValueFacts(), Spread()
    counts = np.zeros((len(SPLITS), dataset.n_classes), np.int64)
    for block in dataset.blocks():
        labels = io.read_labels(dataset.path, block.start, block.stop)
        split = io.read_split(dataset.path, block.start, block.stop)
        for part in range(len(SPLITS)):
            counts[part] += np.bincount(labels[split == part], minlength=dataset.n_classes)
        rows = io.load_rows(block)
        if isinstance(rows, UnscoredRows):
            sizes.add(np.diff(rows.offsets))
        else:
            values.add(rows)
    return ({"item_bytes": sizes.facts()} if sizes.count else values.facts(dataset)), counts


class ValueFacts:
    """Of rows that are numbers: zeros, norms, range, and what is not finite. Adds up block by block."""

    def __init__(self) -> None:
        self.nonzeros, self.norms = WholeSpread(), Spread()
        self.least, self.most = np.inf, -np.inf
        self.zero_rows, self.not_finite, self.n_nonzero = 0, 0, 0

    def add(self, rows: Rows) -> None:
        if isinstance(rows, Csr):
            stored = rows.data
            owner = np.repeat(np.arange(rows.n_rows), np.diff(rows.indptr))
            nonzeros = np.bincount(owner[stored != 0], minlength=rows.n_rows)
            if stored.size < rows.n_rows * rows.n_features:
                self._range(np.zeros(1))
        else:
            step = max(1, SLICE_BYTES // (4 * rows.n_features))
            for start in range(step, rows.n_rows, step):  # codes take far less than what they stand for
                self.add(rows.part(start, min(start + step, rows.n_rows)))
            rows = rows.part(0, step) if rows.n_rows > step else rows
            stored = rows.decoded().to_array()
            nonzeros = np.count_nonzero(stored, axis=1)
        finite = np.isfinite(stored)
        self.not_finite += stored.size - int(np.count_nonzero(finite))
        self._range(stored if finite.all() else stored[finite])
        norms = np.sqrt(rows.squared_norms())
        self.nonzeros.add(nonzeros)
        self.norms.add(norms[np.isfinite(norms)])
        self.zero_rows += int(np.count_nonzero(nonzeros == 0))
        self.n_nonzero += int(nonzeros.sum())

    def _range(self, values: Array) -> None:
        if values.size:
            self.least, self.most = min(self.least, float(values.min())), max(self.most, float(values.max()))

    def facts(self, dataset: Dataset) -> dict[str, Any]:
        cells = dataset.n_rows * dataset.n_features
        return {
            "values": {"least": self.least, "most": self.most, "not_finite": self.not_finite} if cells else None,
            "nonzeros": self.nonzeros.facts(),
            "density": self.n_nonzero / max(1, cells),
            "norms": self.norms.facts(),
            "zero_rows": self.zero_rows,
        }


def class_facts(counts: Array, classes: ClassTable) -> dict[str, Any]:
    """How the rows of a part are spread over the classes. counts (n_classes,) int64.

    few        classes with some rows, but fewer than FEW_ROWS; empty: without any
    top_share  of the rows, of the largest tenth of the classes
    gini       0 where all classes have as many rows, nearly 1 where one has all
    """
    total, n_classes = int(counts.sum()), counts.size
    ordered = np.sort(counts)
    top = ordered[n_classes - max(1, round(TOP_SHARE * n_classes)) :]
    ranks = 2 * np.arange(1, n_classes + 1) - n_classes - 1
    return {
        "rows": total,
        "largest": int(ordered[-1]),
        "largest_class": classes.names[int(np.argmax(counts))],
        "median": float(np.median(ordered)),
        "smallest": int(ordered[0]),
        "smallest_class": classes.names[int(np.argmin(counts))],
        "few": int(np.count_nonzero((counts > 0) & (counts < FEW_ROWS))),
        "empty": int(np.count_nonzero(counts == 0)),
        "top_share": float(top.sum() / total) if total else 0.0,
        "gini": float(ranks @ ordered / (n_classes * total)) if total else 0.0,
    }


def taxonomy_facts(taxonomy: Taxonomy) -> dict[str, Any]:
    """Its size and shape; depths are of the classes' leaves, the root's is 0."""
    depths = taxonomy.level[taxonomy.leaf_of_class]
    children = np.bincount(taxonomy.parent[1:], minlength=taxonomy.n_nodes)
    return {
        "nodes": taxonomy.n_nodes,
        "leaves": int(np.count_nonzero(children == 0)),
        "levels": taxonomy.n_levels,
        "depth": {"least": int(depths.min()), "mean": float(depths.mean()), "most": int(depths.max())},
        "widest": int(children.max()),
        "widest_node": taxonomy.names[int(np.argmax(children))],
        "single_child": int(np.count_nonzero(children == 1)),
    }
