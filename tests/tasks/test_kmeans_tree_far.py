"""k-means trees of rows far from zero, or of other units: what tells rows apart is the same."""

from __future__ import annotations

import numpy as np
import pytest

from tasks.fit.softmax_newton import Frame, fit_softmax, frame_of, spread_of
from tasks.rows import Dense
from tasks.trees.kmeans.params import KMeansTreeParams
from tasks.trees.local import Labelled, grow_rows
from tests.tasks.test_label_tree import clouds


def moved(part: Labelled, offset: float, size: float) -> Labelled:
    values = (part.rows.to_array().astype(np.float64) * size + offset).astype(np.float32)
    return Labelled(Dense(values), part.labels)


def accuracy(seed: int, depth: int, offset: float, size: float) -> float:
    train, judges, test = (moved(clouds(seed + s, 20, 20, 8), offset, size) for s in (0, 100, 200))
    tree = grow_rows(train, judges, 20, KMeansTreeParams(branching=4, depth=depth), seed)
    return float((tree.rank(test.rows, 1).classes[:, 0] == test.labels).mean())


@pytest.mark.parametrize("depth", [1, 2])
@pytest.mark.parametrize(("offset", "size"), [(100.0, 1.0), (-3000.0, 1.0), (0.0, 1e17), (0.0, 1e-12), (1e19, 1e17)])
def test_offset_and_unit_do_not_matter(depth: int, offset: float, size: float) -> None:
    plain = accuracy(1, depth, 0.0, 1.0)
    assert plain > 0.6
    assert accuracy(1, depth, offset, size) >= plain - 0.05


def test_a_fit_in_a_frame_is_that_of_the_rows_as_they_are() -> None:
    rng = np.random.default_rng(0)
    values, children = rng.normal(size=(300, 5)).astype(np.float32), rng.integers(-1, 3, 300).astype(np.int32)
    plain = fit_softmax(Dense(values), children, 3, True, 1e-2, True)
    framed = fit_softmax(Dense(values), children, 3, True, 1e-2, True, Frame(np.full(5, 0.5, np.float32), 2.0))
    assert framed.objective == pytest.approx(plain.objective, rel=2e-3)  # where either ends: a thousandth of it
    scores = [values @ found.weights + found.bias for found in (plain, framed)]
    assert (scores[0].argmax(axis=1) == scores[1].argmax(axis=1)).mean() > 0.95


def test_rows_near_zero_have_no_frame_and_others_their_mean_and_size() -> None:
    values = np.random.default_rng(1).normal(size=(500, 4)).astype(np.float32)
    assert frame_of(*spread_of(Dense(values))) is None
    assert frame_of(*spread_of(Dense(np.ones((9, 4), np.float32)))) is None
    far = frame_of(*spread_of(Dense(values + np.float32(50))))
    assert far is not None
    np.testing.assert_allclose(far.mean, values.mean(axis=0) + 50, rtol=1e-5)
    assert far.size == pytest.approx(float(np.sqrt(values.var(axis=0).sum())), rel=1e-3)
