"""Hierarchies: walks as defined, costs as counted by hand, shared children, and how they are put together."""

from __future__ import annotations

import numpy as np
import pytest

from tasks.models.errors import ColumnMismatch, ModelFormat
from tasks.models.slices import slices
from tasks.relaxed.assemble import Node, build
from tasks.relaxed.hierarchy import ONE_VS_ALL, Hierarchy
from tasks.rows import Dense
from tasks.svm.classifier import LinearClassifier
from tests.naive import relaxed_models as naive
from tests.tasks.relaxed.model_samples import FORMS, Sample, built, random_nodes


@pytest.mark.parametrize("shared", [False, True], ids=["tree", "shared"])
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("seed", range(4))
def test_every_row_goes_the_way_of_the_definition(form: str, seed: int, shared: bool) -> None:
    sample = Sample(form, seed)
    nodes = random_nodes(sample, 7, shared)
    model, values = built(sample, nodes), sample.values(40)
    for sparse in (False, True):
        ranking = model.rank(sample.body(values, sparse), 4)
        for i, x in enumerate(values):
            answer = naive.walk(nodes, "root", sample.margin(x))
            n = min(4, len(answer.classes))
            assert ranking.classes[i].tolist() == answer.classes[:n] + [-1] * (4 - n)
            np.testing.assert_array_equal(ranking.scores[i], np.float32(answer.scores[:n] + [np.nan] * (4 - n)))
            assert ranking.evaluations[i] == answer.cost()
            path = ranking.path[i][ranking.path[i] >= 0]
            assert [model.label_set(node).tolist() for node in path] == [
                nodes[m].classes.tolist() for m in answer.names
            ]
            assert model.classifiers_of_node[path].sum() == len(answer.asked)
            assert (ranking.classifiers if sample.is_kernel else ranking.evaluations)[i] == len(answer.asked)


@pytest.mark.parametrize("doubt", [0.5, 20, 1e9], ids=str)
@pytest.mark.parametrize("shared", [False, True], ids=["tree", "shared"])
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("seed", range(4))
def test_rows_in_doubt_go_both_ways_and_are_judged(form: str, seed: int, shared: bool, doubt: float) -> None:
    sample = Sample(form, seed)
    nodes = random_nodes(sample, 7, shared)
    rng = np.random.default_rng(seed + 90)
    judges = {int(c): sample.classifier(rng) for c in nodes["root"].classes}
    model, values = built(sample, nodes, doubt=doubt, judges=judges), sample.values(40)
    judged = 0
    for top in (1, 4):
        ranking = model.rank(sample.body(values, sparse=seed % 2 == 1), top)
        for i, x in enumerate(values):
            answer = naive.walk_in_doubt(nodes, "root", sample.margin(x), doubt, judges)
            n = min(top, len(answer.classes))
            assert ranking.classes[i].tolist() == answer.classes[:n] + [-1] * (top - n)
            np.testing.assert_array_equal(ranking.scores[i], np.float32(answer.scores[:n] + [np.nan] * (top - n)))
            assert ranking.evaluations[i] == answer.cost()
            assert (ranking.classifiers if sample.is_kernel else ranking.evaluations)[i] == len(answer.asked)
            path = ranking.path[i][ranking.path[i] >= 0]
            assert [model.label_set(node).tolist() for node in path] == [
                nodes[m].classes.tolist() for m in answer.names
            ]
            judged += any(one is judge for one in answer.asked for judge in judges.values())
    assert judged or doubt < 1e9


def line(bias: float) -> LinearClassifier:
    """f(x) = x_0 + bias."""
    return LinearClassifier(np.array([1, 0], np.float32), bias)


def diamond() -> dict[str, Node]:
    """Four classes of five; {4} is reached by two ways of different length, {0, 1} is one-vs-all."""
    return {
        "top": Node(np.array([0, 1, 2, 4]), [line(0)], np.array([-1, -1, 1, 0]), "low", "high"),
        "low": Node(np.array([0, 1, 4]), [line(3)], np.array([-1, -1, 1]), "both", "four"),
        "high": Node(np.array([2, 4]), [line(-5)], np.array([-1, 1]), "two", "four"),
        "both": Node(np.array([0, 1]), [line(5), line(5)]),
        "two": Node(np.array([2])),
        "four": Node(np.array([4])),
        "unused": Node(np.array([3])),
    }


def assembled(nodes: dict[str, Node], root: str = "top") -> Hierarchy:
    return build("marszalek", nodes, root, 2, 5, {"alpha": 0.4})


def rows(*first: float) -> Dense:
    return Dense(np.array([[x, 9] for x in first], np.float32))


