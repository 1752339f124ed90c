"""Sparse weights of tree nodes: scores, the tree's tensors, and nodes that learn on the features their rows have."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tasks.classes import ClassTable
from tasks.models.errors import ModelFormat
from tasks.models.folder import load_model, save_model, verify_model
from tasks.rows import Dense, Rows
from tasks.trees import local
from tasks.trees.local import Labelled, grow_rows
from tasks.trees.params import LabelTreeParams
from tasks.trees.tree import SPARSE_TENSORS, LabelTree, Split, assemble
from tasks.trees.tree import Path as TreePath
from tasks.trees.weights import ActiveWeights, AnyWeights, SparseWeights, active_features, entry_dtype, narrowed
from tests.bodies import csr_of
from tests.naive import trees as naive

SEEDS = range(6)


def holed(seed: int, shape: tuple[int, int], share: float = 0.4) -> np.ndarray:
    """A float32 matrix of which about a share is not zero, with some rows and columns of zeros."""
    rng = np.random.default_rng(seed)
    values = rng.normal(size=shape) * (rng.random(shape) < share)
    values *= (rng.random((shape[0], 1)) < 0.8) * (rng.random((1, shape[1])) < 0.8)
    return values.astype(np.float32)


@pytest.mark.parametrize("seed", SEEDS)
def test_scores_are_those_of_the_matrix(seed: int) -> None:
    matrix, values = holed(seed, (9, 4)), holed(seed + 100, (12, 9))
    weights = SparseWeights.of(matrix, 9)
    np.testing.assert_array_equal(weights.to_array(), matrix)
    assert (weights.values != 0).all()
    held = (weights.columns.tolist(), weights.starts.tolist(), weights.entries.tolist(), weights.values.tolist())
    expected = naive.sparse_scores(values.astype(np.float64), *held, 4)
    np.testing.assert_allclose(expected, values.astype(np.float64) @ matrix, atol=1e-6)
    rows = csr_of(values)
    np.testing.assert_allclose(weights.scores(rows), expected, atol=1e-5)
    np.testing.assert_array_equal(weights.scores(rows), rows.scores(matrix))  # bit for bit: zeros add nothing
    np.testing.assert_allclose(weights.scores(Dense(values)), expected, atol=1e-5)


def test_a_matrix_of_some_features_goes_to_their_places() -> None:
    matrix, features = np.array([[1, 0], [0, 0], [2, 3]], np.float32), np.array([2, 3, 6], np.int32)
    weights = SparseWeights.of(matrix, 8, features)
    assert weights.columns.tolist() == [2, 6]
    assert weights.starts.tolist() == [0, 1, 3]
    expected = np.zeros((8, 2))
    expected[features] = matrix
    np.testing.assert_array_equal(weights.to_array(), expected)


@pytest.mark.parametrize("seed", SEEDS)
def test_weights_by_feature_score_as_the_matrix(seed: int) -> None:
    matrix, values = holed(seed, (9, 4)), holed(seed + 100, (12, 9))
    columns = np.flatnonzero(matrix.any(axis=1)).astype(np.int32)
    weights = ActiveWeights(columns, matrix[columns], (9, 4))
    np.testing.assert_array_equal(weights.to_array(), matrix)
    np.testing.assert_array_equal(weights.by_number().to_array(), matrix)
    np.testing.assert_array_equal(weights.by_number().by_feature().to_array(), matrix)
    assert weights.bytes_by_feature() == weights.by_number().bytes_by_feature()
    assert weights.bytes_by_number() == weights.by_number().bytes_by_number()
    assert ActiveWeights.of(matrix).columns.tolist() == columns.tolist()
    rows = csr_of(values)
    np.testing.assert_array_equal(weights.scores(rows), rows.scores(matrix))  # bit for bit: zeros add nothing
    np.testing.assert_allclose(weights.scores(Dense(values)), values.astype(np.float64) @ matrix, atol=1e-5)


def test_weights_of_nothing_score_zero() -> None:
    weights = SparseWeights.of(np.zeros((5, 3), np.float32), 5)
    for rows in (csr_of(holed(0, (4, 5))), Dense(holed(0, (4, 5)))):
        np.testing.assert_array_equal(weights.scores(rows), np.zeros((4, 3)))


def test_children_are_numbered_in_the_least_bytes() -> None:
    assert [entry_dtype(n) for n in (1, 65_536, 65_537)] == [np.uint16, np.uint16, np.uint32]


@pytest.mark.parametrize("seed", SEEDS)
def test_narrowed_rows_have_the_columns_of_the_features(seed: int) -> None:
    train, others = holed(seed, (5, 9), 0.2), holed(seed + 50, (7, 9), 0.6)
    features = active_features(csr_of(train))
    assert features is not None
    assert features.tolist() == np.flatnonzero(train.any(axis=0)).tolist()
    bodies: list[Rows] = [csr_of(others), Dense(others)]
    for rows in bodies:
        found = narrowed(rows, features)
        assert found.shape == (7, features.size)
        np.testing.assert_array_equal(found.to_array(), others[:, features])
    assert active_features(Dense(train)) is None
    assert narrowed(bodies[0], None) is bodies[0]


def test_rows_without_any_feature_are_narrowed_to_nothing() -> None:
    nothing = csr_of(np.zeros((3, 4), np.float32))
    features = active_features(nothing)
    assert features is not None
    assert narrowed(csr_of(holed(0, (5, 4))), features).shape == (5, 0)


# ---- nodes and trees -----------------------------------------------------------------------------------------------

WIDTH, N_CLASSES = 40, 12
SMALL = LabelTreeParams(branching=3, depth=2, ambiguity=0.6, rounds=2, least_rows=1, initialisation="random")


def texts(seed: int, rows_each: int) -> Labelled:
    """Sparse rows: each class has three features of its own, and every row some of the others."""
    rng = np.random.default_rng(seed)
    labels = np.repeat(np.arange(N_CLASSES, dtype=np.int32), rows_each)
    values = (rng.random((labels.size, WIDTH)) < 0.05).astype(np.float32)
    values[np.arange(labels.size)[:, None], 3 * labels[:, None] + np.arange(3)] = 1.0
    values[:, -1] = 0.0
    return Labelled(csr_of(values), labels)


def grown(params: LabelTreeParams = SMALL) -> LabelTree:
    return grow_rows(texts(0, 12), texts(1, 4), N_CLASSES, params, seed=0)


def test_a_tree_of_narrowed_nodes_is_the_tree_of_whole_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    sparse = grown()
    monkeypatch.setattr(local, "active_features", lambda _: None)
    whole = grown()
    assert sparse.columns is not None
    assert whole.columns is None
    np.testing.assert_array_equal(sparse.classes, whole.classes)
    np.testing.assert_array_equal(sparse.bias, whole.bias)
    for node in np.flatnonzero(whole.n_children):
        weights, matrix = sparse.node_weights(node), whole.node_weights(node)
        assert isinstance(weights, SparseWeights | ActiveWeights)
        np.testing.assert_array_equal(weights.to_array(), matrix)
    assert sparse.facts == whole.facts
    test = texts(2, 5)
    first, second = sparse.rank(test.rows, 3), whole.rank(test.rows, 3)
    np.testing.assert_array_equal(first.classes, second.classes)
    np.testing.assert_array_equal(first.scores, second.scores)
    assert (first.classes[:, 0] == test.labels).mean() > 0.9


def thinned(tree: LabelTree) -> LabelTree:
    """The same tree with the weights below 0.1 left out, so few that the rest is held number by number."""
    splits: dict[TreePath, Split] = {}
    paths: list[TreePath] = [()]
    for node in range(tree.n_nodes):
        n = int(tree.n_children[node])
        paths += [(*paths[node], q) for q in range(n)]
        if n:
            matrix = whole(tree.node_weights(node))
            weights = SparseWeights.of(np.where(np.abs(matrix) < 0.1, np.float32(0), matrix), WIDTH)
            first, classes = int(tree.first_child[node]), tree.label_set(node)
            children = np.array([np.isin(classes, tree.label_set(first + q)) for q in range(n)])
            splits[paths[node]] = Split(classes, children, weights, tree.bias[first - 1 : first - 1 + n])
    return assemble(splits, WIDTH, N_CLASSES, tree.facts, tree.label_set(0))


def whole(weights: AnyWeights) -> np.ndarray:
    return weights if isinstance(weights, np.ndarray) else weights.to_array()


def test_few_weights_are_held_number_by_number() -> None:
    tree = thinned(grown())
    assert tree.columns is not None
    assert tree.entries is not None
    assert (tree.weights != 0).all()
    assert tree.weights.size < 0.5 * tree.bias.size * WIDTH
    test = texts(2, 5)
    assert (tree.rank(test.rows, 3).classes[:, 0] == test.labels).mean() > 0.9


def test_a_sparse_tree_holds_only_features_in_use() -> None:
    tree = grown()
    assert tree.columns is not None
    assert tree.entries is None
    assert WIDTH - 1 not in tree.columns
    assert tree.weights.size < 0.99 * tree.bias.size * WIDTH


def test_a_sparse_tree_answers_dense_rows() -> None:
    tree, test = grown(), texts(2, 5)
    np.testing.assert_array_equal(tree.rank(Dense(test.rows.to_array()), 3).classes, tree.rank(test.rows, 3).classes)


def test_a_node_of_rows_without_features_is_learnt() -> None:
    rows, labels = csr_of(np.zeros((8, 5), np.float32)), np.arange(8, dtype=np.int32) % 4
    tree = grow_rows(Labelled(rows, labels), Labelled(rows, labels), 4, LabelTreeParams(depth=1), seed=0)
    assert tree.weights.size == 0
    assert tree.rank(rows, 1).classes.shape == (8, 1)


def test_one_sparse_node_makes_all_nodes_of_a_tree_sparse() -> None:
    matrix, every = holed(1, (5, 2)), np.arange(3, dtype=np.int32)
    root = Split(every, np.array([[1, 1, 0], [0, 0, 1]], bool), matrix, np.zeros(2, np.float32))
    below = Split(every[:2], np.eye(2, dtype=bool), SparseWeights.of(holed(2, (5, 2)), 5), np.ones(2, np.float32))
    tree = assemble({(): root, (0,): below}, 5, 3, {}, every)
    found = [tree.node_weights(node) for node in (0, 1)]
    expected = [matrix, below.parameters()["weights"]]
    for one, array in zip(found, expected, strict=True):
        assert not isinstance(one, np.ndarray)
        np.testing.assert_array_equal(one.to_array(), array)


def header_of(tree: LabelTree) -> dict[str, Any]:
    header = {**tree.header(), "n_features": tree.n_features, "n_classes": tree.n_classes}
    read: dict[str, Any] = json.loads(json.dumps(header))
    return read


def test_a_sparse_tree_is_saved_and_loaded(tmp_path: Path) -> None:
    tree, names = grown(), tuple("abcdefghijkl")
    digest = save_model(tmp_path / "tree", tree, ClassTable(names, names))
    assert verify_model(tmp_path / "tree") == digest
    again = load_model(tmp_path / "tree").model
    for name, values in tree.tensors().items():
        np.testing.assert_array_equal(again.tensors()[name], values)
    test = texts(2, 5)
    np.testing.assert_array_equal(again.rank(test.rows, 3).scores, tree.rank(test.rows, 3).scores)


@pytest.mark.parametrize("thin", [False, True])
def test_a_tree_saved_as_matrices_still_loads(thin: bool) -> None:
    """The only form before sparse weights came, and that of trees of dense rows."""
    tree = thinned(grown()) if thin else grown()
    plain = [whole(tree.node_weights(node)).ravel() for node in np.flatnonzero(tree.n_children)]
    tensors = {name: values for name, values in tree.tensors().items() if name not in SPARSE_TENSORS}
    old = LabelTree.load(header_of(tree), tensors | {"weights": np.concatenate(plain)})
    test = texts(2, 5)
    np.testing.assert_array_equal(old.rank(test.rows, 3).scores, tree.rank(test.rows, 3).scores)


def put(place: int, value: int) -> Callable[[np.ndarray], np.ndarray]:
    def changed(values: np.ndarray) -> np.ndarray:
        values = values.copy()
        values[place] = value
        return values

    return changed


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("columns", lambda a: a[:-1]),
        ("columns", put(0, -1)),
        ("columns", put(-1, WIDTH)),
        ("columns", lambda a: a[::-1]),
        ("column_offsets", lambda a: a[:-1]),
        ("column_offsets", put(-1, 10**6)),
        ("column_offsets", put(1, -1)),
        ("entry_offsets", lambda a: a[:-1]),
        ("entry_offsets", put(0, 1)),
        ("entry_offsets", put(1, 10**6)),
        ("entries", lambda a: a[:-1]),
        ("entries", put(0, 60_000)),
        ("entries", lambda a: a.astype(np.int32)),
        ("weights", lambda a: a[:-1]),
    ],
)
def test_sparse_arrays_that_do_not_fit_are_refused(name: str, change: Callable[[np.ndarray], np.ndarray]) -> None:
    tree = thinned(grown())
    tensors = tree.tensors()
    with pytest.raises(ModelFormat):
        LabelTree.load(header_of(tree), {**tensors, name: change(tensors[name])})
    with pytest.raises(ModelFormat, match="needs the tensors"):
        LabelTree.load(header_of(tree), {key: tensors[key] for key in tensors if key != "entries"})


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("columns", lambda a: a[:-1]),
        ("columns", put(-1, WIDTH)),
        ("columns", lambda a: a[::-1]),
        ("column_offsets", put(1, -1)),
        ("weights", lambda a: a[:-1]),
    ],
)
def test_columns_that_do_not_fit_are_refused(name: str, change: Callable[[np.ndarray], np.ndarray]) -> None:
    tree = grown()
    tensors = tree.tensors()
    assert "entries" not in tensors
    with pytest.raises(ModelFormat):
        LabelTree.load(header_of(tree), {**tensors, name: change(tensors[name])})


def test_a_flat_tree_of_sparse_rows_is_sparse() -> None:
    tree = grown(replace(SMALL, depth=1))
    assert tree.columns is not None
    assert tree.n_nodes == N_CLASSES + 1
