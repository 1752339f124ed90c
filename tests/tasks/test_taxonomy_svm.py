"""The top-down SVM of a taxonomy: its splits, its loss, its walk and its ranking against their definitions."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tasks.classes import ClassTable
from tasks.fit.fit import fit
from tasks.fit.linear import LinearScorer
from tasks.fit.local import LocalOracle
from tasks.fit.problem import SgdProblem
from tasks.fit.sgd import SgdParams
from tasks.losses.base import Loss
from tasks.losses.crammer_singer import CrammerSinger
from tasks.models.folder import load_model, save_model
from tasks.rows import Dense, Rows
from tasks.rows.base import Array
from tasks.taxonomy import Taxonomy
from tasks.trees.taxonomy_tree import TaxonomyTree
from tasks.trees.tree import GIVEN, LabelTree
from tests.naive import hierarchy as naive
from tests.naive.losses import crammer_singer, derivative
from tests.tasks.fit_problems import bodies, separable
from tests.tasks.test_path_linear import TREES, taxonomy_of

WIDTH = 6
TWO = ([-1, 0, 1, 1], [2, 3])  # two classes below a chain


def tree_and_columns(name: str) -> tuple[TaxonomyTree, list[int]]:
    """A tree, and the node of the taxonomy that each column of its scores stands for."""
    parent, leaves = TREES[name]
    columns = [child for _, children in naive.splits(parent) for child in children]
    return TaxonomyTree.of(taxonomy_of((parent, leaves))), columns


def random_model(name: str, seed: int) -> tuple[LabelTree, Array, Array, list[int]]:
    """(model, weights, bias, node of each column) with random weights."""
    tree, columns = tree_and_columns(name)
    rng = np.random.default_rng(seed)
    weights = rng.normal(size=(WIDTH, tree.n_columns)).astype(np.float32)
    bias = rng.normal(size=tree.n_columns).astype(np.float32)
    return tree.model(weights, bias, {"operations": 0}), weights, bias, columns


@pytest.mark.parametrize("name", TREES)
def test_columns_are_the_children_of_branching_nodes(name: str) -> None:
    parent, leaves = TREES[name]
    tree, columns = tree_and_columns(name)
    assert tree.n_columns == len(columns)
    offsets, classes = tree.label_sets()
    for node, of in enumerate(columns, start=1):
        held = [c for c, leaf in enumerate(leaves) if leaf in naive.below(parent, of)]
        assert classes[offsets[node] : offsets[node + 1]].tolist() == held
    assert not (tree.n_children == 1).any()
    assert tree.height() == max(sum(node in naive_path(parent, leaf) for node in columns) for leaf in leaves)


def naive_path(parent: list[int], leaf: int) -> list[int]:
    return naive.path(parent, leaf, 0)


@pytest.mark.parametrize("name", TREES)
def test_loss_is_the_sum_of_the_hinges_on_the_way_and_its_derivative(name: str) -> None:
    parent, leaves = TREES[name]
    tree, columns = tree_and_columns(name)
    rng = np.random.default_rng(3)
    scores = rng.normal(0, 2, (12, tree.n_columns))
    labels = rng.integers(0, tree.n_classes, 12).astype(np.int32)

    def formula(row: Array, label: int) -> float:
        return naive.top_down_loss(dict(zip(columns, row, strict=True)), parent, leaves[label])

    total, residuals = tree.loss().residuals(scores, labels)
    assert total == pytest.approx(sum(formula(row, int(y)) for row, y in zip(scores, labels, strict=True)), abs=1e-9)
    slopes = [derivative(lambda s, y=y: formula(s, int(y)), row) for row, y in zip(scores, labels, strict=True)]
    np.testing.assert_allclose(residuals, slopes, atol=1e-5)


def test_equal_scores_blame_the_lowest_column() -> None:
    """Children 1 and 2 of a split are as bad as each other for class 0; the class itself never is."""
    tree = TaxonomyTree.of(Taxonomy.flat(4))
    total, residuals = tree.loss().residuals(np.zeros((2, 4)), np.array([0, 1], np.int32))
    assert total == 2.0
    assert residuals.tolist() == [[-1.0, 1.0, 0.0, 0.0], [1.0, -1.0, 0.0, 0.0]]


@pytest.mark.parametrize("name", TREES)
@pytest.mark.parametrize("seed", range(3))
def test_walk_and_ranking(name: str, seed: int) -> None:
    parent, leaves = TREES[name]
    model, weights, bias, columns = random_model(name, seed)
    rows = np.random.default_rng(seed).normal(size=(20, WIDTH)).astype(np.float32)
    top = [1, 2, len(leaves)][seed]
    ranking = model.rank(Dense(rows), top)
    assert ranking.path is not None
    for i, row in enumerate(rows @ weights + bias):
        classes, scores, evaluated = naive.top_down_ranking(dict(zip(columns, row, strict=True)), parent, leaves)
        assert sorted(classes) == list(range(len(leaves)))  # every class is named once
        assert ranking.classes[i].tolist() == classes[:top]
        np.testing.assert_allclose(ranking.scores[i], scores[:top], rtol=1e-4, atol=1e-5)
        assert ranking.evaluations[i] == evaluated
        walked = [0, *(columns.index(u) + 1 for u in naive_path(parent, leaves[classes[0]]) if u in columns)]
        assert ranking.path[i].tolist() == walked + [-1] * (ranking.path.shape[1] - len(walked))


@pytest.mark.parametrize("body", ["half", "csr", "pq"])
def test_every_body_of_rows_is_ranked_as_dense_rows(body: str) -> None:
    model = random_model("random 2", 0)[0]
    rows = bodies(2)[body]
    found, expected = model.rank(rows, 3), model.rank(Dense(rows.to_array(np.float32)), 3)
    np.testing.assert_array_equal(found.classes, expected.classes)
    np.testing.assert_array_equal(found.evaluations, expected.evaluations)


@pytest.mark.parametrize("name", ["chain", "lonely", "random 1"])
def test_a_saved_model_ranks_as_before(tmp_path: Path, name: str) -> None:
    model = random_model(name, 5)[0]
    ids = tuple(str(c) for c in range(model.n_classes))
    save_model(tmp_path / "m", model, ClassTable(ids, ids), rows="x", test_rows="x", encoders=[], provenance={})
    loaded = load_model(tmp_path / "m").model
    assert (loaded.kind, loaded.header()) == (GIVEN, model.header())
    rows = Dense(np.random.default_rng(0).normal(size=(9, WIDTH)).astype(np.float32))
    before, after = model.rank(rows, 4), loaded.rank(rows, 4)
    np.testing.assert_array_equal(after.classes, before.classes)
    np.testing.assert_array_equal(after.scores, before.scores)
    np.testing.assert_array_equal(after.path, before.path)


def fitted(loss: Loss, n_outputs: int, rows: Rows, labels: Array, seed: int = 0) -> dict[str, Array]:
    params = SgdParams(rounds=4, partitions=2, least_rows=8000)
    problem = SgdProblem(LinearScorer(rows.n_features, n_outputs), loss, params, seed, "test")
    return fit(problem, LocalOracle(rows, labels, problem)).parameters


def test_a_flat_taxonomy_is_the_multi_class_svm_bit_for_bit() -> None:
    values, labels = separable(1, n_classes=4)
    tree = TaxonomyTree.of(Taxonomy.flat(4))
    found = fitted(tree.loss(), tree.n_columns, Dense(values), labels)
    expected = fitted(CrammerSinger(), 4, Dense(values), labels)
    np.testing.assert_array_equal(found["weights"], expected["weights"])
    np.testing.assert_array_equal(found["bias"], expected["bias"])


@pytest.mark.parametrize("name", ["even", "chain", "lonely", "random 0"])
def test_learns_what_can_be_separated(name: str) -> None:
    tree = TaxonomyTree.of(taxonomy_of(TREES[name]))
    values, labels = separable(7, n_classes=tree.n_classes, n_rows=60 * tree.n_classes)
    parameters = fitted(tree.loss(), tree.n_columns, Dense(values), labels)
    model = tree.model(parameters["weights"], parameters["bias"], {})
    assert (model.rank(Dense(values), 1).classes[:, 0] == labels).mean() > 0.95


def test_splits_are_problems_of_their_own_with_one_constant() -> None:
    """The joint objective is, over the splits, n_u / n times that of u's own rows with lam n / n_u in place of lam."""
    parent, leaves = TREES["random 2"]
    tree, columns = tree_and_columns("random 2")
    rng = np.random.default_rng(4)
    values, weights = rng.normal(size=(50, WIDTH)), rng.normal(size=(WIDTH, tree.n_columns))
    labels, lam = rng.integers(0, tree.n_classes, 50).astype(np.int32), 0.2
    joint = lam / 2 * (weights**2).sum() + tree.loss().residuals(values @ weights, labels)[0] / 50
    apart = 0.0
    for _, children in naive.splits(parent):
        own = weights[:, [columns.index(child) for child in children]]
        branch = [next((q for q, u in enumerate(children) if u in naive_path(parent, leaf)), None) for leaf in leaves]
        here = [(row @ own, branch[y]) for row, y in zip(values, labels, strict=True) if branch[y] is not None]
        mean_loss = sum(crammer_singer(scores, child) for scores, child in here) / len(here)
        apart += len(here) / 50 * (lam * 50 / len(here) / 2 * (own**2).sum() + mean_loss)
    assert joint == pytest.approx(apart, rel=1e-12)


