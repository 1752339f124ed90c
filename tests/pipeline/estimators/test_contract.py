"""scikit-learn's own checks of the contract: of one classifier and the transformers always, of the others slow ones."""

from __future__ import annotations

import warnings
from typing import Any

import joblib
import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from pipeline import AveragedSGDClassifier, KMeansTreeClassifier
from tests.pipeline.estimators.small import classifiers, transformers

CLASS_WEIGHT = 'class_weight is "none" or "balanced", as in the config: no mapping of classes to weights'
QUICK = [KMeansTreeClassifier(rounds=2, least_rows=500), *transformers()]
OTHERS = [one for one in classifiers() if type(one) is not KMeansTreeClassifier]


def expected(estimator: Any) -> dict[str, str]:
    """Checks that are known to fail, with the reason."""
    return {"check_class_weight_classifiers": CLASS_WEIGHT} if isinstance(estimator, AveragedSGDClassifier) else {}


def left_by(check: Any, estimator: Any) -> str:
    """A digest of all that the estimator holds once the check, which is to work on a copy, has raised nothing."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        check(estimator)
    return str(joblib.hash(estimator))


@parametrize_with_checks(QUICK)
def test_estimators_keep_the_contract(estimator: Any, check: Any) -> None:
    before = joblib.hash(estimator)
    assert left_by(check, estimator) == before


@pytest.mark.slow
@parametrize_with_checks(OTHERS, expected_failed_checks=expected)
def test_all_classifiers_keep_the_contract(estimator: Any, check: Any) -> None:
    before = joblib.hash(estimator)
    assert left_by(check, estimator) == before
