"""How sure a k-means tree is as a whole: the likelihoods that decide it, and what it does to calibration."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tasks.rows import Dense
from tasks.trees.kmeans.params import KMeansTreeParams
from tasks.trees.kmeans.sharpness import BEAM, TRIED, likelihoods_of, sharpened
from tasks.trees.local import grow_rows
from tests.tasks.test_label_tree import clouds


@pytest.mark.parametrize("seed", range(3))
def test_likelihoods_are_those_of_rankings_at_each_power(seed: int) -> None:
    train, judges = (clouds(seed + s, 20, 12, 6) for s in (0, 50))
    tree = grow_rows(train, judges, 20, KMeansTreeParams(branching=4), seed)
    found = likelihoods_of(tree, judges.rows, judges.labels)
    for power, expected in zip(TRIED, found, strict=True):
        ranking = replace(tree, sharpness=float(power)).rank(judges.rows, 1, judges.labels, BEAM)
        assert ranking.probabilities is not None
        assert expected == pytest.approx(ranking.probabilities.label_log.sum(dtype=np.float64), rel=1e-5)
    assert tree.sharpness in TRIED
    assert replace(tree, sharpness=1.0) is not tree
    assert sharpened(tree, found).sharpness == tree.sharpness


def test_no_rows_leave_a_tree_as_sure_as_it_is_and_powers_keep_the_order() -> None:
    train, test = (clouds(s, 20, 12, 6) for s in (0, 50))
    nobody = test.take(np.zeros(0, np.int64))
    tree = grow_rows(train, nobody, 20, KMeansTreeParams(branching=4), 0)
    assert tree.sharpness == 1.0
    plain = tree.rank(test.rows, 5, test.labels)
    sharp = replace(tree, sharpness=3.0).rank(test.rows, 5, test.labels)
    np.testing.assert_array_equal(plain.classes, sharp.classes)
    assert plain.probabilities is not None
    assert sharp.probabilities is not None
    assert np.nanmean(sharp.probabilities.named[:, 0]) > np.nanmean(plain.probabilities.named[:, 0])
    assert np.nansum(sharp.probabilities.named, axis=1).max() <= 1 + 1e-6
    assert isinstance(test.rows, Dense)
