"""Samples of the classes of real sets: their rows and labels, for studies over the number of classes.

Sample s orders the classes of a set by its seed and takes the first ones: a sample's 25 classes contain its 10.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import scipy.sparse

from tasks.seeds import stream
from tests.bench.real_data import CLINC, TINY

SIFT = "tinyimagenet-sift"
SETS = {
    "tiny": (TINY, "effnet_train.npy", "effnet_test.npy"),
    "tiny-sift": (SIFT, "X_train.npz", "X_test.npz"),
    "clinc-dense": (CLINC, "minilm_train.npy", "minilm_test.npy"),
}

Array: TypeAlias = npt.NDArray[Any]
Rows: TypeAlias = "Array | scipy.sparse.csr_matrix"


@dataclass(frozen=True)
class Case:
    """A sample of classes of one set."""

    source: str
    n_classes: int
    sample: int

    @property
    def name(self) -> str:
        return f"{self.source}-{self.n_classes}-{self.sample}"


def drawn_classes(n_classes: int, wanted: int, sample: int) -> Array:
    """The first of all classes in the sample's order, ascending: (wanted,) int64."""
    return np.sort(stream(sample, "classes").permutation(n_classes)[:wanted])


def rows_of(labels: Array, classes: Array) -> tuple[Array, Array]:
    """Which rows are of these (ascending) classes, and their labels 0, 1, ... among them."""
    index = np.flatnonzero(np.isin(labels, classes))
    return index, np.searchsorted(classes, labels[index])


def root_normalised(counts: scipy.sparse.csr_matrix) -> scipy.sparse.csr_matrix:
    """Square roots of counts, rows of norm 1; rows of zeros stay."""
    rows = scipy.sparse.csr_matrix(counts, dtype=np.float32, copy=True)
    norms = np.sqrt(np.asarray(rows.sum(axis=1), np.float64)).ravel()  # squares of the square roots add up to this
    rows.data = np.sqrt(rows.data) / np.repeat(norms, np.diff(rows.indptr)).astype(np.float32)
    return rows


def read_matrix(path: Path) -> Rows:
    if path.suffix == ".npz":
        return root_normalised(scipy.sparse.load_npz(path).tocsr())
    rows: Array = np.load(path)
    return rows


def class_names(data: Path, source: str) -> list[str]:
    names: list[str] = json.loads((data / SETS[source][0] / "classes.json").read_text())
    return names


def cases_of(data: Path, sets: Sequence[str], sizes: Sequence[int], samples: Sequence[int]) -> list[list[Case]]:
    """The samples of every set and size, small sizes first; a size beyond a set's classes is all of them, once."""
    known = {source: len(class_names(data, source)) for source in sets}
    found = dict.fromkeys((source, min(size, known[source])) for size in sizes for source in sets)
    return [[Case(source, size, sample) for sample in samples] for source, size in found]


def read_case(case: Case, data: Path) -> dict[str, tuple[Rows, Array]]:
    """Rows and labels of "train" and "test", of the case's classes alone."""
    source, *files = SETS[case.source]
    classes = drawn_classes(len(class_names(data, case.source)), case.n_classes, case.sample)
    found: dict[str, tuple[Rows, Array]] = {}
    for part, file in zip(("train", "test"), files, strict=True):
        index, labels = rows_of(np.load(data / source / f"y_{part}.npy"), classes)
        found[part] = read_matrix(data / source / file)[index], labels
    return found
