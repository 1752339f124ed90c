"""Accuracy with default parameters against scikit-learn's LinearSVC, on the digits that scikit-learn ships."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.svm import LinearSVC

from tasks.fit.fit import fit
from tasks.fit.linear import LinearScorer
from tasks.fit.local import LocalOracle
from tasks.fit.problem import SgdProblem
from tasks.fit.sgd import SgdParams
from tasks.losses.crammer_singer import CrammerSinger
from tasks.losses.hinge import OneVsRestHinge
from tasks.losses.multinomial import Multinomial
from tasks.rows import Dense

TRAIN_ROWS = 1200


@pytest.fixture(scope="module")
def digits():
    """((values, labels) of training, the same of test); 64 pixels of 0 to 16, not centred."""
    values, labels = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(labels))
    values, labels = values[order].astype(np.float32), labels[order].astype(np.int32)
    return (values[:TRAIN_ROWS], labels[:TRAIN_ROWS]), (values[TRAIN_ROWS:], labels[TRAIN_ROWS:])


def score(loss, train, test) -> float:
    params = SgdParams()
    problem = SgdProblem(LinearScorer(64, 10, params.bias), loss, params, 0, "digits")
    result = fit(problem, LocalOracle(Dense(train[0]), train[1], problem))
    return float((problem.scorer.scores(result.parameters, Dense(test[0])).argmax(axis=1) == test[1]).mean())


def test_one_vs_rest_is_as_good_as_linear_svc(digits):
    train, test = digits
    rivals = [LinearSVC(C=c, max_iter=2000, random_state=0).fit(train[0] / 16, train[1]) for c in (0.03, 0.3, 3.0)]
    best = max(rival.score(test[0] / 16, test[1]) for rival in rivals)  # chosen on the test rows: in its favour
    assert score(OneVsRestHinge(), train, test) >= best - 0.015  # half a point, and 1 % for 597 test rows


@pytest.mark.parametrize("loss", [OneVsRestHinge(squared=False), CrammerSinger(), Multinomial()])
def test_other_losses_work_without_tuning(loss, digits):
    assert score(loss, *digits) > 0.94


def test_rows_sorted_by_class(digits):
    """The worst order: every partition sees a few classes only."""
    (values, labels), test = digits
    order = np.argsort(labels, kind="stable")
    assert score(OneVsRestHinge(), (values[order], labels[order]), test) > 0.85
