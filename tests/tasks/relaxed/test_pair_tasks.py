"""Machines of pairs of classes in runs: every pair once, kept whole or learnt again."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.relaxed import pair_tasks
from tasks.relaxed.pair_tasks import PairRun, file_of, groups, learn_pairs, pair_classifier, pair_runs, read_pairs
from tasks.relaxed.rules import AllRule
from tasks.svm.classifier import KernelClassifier, LinearClassifier
from tests.damage import DAMAGES
from tests.tasks.relaxed.grounds import Planted, ground_of, root_classes


@given(n_classes=st.integers(0, 40), pairs=st.integers(1, 200))
def test_runs_are_of_all_pairs_in_order(n_classes: int, pairs: int) -> None:
    runs = pair_runs(n_classes, pairs)
    firsts = [first for run in runs for first in range(run.first, run.last)]
    assert firsts == list(range(max(0, n_classes - 1)))
    assert [run.index for run in runs] == list(range(len(runs)))
    for run in runs:
        held = [n_classes - 1 - first for first in range(run.first, run.last)]
        assert sum(held[:-1]) < pairs
        assert sum(held) >= pairs or run.last == n_classes - 1


@pytest.mark.parametrize("kind", ["linear", "chi2"])
def test_every_pair_parts_its_classes_the_lower_one_positive(tmp_path: Path, kind: str) -> None:
    data = Planted.of(0, n_classes=6, width=8)
    ground = ground_of(tmp_path, AllRule(), data, kind, cost=20.0, classes=np.array([0, 1, 3, 4, 5]))
    classes = root_classes(ground)
    runs = pair_runs(classes.size, 3)
    assert [learn_pairs(run, ground, classes) for run in runs] == [4, 3, 3]
    found = [one for run in runs for one in read_pairs(run, ground)]
    named = [(a, b) for i, a in enumerate(classes) for b in classes[i + 1 :]]
    assert len(found) == len(named) == 10
    right = 0
    for (a, b), one in zip(named, found, strict=True):
        rows = ground.node_rows(np.array([a, b]))
        held = ground.rows.take(rows.numbers)
        if isinstance(one, LinearClassifier):
            f = held.to_array() @ one.weights + one.bias
        else:
            assert isinstance(one, KernelClassifier)
            f = ground.kernel.block(held, ground.rows.take(one.support)) @ one.coefficients + one.bias
        right += int(((f >= 0) == (rows.labels == 0)).sum())
        alone = pair_classifier(ground, np.array([a, b], np.int32))
        assert alone.bias == one.bias
    assert right > 0.9 * 12 * len(named)


def test_a_run_that_is_there_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ground = ground_of(tmp_path, AllRule(), Planted.of(1, n_classes=4))
    classes, run = root_classes(ground), PairRun(0, 0, 3)
    assert learn_pairs(run, ground, classes) == 6
    monkeypatch.setattr(pair_tasks, "pair_classifier", None)
    assert learn_pairs(run, ground, classes) == 6


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_run_is_learnt_again_to_the_same_bytes(tmp_path: Path, damage: Callable[[Path], None]) -> None:
    ground = ground_of(tmp_path, AllRule(), Planted.of(1, n_classes=4))
    classes, run = root_classes(ground), PairRun(0, 0, 3)
    learn_pairs(run, ground, classes)
    before = file_of(run, ground).read_bytes()
    damage(file_of(run, ground))
    with pytest.raises(FileNotFoundError):
        read_pairs(run, ground)
    learn_pairs(run, ground, classes)
    assert file_of(run, ground).read_bytes() == before


@given(sizes=st.lists(st.integers(1, 9), max_size=20), first=st.integers(0, 5), most=st.integers(1, 30))
def test_groups_are_of_all_later_classes_and_hold_few_rows(sizes: list[int], first: int, most: int) -> None:
    found = list(groups(np.array(sizes, np.int64), first, most))
    assert [place for group in found for place in group] == list(range(first, len(sizes)))
    for group in found:
        held = sum(sizes[place] for place in group)
        assert held <= most or len(group) == 1
        assert group.stop == len(sizes) or held + sizes[group.stop] > most


@pytest.mark.parametrize("most", [1, 25, 256])
@pytest.mark.parametrize("body", ["float32", "float16", "csr"])
def test_rows_that_are_read_for_many_pairs_give_the_bits_of_a_pair_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, body: str, most: int
) -> None:
    monkeypatch.setattr(pair_tasks, "HELD_ROWS", most)
    ground = ground_of(tmp_path, AllRule(), Planted.of(2, n_classes=5), body=body)
    classes = root_classes(ground)
    learn_pairs(PairRun(0, 0, 4), ground, classes)
    named = [(a, b) for i, a in enumerate(classes) for b in classes[i + 1 :]]
    for pair, one in zip(named, read_pairs(PairRun(0, 0, 4), ground), strict=True):
        alone = pair_classifier(ground, np.array(pair, np.int32))
        assert isinstance(alone, LinearClassifier)
        np.testing.assert_array_equal(one.weights, alone.weights)
        assert one.bias == alone.bias
