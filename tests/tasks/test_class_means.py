"""Nearest class mean: sums of rows of every body, the scores of their means, ranges of classes and parts of blocks."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.neighbors import NearestCentroid

from tasks.class_means import (
    MOST_PARTS,
    NEVER,
    SUM_BYTES,
    SUMS_HELD,
    add_class_sums,
    nearest_mean,
    sum_parts,
    sum_ranges,
)
from tasks.models.linear import LinearModel
from tasks.rows import Dense, OneHot, Rows
from tests.bodies import csr_of, each_body
from tests.naive import class_means as naive


def sums_of(rows: Rows, labels: np.ndarray, n_classes: int) -> np.ndarray:
    out = np.zeros((n_classes, rows.n_features))
    add_class_sums(rows, labels, out)
    return out


def model_of(rows: Rows, labels: np.ndarray, n_classes: int, metric: str = "euclidean") -> LinearModel:
    counts = np.bincount(labels, minlength=n_classes)
    found = nearest_mean(sums_of(rows, labels, n_classes), counts, metric)  # type: ignore[arg-type]
    return LinearModel(found["weights"], found["bias"], "nearest-class-mean")


def gaussian(seed: int, n_rows: int = 200, n_classes: int = 7, n_features: int = 12) -> tuple[np.ndarray, np.ndarray]:
    """Classes 0 .. n_classes - 1, each with a row at least."""
    print(f"seed {seed}")
    rng = np.random.default_rng(seed)
    labels = np.concatenate([np.arange(n_classes), rng.integers(0, n_classes, n_rows - n_classes)])
    return (rng.normal(size=(n_classes, n_features))[labels] + rng.normal(size=(n_rows, n_features))), labels


@each_body
@pytest.mark.parametrize("seed", range(3))
def test_sums_are_those_of_the_rows(make: Callable[[int, int, int], Rows], seed: int) -> None:
    rows = make(seed, 40, 6)
    labels = np.random.default_rng(seed).integers(0, 4, 40)
    values = rows.to_array(np.float64)
    expected = np.array([values[labels == c].sum(axis=0) for c in range(5)])
    np.testing.assert_allclose(sums_of(rows, labels, 5), expected, rtol=1e-12, atol=1e-12)


def test_sums_of_codes_and_of_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 4, 50)
    codes = OneHot(rng.integers(0, 4, (50, 5)).astype(np.uint8), 3)  # code 3 is none
    dense = Dense(rng.normal(size=(50, 5)).astype(np.float16))
    whole = [sums_of(rows, labels, 4) for rows in (codes, dense)]
    assert whole[0].sum() == (codes.codes < 3).sum()
    monkeypatch.setattr("tasks.features.statistics.SLICE_BYTES", 8 * 5 * 7)  # seven rows at a time
    for rows, expected in zip((codes, dense), whole, strict=True):
        np.testing.assert_array_equal(sums_of(rows, labels, 4), expected)


@given(seed=st.integers(0, 2**32 - 1), n_classes=st.integers(1, 6), lost=st.booleans())
def test_the_best_class_is_that_of_the_nearest_mean(seed: int, n_classes: int, lost: bool) -> None:
    """A class without rows, if there is one, comes last, whatever the row."""
    values, labels = gaussian(seed, 30, n_classes, 4)
    values = values.astype(np.float32)
    centres = naive.means(values, labels, n_classes + lost)
    for metric, score in (("euclidean", naive.distances), ("cosine", naive.cosines)):
        sign = -1 if metric == "euclidean" else 1
        ranking = model_of(Dense(values), labels, n_classes + lost, metric).rank(Dense(values), n_classes + lost)
        for row, classes in zip(values, ranking.classes, strict=True):
            told = sign * np.array(score(row, centres))[classes]
            assert (np.diff(told[:n_classes]) < 1e-4).all()  # best first, but for what float32 cannot tell
        if lost:
            assert set(ranking.classes[:, -1]) == {n_classes}
            assert np.isfinite(ranking.scores).all()


def test_scores_are_distances_but_for_what_all_classes_share() -> None:
    values, labels = gaussian(1)
    model, centres = model_of(Dense(values.astype(np.float32)), labels, 7), naive.means(values, labels, 7)
    ranking = model.rank(Dense(values.astype(np.float32)), 7)
    for row, classes, scores in zip(values, ranking.classes, ranking.scores, strict=True):
        squares = np.array(naive.distances(row, centres))[classes] ** 2
        np.testing.assert_allclose(row @ row - 2 * scores, squares, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("body", ["dense", "sparse"])
def test_scikit_learn_says_the_same(body: str) -> None:
    values, labels = gaussian(2, 400, 9, 30)
    values = np.where(np.abs(values) > 0.8, values, 0) if body == "sparse" else values
    rows: Rows = csr_of(values.astype(np.float32)) if body == "sparse" else Dense(values.astype(np.float32))
    theirs = NearestCentroid().fit(values, labels)
    model = model_of(rows, labels, 9)
    np.testing.assert_allclose(model.weights.T, theirs.centroids_, rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(model.rank(rows, 1).classes[:, 0], theirs.predict(values))


def test_of_one_row_a_class_each_is_its_own_mean() -> None:
    values = np.random.default_rng(3).normal(size=(8, 5)).astype(np.float16)
    model = model_of(Dense(values), np.arange(8), 8)
    np.testing.assert_array_equal(model.weights, values.T.astype(np.float32))
    assert model.rank(Dense(values), 1).classes[:, 0].tolist() == list(range(8))


def test_a_class_without_rows_and_one_of_mean_zero() -> None:
    """All rows are nearer to 0 than to the means of the other classes, and class 3 would win with a bias of 0."""
    values = np.array([[9, 1], [9, -1], [-9, 1], [-9, -1], [1, 0], [-1, 0]], np.float32)
    labels = np.array([0, 0, 1, 1, 2, 2])
    model = model_of(Dense(values), labels, 4)
    assert model.bias is not None
    assert model.bias.tolist() == [-40.5, -40.5, 0.0, np.float32(NEVER)]
    assert 3 not in model.rank(Dense(np.array([[5, 0], [-5, 0], [0, 0]], np.float32)), 3).classes
    by_angle = model_of(Dense(values), labels, 4, "cosine")
    assert by_angle.weights.tolist() == [[1, -1, 0, 0], [0, 0, 0, 0]]
    assert by_angle.rank(Dense(np.array([[-3, 0]], np.float32)), 4).classes.tolist() == [[1, 2, 0, 3]]


@given(n_features=st.integers(1, 300_000), n_classes=st.integers(1, 50_000), n_rows=st.integers(1, 10**8))
def test_sums_that_travel_are_bounded(n_features: int, n_classes: int, n_rows: int) -> None:
    ranges = sum_ranges(n_features, n_classes)
    assert [part.start for part in ranges] == [0, *(part.stop for part in ranges[:-1])]
    assert ranges[-1].stop == n_classes
    assert [part.index for part in ranges] == list(range(len(ranges)))
    widest = max(part.n_classes for part in ranges)
    nbytes = 8 * n_features * widest
    assert nbytes <= SUM_BYTES or widest == 1
    assert min(part.n_classes for part in ranges) >= max(1, widest - 1)
    parts = sum_parts(n_features, widest, n_rows)
    assert 1 <= parts <= MOST_PARTS
    assert parts == 1 or (parts * nbytes <= SUMS_HELD and parts * widest <= n_rows)
