"""Losses against their formulas, their derivatives against differences, and the rules for ties and empty sets."""

from __future__ import annotations

import json
import pickle

import numpy as np
import pytest

from tasks.errors import ParamError
from tasks.losses.crammer_singer import CrammerSinger
from tasks.losses.hinge import OneVsRestHinge
from tasks.losses.logistic import OneVsRestLogistic
from tasks.losses.multinomial import Multinomial
from tasks.losses.overlap_hinge import OverlapHinge
from tasks.losses.weights import balanced
from tests.naive import losses as naive
from tests.shared import shared_path

N_OUTPUTS, N_CLASSES = 5, 4
PARTITION = np.array([[1, 0, 1, 0], [0, 1, 1, 0], [1, 0, 1, 0], [0, 0, 1, 0], [0, 1, 1, 0]], bool)  # class 3: given up
WEIGHT = np.array([0.5, 2.0, 1.0, 3.0, 0.0])

CASES = {
    "hinge": (lambda w: OneVsRestHinge(False, 1.0, w), naive.hinge),
    "squared hinge": (lambda w: OneVsRestHinge(True, 1.0, w), naive.squared_hinge),
    "weighty positives": (lambda w: OneVsRestHinge(True, 7.0, w), lambda s, y: naive.squared_hinge(s, y, 7.0)),
    "logistic": (lambda w: OneVsRestLogistic(3.0, w), lambda s, y: naive.logistic(s, y, 3.0)),
    "crammer-singer": (lambda w: CrammerSinger(w), naive.crammer_singer),
    "multinomial": (lambda w: Multinomial(w), naive.multinomial),
    "overlap hinge": (lambda w: OverlapHinge(PARTITION, w), lambda s, y: naive.overlap_hinge(s, y, PARTITION)),
}


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("seed", range(3))
def test_matches_the_formula_and_its_derivative(name, weighted, seed):
    make, formula = CASES[name]
    rng = np.random.default_rng(seed)
    scores = rng.normal(0, 2, (12, N_OUTPUTS))
    labels = rng.integers(0, N_CLASSES, 12).astype(np.int32)
    weight = WEIGHT[:N_CLASSES] if name == "overlap hinge" else WEIGHT
    total, residuals = make(weight if weighted else None).residuals(scores, labels)
    factor = weight[labels] if weighted else np.ones(12)
    expected = [f * formula(row, y) for f, row, y in zip(factor, scores, labels, strict=True)]
    slopes = [
        f * naive.derivative(lambda s, y=y: formula(s, y), row)
        for f, row, y in zip(factor, scores, labels, strict=True)
    ]
    assert total == pytest.approx(sum(expected), abs=1e-9)
    np.testing.assert_allclose(residuals, slopes, atol=1e-5)


@pytest.mark.parametrize("name", ["squared hinge", "weighty positives", "logistic", "multinomial"])
def test_curvature_bounds_the_second_derivative(name):
    """Along any direction, the slope grows by at most curvature x distance; piecewise linear losses say 0."""
    loss = CASES[name][0](None)
    rng = np.random.default_rng(4)
    scores, ahead = rng.normal(0, 1, (200, N_OUTPUTS)), rng.normal(0, 0.1, (200, N_OUTPUTS))
    labels = rng.integers(0, N_CLASSES, 200).astype(np.int32)
    growth = loss.residuals(scores + ahead, labels)[1] - loss.residuals(scores, labels)[1]
    along, length = (growth * ahead).sum(axis=1), (ahead * ahead).sum(axis=1)
    assert (along <= loss.curvature * length + 1e-9).all()
    assert (along >= -1e-9).all()  # convex
    assert along.max() > 0


@pytest.mark.parametrize("name", CASES)
def test_keeps_the_dtype_of_the_scores_and_survives_pickling(name):
    loss = CASES[name][0](None)
    scores, labels = np.random.default_rng(0).normal(size=(3, N_OUTPUTS)), np.array([0, 1, 2], np.int32)
    total, residuals = loss.residuals(scores.astype(np.float32), labels)
    assert residuals.dtype == np.float32
    again_total, again = pickle.loads(pickle.dumps(loss)).residuals(scores.astype(np.float32), labels)
    assert total == again_total
    np.testing.assert_array_equal(residuals, again)
    assert total == pytest.approx(loss.residuals(scores, labels)[0], rel=1e-5)


