"""Log-loss and calibration error: against scikit-learn, a slow twin, and worked values."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from sklearn.metrics import log_loss

from tasks.metrics.calibration import BINS, Calibration
from tasks.models.base import Probabilities, Ranking
from tasks.models.evaluate import Scores, evaluate_part, evaluate_rows
from tasks.models.predictions import Predictions, write_part
from tasks.models.selection import Selected
from tests.naive import probabilities as naive

N_CLASSES = 6


def drawn(seed: int, n: int = 80) -> tuple[np.ndarray, np.ndarray]:
    """Scores (n, N_CLASSES) float32 and labels, some of them not known."""
    random = np.random.default_rng(seed)
    return (3 * random.standard_normal((n, N_CLASSES))).astype(np.float32), random.integers(-1, N_CLASSES, n)


def predictions(scores: np.ndarray, labels: np.ndarray, top: int = 2) -> Predictions:
    """As a probabilistic model would predict, row by row."""
    n = len(scores)
    shares = np.array([naive.softmax(row.tolist()) for row in scores])
    classes = np.argsort(-scores, axis=1, kind="stable")[:, :top].astype(np.int32)
    logs = [naive.log_probability(r.tolist(), y) if y >= 0 else np.nan for r, y in zip(scores, labels, strict=True)]
    found = Probabilities(np.take_along_axis(shares, classes, 1).astype(np.float32), np.array(logs, np.float32))
    best = np.take_along_axis(scores, classes, 1)
    ranking = Ranking(classes, best, np.full(n, N_CLASSES, np.int32), None, found)
    return Predictions(np.arange(n), labels.astype(np.int32), ranking)


@given(st.data())
def test_calibration_error_matches_its_definition(data: st.DataObject) -> None:
    n = data.draw(st.integers(1, 40))
    n_bins = data.draw(st.sampled_from([1, 2, 10, BINS]))
    confidence = data.draw(hnp.arrays(np.float32, n, elements=st.floats(0, 1, width=32)))
    right = data.draw(hnp.arrays(np.bool_, n))
    found = Calibration.of(confidence, right, np.zeros(n, np.float32), n_bins)
    assert found.rows.sum() == n
    expected = naive.calibration_error(confidence.tolist(), right.tolist(), n_bins)
    assert found.metrics()["calibration_error"] == pytest.approx(expected, abs=1e-12)


def test_worked_values() -> None:
    """Two rows of confidence 0.9, one right: off by 0.4; two of 0.2, none right: off by 0.2; over four rows 0.3."""
    confidence = np.array([0.9, 0.2, 0.9, 0.2], np.float32)
    found = Calibration.of(confidence, np.array([True, False, False, False]), np.log([0.5, 0.5, 0.25, 0.25]), 10)
    assert found.metrics()["calibration_error"] == pytest.approx(0.3)
    assert found.metrics()["log_loss"] == pytest.approx(1.5 * np.log(2))


def test_bins_hold_their_upper_edge() -> None:
    confidence = np.array([0.0, 0.5, np.nextafter(np.float32(0.5), np.float32(1)), 1.0, 1.0000001], np.float32)
    found = Calibration.of(confidence, np.zeros(5, bool), np.zeros(5, np.float32), 2)
    assert found.rows.tolist() == [2, 3]


def test_the_certain_and_right_are_calibrated() -> None:
    found = Calibration.of(np.ones(3, np.float32), np.ones(3, bool), np.zeros(3, np.float32)).metrics()
    assert found == {"log_loss": 0.0, "calibration_error": 0.0}
    assert str(found["log_loss"]) == "0.0"  # not -0.0


@pytest.mark.parametrize("seed", range(5))
def test_log_loss_is_that_of_scikit_learn(seed: int) -> None:
    scores, labels = drawn(seed)
    metrics = evaluate_rows(predictions(scores, labels), N_CLASSES).metrics()
    known = labels >= 0
    shares = np.array([naive.softmax(row.tolist()) for row in scores])[known]
    assert metrics["log_loss"] == pytest.approx(log_loss(labels[known], shares, labels=range(N_CLASSES)), rel=1e-6)
    first, right = shares.max(axis=1).astype(np.float32), shares.argmax(axis=1) == labels[known]
    expected = naive.calibration_error(first.tolist(), right.tolist(), BINS)
    assert metrics["calibration_error"] == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("seed", range(3))
def test_sums_of_parts_are_the_sums_of_all(tmp_path: Path, seed: int) -> None:
    scores, labels = drawn(seed)
    whole = evaluate_rows(predictions(scores, labels), N_CLASSES)
    total: Scores | None = None
    for i, part in enumerate(np.array_split(np.arange(len(labels)), 4)):
        found = predictions(scores[part], labels[part])
        write_part(tmp_path / f"{i}.parquet", Selected(part, part, found.label), found.ranking)
        sums = evaluate_part(tmp_path / f"{i}.parquet", N_CLASSES)
        total = sums if total is None else total + sums
    assert total is not None
    assert total.calibration is not None
    assert whole.calibration is not None
    np.testing.assert_array_equal(total.calibration.rows, whole.calibration.rows)
    np.testing.assert_array_equal(total.calibration.hits, whole.calibration.hits)
    assert total.metrics() == pytest.approx(whole.metrics(), rel=1e-13)


def test_parts_without_labels_add_nothing() -> None:
    scores, labels = drawn(0)
    known = evaluate_rows(predictions(scores, labels), N_CLASSES)
    unknown = evaluate_rows(predictions(scores, np.full(len(labels), -1)), N_CLASSES)
    assert unknown.metrics() == {}
    assert unknown.calibration is not None
    assert unknown.calibration.metrics() == {}
    assert (known + unknown).metrics() == known.metrics()


def test_models_of_margins_have_neither() -> None:
    scores, labels = drawn(0)
    found = predictions(scores, labels)
    ranking = found.ranking
    margins = Ranking(ranking.classes, ranking.scores, ranking.evaluations)
    metrics = evaluate_rows(Predictions(found.row, found.label, margins), N_CLASSES)
    assert metrics.calibration is None
    assert (metrics + metrics).calibration is None
    assert not {"log_loss", "calibration_error"} & metrics.metrics().keys()
