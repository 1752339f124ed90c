"""Label trees as flat arrays: the walk against Algorithm 1 row by row, answers, shapes, saving."""

from __future__ import annotations

import json
from collections.abc import Callable

import numpy as np
import pytest

from tasks.models.errors import ColumnMismatch, ModelFormat
from tasks.rows import Csr, Dense
from tasks.trees.params import LabelTreeParams
from tasks.trees.tree import LabelTree, Path, Split, assemble, shape_counts
from tests.naive import trees as naive
from tests.shared import shared_path

Divide = Callable[[np.ndarray, int], np.ndarray]


def even_parts(classes: np.ndarray, n_children: int) -> np.ndarray:
    """Contiguous parts as equal as possible, larger first: (Q, K) bool."""
    owner = np.repeat(np.arange(n_children), [part.size for part in np.array_split(classes, n_children)])
    return np.asarray(owner[None, :] == np.arange(n_children)[:, None])


def grown(n_classes: int, n_features: int, params: LabelTreeParams, divide: Divide, seed: int = 0) -> LabelTree:
    """A tree with random weights whose learned splits are made by `divide`."""
    rng = np.random.default_rng(seed)
    waiting: list[tuple[Path, np.ndarray]] = [((), np.arange(n_classes, dtype=np.int32))]
    splits: dict[Path, Split] = {}
    for path, classes in waiting:
        kind = params.kind_of(classes.size, len(path))
        if kind == "leaf":
            continue
        assert params.branching is not None
        children = np.eye(classes.size, dtype=bool) if kind == "full" else divide(classes, params.branching)
        shape = (n_features, len(children))
        splits[path] = Split(classes, children, rng.normal(size=shape).astype(np.float32), np.zeros(shape[1]))
        waiting += [((*path, q), splits[path].classes_of(q)) for q in range(len(children))]
    return assemble(splits, n_features, n_classes, {"branching": params.branching}, waiting[0][1])


def overlapping(seed: int) -> Divide:
    rng = np.random.default_rng(seed)
    return lambda classes, n_children: np.asarray(rng.random((n_children, classes.size)) < 0.5)


@pytest.mark.parametrize("seed", range(8))
def test_walk_is_algorithm_1(seed: int) -> None:
    rng = np.random.default_rng(seed)
    tree = grown(int(rng.integers(2, 12)), 4, LabelTreeParams(branching=2, depth=3), overlapping(seed), seed)
    rows = rng.normal(size=(50, 4)).astype(np.float32)
    ranking = tree.rank(Dense(rows), 1)
    children = [list(range(first, first + n)) for first, n in zip(tree.first_child, tree.n_children, strict=True)]
    weights = [tree.node_weights(n) if children[n] else None for n in range(tree.n_nodes)]
    sets = [tree.label_set(n).tolist() for n in range(tree.n_nodes)]
    assert ranking.path is not None
    for i, row in enumerate(rows):
        answer, evaluated, path = naive.walk(row, weights, children, sets)
        assert (ranking.classes[i, 0], ranking.evaluations[i]) == (answer, evaluated)
        assert ranking.path[i].tolist() == path + [-1] * (ranking.path.shape[1] - len(path))
        assert np.isnan(ranking.scores[i, 0]) == (answer < 0)


def test_sparse_rows_walk_the_same_way() -> None:
    tree = grown(9, 4, LabelTreeParams(branching=3, depth=2), even_parts)
    dense = np.random.default_rng(1).normal(size=(30, 4)).astype(np.float32)
    sparse = Csr(dense.ravel(), np.tile(np.arange(4, dtype=np.int32), 30), np.arange(0, 121, 4), 4)
    np.testing.assert_array_equal(tree.rank(sparse, 3).classes, tree.rank(Dense(dense), 3).classes)


def by_hand(children: list[list[int]], n_classes: int) -> LabelTree:
    """One split with the given children over one feature; child q scores q-th of 3, 1, 2, ... on the row 1."""
    held = np.zeros((len(children), n_classes), bool)
    for q, classes in enumerate(children):
        held[q, classes] = True
    weights = np.array([[3.0, 1.0, 2.0, 1.0][: len(children)]], np.float32)
    every = np.arange(n_classes, dtype=np.int32)
    return assemble({(): Split(every, held, weights, np.zeros(len(children)))}, 1, n_classes, {}, every)


