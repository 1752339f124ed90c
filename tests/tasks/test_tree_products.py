"""Scores of rounds: every body of rows and every form of weights against plain products; rows do not meet."""

from __future__ import annotations

import numpy as np
import pytest

from tasks.rows import Csr, Dense
from tasks.trees.prediction import products, ranking
from tasks.trees.prediction.dense_products import CHUNK, COMPILED
from tasks.trees.prediction.products import scorer_of
from tasks.trees.prediction.rounds import COLUMNS, MATRICES, Round, round_of
from tasks.trees.tree import LabelTree, Path, Split, assemble
from tasks.trees.weights import ActiveWeights, AnyWeights, SparseWeights
from tests.bodies import csr_of
from tests.tasks.tree_samples import FORMS, Drawn, one_hot_rows, random_rows, random_tree, rows_in

BODIES = ("dense", "half", "double", "csr", "pq")


def two_splits(n_children: int, n_features: int, form: str, seed: int) -> LabelTree:
    """A root of n_children children, the first of which has two."""
    rng = np.random.default_rng(seed)

    def weights(n: int) -> AnyWeights:
        matrix = rng.integers(-3, 4, (n_features, n)).astype(np.float32)
        if form == "matrices":
            return matrix
        columns = np.flatnonzero(rng.random(n_features) < 0.6).astype(np.int32)
        if form == "columns":
            return ActiveWeights(columns, matrix[columns], matrix.shape)
        return SparseWeights.of(matrix[columns] * (rng.random((columns.size, n)) < 0.2), n_features, columns)

    every = np.arange(n_children, dtype=np.int32)
    children = np.eye(n_children, dtype=bool)
    children[0, 1] = True
    bias = rng.integers(-3, 4, n_children).astype(np.float32)
    below = Split(every[:2], np.eye(2, dtype=bool), weights(2), np.ones(2, np.float32))
    splits: dict[Path, Split] = {(): Split(every, children, weights(n_children), bias), (0,): below}
    return assemble(splits, n_features, n_children, {}, every)


def whole(weights: AnyWeights) -> np.ndarray:
    return weights if isinstance(weights, np.ndarray) else weights.to_array()


def assert_scores(tree: LabelTree, score: object, values: np.ndarray, at: np.ndarray) -> None:
    """Whole numbers, so equal however they are added up."""
    group = Round(*round_of(at, tree.n_children))
    found = score(group)  # type: ignore[operator]
    assert found.dtype == np.float32
    assert sorted(group.rows) == np.flatnonzero((at >= 0) & (tree.n_children[np.maximum(at, 0)] > 0)).tolist()
    for g, node in enumerate(group.nodes):
        rows = group.rows[group.bounds[g] : group.bounds[g + 1]]
        assert (at[rows] == node).all()
        assert (np.diff(rows) > 0).all()
        first, n = tree.first_child[node] - 1, tree.n_children[node]
        expected = values[rows] @ whole(tree.node_weights(node)) + tree.bias[first : first + n]
        np.testing.assert_array_equal(found[group.starts[g] : group.starts[g + 1]].reshape(-1, n), expected)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("body", BODIES)
@pytest.mark.parametrize("n_children", [2, 15, 16, 17, 48, 50, 66])
def test_scores_are_products(form: str, body: str, n_children: int) -> None:
    drawn = Drawn(n_features=10)
    for n_rows in (1, 2, 7, 8, 9, 17):
        tree, values = two_splits(n_children, 10, form, n_rows), random_rows(n_rows, n_rows, drawn)
        at = np.random.default_rng(n_rows).integers(-1, 3, n_rows).astype(np.int32)
        assert_scores(tree, scorer_of(rows_in(body, values), tree._nodes), values, at)


@pytest.mark.parametrize("form", FORMS)
def test_more_rows_than_fit_into_a_chunk(form: str) -> None:
    n_rows = 2 * CHUNK + 11
    tree, values = two_splits(20, 6, form, 1), random_rows(3, n_rows, Drawn())
    assert_scores(tree, scorer_of(Dense(values), tree._nodes), values, np.zeros(n_rows, np.int32))


@pytest.mark.parametrize("form", FORMS)
def test_one_hot_rows(form: str) -> None:
    tree, rows = two_splits(5, 6, form, 2), one_hot_rows(0, 12, 6)
    assert_scores(tree, scorer_of(rows, tree._nodes), rows.to_array(), np.arange(12, dtype=np.int32) % 2)


