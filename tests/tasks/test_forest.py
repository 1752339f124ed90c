"""Forests: means of trees' probabilities, costs that add up, folders."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tasks.models.errors import ColumnMismatch, ModelFormat
from tasks.models.folder import load_model, save_model, verify_model
from tasks.rows import Dense
from tasks.trees.kmeans.forest import Forest
from tests.naive.tree_search import mean_of_trees
from tests.tasks.model_samples import class_table
from tests.tasks.tree_samples import Drawn, random_rows, random_tree


def forest(seed: int, n_trees: int = 3, **drawn: Any) -> Forest:
    return Forest(tuple(random_tree(seed + t, Drawn(**drawn)) for t in range(n_trees)))


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("beam", [1, 3])
def test_classes_are_ranked_by_their_mean(seed: int, beam: int) -> None:
    model, values = forest(10 * seed), random_rows(seed, 20, Drawn())
    labels = np.arange(20, dtype=np.int32) % 10 - 1
    found = model.rank(Dense(values), 4, labels, beam)
    each = [tree.rank(Dense(values), 9, labels, beam) for tree in model.trees]
    assert found.probabilities is not None
    for i in range(20):
        named = [
            {int(c): float(s) for c, s in zip(one.classes[i], one.scores[i], strict=True) if c >= 0} for one in each
        ]
        expected = mean_of_trees(named, 4)
        padded = [c for c, _ in expected] + [-1] * (4 - len(expected))
        assert found.classes[i].tolist() == padded
        np.testing.assert_allclose(found.scores[i, : len(expected)], [p for _, p in expected], rtol=1e-6)
        own = np.mean([np.exp(one.probabilities.label_log[i]) for one in each if one.probabilities is not None])
        np.testing.assert_allclose(
            found.probabilities.label_log[i], np.log(own) if labels[i] >= 0 else np.nan, rtol=1e-5
        )
    np.testing.assert_array_equal(found.probabilities.named, found.scores)
    np.testing.assert_array_equal(found.evaluations, sum(one.evaluations for one in each))
    np.testing.assert_array_equal(found.path, each[0].path)


def test_a_forest_of_one_tree_is_the_tree() -> None:
    model, rows = forest(3, 1), Dense(random_rows(1, 15, Drawn()))
    found, expected = model.rank(rows, 3), model.trees[0].rank(rows, 3)
    np.testing.assert_array_equal(found.classes, expected.classes)
    np.testing.assert_array_equal(found.scores, expected.scores)


def test_saved_and_loaded(tmp_path: Path) -> None:
    model, rows = forest(4, 2, form="columns"), Dense(random_rows(1, 15, Drawn()))
    digest = save_model(tmp_path / "m", model, class_table(9))
    assert verify_model(tmp_path / "m") == digest
    loaded = load_model(tmp_path / "m")
    assert (loaded.header["kind"], loaded.header["trees"], loaded.probabilistic) == ("kmeans-forest", 2, True)
    labels = np.zeros(15, np.int32)
    found, expected = loaded.rank(rows, 3, labels=labels, beam=2), model.rank(rows, 3, labels, 2)
    np.testing.assert_array_equal(found.classes, expected.classes)
    np.testing.assert_array_equal(found.scores, expected.scores)
    assert found.probabilities is not None
    assert expected.probabilities is not None
    np.testing.assert_array_equal(found.probabilities.label_log, expected.probabilities.label_log)


def parts(model: Forest) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    header = json.loads(json.dumps({**model.header(), "n_features": 6, "n_classes": 9}))
    return header, model.tensors()


def test_what_does_not_fit_is_refused() -> None:
    header, tensors = parts(forest(5, 2))
    assert len(Forest.load(header, tensors).trees) == 2
    with pytest.raises(ModelFormat, match="2 trees"):
        Forest.load({**header, "trees": 3}, tensors)
    with pytest.raises(ModelFormat, match="0 trees"):
        Forest.load({**header, "trees": 0, "members": []}, tensors)
    with pytest.raises(ModelFormat, match="needs the tensors"):
        Forest.load(header, {name: tensors[name] for name in tensors if name != "t1.weights"})
    with pytest.raises(ModelFormat, match="give probabilities"):
        Forest.load(*parts(forest(5, 2, probabilistic=False)))


def test_rows_of_another_width_are_refused() -> None:
    with pytest.raises(ColumnMismatch):
        forest(6).rank(Dense(np.zeros((1, 5), np.float32)), 1)
