"""Measures of finished label trees against their definitions, and the paper's tables."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pytest

from tasks.metrics.cost import implied_by_local
from tasks.metrics.hierarchy import LocalMeasures
from tasks.trees import measures
from tasks.trees.tree import LabelTree, Path, Split, assemble
from tests.naive import tree_measures as naive
from tests.shared import shared_path

SEEDS = range(12)


def random_tree(seed: int) -> LabelTree:
    """Children that overlap, give classes up, or are empty; leaves at several depths."""
    rng = np.random.default_rng(seed)
    n_classes = int(rng.integers(2, 14))
    waiting: list[tuple[Path, np.ndarray]] = [((), np.arange(n_classes, dtype=np.int32))]
    splits: dict[Path, Split] = {}
    for path, classes in waiting:
        if len(path) == 3 or classes.size < 2 or (path and rng.random() < 0.2):
            continue
        children = rng.random((int(rng.integers(2, 5)), classes.size)) < 0.4
        weights = rng.normal(size=(3, len(children))).astype(np.float32)
        splits[path] = Split(classes, children, weights, np.zeros(len(children), np.float32))
        waiting += [((*path, q), classes[held]) for q, held in enumerate(children)]
    return assemble(splits, 3, n_classes, {}, waiting[0][1])


def parts(tree: LabelTree) -> tuple[list[set[int]], list[list[int]]]:
    """(classes, children) of every node."""
    below = zip(tree.first_child.tolist(), tree.n_children.tolist(), strict=True)
    sets = [set(tree.label_set(node).tolist()) for node in range(tree.n_nodes)]
    return sets, [list(range(first, first + n)) for first, n in below]


def random_paths(tree: LabelTree, seed: int, n_rows: int = 60) -> list[list[int]]:
    rng = np.random.default_rng(seed)
    paths = []
    for _ in range(n_rows):
        path = [0]
        while (n := int(tree.n_children[path[-1]])) > 0:
            path.append(int(tree.first_child[path[-1]]) + int(rng.integers(n)))
        paths.append(path)
    return paths


def assert_equal_records(found: list[dict[str, Any]], expected: list[dict[str, Any]]) -> None:
    assert len(found) == len(expected)
    for one, other in zip(found, expected, strict=True):
        assert one == pytest.approx(other)


@pytest.mark.parametrize("seed", SEEDS)
def test_loss_and_ambiguity_by_depth(seed: int) -> None:
    tree = random_tree(seed)
    sets, _ = parts(tree)
    paths = random_paths(tree, seed)
    labels = np.random.default_rng(seed).integers(0, tree.n_classes, len(paths)).astype(np.int32)
    padded = np.full((len(paths), max(map(len, paths))), -1, np.int32)
    for i, path in enumerate(paths):
        padded[i, : len(path)] = path
    local = LocalMeasures.of(padded, labels, tree.offsets, tree.classes)
    assert_equal_records(measures.by_depth(local), naive.by_depth(paths, labels.tolist(), sets))


@pytest.mark.parametrize("seed", SEEDS)
def test_sizes_overlap_and_what_is_given_up(seed: int) -> None:
    tree = random_tree(seed)
    sets, children = parts(tree)
    assert_equal_records(measures.sizes_by_depth(tree), naive.sizes_by_depth(sets, children))
    assert measures.unreachable(tree).tolist() == naive.unreachable(sets, children, tree.n_classes)


@pytest.mark.parametrize("seed", SEEDS)
def test_the_partition_of_any_node_says_who_holds_what(seed: int) -> None:
    tree = random_tree(seed)
    sets, below = parts(tree)
    for node in np.flatnonzero(tree.n_children).tolist():
        classes, children = measures.partition(tree, node)
        assert set(classes.tolist()) == sets[node]
        assert [set(classes[held].tolist()) for held in children] == [sets[child] for child in below[node]]
        held = [sum(c in sets[child] for child in below[node]) for c in classes.tolist()]
        lost = [c for c, n in zip(classes.tolist(), held, strict=True) if n == 0]
        assert measures.given_up(classes, children).tolist() == lost
        holders = [n for n in held if n]
        assert measures.overlap(children) == pytest.approx(sum(holders) / len(holders) if holders else 0.0)


def test_a_tree_that_is_one_leaf_has_one_size_and_no_depth() -> None:
    tree = assemble({}, 2, 3, {}, np.arange(3, dtype=np.int32))
    (only,) = measures.sizes_by_depth(tree)
    assert (only["nodes"], only["leaves"], only["mean_classes"], only["overlap"]) == (1, 1, 3.0, None)
    nothing = LocalMeasures.of(np.zeros((4, 1), np.int32), np.zeros(4, np.int32), tree.offsets, tree.classes)
    assert measures.by_depth(nothing) == []


def test_accuracy_and_speedup_of_the_papers_tables() -> None:
    case = json.loads(shared_path("cases/lt-18.json").read_text())
    for (k, q, losses, ambiguities), row in zip(case["inputs"]["rows"], case["expected"]["rows"], strict=True):
        met = np.full(len(losses), 1000)
        lost = np.round(1000 * np.array(losses)).astype(np.int64)
        full = [*ambiguities, 1 / (k * math.prod(ambiguities))]
        records = measures.by_depth(LocalMeasures(np.stack([met, met, lost]), 1000.0 * np.array([full, full])))
        assert 100 * records[-1]["kept"] == pytest.approx(row["accuracy_percent"], abs=case["tolerance"])
        shown = [one["loss"] for one in records], [one["ambiguity"] for one in records[:-1]]
        assert implied_by_local(k, q, *shown).speedup == pytest.approx(row["S_te"], abs=case["tolerance"])