ONE = Dense(np.ones((1, 1), np.float32))


def test_best_classes_follow_the_children_by_score() -> None:
    ranking = by_hand([[4], [0], [2], [1]], 5).rank(ONE, 6)
    assert ranking.classes[0].tolist() == [4, 2, 0, 1, -1, -1]  # equal scores: the lower child
    np.testing.assert_array_equal(ranking.scores[0], np.array([3, 2, 1, 1, np.nan, np.nan], np.float32))
    assert ranking.evaluations.tolist() == [4]


def test_a_class_held_by_two_children_is_named_once() -> None:
    assert by_hand([[1, 4], [0], [1, 2]], 5).rank(ONE, 4).classes[0].tolist() == [1, 4, 2, 0]
    assert by_hand([[1, 4], [0], [1, 2]], 5).rank(ONE, 2).classes[0].tolist() == [1, 4]


def test_an_empty_leaf_answers_no_class() -> None:
    ranking = by_hand([[], [0], [2]], 3).rank(ONE, 3)
    assert ranking.classes[0].tolist() == [-1, 2, 0]
    assert np.isnan(ranking.scores[0, 0])


def test_a_root_that_is_a_leaf() -> None:
    tree = assemble({}, 1, 3, {}, np.array([1, 2]))
    ranking = tree.rank(ONE, 3)
    assert ranking.classes[0].tolist() == [1, 2, -1]
    assert (ranking.evaluations.tolist(), ranking.path.tolist() if ranking.path is not None else None) == ([0], [[0]])


def test_no_rows() -> None:
    tree = grown(4, 2, LabelTreeParams(branching=2, depth=2), even_parts)
    assert tree.rank(Dense(np.zeros((0, 2), np.float32)), 2).classes.shape == (0, 2)


def test_rows_of_another_width_are_refused() -> None:
    with pytest.raises(ColumnMismatch):
        by_hand([[0], [1]], 2).rank(Dense(np.ones((1, 2), np.float32)), 1)


def test_shapes_of_the_paper() -> None:
    case = json.loads(shared_path("cases/lt-13.json").read_text())
    for (n_classes, branching, depth), expected in zip(
        case["inputs"]["rows"], case["expected"]["per_depth"], strict=True
    ):
        tree = grown(n_classes, 1, LabelTreeParams(branching=branching, depth=depth), even_parts)
        assert shape_counts(tree) == expected


def test_saved_and_loaded() -> None:
    tree = grown(9, 4, LabelTreeParams(branching=3, depth=2), overlapping(3))
    header = json.loads(json.dumps({**tree.header(), "n_features": 4, "n_classes": 9}))
    again = LabelTree.load(header, tree.tensors())
    rows = Dense(np.random.default_rng(2).normal(size=(20, 4)).astype(np.float32))
    for name in ("classes", "scores", "evaluations", "path"):
        np.testing.assert_array_equal(getattr(again.rank(rows, 3), name), getattr(tree.rank(rows, 3), name))
    assert again.header() == tree.header()


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("first_child", lambda a: a + 1),
        ("n_children", lambda a: a[:-1]),
        ("offsets", lambda a: a[::-1]),
        ("classes", lambda a: a + 9),
        ("weights", lambda a: a[:-1]),
        ("bias", lambda a: a[:0]),
    ],
)
def test_arrays_that_do_not_fit_are_refused(name: str, change: Callable[[np.ndarray], np.ndarray]) -> None:
    tree = grown(9, 4, LabelTreeParams(branching=3, depth=2), even_parts)
    header, tensors = {**tree.header(), "n_features": 4, "n_classes": 9}, tree.tensors()
    with pytest.raises(ModelFormat):
        LabelTree.load(header, {**tensors, name: change(tensors[name])})
    with pytest.raises(ModelFormat, match="needs the tensors"):
        LabelTree.load(header, {key: value for key, value in tensors.items() if key != name})