def test_a_walk_by_hand() -> None:
    """f = 0 goes positive; equal margins name the lower class first; a single leaf has the least |f| as its score."""
    ranking = assembled(diamond()).rank(rows(0, -1, -4, 5, 7), 3)
    assert ranking.classes.tolist() == [[2, -1, -1], [4, -1, -1], [0, 1, -1], [4, -1, -1], [4, -1, -1]]
    first, none = [0.0, 1.0, 1.0, 0.0, 2.0], [np.nan] * 5
    np.testing.assert_array_equal(ranking.scores, np.float32([first, [np.nan, np.nan, 1, np.nan, np.nan], none]).T)
    assert ranking.evaluations.tolist() == [2, 2, 4, 2, 2]
    assert ranking.path is not None
    assert ranking.path.tolist() == [[0, 2, 5], [0, 1, 4], [0, 1, 3], [0, 2, 4], [0, 2, 4]]


def test_nodes_are_numbered_by_levels_and_shared_ones_held_once() -> None:
    model = assembled(diamond())
    assert [model.label_set(node).tolist() for node in range(6)] == [[0, 1, 2, 4], [0, 1, 4], [2, 4], [0, 1], [4], [2]]
    assert model.negative.tolist() == [1, 3, 5, -1, -1, -1]
    assert model.positive.tolist() == [2, 4, 4, -1, -1, -1]
    assert model.first_classifier.tolist() == [0, 1, 2, 3, -1, -1]
    assert model.classifiers_of_node.tolist() == [1, 1, 1, 2, 0, 0]
    assert model.depth_of.tolist() == [0, 1, 1, 2, 2, 2]
    assert model.colors_of(1).tolist() == [-1, -1, 1]
    assert (model.n_nodes, model.n_classes, model.n_features, model.is_kernel, model.n_support) == (6, 5, 2, False, 0)
    assert model.header()["hierarchy"]["levels"][1] == {"nodes": 2, "splits": 2, "one_vs_all": 0, "max_classes": 3}
    assert model.header()["hierarchy"]["levels"][2] == {"nodes": 3, "splits": 0, "one_vs_all": 1, "max_classes": 2}


def test_a_child_of_two_levels_comes_after_both_its_parents() -> None:
    nodes = {
        "top": Node(np.arange(5), [line(0)], np.array([0, 0, -1, 1, 1]), "a", "b"),
        "a": Node(np.array([0, 1, 2]), [line(1)], np.array([-1, -1, 1]), "pair", "two"),
        "b": Node(np.array([0, 1, 3, 4]), [line(2)], np.array([-1, -1, -1, 1]), "d", "four"),
        "d": Node(np.array([0, 1, 3]), [line(3)], np.array([-1, -1, 1]), "pair", "three"),
        "pair": Node(np.array([0, 1]), [line(4), line(5)]),
        **{name: Node(np.array([c])) for c, name in ((2, "two"), (3, "three"), (4, "four"))},
    }
    model = assembled(nodes)
    assert model.negative.tolist() == [1, 6, 4, -1, 6, -1, -1, -1]
    assert model.positive.tolist() == [2, 3, 5, -1, 7, -1, -1, -1]
    assert model.depth_of.tolist() == [0, 1, 1, 2, 2, 2, 3, 3]
    path = model.rank(rows(-1, 0), 1).path
    assert path is not None
    assert path.tolist() == [[0, 1, 3, -1], [0, 2, 5, -1]]


def test_a_single_class_and_one_leaf_for_all() -> None:
    only = build(ONE_VS_ALL, {"r": Node(np.array([3]))}, "r", 2, 5, {})
    ranking = only.rank(rows(1, 2), 2)
    assert ranking.classes.tolist() == [[3, -1], [3, -1]]
    assert ranking.scores[:, 0].tolist() == [0, 0]
    assert (ranking.evaluations.tolist(), only.depth_of.tolist()) == ([0, 0], [0])
    every = build(ONE_VS_ALL, {"r": Node(np.array([0, 2, 4]), [line(1), line(3), line(3)])}, "r", 2, 5, {})
    ranking = every.rank(rows(1), 2)
    assert (ranking.classes.tolist(), ranking.scores.tolist()) == ([[2, 4]], [[4, 4]])
    assert (ranking.evaluations.tolist(), ranking.classifiers) == ([3], None)
    assert every.rank(rows(1), 0).classes.shape == (1, 0)
    assert only.rank(rows(1), 0).scores.shape == (1, 0)
    assert every.rank(rows(1).take(np.zeros(0, int)), 2).classes.shape == (0, 2)


