"""Random small trees: overlapping and unequal children, empty leaves, leaves of several classes, ties."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from tasks.rows import Csr, Dense, OneHot, PqCodes, Rows
from tasks.trees.tree import LabelTree, Path, Split, assemble
from tasks.trees.weights import ActiveWeights, AnyWeights, SparseWeights
from tests.bodies import csr_of
from tests.naive.tree_search import Tree

FORMS = ("matrices", "columns", "entries")


@dataclass(frozen=True)
class Drawn:
    """How a tree is drawn."""

    n_classes: int = 9
    n_features: int = 6
    branching: int = 3
    depth: int = 3
    form: str = "matrices"
    disjoint: bool = False
    link: str = "softmax"
    probabilistic: bool = True
    kind: str = "kmeans-tree"
    whole: bool = True  # small whole numbers: scores are exact, and ties common


def random_tree(seed: int, drawn: Drawn) -> LabelTree:
    """Children hold random classes; a node of a class or none is a leaf, and some others are."""
    rng = np.random.default_rng(seed)
    waiting: list[tuple[Path, np.ndarray]] = [((), np.arange(drawn.n_classes, dtype=np.int32))]
    splits: dict[Path, Split] = {}
    for path, classes in waiting:
        if classes.size <= 1 or len(path) == drawn.depth or (path and rng.random() < 0.2):
            continue
        n_children = int(rng.integers(2, drawn.branching + 1))
        children = random_children(rng, n_children, classes.size, drawn.disjoint)
        weights = random_weights(rng, drawn, n_children)
        bias = rng.integers(-1, 2, n_children).astype(np.float32)
        scale = float(rng.choice([1.0, 0.5]))
        splits[path] = Split(classes, children, weights, bias, scale)
        waiting += [((*path, q), splits[path].classes_of(q)) for q in range(n_children)]
    facts = {"probabilistic": True} if drawn.probabilistic else {}
    return assemble(splits, drawn.n_features, drawn.n_classes, facts, waiting[0][1], kind=drawn.kind, link=drawn.link)


def random_children(rng: np.random.Generator, n_children: int, n_classes: int, disjoint: bool) -> np.ndarray:
    if disjoint:
        return np.asarray(rng.integers(0, n_children, n_classes)[None, :] == np.arange(n_children)[:, None])
    return np.asarray(rng.random((n_children, n_classes)) < 0.5)


def random_weights(rng: np.random.Generator, drawn: Drawn, n_children: int) -> AnyWeights:
    shape = (drawn.n_features, n_children)
    matrix = (rng.integers(-2, 3, shape) if drawn.whole else rng.normal(size=shape)).astype(np.float32)
    if drawn.form == "matrices":
        return matrix
    if drawn.form == "columns":
        columns = np.flatnonzero(rng.random(drawn.n_features) < 0.7).astype(np.int32)
        held = np.where(matrix[columns] == 0, np.float32(1), matrix[columns])
        return ActiveWeights(columns, held, shape)
    matrix[rng.random(shape) < 0.8] = 0
    return SparseWeights.of(matrix, drawn.n_features)


def random_rows(seed: int, n_rows: int, drawn: Drawn) -> np.ndarray:
    rng = np.random.default_rng(seed)
    shape = (n_rows, drawn.n_features)
    return (rng.integers(-2, 3, shape) if drawn.whole else rng.normal(size=shape)).astype(np.float32)


def rows_in(body: str, values: np.ndarray) -> Rows:
    """The same matrix (small whole numbers, an even number of columns) in a body that holds it exactly."""
    if body == "half":
        return Dense(values.astype(np.float16))
    if body == "double":
        return Dense(values.astype(np.float64))
    if body == "csr":
        sparse = csr_of(values)
        return Csr(sparse.data.astype(np.float32), sparse.indices, sparse.indptr, sparse.n_features)
    if body == "pq":
        books = np.array([[a, b] for a in range(-2, 3) for b in range(-2, 3)], np.float32)
        pairs = values.reshape(len(values), -1, 2).astype(np.int64) + 2
        return PqCodes((5 * pairs[:, :, 0] + pairs[:, :, 1]).astype(np.uint8), np.stack([books] * pairs.shape[1]))
    return Dense(values)


def one_hot_rows(seed: int, n_rows: int, n_features: int) -> OneHot:
    """Codes of two values; some are missing."""
    codes = np.random.default_rng(seed).choice([0, 1, 255], (n_rows, n_features // 2)).astype(np.uint8)
    return OneHot(codes, 2)


def plain(tree: LabelTree) -> Tree:
    first, n = tree.first_child.tolist(), tree.n_children.tolist()
    children = [list(range(first[u], first[u] + n[u])) if n[u] else [] for u in range(tree.n_nodes)]
    return Tree(children, [tree.label_set(u).tolist() for u in range(tree.n_nodes)])


def with_beam(tree: LabelTree, beam: int) -> LabelTree:
    return replace(tree, beam=beam)
