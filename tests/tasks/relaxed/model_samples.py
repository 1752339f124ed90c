"""Random small hierarchies and pairs of every form, with the named nodes that they were built of."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from tasks.relaxed.assemble import Node, build
from tasks.relaxed.hierarchy import RELAXED, Hierarchy
from tasks.relaxed.pairs import PairModel
from tasks.rows import Csr, Dense, Rows
from tasks.svm.classifier import Classifier, KernelClassifier, LinearClassifier
from tasks.svm.kernels import Kernel
from tests.bodies import csr_of
from tests.naive.relaxed_models import Margin, kernel_margin, linear_margin

FORMS = ("linear", "active", "kernel", "sparse kernel")
KERNEL = Kernel("histogram-intersection")  # of whole numbers: exact
N_FEATURES, N_TRAINING = 20, 15


@dataclass(frozen=True)
class Sample:
    """A form of classifiers over whole numbers, so that sums are exact and ties are common."""

    form: str
    seed: int

    @property
    def rng(self) -> np.random.Generator:
        return np.random.default_rng(self.seed)

    @property
    def is_kernel(self) -> bool:
        return "kernel" in self.form

    @property
    def training(self) -> np.ndarray:
        return np.random.default_rng(self.seed + 1).integers(0, 4, (N_TRAINING, N_FEATURES)).astype(np.float32)

    def rows_of(self, numbers: np.ndarray) -> Rows:
        return self.body(self.training[numbers], sparse="sparse" in self.form)

    def body(self, values: np.ndarray, sparse: bool) -> Rows:
        plain = csr_of(values)
        return Csr(plain.data, plain.indices, plain.indptr, N_FEATURES) if sparse else Dense(values)

    def values(self, n: int) -> np.ndarray:
        """Rows to predict."""
        return np.random.default_rng(self.seed + 2).integers(0, 4, (n, N_FEATURES)).astype(np.float32)

    def classifier(self, rng: np.random.Generator) -> Classifier:
        bias = float(rng.integers(-3, 4))
        if self.is_kernel:
            support = np.flatnonzero(rng.random(N_TRAINING) < 0.3)
            return KernelClassifier(support, rng.integers(-3, 4, support.size).astype(np.float32), bias)
        weights = rng.integers(-2, 3, N_FEATURES).astype(np.float32)
        if self.form == "active":
            weights[rng.random(N_FEATURES) < 0.8] = 0
        return LinearClassifier(weights, bias)

    def margin(self, x: np.ndarray) -> Margin:
        """f of a row by definition."""
        if not self.is_kernel:
            return lambda one: linear_margin(x, one)
        training = self.training
        return lambda one: kernel_margin(x, one, training, lambda a, b: float(np.minimum(a, b).sum()))

    @property
    def options(self) -> dict[str, object]:
        return {"kernel": KERNEL, "rows_of": self.rows_of} if self.is_kernel else {}


def random_nodes(sample: Sample, n_classes: int, shared: bool) -> dict[str, Node]:
    """A relaxed hierarchy of the classes 1, 3, 5, ...; shared: a label set reached twice is one node."""
    rng, nodes = sample.rng, {}
    waiting = [("root", np.arange(1, 2 * n_classes, 2, dtype=np.int32))]
    for name, classes in waiting:
        if name in nodes:
            continue
        if classes.size == 1 or (name != "root" and rng.random() < 0.2) or classes.size == 2 == rng.integers(1, 3):
            count = classes.size if classes.size > 1 else 0
            nodes[name] = Node(classes, [sample.classifier(rng) for _ in range(count)])
            continue
        colors = rng.integers(-1, 2, classes.size).astype(np.int8)
        colors[rng.choice(classes.size, 2, replace=False)] = 1, -1
        sides = classes[colors <= 0], classes[colors >= 0]
        names = [
            ",".join(map(str, held)) if shared else f"{name}{mark}" for held, mark in zip(sides, "-+", strict=True)
        ]
        nodes[name] = Node(classes, [sample.classifier(rng)], colors, *names)
        waiting += zip(names, sides, strict=True)
    return nodes


def built(
    sample: Sample,
    nodes: dict[str, Node],
    kind: str = RELAXED,
    doubt: float = 0.0,
    judges: dict[int, Classifier] | None = None,
) -> Hierarchy:
    """judges: of each class of the root"""
    n_classes = int(max(node.classes.max() for node in nodes.values())) + 2
    own = {"doubt": doubt, "judges": list((judges or {}).values())}
    return build(kind, nodes, "root", N_FEATURES, n_classes, {"rho": 0.7}, **sample.options, **own)


def random_pairs(sample: Sample, n: int, kind: str) -> tuple[PairModel, list[int], list[Classifier]]:
    rng = sample.rng
    classes = np.arange(2, 2 + n, dtype=np.int32) * 2
    classifiers = [sample.classifier(rng) for _ in range(n * (n - 1) // 2)]
    model = PairModel.build(kind, classes, classifiers, N_FEATURES, 2 * n + 5, {"C": 1.0}, **sample.options)
    return model, classes.tolist(), classifiers


Bodies = dict[str, Callable[[np.ndarray], Rows]]
