"""The solvers of a node's rows, by kernel: of two sides, and of a one-vs-all leaf."""

from __future__ import annotations

import numpy as np

from tasks.relaxed.ground import Ground, node_name
from tasks.rows import Csr, Dense
from tasks.rows.base import Array
from tasks.svm.class_rows import NodeRows
from tasks.svm.classifier import Classifier, LinearClassifier
from tasks.svm.gram import read_square
from tasks.svm.kernel_solver import KernelSolver, one_vs_all_kernel
from tasks.svm.linear_solver import LinearSolver
from tasks.svm.one_vs_all import one_vs_all
from tasks.svm.solver import BinarySolver


def solver_of(ground: Ground, rows: NodeRows, classes: Array, held: Dense | Csr | None = None) -> BinarySolver:
    """A solver of two sides of a node's rows; a row counts as often as it stands for rows.

    held  these rows, where somebody has read them already
    """
    costs = (np.float32(ground.cost) * rows.weights).astype(np.float32)
    if ground.gram is not None:
        return KernelSolver(read_square(ground.gram, rows.numbers), costs, rows.numbers)
    rng = ground.stream(node_name(classes), "order")
    return LinearSolver(ground.rows.take(rows.numbers) if held is None else held, costs, rng)


def leaf_classifiers(ground: Ground, classes: Array, first: int, last: int) -> list[Classifier]:
    """Classifiers of the classes first ... last - 1 among `classes`, each against the rest of them.

    Of linear rows the hinges are squared, which serves many classes better; of kernels they are not. The same bits for
    any range that begins at a multiple of `hinge_ascent.ABREAST`.
    """
    rows = ground.node_rows(classes)
    if ground.gram is not None:
        costs = (np.float32(ground.cost) * rows.weights).astype(np.float32)
        solver = KernelSolver(read_square(ground.gram, rows.numbers), costs, rows.numbers)
        return list(one_vs_all_kernel(solver, rows.labels, first, last))
    rng = ground.stream(node_name(classes), "leaf")
    held = ground.rows.take(rows.numbers)
    weights, bias = one_vs_all(held, rows.labels, classes.size, ground.cost, rng, range(first, last))
    return [LinearClassifier(np.ascontiguousarray(w), float(b)) for w, b in zip(weights.T, bias, strict=True)]