@pytest.mark.parametrize("form", FORMS)
def test_slices_change_nothing(form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    sample = Sample(form, 9)
    model = built(sample, random_nodes(sample, 6, shared=True))
    some = sample.body(sample.values(23), sparse=False)
    whole = model.rank(some, 3)
    monkeypatch.setattr("tasks.models.slices.SLICE_ROWS", 4)
    parts = model.rank(some, 3)
    for name in ("classes", "scores", "evaluations", "path"):
        np.testing.assert_array_equal(getattr(parts, name), getattr(whole, name))


def test_a_walk_in_doubt_by_hand() -> None:
    """-1 and -4 are near splits: their ends differ, and judges tell which is first; 4.5 is near one of two classes.

    Class 1 follows 0 at its distance in their leaf, none, behind the last candidate.
    """
    judges = [line(bias) for bias in (1, 2, -3, 0)]
    model = build("marszalek", diamond(), "top", 2, 5, {}, doubt=1.5, judges=judges)
    assert (model.n_node_classifiers, model.bank.n_classifiers, model.header()["hierarchy"]["doubt"]) == (5, 9, 1.5)
    ranking = model.rank(rows(-1, -4, -1.4, 4.5, 9), 3)
    assert ranking.classes.tolist() == [[4, 2, -1], [0, 4, 1], [4, 2, -1], [2, -1, -1], [4, -1, -1]]
    scores = [[-1, -4, np.nan], [-3, -4, -4], [-1.4, -4.4, np.nan], [0.5, np.nan, np.nan], [4, np.nan, np.nan]]
    np.testing.assert_array_equal(ranking.scores, np.float32(scores))
    assert ranking.evaluations.tolist() == [5, 6, 5, 2, 2]


def test_two_classes_leave_no_doubt() -> None:
    nodes = {"r": Node(np.array([1, 3]), [line(0)], np.array([-1, 1]), "a", "b")}
    nodes |= {"a": Node(np.array([1])), "b": Node(np.array([3]))}
    model = build("marszalek", nodes, "r", 2, 5, {}, doubt=9.0, judges=[line(1), line(2)])
    assert (model.doubt, model.n_judges, model.rank(rows(-1, 2), 1).classes.tolist()) == (0, 0, [[1], [3]])


@pytest.mark.parametrize("doubt", [1e-50, 1e39, 1e300])
@pytest.mark.filterwarnings("error")
def test_a_doubt_is_compared_as_it_is(doubt: float) -> None:
    judges = [line(bias) for bias in (1, 2, -3, 0)]
    ranking = build("marszalek", diamond(), "top", 2, 5, {}, doubt=doubt, judges=judges).rank(rows(0, 3), 2)
    assert ranking.evaluations.tolist() == ([8, 8] if doubt > 1 else [5, 2])  # f = 0 is within any doubt


def test_many_ends_are_held_for_few_rows_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every row may come to all three leaves, and each names as many classes as are asked for."""
    asked = list[int]()
    monkeypatch.setattr(
        "tasks.relaxed.hierarchy.slices", lambda held, cells: asked.append(cells) or slices(held, cells)
    )
    judges = [line(bias) for bias in (1, 2, -3, 0)]
    doubtful = build("marszalek", diamond(), "top", 2, 5, {}, doubt=1.0, judges=judges)
    doubtful.rank(rows(1), 1000)
    assembled(diamond()).rank(rows(1), 1000)
    assert asked == [3000, 2]


def test_rows_of_another_width_are_refused() -> None:
    with pytest.raises(ColumnMismatch, match="marszalek"):
        assembled(diamond()).rank(Dense(np.zeros((1, 3), np.float32)), 1)


def test_nodes_that_do_not_fit_are_refused() -> None:
    nodes = diamond()
    with pytest.raises(KeyError):
        assembled({name: node for name, node in nodes.items() if name != "two"})
    loop = Node(np.array([2, 4]), [line(-5)], np.array([-1, 1]), "two", "top")
    with pytest.raises(ValueError, match="top is above itself"):
        assembled({**nodes, "high": loop})
    with pytest.raises(ModelFormat, match="not what the colors"):
        assembled({**nodes, "two": Node(np.array([1]))})
    idle = Node(np.array([2, 4]), [line(-5)], np.array([0, 1]), "two", "pair")
    with pytest.raises(ModelFormat, match="node 2 has no class on one of its sides"):
        assembled({**nodes, "high": idle, "pair": Node(np.array([2, 4]), [line(1), line(2)])})
    with pytest.raises(ModelFormat, match="classifiers"):
        assembled({**nodes, "both": Node(np.array([0, 1]), [line(5)])})


def test_margins_that_are_no_numbers_go_negative_and_name_no_class() -> None:
    ranking = assembled(diamond()).rank(rows(np.nan), 2)
    assert ranking.path is not None
    assert ranking.path.tolist() == [[0, 1, 3]]
    assert ranking.classes.tolist() == [[-1, -1]]