def test_two_classes_below_a_chain_are_one_split() -> None:
    tree = TaxonomyTree.of(taxonomy_of(TWO))
    assert (tree.n_nodes, tree.n_columns, tree.height()) == (3, 2, 1)
    ranking = tree.model(np.eye(2, dtype=np.float32), None, {}).rank(Dense(np.array([[1, 2], [3, 1]], np.float32)), 2)
    assert ranking.classes.tolist() == [[1, 0], [0, 1]]
    assert ranking.evaluations.tolist() == [2, 2]


def test_a_very_deep_chain_of_splits() -> None:
    """One class leaves at every level: a walk of 300 splits, and no recursion."""
    n = 300
    parent, leaves, spine = [-1], [], 0
    for _ in range(n):
        parent += [spine, spine]
        leaves.append(len(parent) - 1)
        spine = len(parent) - 2
    tree = TaxonomyTree.of(taxonomy_of((parent, [*leaves, spine])))
    assert (tree.n_columns, tree.height()) == (2 * n, n)
    weights = np.zeros((1, 2 * n), np.float32)
    weights[0, ::2] = 1.0  # rows of positive values go down the spine
    ranking = tree.model(weights, None, {}).rank(Dense(np.array([[1.0], [-1.0]], np.float32)), 3)
    assert ranking.classes.tolist() == [[n, n - 1, n - 2], [0, 1, 2]]
    assert ranking.evaluations.tolist() == [2 * n, 2]
