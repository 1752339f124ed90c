"""Kernels of the softmax against one row at a time, in both float types and at the ends of their ranges."""

from __future__ import annotations

import numpy as np
import pytest

from tasks.exponential import LANES
from tasks.rows.base import Array
from tasks.trace.risk import SHRINK
from tasks.trace.softmax import add_by_class, softmax_losses, softmax_residuals, softmax_row_losses
from tests.naive import softmax as naive

NONE = np.zeros(0)
EXACT = {np.float32: 3e-6, np.float64: 1e-13}


def some_scores(seed: int, k: int, dtype: type[np.floating], spread: float = 5.0) -> tuple[Array, Array, Array]:
    rng = np.random.default_rng(seed)
    scores = (rng.standard_normal((9, k)) * spread).astype(dtype)
    return scores, rng.integers(0, k, 9).astype(np.int32), rng.random(k)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("k", [1, 2, 3, LANES - 1, LANES, LANES + 1, 2 * LANES + 5])
@pytest.mark.parametrize("spread", [0.1, 5.0, 60.0])
def test_rows_one_by_one(dtype: type[np.floating], k: int, spread: float) -> None:
    scores, labels, scale = some_scores(k, k, dtype, spread)
    residuals, entropies = scores.copy(), np.zeros(SHRINK.size)
    loss = softmax_residuals(residuals, labels, scale, SHRINK, entropies)
    rows = list(zip(scores, labels, strict=True))
    tolerance = EXACT[dtype] * max(1.0, spread)
    assert loss == pytest.approx(sum(naive.loss(row, y) for row, y in rows), abs=9 * tolerance)
    np.testing.assert_allclose(residuals, [naive.residual(row, y, scale[y]) for row, y in rows], atol=tolerance)
    wanted = [sum(naive.entropy(row, y, t * scale[y]) for row, y in rows) for t in SHRINK]
    np.testing.assert_allclose(entropies, wanted, atol=30 * tolerance)
    each = softmax_row_losses(scores.copy(), labels)
    np.testing.assert_allclose(each, [naive.loss(row, y) for row, y in rows], atol=tolerance)
    assert softmax_losses(scores, labels) == loss


def test_classes_of_scale_zero_are_left_out() -> None:
    scores, labels, _ = some_scores(0, 4, np.float64)
    entropies = np.zeros(SHRINK.size)
    softmax_residuals(scores, labels, np.zeros(4), SHRINK, entropies)
    assert not scores.any()
    assert not entropies.any()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_tiny_losses_keep_their_digits(dtype: type[np.floating]) -> None:
    scores = np.array([[0.0, -30.0], [-34.0, 0.0]], dtype)
    labels = np.array([0, 1], np.int32)
    wanted = np.exp(-30.0) + np.exp(-34.0)
    residuals = scores.copy()
    assert softmax_losses(scores, labels) == pytest.approx(wanted, rel=1e-6)
    softmax_residuals(residuals, labels, np.ones(2), NONE, NONE)
    assert residuals[0, 0] == pytest.approx(-np.exp(-30.0), rel=1e-6)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_what_is_not_a_number_stays_so(dtype: type[np.floating], bad: float) -> None:
    scores, labels, _ = some_scores(1, 5, dtype)
    scores[3, 2] = bad
    with np.errstate(invalid="ignore"):
        assert np.isnan(softmax_losses(scores, labels))


def test_rows_are_added_to_their_class() -> None:
    rng = np.random.default_rng(0)
    rows, labels, sums = (
        rng.random((50, 3)).astype(np.float32),
        rng.integers(0, 4, 50).astype(np.int32),
        np.ones((5, 3)),
    )
    wanted = np.ones((5, 3))
    np.add.at(wanted, labels, rows)
    add_by_class(sums, labels, rows)
    assert (sums == wanted).all()
