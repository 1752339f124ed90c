"""Ranking: the best classes of a row, of scores and of linear models, in slices."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from tasks.models import slices as slices_module
from tasks.models.errors import (
    ColumnMismatch,
)
from tasks.models.linear import LinearModel
from tasks.models.topk import top_classes
from tasks.rows import Dense
from tests.bodies import csr_of
from tests.naive import models as naive
from tests.tasks.model_samples import linear, small_rows

few = st.sampled_from([0.0, 1.0, -1.0, 2.5, float("nan"), float("inf"), float("-inf")])


@given(
    scores=hnp.arrays(np.float32, hnp.array_shapes(min_dims=2, max_dims=2, min_side=0, max_side=7), elements=few),
    top=st.integers(0, 9),
)
def test_top_classes_match_a_sort(scores: np.ndarray, top: int) -> None:
    classes, best = top_classes(scores, top)
    for i, row in enumerate(scores):
        expected, values = naive.top_classes(row, top)
        assert classes[i].tolist() == expected
        np.testing.assert_array_equal(best[i], np.array(values, np.float32))


@pytest.mark.parametrize("seed", range(5))
def test_linear_ranking_matches_dot_products_for_dense_and_sparse(seed: int) -> None:
    model, values = linear(seed), small_rows(seed)
    expected = [naive.top_classes(naive.linear_scores(row, model.weights, model.bias), 4) for row in values]
    for rows in (Dense(values), csr_of(values), Dense(values.astype(np.float16))):
        ranking = model.rank(rows, 4)
        assert ranking.classes.tolist() == [classes for classes, _ in expected]
        np.testing.assert_array_equal(ranking.scores, np.array([best for _, best in expected], np.float32))
        assert ranking.evaluations.tolist() == [9] * len(values)
        assert ranking.path is None


def test_a_model_without_bias_ranks_by_the_products_alone() -> None:
    model = LinearModel(np.array([[1.0, 2.0, 2.0]], np.float32))
    assert model.rank(Dense(np.array([[1.0], [-1.0]], np.float32)), 2).classes.tolist() == [[1, 2], [0, 1]]


def test_scores_are_never_held_for_more_rows_than_a_slice(monkeypatch: pytest.MonkeyPatch) -> None:
    model, values = linear(1), small_rows(1, n=23)
    whole = model.rank(Dense(values), 3)
    held: list[int] = []

    class Watched(Dense):
        def scores(self, weights: np.ndarray) -> np.ndarray:
            held.append(self.n_rows)
            return super().scores(weights)

        def part(self, start: int, stop: int) -> Watched:
            return Watched(self.values[start:stop])

    monkeypatch.setattr(slices_module, "SLICE_ROWS", 4)
    sliced = model.rank(Watched(values), 3)
    assert max(held) == 4
    assert sum(held) == 23
    np.testing.assert_array_equal(sliced.classes, whole.classes)
    np.testing.assert_array_equal(sliced.scores, whole.scores)


def test_slices_shrink_for_many_outputs() -> None:
    assert slices_module.slice_rows(100) == 1024
    assert slices_module.slice_rows(1 << 20) == 16
    assert slices_module.slice_rows(1 << 30) == 1


def test_no_rows_give_an_empty_ranking() -> None:
    ranking = linear(0).rank(Dense(np.zeros((0, 6), np.float32)), 5)
    assert ranking.classes.shape == (0, 5)
    assert ranking.evaluations.shape == (0,)


def test_rows_of_another_width_are_refused() -> None:
    with pytest.raises(ColumnMismatch, match="5 columns, the ovr model was trained on 6") as caught:
        linear(0).rank(Dense(np.zeros((2, 5), np.float32)), 1)
    assert caught.value.exit_code == 3
