"""K-means trees grown in memory: rows that reach a node, scales, shapes, answers."""

from __future__ import annotations

import numpy as np
import pytest

from tasks.errors import ParamError
from tasks.rows import Csr, Dense, OneHot, Rows
from tasks.trees.kmeans.params import VISITED, KMeansTreeParams, proposed
from tasks.trees.kmeans.reach import best_children
from tasks.trees.local import Labelled, LocalNode, columns_of, grow_rows, sent_down
from tasks.trees.params import TreeShape
from tasks.trees.scale import SCALES, best_scale
from tasks.trees.tree import LabelTree, Split
from tests.bodies import csr_of
from tests.naive import kmeans_tree as naive

N_CLASSES = 30


def words(seed: int, per_class: int, n_classes: int = N_CLASSES, n_features: int = 120) -> Labelled:
    """Sparse rows: a class has some words of its own and shares others with two neighbours."""
    rng = np.random.default_rng(seed)
    labels = rng.permutation(np.repeat(np.arange(n_classes), per_class)).astype(np.int32)
    values = np.zeros((labels.size, n_features))
    for i, label in enumerate(labels):
        own = 4 * label + rng.integers(0, 4, 3)
        near = 4 * ((label // 3) * 3 + rng.integers(0, 3, 2)) + rng.integers(0, 4, 2)
        values[i, [*own % n_features, *near % n_features, *rng.integers(0, n_features, 2)]] = 1.0
    values /= np.linalg.norm(values, axis=1, keepdims=True)
    return Labelled(csr_of(values.astype(np.float32)), labels)


def bodied(labelled: Labelled, body: str) -> Labelled:
    if body == "csr":
        return labelled
    values = labelled.rows.to_array()
    if body == "onehot":
        return Labelled(OneHot((values > 0).astype(np.uint8), 2), labelled.labels)
    return Labelled(Dense(values.astype(np.float16 if body == "float16" else np.float32)), labelled.labels)


def right(tree: LabelTree, test: Labelled, beam: int) -> float:
    return float((tree.rank(test.rows, 1, beam=beam).classes[:, 0] == test.labels).mean())


@pytest.mark.parametrize("body", ["csr", "dense", "float16", "onehot"])
@pytest.mark.parametrize("depth", [1, 2, 3])
def test_a_grown_tree_knows_its_classes(body: str, depth: int) -> None:
    sizes = (5, 2, 2) if body == "onehot" else (20, 5, 10)
    train, judges, test = (bodied(words(seed, n), body) for seed, n in enumerate(sizes))
    params = KMeansTreeParams(depth=depth, branching=None if depth == 1 else 4)
    tree = grow_rows(train, judges, N_CLASSES, params, 7)
    assert (tree.kind, tree.link, tree.facts["probabilistic"]) == ("kmeans-tree", "reach", True)
    assert int(tree.depth_of.max()) == depth
    leaves = tree.classes[np.repeat(tree.n_children == 0, np.diff(tree.offsets))]
    assert sorted(leaves.tolist()) == list(range(N_CLASSES))  # every class in one leaf
    assert right(tree, test, 10) > (0.6 if body == "onehot" else 0.8)
    ranking = tree.rank(test.rows, 3, labels=test.labels, beam=10)
    assert ranking.probabilities is not None
    assert (np.nansum(ranking.probabilities.named, axis=1) <= 1 + 1e-6).all()
    assert ranking.probabilities.label_log.mean() > (-2.0 if body == "onehot" else -1.0)
    again = grow_rows(train, judges, N_CLASSES, params, 7)
    assert all((again.tensors()[name] == values).all() for name, values in tree.tensors().items())
    other = grow_rows(train, judges, N_CLASSES, params, 8)
    assert depth == 1 or any(not np.array_equal(other.tensors()[n], v) for n, v in tree.tensors().items())


def test_no_validation_rows_and_classes_without_training_rows() -> None:
    train, test = words(0, 20), words(2, 10)
    kept = np.flatnonzero((train.labels != 3) & (train.labels % 7 != 6))
    nobody = train.take(np.zeros(0, np.int64))
    tree = grow_rows(train.take(kept), nobody, N_CLASSES, KMeansTreeParams(branching=4), 0)
    assert tree.scales is None or (tree.scales == 1).all()
    learnt = np.isin(test.labels, train.labels[kept])
    assert right(tree, test.take(np.flatnonzero(learnt)), 10) > 0.7


def test_a_node_of_others_rows_alone_says_none() -> None:
    train = words(0, 10)
    classes = np.array([3, 9], np.int32)
    others = train.take(np.flatnonzero(~np.isin(train.labels, classes)))
    node = LocalNode(classes, others, others, KMeansTreeParams(branching=2, depth=2), 0, "node", 1)
    weights = node.learn(np.eye(2, dtype=bool), None, 0).parameters
    assert (node.rows.scores(weights["weights"]) + weights["bias"] < 0).all()
    assert node.counts(weights).sum() == 0


# ---- rows that reach -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("reach", [1, 2, 5])
def test_rows_go_to_their_own_child_and_the_best(seed: int, reach: int) -> None:
    rng = np.random.default_rng(seed)
    scores, own = np.round(rng.normal(size=(40, 5))), rng.integers(-1, 5, 40).astype(np.int32)  # with ties
    goes = np.full((40, reach + 1), -1, np.int32)
    best_children(scores.astype(np.float32), own, goes)
    for row, child, found in zip(scores, own, goes, strict=True):
        expected = naive.goes_to(row, child, reach)
        assert sorted(found[found >= 0].tolist()) == sorted(expected)


def test_sent_down_is_sorted_and_takes_others_rows_along() -> None:
    children = np.array([[1, 1, 0], [0, 0, 1]], bool)
    split = Split(np.array([2, 5, 7], np.int32), children, np.array([[1.0, -1.0]], np.float32), np.zeros(2, np.float32))
    rows, labels = Dense(np.array([[1.0], [-1.0], [2.0], [-2.0]])), np.array([7, 7, 4, 5], np.int32)
    columns = columns_of(split.classes, labels)
    assert columns.tolist() == [2, 2, -1, 1]
    index, child = sent_down(rows, columns, split, True, KMeansTreeParams(reach=1))
    assert list(zip(child.tolist(), index.tolist(), strict=True)) == [(0, 0), (0, 2), (0, 3), (1, 0), (1, 1), (1, 3)]


@pytest.mark.parametrize("labels", [[], [5], [0, 4, 9, 2]])
def test_columns_of_nothing(labels: list[int]) -> None:
    found = columns_of(np.zeros(0, np.int32), np.array(labels, np.int32))
    assert found.tolist() == [-1] * len(labels)


# ---- scales and shapes ---------------------------------------------------------------------------------------------


def test_a_scale_must_gain_more_than_the_prior_costs() -> None:
    assert best_scale(np.zeros(SCALES.size)) == 1.0
    better = np.where(SCALES == 2.0, 1.0, 0.0)
    assert best_scale(better) == 1.0
    assert best_scale(100 * better) == 2.0


def test_a_node_that_is_too_sure_is_scaled_down() -> None:
    train, judges = words(0, 20), words(1, 5)
    wrong = Labelled(judges.rows, np.roll(judges.labels, 1))
    tree, doubtful = (grow_rows(train, one, N_CLASSES, KMeansTreeParams(depth=1), 0) for one in (judges, wrong))
    assert doubtful.scales is not None
    assert doubtful.scales[0] < (1.0 if tree.scales is None else tree.scales[0])


@pytest.mark.parametrize("n_classes", [2, 15, 16, 200, 7321])
def test_settled_shapes(n_classes: int) -> None:
    params = KMeansTreeParams().settled(n_classes)
    assert params.depth == (1 if n_classes < 16 else 2)
    assert params.branching is not None
    assert n_classes < 16 or n_classes / params.branching <= 2 * params.branching
    assert KMeansTreeParams(branching=3, depth=3).settled(40).branching == 3
    assert KMeansTreeParams(depth=1).settled(40).branching == 40
    assert params.kind_of(1, 0) == "leaf"
    assert params.kind_of(params.branching, 0) == "full"


@pytest.mark.parametrize("speedup", [2.0, 4.5, 10.0, 25.0])
@pytest.mark.parametrize("n_classes", [200, 1000, 7321])
def test_proposed_shapes_are_as_quick_as_wanted(n_classes: int, speedup: float) -> None:
    if (n_classes, speedup) == (200, 25.0):
        with pytest.raises(TreeShape, match=r"speedup = 25.0: expected at most 13.8 for 200 classes, because"):
            proposed(n_classes, speedup)
        return
    branching, depth = proposed(n_classes, speedup)
    if (n_classes, speedup) == (200, 10.0):  # on easy data only
        assert (
            naive.search_cost(branching, depth, n_classes, 1.0)
            <= 20
            < naive.search_cost(branching, depth, 200, VISITED)
        )
        return
    assert n_classes >= speedup * naive.search_cost(branching, depth, n_classes, VISITED)
    fewer = naive.search_cost(branching - 1, depth, n_classes, VISITED) if branching > 2 else np.inf
    assert n_classes < speedup * fewer
    settled = KMeansTreeParams(speedup=speedup).settled(n_classes)
    assert (settled.branching, settled.depth) == (branching, depth)


@pytest.mark.parametrize(
    ("name", "value"),
    [("branching", 1), ("depth", 0), ("reach", 0), ("speedup", 1.0), ("whole_root_bytes", -1), ("rounds", 0)],
)
def test_parameters_are_checked(name: str, value: float) -> None:
    with pytest.raises(ParamError, match=name):
        KMeansTreeParams(**{name: value})


@pytest.mark.parametrize(("n_classes", "given"), [(1, {}), (3, {"branching": 4})])
def test_shapes_that_cannot_be(n_classes: int, given: dict[str, int]) -> None:
    with pytest.raises(TreeShape):
        KMeansTreeParams(**given).settled(n_classes)


def test_wide_nodes_are_those_that_do_not_fit() -> None:
    params = KMeansTreeParams(branching=10, depth=2, whole_root_bytes=1000, whole_node_bytes=5000)
    assert params.beside_bytes == 80
    assert params.trained_whole((), 10, 100.0)
    assert not params.trained_whole((), 11, 100.0)
    assert params.trained_whole((0,), 11, 100.0)


def test_more_rows_reach_dense_nodes() -> None:
    assert KMeansTreeParams().reach_of(sparse=False) > KMeansTreeParams().reach_of(sparse=True)
    assert KMeansTreeParams(reach=7).reach_of(sparse=True) == 7


def rows_of(body: str) -> Rows:
    return bodied(words(0, 2), body).rows


def test_bodies_are_as_meant() -> None:
    assert [type(rows_of(body)) for body in ("csr", "dense", "onehot")] == [Csr, Dense, OneHot]
