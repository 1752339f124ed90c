"""One-vs-all on half of the rows, judged by the other half."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.relaxed.ground import Ground
from tasks.relaxed.rules import AllRule
from tasks.seeds import stream
from tasks.svm.class_rows import NodeRows
from tasks.svm.kernels import Kernel, NoKernelWidth
from tasks.svm.one_vs_all import one_vs_all
from tasks.svm.trials import FOLDS, Held, Judges, Trial, halves, sample_scale, try_classes
from tests.naive.kernel_svm import least_squares
from tests.tasks.relaxed.grounds import Planted, ground_of, root_classes

counts_of_classes = st.lists(st.integers(1, 9), min_size=1, max_size=6)


@given(counts=counts_of_classes, most=st.integers(1, 40))
def test_rows_of_a_class_are_dealt_to_the_folds_in_turn(counts: list[int], most: int) -> None:
    starts = np.concatenate([[0], np.cumsum(counts)])
    rows = NodeRows.of(starts, np.arange(len(counts)), most)
    fold = halves(rows)
    for k in range(len(counts)):
        mine = fold[rows.labels == k]
        assert mine.tolist() == [i % FOLDS for i in range(mine.size)]


def judges_of(ground: Ground, most: int = 1 << 30) -> Judges:
    return Judges(ground.rows, ground.gram, most, 3)


@pytest.mark.parametrize("body", ["float32", "csr"])
def test_linear_rows_are_judged_by_classifiers_of_the_other_fold(tmp_path: Path, body: str) -> None:
    data = Planted.of(0, width=8)
    ground = ground_of(tmp_path, AllRule(), data, "linear", body)
    starts, classes = ground.starts(), root_classes(ground)
    rows = NodeRows.of(starts, classes, 1 << 30)
    held, fold = ground.rows.take(rows.numbers), halves(rows)
    for place in range(FOLDS):
        found = try_classes(Trial(0.5, place, 0, 8), judges_of(ground), starts, classes)
        learn, judge = np.flatnonzero(fold == place), np.flatnonzero(fold != place)
        rng = stream(3, "svm-trial", place)
        weights, bias = one_vs_all(held.take(learn), rows.labels[learn], 8, 0.5, rng)
        scores = held.take(judge).to_array() @ weights + bias
        np.testing.assert_allclose(found.score, scores.max(axis=1), rtol=1e-4, atol=1e-5)
        assert (found.label == scores.argmax(axis=1)).mean() > 0.95
        assert (found.label == rows.labels[judge]).mean() > 0.2  # chance is 0.125
        assert (found.score.dtype, found.label.dtype) == (np.float32, np.int32)


def test_kernels_are_judged_by_least_squares(tmp_path: Path) -> None:
    ground = ground_of(tmp_path, AllRule(), Planted.of(1, n_classes=4), "chi2")
    starts, classes = ground.starts(), root_classes(ground)
    rows = NodeRows.of(starts, classes, 1 << 30)
    held, fold = ground.rows.take(rows.numbers), halves(rows)
    gram = ground.kernel.block(held, held).astype(np.float64)
    learn, judge = np.flatnonzero(fold == 1), np.flatnonzero(fold != 1)
    scores = np.empty((judge.size, 4))
    for k in range(4):
        targets = np.where(rows.labels[learn] == k, 1.0, -1.0)
        alpha, bias = least_squares(gram[np.ix_(learn, learn)], targets, 2.0)
        scores[:, k] = gram[np.ix_(judge, learn)] @ alpha + bias
    found = try_classes(Trial(2.0, 1, 0, 4), judges_of(ground), starts, classes)
    np.testing.assert_allclose(found.score, scores.max(axis=1), rtol=1e-5)
    assert found.label.tolist() == scores.argmax(axis=1).tolist()
    part = try_classes(Trial(2.0, 1, 1, 3), judges_of(ground), starts, classes)
    assert part.label.tolist() == (1 + scores[:, 1:3].argmax(axis=1)).tolist()


@given(
    ranges=st.lists(st.lists(st.integers(-3, 3), min_size=4, max_size=4), min_size=1, max_size=5),
)
def test_ranges_join_to_the_first_of_the_best(ranges: list[list[int]]) -> None:
    helds = [Held(np.array(scores, np.float32), np.full(4, k, np.int32)) for k, scores in enumerate(ranges)]
    joined = helds[0]
    for other in helds[1:]:
        joined = joined.or_better(other)
    table = np.array(ranges)
    assert joined.score.tolist() == table.max(axis=0).tolist()
    assert joined.label.tolist() == table.argmax(axis=0).tolist()


def test_samples_are_alike_in_every_trial(tmp_path: Path) -> None:
    """Rows that are judged are those of the other fold of the same sample, whatever range of classes is tried."""
    ground = ground_of(tmp_path, AllRule(), Planted.of(2), "linear")
    starts, classes = ground.starts(), root_classes(ground)
    for most, expected in ((1 << 30, 24), (24, 8), (5, 0)):
        found = try_classes(Trial(1.0, 0, 0, 8), judges_of(ground, most), starts, classes)
        assert found.label.size == expected


def test_scales_are_those_of_the_definition(tmp_path: Path) -> None:
    data = Planted.of(3)
    ground = ground_of(tmp_path, AllRule(), data)
    values = data.values.astype(np.float64)
    distances = ((values[:, None] - values) ** 2).sum(axis=2)
    scale, width = sample_scale(judges_of(ground), ground.starts(), Kernel("linear"))
    assert (scale, width) == (pytest.approx((values**2).sum(axis=1).mean()), 1.0)
    scale, width = sample_scale(judges_of(ground), ground.starts(), Kernel("rbf"))
    assert (scale, width) == (1.0, pytest.approx(distances[np.triu_indices(len(values), 1)].mean(), rel=1e-5))
    scale, _ = sample_scale(judges_of(ground), ground.starts(), Kernel("histogram-intersection"))
    assert scale == pytest.approx(values.sum(axis=1).mean())


def test_a_width_that_is_given_is_not_measured(tmp_path: Path) -> None:
    data = Planted(np.ones((6, 2), np.float32), np.arange(6) % 2)
    ground = ground_of(tmp_path, AllRule(), data)
    with pytest.raises(NoKernelWidth):
        sample_scale(judges_of(ground), ground.starts(), Kernel("rbf"))
    given_width = replace(Kernel("rbf"), width=3.0)
    assert sample_scale(judges_of(ground), ground.starts(), given_width, 3.0) == (1.0, 3.0)


@pytest.mark.parametrize("kind", ["linear", "rbf"])
def test_classes_of_one_row_alone_leave_a_fold_empty(tmp_path: Path, kind: str) -> None:
    """Nothing can be learnt there: rows that it judges are held for the first class."""
    ground = ground_of(tmp_path, AllRule(), Planted.of(4, per_class=1), kind)
    starts, classes = ground.starts(), root_classes(ground)
    nothing = try_classes(Trial(1.0, 0, 0, 8), judges_of(ground), starts, classes)
    assert nothing.label.size == 0
    by_nobody = try_classes(Trial(1.0, 1, 0, 8), judges_of(ground), starts, classes)
    assert by_nobody.label.tolist() == [0] * 8
    assert np.isfinite(by_nobody.score).all()