@pytest.mark.parametrize("name", CASES)
def test_extreme_scores_stay_finite(name):
    scores = np.array([[800.0, -800, 0, 1, 2], [-800, 800, 0, 1, 2]], np.float32)
    total, residuals = CASES[name][0](None).residuals(scores, np.array([1, 1], np.int32))
    assert np.isfinite(total)
    assert np.isfinite(residuals).all()


@pytest.mark.parametrize("name", ["hinge", "crammer-singer", "overlap hinge"])
def test_piecewise_linear_losses_have_no_curvature(name):
    assert CASES[name][0](None).curvature == 0


def test_a_row_of_no_class_is_negative_everywhere():
    scores, nobody = np.array([[0.5, -2.0, 0.0]]), np.array([-1], np.int32)
    assert OneVsRestHinge(squared=False).residuals(scores, nobody)[0] == pytest.approx(1.5 + 1.0)
    total, residuals = OneVsRestLogistic(class_weight=np.array([5.0, 5, 5])).residuals(scores, nobody)
    assert total == pytest.approx(np.logaddexp(0, scores).sum())
    assert (residuals > 0).all()


def test_crammer_singer_takes_the_smallest_of_equal_offenders():
    _, residuals = CrammerSinger().residuals(np.array([[0.0, 1.0, 1.0, 0.0]]), np.array([3], np.int32))
    np.testing.assert_array_equal(residuals, [[0, 1, 0, -1]])
    _, at_margin = CrammerSinger().residuals(np.array([[0.0, 1.0]]), np.array([1], np.int32))  # both values are 1 and 1
    np.testing.assert_array_equal(at_margin, [[1, -1]])


def test_overlap_hinge_takes_the_smallest_of_equal_children():
    partition = np.array([[1], [1], [0], [0]], bool)
    _, residuals = OverlapHinge(partition).residuals(np.zeros((1, 4)), np.array([0], np.int32))
    np.testing.assert_array_equal(residuals, [[-1, 0, 1, 0]])


def test_overlap_hinge_of_empty_sets():
    """A class that all children hold costs nothing; one that none holds costs 1, without pull (SPECS 5, reading 2)."""
    partition = np.array([[1, 0], [1, 0]], bool)
    total, residuals = OverlapHinge(partition).residuals(np.array([[3.0, -3.0]]), np.array([0], np.int32))
    assert total == 0
    assert not residuals.any()
    total, residuals = OverlapHinge(partition).residuals(np.array([[3.0, -3.0]]), np.array([1], np.int32))
    assert total == 1
    assert not residuals.any()


def test_overlap_hinge_of_the_reference_case():
    case = json.loads(shared_path("cases/lt-08.json").read_text())
    given = {key: np.array(value) for key, value in case["inputs"].items()}
    scores, loss = given["X"] @ given["w"].T, OverlapHinge(given["P"].astype(bool))
    losses = [loss.residuals(scores[i : i + 1], given["y"][i : i + 1].astype(np.int32))[0] for i in range(len(scores))]
    np.testing.assert_allclose(losses, case["expected"]["hinge"], atol=case["tolerance"])


def test_balanced_weights_make_classes_count_alike():
    counts = np.array([10, 30, 0, 60])
    weight = balanced(counts)
    np.testing.assert_allclose((weight * counts)[counts > 0], 100 / 3)
    assert weight[2] == 0


@pytest.mark.parametrize("weight", [[-1.0, 1.0], [np.nan, 1.0], [[1.0]]])
def test_refuses_weights_that_are_not_weights(weight):
    with pytest.raises(ParamError, match="class_weight"):
        CrammerSinger(np.array(weight))


@pytest.mark.parametrize("kind", [OneVsRestHinge, OneVsRestLogistic])
@pytest.mark.parametrize("value", [0.0, -1.0, np.inf])
def test_refuses_a_positive_weight_that_is_none(kind, value):
    with pytest.raises(ParamError, match="positive_weight"):
        kind(positive_weight=value)


@pytest.mark.parametrize("partition", [np.zeros((0, 3)), np.zeros(3)])
def test_refuses_a_partition_without_children(partition):
    with pytest.raises(ParamError, match="partition"):
        OverlapHinge(partition)
