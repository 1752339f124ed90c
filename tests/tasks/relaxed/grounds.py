"""Grounds of small data on which hierarchies grow: sorted rows, kernel values, a confusion, classes of the root."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy.sparse import csr_array, save_npz

from tasks.calls import write_array
from tasks.relaxed.ground import ROOT, Ground, NodeTask, node_name
from tasks.relaxed.rules import RelaxedRule
from tasks.svm.class_rows import RowRuns
from tasks.svm.gram import GramStore, write_band
from tasks.svm.kernels import Kernel, mean_distance
from tests.tasks.svm.sorted_stores import class_counts, sorted_store, write_dataset

RELAXED = RelaxedRule(
    rho=0.5,
    balance=10,
    initialisation="bottom-up",
    samples=4,
    finalists=2,
    search_rows=1 << 30,
    split_rows=1 << 30,
    half_steps=12,
    continued=False,
    least_active=0.4,
    leaf_classes=1,
    first_rho=0.0,
    most_lost=1.0,
)


@dataclass(frozen=True)
class Planted:
    """Rows of classes that lie in groups: classes of a group are hard to tell apart."""

    values: np.ndarray
    labels: np.ndarray

    @classmethod
    def of(cls, seed: int, n_classes: int = 8, per_class: int = 6, width: int = 5, groups: int = 3) -> Planted:
        """Values of 0 or more, about half of them 0, so that every kernel takes them."""
        rng = np.random.default_rng(seed)
        labels = np.repeat(np.arange(n_classes), per_class)
        far = 3.0 * rng.random((groups, width)) * (rng.random((groups, width)) < 0.7)
        near = far[np.arange(n_classes) % groups] + 0.8 * rng.random((n_classes, width))
        values = near[labels] + 0.5 * rng.standard_normal((labels.size, width))
        order = rng.permutation(labels.size)
        return cls(np.maximum(values, 0)[order].astype(np.float32), labels[order])


def confused(data: Planted, n_classes: int) -> csr_array[Any]:
    """Rows by class and by the class with the nearest mean."""
    present = [k for k in range(n_classes) if (data.labels == k).any()]
    means = np.stack([data.values[data.labels == k].mean(axis=0) for k in present])
    distance = ((data.values[:, None] - means) ** 2).sum(axis=2)
    told = np.array(present)[distance.argmin(axis=1)]
    counts = np.zeros((n_classes, n_classes), np.float32)
    np.add.at(counts, (data.labels, told), 1)
    return csr_array(counts)


def ground_of(
    folder: Path, rule: Any, data: Planted, kind: str = "linear", body: str = "float32", **more: Any
) -> Ground:
    """more: fields of `Ground`, n_classes, classes (those of the root), validation (rows left out)."""
    n_classes = more.pop("n_classes", int(data.labels.max()) + 1)
    split = np.zeros(data.labels.size, np.uint8)
    folder.mkdir(parents=True, exist_ok=True)
    dataset = write_dataset(folder, data.values, data.labels, split, body)
    counts = class_counts(data.labels, split, n_classes)
    rows = sorted_store(folder / "rows", dataset, counts)
    kernel, gram = Kernel("linear"), None
    if kind != "linear":
        width = mean_distance(kind, rows.take(np.arange(rows.n_rows)))  # type: ignore[arg-type]
        kernel = Kernel(kind, width)  # type: ignore[arg-type]
        gram = GramStore(str(folder), rows.n_rows, 16)
        for band in range(gram.n_bands):
            write_band(band, gram, RowRuns(rows), kernel)
    save_npz(folder / "confusion.npz", confused(data, n_classes))
    (folder / "nodes").mkdir(exist_ok=True)
    classes = more.pop("classes", np.flatnonzero(counts)).astype(np.int32)
    write_array(folder / "nodes" / ROOT, classes)
    told: dict[str, Any] = {"cost": 1.0, "seed": 5, "name": "grown", "most_rows": 1 << 30}
    place = {"confused": str(folder / "confusion.npz"), "nodes": str(folder / "nodes")}
    return Ground(rows=rows, gram=gram, kernel=kernel, rule=rule, **place, **{**told, **more})


def root_classes(ground: Ground) -> np.ndarray:
    return np.asarray(np.load(Path(ground.nodes) / ROOT))


def root_of(ground: Ground) -> NodeTask:
    """The task of the root."""
    classes = root_classes(ground)
    rows = int(np.diff(ground.starts())[classes].sum())
    return NodeTask(node_name(classes), "", 0, int(classes.size), rows, 0)
