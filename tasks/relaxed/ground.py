"""Where a hierarchy grows: what all tasks of it know, which classes a node has, and the file of a finished node.

A node is named by its set of classes alone, and so is its random stream: two parents that come to the same set share
the node. Its file says what was learnt there, with a digest; it is there whole or not at all.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tasks.digest import digest_arrays
from tasks.fit.checkpoint import keep, load_kept
from tasks.later import later
from tasks.places import at, read_array, reading
from tasks.rows.base import Array
from tasks.seeds import stream
from tasks.svm.class_rows import ClassRows, NodeRows
from tasks.svm.classifier import Classifier, KernelClassifier, LinearClassifier
from tasks.svm.gram import GramStore
from tasks.svm.kernels import Kernel

sparse = later("scipy.sparse")

SPLIT, ONE_VS_ALL, SINGLE = "split", "one-vs-all", "single"  # kinds of nodes
LOST = "lost"  # of a record: the share of rows that a split loses
STARTS, ROOT = "starts.npy", "root.npy"  # in the folders of rows and nodes


@dataclass(frozen=True, slots=True)
class Ground:
    """What all tasks of a growing hierarchy know; small and picklable.

    rows      the training rows, sorted by class; gram: their kernel matrix, None for the linear kernel
    confused  file of a sparse (n_classes, n_classes) matrix: rows of each class by the class they were held for
    nodes     folder of the nodes' files, and of ROOT (K,) int32: the classes that are learnt
    cost      C; seed and name: where random streams come from
    most_rows  of a node at most, see `NodeRows.of`
    """

    rows: ClassRows
    gram: GramStore | None
    confused: str
    nodes: str
    kernel: Kernel
    cost: float
    rule: Any
    seed: int
    name: str
    most_rows: int

    @property
    def linear(self) -> bool:
        return self.gram is None

    def starts(self) -> Array:
        return np.asarray(read_array(at(self.rows.folder) / STARTS))

    def confusion(self, classes: Array) -> Any:
        """(K, K) csr_array float32: of these classes among themselves."""
        return self._confused()[classes][:, classes]

    def judged(self, classes: Array) -> Array:
        """(K,) float32: rows of each of these classes that were held for some class."""
        return np.asarray(self._confused()[classes].sum(axis=1))

    def _confused(self) -> Any:
        with reading(at(self.confused)) as file:
            return sparse.csr_array(sparse.load_npz(file))

    def node_rows(self, classes: Array, most: int | None = None) -> NodeRows:
        """Rows of some classes, at most `most_rows`, or `most` of them."""
        return NodeRows.of(self.starts(), classes, self.most_rows if most is None else min(most, self.most_rows))

    def stream(self, node: str, what: str) -> np.random.Generator:
        """The random stream of one purpose at a node."""
        return stream(self.seed, self.name, node, what)

    def file(self, node: str, part: int | None = None) -> Path:
        """Of a node; or of a part of its classifiers."""
        return at(self.nodes) / (f"{node}.npz" if part is None else f"{node}-{part:05d}.npz")


def node_name(classes: Array) -> str:
    """The name of a set of classes, ascending."""
    return digest_arrays(np.asarray(classes, np.int32))[:20]


@dataclass(frozen=True, slots=True)
class NodeTask:
    """A node to be learnt: its classes are those of one side of its parent, or of the root.

    name  of its set of classes; parent: name, "" for the root; side: -1 or +1; n_rows: of its classes
    """

    name: str
    parent: str
    side: int
    n_classes: int
    n_rows: int
    depth: int

    @property
    def label(self) -> str:
        return self.name[:8]


@dataclass(frozen=True, slots=True)
class Child:
    """A child of a finished node."""

    name: str
    side: int
    n_classes: int
    n_rows: int


@dataclass(frozen=True, slots=True)
class Summary:
    """What the driver learns of a finished node.

    lost  the share of rows that a split loses, where that was estimated
    """

    name: str
    kind: str
    children: tuple[Child, ...]
    lost: float | None = None


@dataclass(frozen=True, eq=False)
class Learnt:
    """A finished node.

    classes  (K,) int32 ascending; coloring (K,) int8, zeros where it is no split
    classifiers  one of a split, K of a one-vs-all leaf, none of a leaf of one class; or parts of them, in files
    record   plain values for the report
    """

    kind: str
    classes: Array
    coloring: Array
    classifiers: Sequence[Classifier] | Parts
    record: Mapping[str, Any]

    def side(self, sign: int) -> Array:
        """Classes of a child: those of its sign and those that are ignored."""
        held: Array = self.classes[self.coloring * sign >= 0]
        return held


def classes_at(ground: Ground, task: NodeTask) -> Array:
    """(K,) int32, ascending."""
    if not task.parent:
        return np.asarray(read_array(at(ground.nodes) / ROOT))
    parent = read_node(ground, task.parent)
    if parent is None:
        raise FileNotFoundError(f"the parent {task.parent} of node {task.name} has gone")
    return parent.side(task.side)


def write_node(ground: Ground, learnt: Learnt) -> Summary:
    """Keep a finished node. Raises DiskFull."""
    held = learnt.classifiers
    own = {"parts": np.array(held.numbers)} if isinstance(held, Parts) else packed(held)
    arrays = {"classes": learnt.classes, "coloring": learnt.coloring, **own}
    said = json.dumps({"kind": learnt.kind, "record": learnt.record})
    keep(ground.file(node_name(learnt.classes)), {**arrays, "said": np.array(said)})
    return summary_of(ground, learnt)


def read_node(ground: Ground, name: str) -> Learnt | None:
    """A finished node; None when there is none, or its file does not hold."""
    kept = load_kept(ground.file(name))
    if kept is None:
        return None
    said = json.loads(str(kept["said"]))
    held = Parts(ground, name, tuple(kept["parts"].tolist())) if "parts" in kept else Unpacked(kept)
    if isinstance(held, Parts) and not held.whole():
        return None
    return Learnt(said["kind"], kept["classes"], kept["coloring"], held, said["record"])


def summary_of(ground: Ground, learnt: Learnt) -> Summary:
    """Name, kind and children."""
    children = list[Child]()
    if learnt.kind == SPLIT:
        counts = np.diff(ground.starts())
        for sign in (-1, 1):
            held = learnt.side(sign)
            children.append(Child(node_name(held), sign, int(held.size), int(counts[held].sum())))
    lost = learnt.record.get(LOST)
    return Summary(node_name(learnt.classes), learnt.kind, tuple(children), None if lost is None else float(lost))


def packed(classifiers: Sequence[Classifier]) -> dict[str, Array]:
    """Arrays of classifiers of one kind: linear ones as a matrix or, where most weights are 0, by entries."""
    bias = np.array([one.bias for one in classifiers], np.float64)
    linear = [one.weights for one in classifiers if isinstance(one, LinearClassifier)]
    if not classifiers:
        return {"bias": bias}
    if linear:
        matrix = np.stack(linear)
        if 3 * np.count_nonzero(matrix) > matrix.size:
            return {"bias": bias, "weights": matrix}
        row, column = np.nonzero(matrix)
        ends = np.searchsorted(row, np.arange(len(linear) + 1))
        width = np.array(matrix.shape[1])
        return {"bias": bias, "ends": ends, "index": column, "values": matrix[row, column], "width": width}
    kernel = [one for one in classifiers if isinstance(one, KernelClassifier)]
    ends = np.concatenate([[0], np.cumsum([one.support.size for one in kernel])])
    index, values = (np.concatenate([getattr(one, key) for one in kernel]) for key in ("support", "coefficients"))
    return {"bias": bias, "ends": ends, "index": index, "values": values}


@dataclass(frozen=True, eq=False)
class Unpacked(Sequence[Classifier]):
    """The classifiers of what `packed` has made; weights of sparse rows are made whole one at a time."""

    arrays: Mapping[str, Array]

    def __len__(self) -> int:
        return int(self.arrays["bias"].size)

    def __getitem__(self, place: Any) -> Any:
        if isinstance(place, slice):
            return [self[one] for one in range(*place.indices(len(self)))]
        if not -len(self) <= place < len(self):
            raise IndexError(place)
        arrays, place = self.arrays, place % len(self)
        bias = float(arrays["bias"][place])
        if "weights" in arrays:
            return LinearClassifier(arrays["weights"][place], bias)
        part = slice(*arrays["ends"][place : place + 2])
        index, values = arrays["index"][part], arrays["values"][part]
        if "width" not in arrays:
            return KernelClassifier(index, values, bias)
        weights = np.zeros(int(arrays["width"]), np.float32)
        weights[index] = values
        return LinearClassifier(weights, bias)


@dataclass(frozen=True, slots=True)
class Parts:
    """Classifiers of a large leaf, range by range in files of their own (see `write_part`)."""

    ground: Ground
    node: str
    numbers: tuple[int, ...]

    def whole(self) -> bool:
        """Whether all files are there as they were written."""
        return all(read_part(self.ground, self.node, number) is not None for number in self.numbers)

    def __len__(self) -> int:
        return sum(len(part) for part in self._parts())

    def __iter__(self) -> Iterator[Classifier]:
        for part in self._parts():
            yield from part

    def _parts(self) -> Iterator[Unpacked]:
        for number in self.numbers:
            part = read_part(self.ground, self.node, number)
            if part is None:
                raise FileNotFoundError(f"{self.ground.file(self.node, number)} has gone")
            yield part


def write_part(ground: Ground, node: str, number: int, classifiers: Sequence[Classifier]) -> None:
    """Keep classifiers of a large leaf. Raises DiskFull."""
    keep(ground.file(node, number), packed(classifiers))


def read_part(ground: Ground, node: str, number: int) -> Unpacked | None:
    """What was kept; None when it is not there, or does not hold."""
    kept = load_kept(ground.file(node, number))
    return None if kept is None else Unpacked(kept)
