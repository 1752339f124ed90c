"""Metrics against their row-by-row twins, and the figures that the paper's tables imply."""

from __future__ import annotations

import json

import numpy as np
import pytest

from tasks.metrics import accuracy, cost, hierarchy
from tasks.taxonomy import Taxonomy
from tests.naive import metrics as naive
from tests.shared import shared_path

SEEDS = range(10)


def predictions(seed: int, n_rows: int = 60, n_classes: int = 7) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    classes = np.array([rng.permutation(n_classes)[:3] for _ in range(n_rows)], np.int32)
    classes[rng.random(classes.shape) < 0.1] = -1
    return classes, rng.integers(-1, n_classes, n_rows).astype(np.int32)


@pytest.mark.parametrize("seed", SEEDS)
def test_top_hits(seed: int) -> None:
    classes, labels = predictions(seed)
    for top in (1, 2, 5):
        assert accuracy.top_hits(classes, labels, top) == naive.top_hits(classes.tolist(), labels.tolist(), top)


@pytest.mark.parametrize("seed", SEEDS)
def test_per_class(seed: int) -> None:
    classes, labels = predictions(seed)
    hits, rows = accuracy.per_class_hits(classes[:, 0], labels, 9)  # classes 7 and 8 have no rows
    expected = [(int(np.sum((labels == c) & (classes[:, 0] == c))), int(np.sum(labels == c))) for c in range(9)]
    assert list(zip(hits.tolist(), rows.tolist(), strict=True)) == expected
    assert accuracy.mean_per_class(hits, rows) == pytest.approx(np.mean([h / r for h, r in expected if r]))


def test_mean_per_class_without_rows_is_zero() -> None:
    assert accuracy.mean_per_class(np.zeros(2, np.int64), np.zeros(2, np.int64)) == 0.0


@pytest.mark.parametrize("seed", SEEDS)
def test_confusion_adds(seed: int) -> None:
    classes, labels = predictions(seed)
    parts = [accuracy.Confusion.of(classes[i::3, 0], labels[i::3], 7) for i in range(3)]
    total = parts[0] + parts[1] + parts[2]
    counted = naive.confusion(classes[:, 0].tolist(), labels.tolist())
    expected = sorted(((t, p, n) for (t, p), n in counted.items()), key=lambda pair: (-pair[2], pair[0], pair[1]))
    assert total.top(1000) == expected
    assert total.top(4) == expected[:4]


def test_hierarchical_error() -> None:
    taxonomy = Taxonomy(np.array([-1, 0, 0, 1, 1, 2]), tuple("rabcde"), np.array([3, 4, 5]))
    errors = hierarchy.hierarchical_errors(taxonomy, np.array([0, 1, 2, -1]), np.array([0, 0, 0, 2]))
    assert errors.tolist() == [0, 1, 2, 2]
    assert hierarchy.hierarchical_to_flat(errors.mean(), 0.75) == pytest.approx(5 / 3)
    assert hierarchy.hierarchical_to_flat(0.0, 0.0) == 0.0


@pytest.mark.parametrize("seed", SEEDS)
def test_local_measures(seed: int) -> None:
    rng = np.random.default_rng(seed)
    sets = [set(range(6)), {0, 1, 2}, {2, 3, 4}, {1}, {2, 0}, set(), {4}]  # children of 0: 1 2; of 1: 3 4; of 2: 5 6
    paths = np.array([[0, 1, 3], [0, 1, 4], [0, 2, 5], [0, 2, 6], [0, 1, -1]], np.int32)[rng.integers(0, 5, 40)]
    labels = rng.integers(0, 6, 40).astype(np.int32)
    offsets = np.cumsum([0, *(len(s) for s in sets)])
    classes = np.concatenate([sorted(s) for s in sets]).astype(np.int32)
    halves = [hierarchy.LocalMeasures.of(paths[i::2], labels[i::2], offsets, classes) for i in range(2)]
    total = halves[0] + halves[1]
    for depth in range(2):
        loss, every, survivors = naive.local_measures(paths.tolist(), labels.tolist(), sets, depth)
        assert total.loss()[depth] == pytest.approx(loss)
        assert total.mean_ambiguity()[depth] == pytest.approx(every)
        assert total.mean_ambiguity(survivors=True)[depth] == pytest.approx(survivors)


def test_tables_1_and_2_of_the_paper() -> None:
    case = json.loads(shared_path("cases/lt-18.json").read_text())
    for (n_classes, branching, losses, ambiguities), row in zip(
        case["inputs"]["rows"], case["expected"]["rows"], strict=True
    ):
        implied = cost.implied_by_local(n_classes, branching, losses, ambiguities)
        assert 100 * implied.accuracy == pytest.approx(row["accuracy_percent"], abs=case["tolerance"])
        assert implied.speedup == pytest.approx(row["S_te"], abs=case["tolerance"])


def test_costs() -> None:
    assert cost.one_vs_rest_train_operations(1000) == 2000
    assert cost.one_vs_rest_train_operations(10184) == 20368
    assert cost.speedup(1000, cost.one_vs_rest_test_operations(1000)) == 1.0
    assert cost.speedup(10, 0) == float("inf")
    assert cost.node_train_operations(n_children=32, n_rows=10, passes=3) == 1920
    assert cost.parameter_bytes({"w": np.zeros((3, 2), np.float32), "b": np.zeros(2)}) == 40
    # SPECS 1.6: 130000 features, 1000 classes, 2^20 buckets, T = 5: 0.8 % for one level, 4 % for all
    assert cost.hashed_parameters(2**20) / cost.flat_parameters(130_000, 1000) == pytest.approx(0.00807, abs=1e-5)
    assert cost.hashed_parameters(2**20, 5) / cost.flat_parameters(130_000, 1000) == pytest.approx(0.0403, abs=1e-4)
    assert cost.hierarchy_parameters(10, 8) == 80
