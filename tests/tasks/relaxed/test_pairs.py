"""One classifier for every pair of classes: votes and lists as defined, and what they cost."""

from __future__ import annotations

import json

import numpy as np
import pytest

from tasks.models.errors import ColumnMismatch, ModelFormat
from tasks.relaxed.pairs import DAG, MAX_WINS, PairModel, baseline_evaluations, pair_number
from tasks.rows import Dense
from tasks.svm.classifier import LinearClassifier
from tests.naive import relaxed_models as naive
from tests.shared import shared_path
from tests.tasks.relaxed.model_samples import FORMS, N_FEATURES, Sample, random_pairs

RULES = {MAX_WINS: naive.max_wins, DAG: naive.dag}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("kind", RULES)
@pytest.mark.parametrize("n", [2, 3, 6])
def test_classes_are_ranked_as_defined(kind: str, form: str, n: int) -> None:
    sample = Sample(form, n)
    model, classes, classifiers = random_pairs(sample, n, kind)
    values = sample.values(30)
    for sparse in (False, True):
        ranking = model.rank(sample.body(values, sparse), n + 1)
        for i, x in enumerate(values):
            answer = RULES[kind](classes, classifiers, sample.margin(x))
            assert ranking.classes[i].tolist() == [*answer.classes, -1]
            np.testing.assert_array_equal(ranking.scores[i], np.float32([*answer.scores, np.nan]))
            assert ranking.evaluations[i] == answer.cost()
            if not model.is_kernel:
                assert answer.cost() == model.classifiers_per_row
    best = model.rank(sample.body(values, False), 1)
    np.testing.assert_array_equal(best.classes, ranking.classes[:, :1])
    assert ranking.path is None


@pytest.mark.parametrize("n", [1, 2, 3, 7])
def test_pairs_are_numbered_in_lexicographic_order(n: int) -> None:
    first, second = np.triu_indices(n, 1)
    assert pair_number(first, second, n).tolist() == list(range(n * (n - 1) // 2))


def test_one_class_needs_no_classifier() -> None:
    for kind, score in ((MAX_WINS, 0), (DAG, 1)):
        model = PairModel.build(kind, np.array([3]), [], 4, 5, {})
        ranking = model.rank(Dense(np.ones((2, 4), np.float32)), 2)
        assert ranking.classes.tolist() == [[3, -1]] * 2
        assert ranking.scores[:, 0].tolist() == [score] * 2
        assert ranking.evaluations.tolist() == [0, 0]


def test_equal_votes_are_given_to_the_lowest_class() -> None:
    """A circle: 0 beats 1, 1 beats 2, 2 beats 0."""
    circle = [LinearClassifier(np.zeros(1, np.float32), bias) for bias in (1.0, -1.0, 1.0)]
    model = PairModel.build(MAX_WINS, np.array([4, 6, 9]), circle, 1, 10, {})
    ranking = model.rank(Dense(np.ones((1, 1), np.float32)), 3)
    assert (ranking.classes.tolist(), ranking.scores.tolist()) == ([[4, 6, 9]], [[1, 1, 1]])


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("kind", RULES)
def test_slices_and_groups_of_pairs_change_nothing(kind: str, form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    sample = Sample(form, 5)
    model, _, _ = random_pairs(sample, 6, kind)
    rows = sample.body(sample.values(11), sparse=False)
    whole = model.rank(rows, 4)
    monkeypatch.setattr("tasks.models.slices.SLICE_ROWS", 3)
    monkeypatch.setattr("tasks.relaxed.pairs.PAIRS_AT_ONCE", 4)
    parts = model.rank(rows, 4)
    for name in ("classes", "scores", "evaluations"):
        np.testing.assert_array_equal(getattr(parts, name), getattr(whole, name))


def test_a_model_that_does_not_fit_is_refused() -> None:
    sample = Sample("linear", 1)
    model, _, classifiers = random_pairs(sample, 4, DAG)
    with pytest.raises(ColumnMismatch, match="dag-svm"):
        model.rank(Dense(np.zeros((1, 3), np.float32)), 1)
    with pytest.raises(ModelFormat, match="4 classes have 6 pairs, not 5"):
        PairModel.build(DAG, np.arange(4), classifiers[1:], N_FEATURES, 9, {})
    with pytest.raises(ModelFormat, match="ascending classes"):
        PairModel.build("ova", np.arange(4), classifiers, N_FEATURES, 9, {})


def test_costs_of_the_rivals_are_those_of_the_case() -> None:
    case = json.loads(shared_path("cases/gk-05.json").read_text())
    for n, expected in zip(case["inputs"]["Ks"], case["expected"]["rows"], strict=True):
        assert baseline_evaluations(n) == pytest.approx(expected, rel=case["tolerance"])


@pytest.mark.parametrize("kind", RULES)
def test_costs_in_closed_form_are_those_counted(kind: str) -> None:
    n, sample = 6, Sample("linear", 2)
    model, _, _ = random_pairs(sample, n, kind)
    counted = model.rank(sample.body(sample.values(3), sparse=False), 1).evaluations / n
    told = baseline_evaluations(n)["one_vs_one" if kind == MAX_WINS else "dagsvm"]
    np.testing.assert_allclose(counted, told)
