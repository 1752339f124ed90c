"""Scales of a node's scores: against a slow twin, and what they do for a search with a beam."""

from __future__ import annotations

import numpy as np
import pytest

from tasks.rows import Dense
from tasks.trees.local import Labelled, grow_rows
from tasks.trees.params import LabelTreeParams
from tasks.trees.scale import SCALES, best_scale, held_likelihoods
from tests.naive.scale import held_likelihood
from tests.tasks.test_label_tree import clouds


@pytest.mark.parametrize("seed", range(6))
def test_likelihoods_are_those_of_the_twin(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n, width, q, k = 40, 5, 4, 7
    rows, weights = rng.normal(size=(n, width)).astype(np.float32), rng.normal(size=(width, q)).astype(np.float32)
    bias, columns = rng.normal(size=q).astype(np.float32), rng.integers(0, k, n).astype(np.int32)
    children = rng.random((q, k)) < 0.4  # some classes in several children, some in none
    found = held_likelihoods(Dense(rows), weights, bias, columns, children, SCALES)
    scores = rows @ weights + bias
    np.testing.assert_allclose(found, [held_likelihood(scores, columns, children, s) for s in SCALES], rtol=1e-4)
    assert (found <= 0).all()


def test_the_scale_of_probabilities_is_found_and_no_rows_leave_it_at_one() -> None:
    rng = np.random.default_rng(0)
    children, truth = np.eye(5, dtype=bool), 4.0
    scores = rng.normal(size=(4000, 5)).astype(np.float32)
    shares = np.exp(truth * scores) / np.exp(truth * scores).sum(axis=1, keepdims=True)
    columns = (shares.cumsum(axis=1) > rng.random((4000, 1))).argmax(axis=1).astype(np.int32)
    identity = np.eye(5, dtype=np.float32)
    found = held_likelihoods(Dense(scores), identity, np.zeros(5, np.float32), columns, children, SCALES)
    assert best_scale(found) == pytest.approx(truth, rel=0.5)
    assert best_scale(np.zeros(SCALES.size)) == 1.0


@pytest.mark.parametrize("seed", range(3))
def test_a_beam_does_not_harm_a_label_tree(seed: int) -> None:
    """Margins as they are would: nodes are sure in other units."""
    train, judges, test = (clouds(seed + s, 24, 30, 12) for s in (0, 100, 200))
    params = LabelTreeParams(branching=5, depth=3, ambiguity=0.3, rounds=3)
    tree = grow_rows(train, judges, 24, params, seed)
    assert isinstance(test, Labelled)
    narrow, wide = (float((tree.rank(test.rows, 1, beam=beam).classes[:, 0] == test.labels).mean()) for beam in (1, 8))
    assert wide >= narrow - 0.02
    assert tree.scales is not None
    assert (tree.scales != 1).any()
