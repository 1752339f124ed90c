"""Growing label trees in memory: Algorithm 2 at a node, parameters, routing, given-up and unjudged classes."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tasks.errors import ParamError
from tasks.metrics.hierarchy import LocalMeasures
from tasks.rows import Csr, Dense, Rows
from tasks.trees.balance import WIDEST, balanced_groups, class_sums, fill_groups
from tasks.trees.label_tree import first_partition, grow_node, improve
from tasks.trees.local import Labelled, LocalNode, count_routes, grow_rows, node_name, routes, sent_down
from tasks.trees.params import FEW_CLASSES, SLACK, WANTED_SPEEDUP, WIDE_SLACK, LabelTreeParams, TreeShape
from tasks.trees.partition import ambiguity_of, loss_of
from tasks.trees.tree import Split
from tests.bodies import csr_of
from tests.naive import trees as naive
from tests.shared import shared_path


def clouds(seed: int, n_classes: int, per_class: int, width: int = 6, spread: float = 0.3) -> Labelled:
    """Rows around one centre per class, in random order; centres depend on n_classes and width alone."""
    centres = np.random.default_rng(99).normal(size=(n_classes, width))
    rng = np.random.default_rng(seed)
    labels = rng.permutation(np.repeat(np.arange(n_classes), per_class)).astype(np.int32)
    return Labelled(
        Dense((centres[labels] + spread * rng.normal(size=(labels.size, width))).astype(np.float32)), labels
    )


def node_of(params: LabelTreeParams, n_classes: int = 9, seed: int = 0) -> LocalNode:
    train, validation = clouds(seed, n_classes, 20), clouds(seed + 1, n_classes, 6)
    every = np.arange(n_classes, dtype=np.int32)
    return LocalNode(every, train, validation, params.settled(n_classes), seed, f"tree/{node_name(())}")


def test_case_lt_08() -> None:
    case = json.loads(shared_path("cases/lt-08.json").read_text())
    given, expected = case["inputs"], case["expected"]
    rows, labels = Dense(np.array(given["X"])), np.array(given["y"])
    weights, children = {"weights": np.array(given["w"]).T}, np.array(given["P"], bool)
    assert routes(rows, weights).tolist() == expected["route"]
    counts = count_routes(rows, weights, labels, children.shape[1])
    assert loss_of(counts, children) == pytest.approx(expected["loss"], abs=case["tolerance"])
    assert ambiguity_of(counts, children) == pytest.approx(expected["ambiguity"], abs=case["tolerance"])


def test_alternation_ends_with_the_partition_of_the_last_weights() -> None:
    params = LabelTreeParams(branching=3, ambiguity=0.5, rounds=2, runners_up=False)
    node = node_of(params)
    grown = grow_node(node, params.settled(9), 0, ())
    counts = node.counts(grown.split.parameters())
    assert counts.sum() == 54  # every validation row judges once
    best = improve(counts, params.settled(9))
    np.testing.assert_array_equal(grown.split.children, best.children)
    record = grown.record
    assert (record["loss"], record["ambiguity"]) == pytest.approx(
        naive.loss_and_ambiguity(counts.astype(float), best.children), abs=1e-12
    )
    assert record["ambiguity"] <= 0.5
    assert record["lp_value"] - 1e-12 <= record["value"] <= record["bound"] + 1e-12
    assert len(record["steps"]) == params.alternations


def test_operations_are_those_really_done() -> None:
    params = LabelTreeParams(branching=3, alternations=1, rounds=2, passes=3, least_rows=1, initialisation="random")
    node = node_of(params)
    record = grow_node(node, params.settled(9), 0, ()).record
    # the random start holds 3 of the 9 classes, 20 rows each; a dot product and an addition per child, row and pass
    assert record["operations"] == 2 * 3 * 60 * 2 * 3
    full = LabelTreeParams(depth=1, rounds=2, least_rows=1)
    assert grow_node(node_of(full), full.settled(9), 0, ()).record["operations"] == 2 * 9 * 180 * 2


def test_random_start_is_one_distinct_class_per_child() -> None:
    params = LabelTreeParams(branching=4, initialisation="random").settled(9)
    children = first_partition(node_of(params), params, 3, ())
    assert children.sum(axis=1).tolist() == [1, 1, 1, 1]
    assert children.sum(axis=0).max() == 1
    other = first_partition(node_of(params), params, 3, (1,))
    assert not np.array_equal(children, other)  # another node draws from another stream


def test_kmeans_start_holds_every_class_once_in_even_children() -> None:
    params = LabelTreeParams(branching=4).settled(9)
    children = first_partition(node_of(params), params, 3, ())
    assert children.sum(axis=0).tolist() == [1] * 9
    assert sorted(children.sum(axis=1).tolist()) == [2, 2, 2, 3]


@pytest.mark.parametrize("judges", [1.0, 100.0])
@pytest.mark.parametrize("depth", [3, 6, 12, 64])
def test_by_default_a_class_stands_in_few_leaves_however_deep_a_tree_is(depth: int, judges: float) -> None:
    params = LabelTreeParams(depth=depth).settled(5000, judges)
    assert params.ambiguity is not None
    assert params.branching is not None
    assert 1 <= (params.ambiguity * params.branching) ** (depth - 1) <= 4.0 + 1e-9


@pytest.mark.parametrize("seed", range(6))
def test_balanced_groups_are_even_and_close(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n_groups, size = int(rng.integers(1, 5)), int(rng.integers(1, 5))
    truth = rng.permutation(np.repeat(np.arange(n_groups), size))
    points = np.eye(n_groups)[truth] * 100 + rng.normal(size=(truth.size, n_groups))
    groups = balanced_groups(points, n_groups, rng)
    assert np.bincount(groups, minlength=n_groups).tolist() == [size] * n_groups
    assert len(set(zip(truth.tolist(), groups.tolist(), strict=True))) == n_groups  # the clouds themselves


@pytest.mark.parametrize("seed", range(8))
def test_groups_fill_by_the_rule(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n_points, n_groups = int(rng.integers(1, 20)), int(rng.integers(1, 6))
    distances, order = rng.integers(0, 4, (n_points, n_groups)).astype(float), rng.permutation(n_points)
    assert fill_groups(distances, order).tolist() == naive.fill_groups(distances, order.tolist())


def test_balanced_groups_of_equal_points() -> None:
    groups = balanced_groups(np.zeros((5, 2)), 3, np.random.default_rng(0))
    assert sorted(np.bincount(groups).tolist()) == [1, 2, 2]


def test_class_sums_fold_wide_rows_and_keep_distances() -> None:
    rng = np.random.default_rng(0)
    width, n = WIDEST + 500, 40
    dense = (rng.normal(size=(n, width)) * (rng.random((n, width)) < 0.1)).astype(np.float32)
    columns = rng.integers(0, 4, n).astype(np.int32)
    found = [class_sums(rows, columns, 5, 7) for rows in (Dense(dense), csr_of(dense))]
    np.testing.assert_allclose(found[0].sums, found[1].sums, atol=1e-9)
    assert found[0].means().shape == (5, WIDEST)
    assert not found[0].means()[4].any()
    means = np.array([dense[columns == c].mean(axis=0) for c in range(4)])
    true = ((means[:, None] - means[None]) ** 2).sum(axis=2)
    folded = ((found[0].means()[:4, None] - found[0].means()[None, :4]) ** 2).sum(axis=2)
    assert np.abs(folded - true)[true > 0].max() < 0.35 * true.max()
    narrow = class_sums(Dense(dense[:, :10]), columns, 5, 7)
    np.testing.assert_allclose(narrow.means()[:4], means[:, :10], atol=1e-6)
    assert (narrow + narrow).counts.tolist() == [2 * int((columns == c).sum()) for c in range(5)]


def test_classes_without_validation_rows_are_judged_by_their_training_rows() -> None:
    params = LabelTreeParams(branching=3, rounds=2)
    train, validation = clouds(0, 9, 20), clouds(1, 9, 6)
    some = validation.take(np.flatnonzero(validation.labels != 4))
    every = np.arange(9, dtype=np.int32)
    node = LocalNode(every, train, some, params.settled(9), 0, "tree/0")
    grown = grow_node(node, params.settled(9), 0, ())
    judged = node.counts(grown.split.parameters()).sum(axis=0)
    assert judged.tolist() == [6.0] * 9  # 20 training rows of class 4 stand for 20 * (6 / 20) rows
    assert 4 not in grown.record["given_up"]
    nobody = LocalNode(every, train, validation.take(np.zeros(0, int)), params.settled(9), 0, "tree/0")
    assert nobody.counts(grown.split.parameters()).sum() == 180


def sparse_of(part: Labelled) -> Labelled:
    values = part.rows.to_array()
    n_rows, width = values.shape
    rows: Rows = Csr(
        values.ravel(), np.tile(np.arange(width, dtype=np.int32), n_rows), np.arange(n_rows + 1) * width, width
    )
    return Labelled(rows, part.labels)


@pytest.mark.parametrize(
    ("body", "more"),
    [
        ("dense", {}),
        ("csr", {}),
        ("dense", {"depth": 3}),
        ("dense", {"loss": 0.05}),
        ("dense", {"bias": False}),
        ("dense", {"initialisation": "random", "training_rows": "routed", "runners_up": False}),
    ],
)
def test_trees_tell_clouds_apart(body: str, more: dict[str, Any]) -> None:
    params = LabelTreeParams(least_rows=2000, **more)
    train, validation, test = (clouds(seed, 20, 16, width=8) for seed in (0, 1, 2))
    if body == "csr":
        train, validation, test = sparse_of(train), sparse_of(validation), sparse_of(test)
    tree = grow_rows(train, validation, 20, params, seed=3)
    ranking = tree.rank(test.rows, 5)
    assert (ranking.classes[:, 0] == test.labels).mean() > 0.85
    assert ranking.evaluations.mean() < 20 / 1.5
    assert tree.bias.any() == more.get("bias", True)
    again = grow_rows(train, validation, 20, params, seed=3)
    for name, values in tree.tensors().items():
        np.testing.assert_array_equal(values, again.tensors()[name])


@pytest.mark.parametrize("training_rows", ["of-class", "routed"])
def test_children_learn_from_the_rows_of_their_classes(training_rows: Any) -> None:
    train, validation = clouds(0, 8, 20, spread=0.8), clouds(1, 8, 6, spread=0.8)
    params = LabelTreeParams(
        branching=2, rounds=2, least_rows=1, ambiguity=0.75, training_rows=training_rows, runners_up=False
    )
    tree = grow_rows(train, validation, 8, params, seed=0)
    ways = [tree.rank(part.rows, 1).path for part in (train, validation)]
    records = {record["node"]: record for record in tree.facts["nodes"]}
    shared = np.intersect1d(tree.label_set(1), tree.label_set(2))
    assert shared.size  # otherwise the two ways would not differ
    for q in (0, 1):
        held = tree.label_set(1 + q)
        train_way, judged_way = (way[:, 1] == 1 + q for way in ways if way is not None)
        assert records[node_name((q,))]["judged_rows"] == (judged_way & np.isin(validation.labels, held)).sum()
        learned = np.isin(train.labels, held) & (train_way | (training_rows == "of-class"))
        assert records[node_name((q,))]["operations"] == 2 * held.size * learned.sum() * params.rounds


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("training_rows", ["of-class", "routed"])
def test_sent_down_lists_rows_by_child(training: bool, training_rows: Any) -> None:
    rng = np.random.default_rng(0)
    rows, columns = Dense(rng.normal(size=(60, 3)).astype(np.float32)), rng.integers(0, 5, 60)
    weights = rng.normal(size=(3, 4)).astype(np.float32)
    split = Split(np.arange(5, dtype=np.int32), rng.random((4, 5)) < 0.5, weights, np.zeros(4, np.float32))
    params = LabelTreeParams(branching=4, training_rows=training_rows)
    index, child = sent_down(rows, columns, split, training, params)
    everyone = training and training_rows == "of-class"
    gone = (rows.values @ weights).argmax(axis=1)
    expected = [
        (i, q) for q in range(4) for i in range(60) if split.children[q, columns[i]] and (everyone or gone[i] == q)
    ]
    assert list(zip(index.tolist(), child.tolist(), strict=True)) == expected


def test_runners_up_count_second_choices() -> None:
    params = LabelTreeParams(branching=3, rounds=2)
    node = node_of(params)
    weights = grow_node(node, params.settled(9), 0, ()).split.parameters()
    validation, train = clouds(1, 9, 6), clouds(0, 9, 20)
    expected = np.zeros((3, 9), np.int64)
    for part, places in ((validation, (1,)), (train, (0, 1))):
        scores = part.rows.to_array() @ weights["weights"] + weights["bias"]
        for row, label in zip(scores, part.labels, strict=True):
            order = sorted(range(3), key=lambda q: (-row[q], q))
            for place in places:
                expected[order[place], label] += 1
    np.testing.assert_array_equal(node.runners_up(weights), expected)


def test_the_rest_of_the_ambiguity_goes_to_runners_up() -> None:
    params = LabelTreeParams(branching=3, rounds=3, ambiguity=0.6).settled(9)
    trees = [grow_node(node_of(params), replace(params, runners_up=runners_up), 0, ()) for runners_up in (False, True)]
    before, after = (one.split.children for one in trees)
    assert (before <= after).all()
    assert after.sum() > before.sum()
    assert trees[0].record["loss"] == trees[1].record["loss"] == 0.0
    assert trees[0].record["ambiguity"] < trees[1].record["ambiguity"] <= 0.6


def test_records_per_depth_are_the_local_measures_of_the_validation_rows() -> None:
    train, validation = clouds(0, 12, 20, spread=0.8), clouds(1, 12, 8, spread=0.8)
    tree = grow_rows(train, validation, 12, LabelTreeParams(depth=3, least_rows=1, runners_up=False), seed=0)
    path = tree.rank(validation.rows, 1).path
    assert path is not None
    local = LocalMeasures.of(path, validation.labels, tree.offsets, tree.classes)
    judged = tree.facts["judged"]
    assert [depth["depth"] for depth in judged] == [0, 1, 2]
    np.testing.assert_allclose([depth["loss"] for depth in judged], local.loss(), atol=1e-9)
    np.testing.assert_allclose([depth["ambiguity"] for depth in judged], local.mean_ambiguity(True), atol=1e-9)


def test_a_node_without_training_rows_is_a_leaf() -> None:
    train, validation = clouds(0, 6, 10), clouds(1, 6, 10)
    nothing = train.take(np.zeros(0, int))
    tree = grow_rows(nothing, validation, 6, LabelTreeParams(), seed=0)
    assert (tree.n_nodes, tree.label_set(0).tolist()) == (1, [0, 1, 2, 3, 4, 5])


def test_defaults_settle_by_the_number_of_classes() -> None:
    settled = LabelTreeParams().settled(150)
    assert (settled.branching, settled.ambiguity) == (13, SLACK / 13)
    assert LabelTreeParams().settled(1000, judges=3).ambiguity == WIDE_SLACK / 32
    few = LabelTreeParams().settled(150, judges=3)
    assert few.branching is not None
    assert few.ambiguity is not None
    assert few.branching + few.ambiguity * 150 == pytest.approx(150 / WANTED_SPEEDUP)
    assert LabelTreeParams().settled(60, judges=3).ambiguity == SLACK / 8  # too few classes for any speed-up to spare
    assert LabelTreeParams(depth=3).settled(1000).branching == 10
    assert (LabelTreeParams().settled(FEW_CLASSES).depth, LabelTreeParams().settled(FEW_CLASSES).branching) == (2, 4)
    assert LabelTreeParams(depth=1).settled(7).branching == 7
    assert LabelTreeParams(loss=0.1).settled(10).ambiguity is None
    assert LabelTreeParams(ambiguity=0.2).settled(10).ambiguity == 0.2
    assert settled.settled(150) == settled


def test_few_classes_are_told_apart_at_once_unless_a_tree_is_asked_for() -> None:
    few = FEW_CLASSES - 1
    settled = LabelTreeParams().settled(few)
    assert (settled.depth, settled.branching, settled.kind_of(few, 0)) == (1, few, "full")
    for asked in ({"branching": 3}, {"depth": 2}, {"ambiguity": 0.5}, {"loss": 0.1}):
        assert LabelTreeParams(**asked).settled(few).kind_of(few, 0) == "learned"
    tree = grow_rows(clouds(0, 4, 20), clouds(1, 4, 5), 4, LabelTreeParams(rounds=2), seed=0)
    assert tree.n_children.tolist() == [4, 0, 0, 0, 0]


def test_what_a_node_becomes() -> None:
    params = LabelTreeParams(branching=3, depth=2)
    kinds = [params.kind_of(k, d) for k, d in [(0, 0), (1, 1), (2, 0), (3, 0), (3, 1)]]
    assert kinds == ["leaf", "leaf", "full", "learned", "full"]
    with pytest.raises(ValueError, match="not settled"):
        LabelTreeParams().kind_of(3, 0)
    with pytest.raises(ValueError, match="not settled"):
        LabelTreeParams(branching=3).kind_of(3, 0)
    with pytest.raises(ValueError, match="not settled"):
        improve(np.eye(3), LabelTreeParams(branching=3))


@pytest.mark.parametrize(
    "wrong",
    [
        {"branching": 1},
        {"branching": True},
        {"depth": 0},
        {"ambiguity": 0.0},
        {"ambiguity": 1.5},
        {"loss": 1.0},
        {"loss": 0.1, "ambiguity": 0.1},
        {"alternations": 0},
        {"initialisation": "best"},
        {"training_rows": "all"},
        {"rounds": 0},
        {"regularization": -1.0},
        {"whole_node_bytes": -1},
    ],
)
def test_parameters_refuse(wrong: dict[str, Any]) -> None:
    with pytest.raises(ParamError) as caught:
        LabelTreeParams(**wrong)
    assert caught.value.where in wrong


def test_shapes_that_the_classes_do_not_allow() -> None:
    with pytest.raises(TreeShape, match="at most the number of classes, 5"):
        LabelTreeParams(branching=6).settled(5)
    with pytest.raises(TreeShape, match="at least 2"):
        LabelTreeParams().settled(1)
    assert replace(LabelTreeParams(), branching=2).settled(2).branching == 2
