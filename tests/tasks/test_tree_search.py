"""Beam search against its definition, row by row: order, answers, costs, paths, probabilities."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tasks.rows import Dense
from tasks.trees.prediction.links import LINKS, REACH, SIGMOID, SOFTMAX, TRUST, link_children, room_for
from tasks.trees.prediction.naming import UNHEARD
from tasks.trees.tree import LabelTree, Split, assemble
from tasks.trees.weights import node_scores
from tests.naive import tree_search as naive
from tests.tasks.tree_samples import Drawn, plain, random_rows, random_tree

MANY = 1000  # a beam without bounds
N_ROWS = 6


def drawn_trees(
    disjoint: st.SearchStrategy[bool], links: tuple[str, ...] = (SOFTMAX, SIGMOID)
) -> st.SearchStrategy[LabelTree]:
    drawn = st.builds(
        Drawn,
        n_classes=st.integers(2, 14),
        branching=st.integers(2, 5),
        depth=st.integers(1, 4),
        disjoint=disjoint,
        link=st.sampled_from(links),
        whole=st.booleans(),
    )
    return st.builds(random_tree, st.integers(0, 10**6), drawn).filter(lambda tree: tree.n_children[0] > 0)


trees = drawn_trees(st.booleans())


def children_of(tree: LabelTree, row: np.ndarray) -> naive.Children:
    """Probabilities of children, by the link that the search uses: so that ties are ties for both."""

    def given(node: int, mass: float) -> list[float]:
        first, n = tree.first_child[node] - 1, int(tree.n_children[node])
        scores = node_scores(Dense(row[None]), tree.node_weights(node), tree.bias[first : first + n])[0]
        scale, out = np.float32(1 if tree.scales is None else tree.scales[node]), np.empty(n)
        link_children(LINKS.index(tree.link), node == 0, scores, scale, mass, out, room_for(n))
        return [float(p) for p in out]

    return given


def padded(nodes: list[int], width: int) -> list[int]:
    return nodes + [-1] * (width - len(nodes))


@settings(max_examples=60, deadline=None)
@given(
    tree=drawn_trees(st.booleans(), LINKS),
    seed=st.integers(0, 10**6),
    beam=st.sampled_from([1, 2, 3, MANY]),
    sharpness=st.sampled_from([1.0, 0.5, 2.0]),
)
def test_search_is_its_definition(tree: LabelTree, seed: int, beam: int, sharpness: float) -> None:
    """Scores of whole numbers, so that they are the same bits however they are added up."""
    rows = random_rows(seed, N_ROWS, Drawn())
    if not np.array_equal(tree.weights, np.rint(tree.weights)):
        tree = LabelTree(**{**vars_of(tree), "weights": np.rint(4 * tree.weights)})
    tree = replace(tree, sharpness=sharpness)
    labels = np.random.default_rng(seed).integers(-1, tree.n_classes, N_ROWS).astype(np.int32)
    ranking, shape = tree.rank(Dense(rows), 4, labels, beam), plain(tree)
    assert ranking.path is not None
    assert ranking.probabilities is not None
    for i, row in enumerate(rows):
        found = naive.search(shape, children_of(tree, row), beam)
        expected, total = naive.ranked(shape, found)[:4], naive.reached(shape, found)
        assert ranking.classes[i].tolist() == padded(expected, 4)
        assert ranking.scores[i, : len(expected)].tolist() == [np.float32(total[c]) for c in expected]
        assert np.isnan(ranking.scores[i, len(expected) :]).all()
        assert ranking.evaluations[i] == sum(len(shape.children[node]) for node in found.expanded)
        path = naive.path_of_first(shape, found)
        assert ranking.path[i].tolist() == padded(path, ranking.path.shape[1])
        norm = naive.norm(shape, found, sharpness) if (tree.link, sharpness) != (SOFTMAX, 1.0) else 1.0
        named = [total[c] ** sharpness / norm for c in expected]
        np.testing.assert_allclose(ranking.probabilities.named[i, : len(expected)], named, rtol=1e-6, atol=1e-37)
        mass = naive.label_mass(shape, found, int(labels[i]), sharpness) / norm
        own = np.nan if labels[i] < 0 else math.log(mass or UNHEARD)
        np.testing.assert_allclose(ranking.probabilities.label_log[i], own, rtol=1e-5, atol=1e-6)


def vars_of(tree: LabelTree) -> dict[str, object]:
    return {name: getattr(tree, name) for name in tree.__dataclass_fields__}


@settings(max_examples=60, deadline=None)
@given(tree=trees, seed=st.integers(0, 10**6))
def test_a_wide_beam_finds_the_most_probable_leaf_of_all(tree: LabelTree, seed: int) -> None:
    """And where no class is in two leaves, the most probable class."""
    rows, shape = random_rows(seed, N_ROWS, Drawn()), plain(tree)
    ranking = tree.rank(Dense(rows), tree.n_classes, None, MANY)
    held = [c for node, classes in enumerate(shape.classes) if not shape.children[node] for c in classes]
    for i, row in enumerate(rows):
        every = naive.everywhere(shape, children_of(tree, row))
        total = naive.reached(shape, every)
        shares = [
            every.seen[n] / len(shape.classes[n]) for n in every.seen if not shape.children[n] and shape.classes[n]
        ]
        if not shares:
            assert ranking.classes[i, 0] == -1
            continue
        assert ranking.path is not None
        leaf = [node for node in ranking.path[i] if node >= 0][-1]
        named = ranking.classes[i][ranking.classes[i] >= 0]
        assert max(every.seen[n] / len(shape.classes[n]) for n in leaves_with(shape, named)) >= max(shares) * (1 - 1e-6)
        assert ranking.evaluations[i] <= sum(len(children) for children in shape.children)
        if len(set(held)) == len(held):
            assert total[ranking.classes[i, 0]] >= max(total.values()) * (1 - 1e-6)
            assert ranking.classes[i, 0] in shape.classes[leaf]


def leaves_with(shape: naive.Tree, classes: np.ndarray) -> list[int]:
    return [n for n, held in enumerate(shape.classes) if not shape.children[n] and set(held) & set(classes.tolist())]


@settings(max_examples=30, deadline=None)
@given(tree=drawn_trees(st.just(True)), seed=st.integers(0, 10**6), beam=st.integers(1, 4))
def test_no_beam_finds_better_than_all_nodes_would(tree: LabelTree, seed: int, beam: int) -> None:
    """Where no class is in two leaves: else a search may end before it has seen both."""
    rows = Dense(random_rows(seed, N_ROWS, Drawn()))
    narrow, wide = tree.rank(rows, 1, None, beam), tree.rank(rows, 1, None, MANY)
    none = np.isnan(narrow.scores)
    assert (none | (narrow.scores <= wide.scores * np.float32(1 + 1e-6))).all()
    assert none[np.isnan(wide.scores)].all()


# ---- by hand -------------------------------------------------------------------------------------------------------


def two_levels() -> LabelTree:
    """The root has an inner child of classes 0, 1, a leaf of 2, 3 and an empty leaf; scores are the bias alone."""
    every = np.arange(4, dtype=np.int32)
    nothing = np.zeros((1, 3), np.float32)
    children = np.array([[1, 1, 0, 0], [0, 0, 1, 1], [0, 0, 0, 0]], bool)
    root = Split(every, children, nothing, np.log(np.array([0.5, 0.3, 0.2])).astype(np.float32))
    below = Split(every[:2], np.eye(2, dtype=bool), nothing[:, :2], np.log(np.array([0.9, 0.1])).astype(np.float32))
    facts = {"probabilistic": True}
    return assemble({(): root, (0,): below}, 1, 4, facts, every, kind="kmeans-tree", beam=2)


ONE = Dense(np.ones((1, 1), np.float32))


def test_probabilities_of_a_tree_by_hand() -> None:
    tree = two_levels()
    ranking = tree.rank(ONE, 4, np.array([1], np.int32))
    assert ranking.classes[0].tolist() == [0, 2, 3, 1]
    np.testing.assert_allclose(ranking.scores[0], [0.45, 0.15, 0.15, 0.05], rtol=1e-6)
    assert ranking.evaluations.tolist() == [5]
    assert ranking.path is not None
    assert ranking.path.tolist() == [[0, 1, 4]]
    assert ranking.probabilities is not None
    np.testing.assert_array_equal(ranking.probabilities.named, ranking.scores)
    np.testing.assert_allclose(ranking.probabilities.label_log, [math.log(0.05)], rtol=1e-6)


def test_a_node_that_cannot_be_better_is_left_alone_and_shares_its_probability_evenly() -> None:
    """Under the leaf of 2 and 3 with 0.7 each class has 0.35, more than all of node 1."""
    every = np.arange(4, dtype=np.int32)
    children = np.array([[1, 1, 0, 0], [0, 0, 1, 1]], bool)
    root = Split(every, children, np.zeros((1, 2), np.float32), np.log(np.array([0.3, 0.7])).astype(np.float32))
    below = Split(every[:2], np.eye(2, dtype=bool), np.zeros((1, 2), np.float32), np.zeros(2, np.float32))
    tree = assemble({(): root, (0,): below}, 1, 5, {"probabilistic": True}, every, kind="kmeans-tree")
    ranking = tree.rank(Dense(np.ones((2, 1), np.float32)), 3, np.array([0, 4], np.int32), MANY)
    assert ranking.classes.tolist() == [[2, 3, -1]] * 2
    assert ranking.evaluations.tolist() == [2, 2]
    assert ranking.probabilities is not None
    expected = [math.log(0.15), math.log(UNHEARD)]  # no node holds class 4
    np.testing.assert_allclose(ranking.probabilities.label_log, expected, rtol=1e-6)


def test_probabilities_that_a_search_tells_sum_to_one() -> None:
    """Over all labels, of a tree without overlap and empty leaves."""
    tree = next(
        t for t in (random_tree(s, Drawn(disjoint=True)) for s in range(99)) if not (np.diff(t.offsets) == 0).any()
    )
    row = random_rows(1, 1, Drawn())
    labels = np.arange(tree.n_classes, dtype=np.int32)
    for beam in (1, 2, MANY):
        ranking = tree.rank(Dense(np.repeat(row, labels.size, axis=0)), 1, labels, beam)
        assert ranking.probabilities is not None
        assert np.exp(ranking.probabilities.label_log).sum() == pytest.approx(1, abs=1e-5)


SURE, EVEN = 50.0, 0.0  # sigmoids of exactly 1 and 1/2


def split(classes: list[int], children: list[list[int]], scores: list[float]) -> Split:
    """A node that scores the same for every row of one column."""
    held = np.array([np.isin(classes, child) for child in children])
    return Split(np.array(classes, np.int32), held, np.zeros((1, len(children)), np.float32), np.float32(scores))


def with_sigmoids(splits: dict[tuple[int, ...], Split], n_classes: int) -> LabelTree:
    every = np.arange(n_classes, dtype=np.int32)
    return assemble(splits, 1, n_classes, {"probabilistic": True}, every, kind="kmeans-tree", link=SIGMOID, beam=MANY)


def test_of_equal_nodes_the_lower_is_expanded_first() -> None:
    """Nodes 2 and 3 both have 1/2; the leaf below node 2 has as much, so that node 3 cannot be better."""
    root = split([0, 1, 2], [[0, 1], [2]], [SURE, EVEN])
    first, second = split([0, 1], [[0, 1], []], [EVEN, -SURE]), split([2], [[2], []], [SURE, -SURE])
    tree = with_sigmoids({(): root, (0,): first, (1,): second, (0, 0): split([0, 1], [[0], [1]], [SURE, SURE])}, 3)
    ranking = tree.rank(ONE, 3)
    assert ranking.classes.tolist() == [[2, -1, -1]]
    assert ranking.evaluations.tolist() == [6]


def test_of_equal_leaves_of_a_class_the_path_goes_to_the_lower() -> None:
    """Class 0 has 1/4 in leaf 5, which is found first, and 1/4 in leaf 3."""
    root = split([0, 1, 2], [[0, 2], [0, 1]], [EVEN, SURE])
    first, second = split([0, 2], [[0], [2]], [EVEN, -SURE]), split([0, 1], [[0, 1], []], [EVEN, -SURE])
    ranking = with_sigmoids({(): root, (0,): first, (1,): second}, 3).rank(ONE, 1)
    assert (ranking.classes.tolist(), ranking.scores.tolist()) == ([[0]], [[0.5]])
    assert ranking.path is not None
    assert ranking.path.tolist() == [[0, 1, 3]]


def test_margins_are_walked_down_with_a_beam_of_one_and_searched_with_more() -> None:
    tree = random_tree(5, Drawn(probabilistic=False, kind="label-tree"))
    rows = Dense(random_rows(0, 30, Drawn()))
    walked, searched = tree.rank(rows, 3), tree.rank(rows, 3, None, 2)
    assert (walked.probabilities, searched.probabilities) == (None, None)
    assert np.nanmax(searched.scores) <= 1
    assert np.nanmax(walked.scores) > 1
    assert (searched.evaluations >= walked.evaluations).any()


def test_a_root_that_is_a_leaf_shares_evenly() -> None:
    tree = assemble({}, 1, 3, {"probabilistic": True}, np.array([1, 2]), kind="kmeans-tree")
    ranking = tree.rank(Dense(np.ones((3, 1), np.float32)), 2, np.array([2, 0, -1], np.int32))
    assert ranking.classes.tolist() == [[1, 2]] * 3
    assert ranking.probabilities is not None
    np.testing.assert_array_equal(ranking.probabilities.named, np.full((3, 2), 0.5, np.float32))
    np.testing.assert_allclose(ranking.probabilities.label_log, [math.log(0.5), math.log(UNHEARD), np.nan], rtol=1e-6)


# ---- links ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("link", LINKS)
@pytest.mark.parametrize("at_root", [True, False])
def test_links_are_their_formulas(seed: int, link: str, at_root: bool) -> None:
    rng = np.random.default_rng(seed)
    scores = (rng.normal(size=int(rng.integers(1, 70))) * 10.0 ** rng.integers(-1, 3)).astype(np.float32)
    out, scaled = np.empty(scores.size), [0.5 * float(s) for s in scores]
    link_children(LINKS.index(link), at_root, scores, np.float32(0.5), 0.25, out, room_for(scores.size))
    if link == SIGMOID:
        expected = [0.25 * p for p in naive.sigmoid(scaled)]
    elif link == REACH and not at_root:
        expected = [0.25**TRUST * p for p in naive.softmax([*scaled, 0.0])[:-1]]  # the last: none of these
    else:
        expected = [0.25 * p for p in naive.softmax(scaled)]
    np.testing.assert_allclose(out, expected, rtol=2e-6, atol=1e-37)


def test_a_tree_tells_the_chances_of_a_node_s_children() -> None:
    tree = two_levels()
    np.testing.assert_allclose(tree.chances(0, np.log(np.float32([0.5, 0.3, 0.2]))), [0.5, 0.3, 0.2], rtol=1e-6)
