"""How nodes of a finished tree are judged: counts of walks against the definition, sums, means by depth."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings

from tasks.metrics.hierarchy import LocalMeasures
from tasks.rows import Dense
from tasks.trees.bengio.judged import (
    Judged,
    judge_paths,
    judge_rows,
    judged_by_depth,
    node_records,
    path_likelihoods,
    scales_by_depth,
)
from tasks.trees.local import Balance
from tasks.trees.scale import SCALES, best_scale
from tasks.trees.tree import LabelTree, Path, Split, assemble
from tests.naive import bengio as naive
from tests.naive.scale import held_likelihood
from tests.strategies import seeds

N_CLASSES, WIDTH = 8, 4


def random_tree(seed: int, disjoint: bool = False) -> LabelTree:
    """Overlapping and lost classes unless disjoint, empty children, two depths of splits."""
    rng = np.random.default_rng(seed)
    splits: dict[Path, Split] = {}
    waiting: list[tuple[Path, np.ndarray]] = [((), np.arange(N_CLASSES, dtype=np.int32))]
    for path, classes in waiting:
        if classes.size < 2 or len(path) == 2:
            continue
        children = rng.random((3, classes.size)) < 0.5
        if disjoint:
            children = np.equal(rng.integers(0, 3, classes.size), np.arange(3)[:, None])
        weights = rng.normal(size=(WIDTH, 3)).astype(np.float32)
        splits[path] = Split(classes, children, weights, rng.normal(size=3).astype(np.float32))
        waiting += [((*path, q), classes[children[q]]) for q in range(3)]
    return assemble(splits, WIDTH, N_CLASSES, {}, np.arange(N_CLASSES, dtype=np.int32))


def rows_of(seed: int, n: int = 40) -> tuple[Dense, np.ndarray]:
    rng = np.random.default_rng([seed, 1])
    return Dense(rng.normal(size=(n, WIDTH)).astype(np.float32)), rng.integers(0, N_CLASSES, n).astype(np.int32)


@settings(max_examples=30, deadline=None)
@given(seed=seeds)
def test_counts_are_those_of_the_definition(seed: int) -> None:
    tree, (rows, labels) = random_tree(seed), rows_of(seed)
    path = tree.rank(rows, 1).path
    assert path is not None
    held = [set(tree.label_set(node).tolist()) for node in range(tree.n_nodes)]
    expected = naive.judged(path.tolist(), labels.tolist(), held)
    counts = judge_rows(tree, rows, labels)
    assert {int(n): counts[n].tolist() for n in np.flatnonzero(counts[:, 0])} == expected
    assert counts[0, 0] == labels.size


@pytest.mark.parametrize("seed", range(5))
def test_depths_are_those_of_the_table_of_local_measures(seed: int) -> None:
    tree, (rows, labels) = random_tree(seed), rows_of(seed)
    path = tree.rank(rows, 1).path
    assert path is not None
    local = LocalMeasures.of(path, labels, tree.offsets, tree.classes)
    found = judged_by_depth(tree, judge_rows(tree, rows, labels).astype(np.float64))
    survivors, loss = local.counts[1], local.loss()
    for one in found:
        depth = int(one["depth"])
        assert one["rows"] == survivors[depth]
        assert one["loss"] == pytest.approx(loss[depth])
        assert one["ambiguity"] == pytest.approx(local.mean_ambiguity(survivors=True)[depth])


def test_records_hold_the_shape_and_the_measures_of_each_node() -> None:
    tree, (rows, labels) = random_tree(3), rows_of(3)
    counts = judge_rows(tree, rows, labels).astype(np.float64)
    records = node_records(tree, counts)
    assert [one["node"] for one in records] == np.flatnonzero(tree.n_children).tolist()
    for one in records:
        rows_met, lost, kept = counts[one["node"]]
        assert one["classes"] == tree.label_set(one["node"]).size
        assert one["children"] == 3
        assert one["judged_rows"] == rows_met
        if rows_met:
            assert one["loss"] == lost / rows_met
            assert one["ambiguity"] == pytest.approx(kept / rows_met / one["classes"])


def test_training_rows_stand_in_by_their_share() -> None:
    validation, stand_ins = np.array([[10, 4, 20]]), np.array([[8, 2, 12]])
    nothing = np.zeros((1, SCALES.size))
    total = Judged(validation, stand_ins, nothing) + Judged(validation, stand_ins, nothing)
    balance = Balance.of(np.array([20, 5]), np.array([10, 0]))
    assert balance.share == 0.5
    np.testing.assert_array_equal(total.weighed(balance), [[28.0, 10.0, 52.0]])


def test_a_walk_counts_nothing_below_the_node_that_loses_its_class() -> None:
    offsets, classes = np.array([0, 2, 3, 4]), np.array([0, 1, 0, 1], np.int32)
    counts = np.zeros((3, 3), np.int64)
    judge_paths(np.array([[0, 1, 1], [0, 2, -1]], np.int32), np.array([1, 1], np.int32), offsets, classes, counts)
    assert counts.tolist() == [[2, 1, 2], [0, 0, 0], [0, 0, 0]]


@pytest.mark.parametrize("seed", range(4))
def test_scales_are_judged_on_the_rows_own_paths(seed: int) -> None:
    """Each step of a row's own path counts at its depth, whatever the walk does; depths of it get one scale."""
    tree, (rows, labels) = random_tree(seed, disjoint=True), rows_of(seed)
    expected = np.zeros((int(tree.depth_of.max()), SCALES.size))
    for i, label in enumerate(labels):
        node, depth = 0, 0
        while tree.n_children[node]:
            below = range(tree.first_child[node], tree.first_child[node] + tree.n_children[node])
            own = [place for place, child in enumerate(below) if label in tree.label_set(child)]
            if not own:
                break
            scores = tree.node_scores(node, rows.take(np.array([i])))
            children = np.eye(len(below), dtype=bool)
            expected[depth] += [held_likelihood(scores, np.array(own), children, scale) for scale in SCALES]
            node, depth = below[own[0]], depth + 1
    found = path_likelihoods(tree, rows, labels)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)
    scales = scales_by_depth(tree, found)
    assert (scales[tree.n_children == 0] == 1).all()
    assert scales[0] == np.float32(best_scale(found[0]))