@pytest.mark.parametrize("form", ["columns", "entries"])
def test_features_are_found_in_a_table_or_by_search(form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    tree, values = two_splits(5, 6, form, 3), random_rows(4, 9, Drawn())
    at = np.arange(9, dtype=np.int32) % 2
    score = scorer_of(csr_of(values), tree._nodes)
    assert_scores(tree, score, values, at)
    assert_scores(tree, score, values, at)  # the table is as clean as before
    monkeypatch.setattr(products, "WIDEST_TABLE", 0)
    assert_scores(tree, scorer_of(csr_of(values), tree._nodes), values, at)


@pytest.mark.parametrize("form", FORMS)
def test_rows_without_entries_score_the_bias(form: str) -> None:
    tree, values = two_splits(5, 6, form, 4), np.zeros((3, 6), np.float32)
    assert_scores(tree, scorer_of(csr_of(values), tree._nodes), values, np.zeros(3, np.int32))


def test_rows_without_features_score_the_bias() -> None:
    tree, values = two_splits(5, 0, "matrices", 5), np.zeros((3, 0), np.float32)
    assert_scores(tree, scorer_of(Dense(values), tree._nodes), values, np.zeros(3, np.int32))


# ---- rankings ------------------------------------------------------------------------------------------------------

RANKED = ("classes", "scores", "evaluations", "path")


@pytest.mark.parametrize("body", BODIES)
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("beam", [1, 2])
def test_every_body_of_rows_is_ranked_as_dense_rows(body: str, form: str, beam: int) -> None:
    tree, values = random_tree(7, Drawn(form=form)), random_rows(8, 25, Drawn())
    found, expected = tree.rank(rows_in(body, values), 4, None, beam), tree.rank(Dense(values), 4, None, beam)
    for name in RANKED:
        np.testing.assert_array_equal(getattr(found, name), getattr(expected, name))


@pytest.mark.skipif(not COMPILED, reason="where nothing is compiled, sums are BLAS's")
@pytest.mark.parametrize("body", ["dense", "csr"])
@pytest.mark.parametrize("probabilistic", [False, True])
def test_a_row_is_ranked_alone_as_among_others_bit_for_bit(
    body: str, probabilistic: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn = Drawn(n_features=40, n_classes=60, branching=9, whole=False, probabilistic=probabilistic)
    tree, values = random_tree(11, drawn), random_rows(12, 70, drawn)
    rows = Dense(values) if body == "dense" else csr_of(values)
    labels = np.arange(70, dtype=np.int32) % 60 if probabilistic else None
    together = tree.rank(rows, 5, labels, 2 if probabilistic else 1)
    for i in range(70):
        alone = tree.rank(rows.take(np.array([i])), 5, None, 2 if probabilistic else 1)
        for name in RANKED:
            np.testing.assert_array_equal(getattr(alone, name)[0], getattr(together, name)[i])
    monkeypatch.setattr(ranking, "MOST_ROWS", 9)
    sliced = tree.rank(rows, 5, labels, 2 if probabilistic else 1)
    for name in RANKED:
        np.testing.assert_array_equal(getattr(sliced, name), getattr(together, name))
    if probabilistic:
        assert sliced.probabilities is not None
        assert together.probabilities is not None
        np.testing.assert_array_equal(sliced.probabilities.named, together.probabilities.named)
        np.testing.assert_array_equal(sliced.probabilities.label_log, together.probabilities.label_log)


def test_a_slice_holds_no_more_numbers_than_it_may() -> None:
    rows = Dense(np.zeros((10, 4), np.float32))
    sizes = [stop - start for start, stop, _ in ranking.slices(rows, ranking.CELLS // 3)]
    assert sizes == [3, 3, 3, 1]
    nothing = Csr(np.zeros(0, np.float32), np.zeros(0, np.int32), np.zeros(1, np.int64), 4)
    assert list(ranking.slices(nothing, 1)) == []


def test_rows_that_are_decoded_take_room() -> None:
    values = np.zeros((2, 6), np.float32)
    cells = {body: ranking.decoded_cells(rows_in(body, values), MATRICES) for body in BODIES}
    assert cells == {"dense": 0, "half": 6, "double": 6, "csr": 0, "pq": 6}
    assert ranking.decoded_cells(Dense(values), COLUMNS) > 6  # they are made sparse
    assert ranking.decoded_cells(one_hot_rows(0, 2, 6), MATRICES) == 3 * ranking.SPARSE_CELLS
