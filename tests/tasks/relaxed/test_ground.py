"""What the tasks of a growing hierarchy know, and the files of finished nodes: whole, or as if they were not there."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.relaxed.ground import (
    ONE_VS_ALL,
    SINGLE,
    SPLIT,
    Ground,
    Learnt,
    NodeTask,
    Parts,
    Unpacked,
    classes_at,
    node_name,
    packed,
    read_node,
    read_part,
    summary_of,
    write_node,
    write_part,
)
from tasks.svm.classifier import Classifier, KernelClassifier, LinearClassifier
from tests.damage import DAMAGES
from tests.strategies import seeds
from tests.tasks.relaxed.grounds import RELAXED, Planted, confused, ground_of, root_of

FORMS = ("dense", "sparse", "zero", "kernel")


def classifiers(form: str, n: int, seed: int = 0) -> list[Classifier]:
    rng = np.random.default_rng(seed)
    found: list[Classifier] = []
    for _ in range(n):
        if form == "kernel":
            support = np.flatnonzero(rng.random(20) < 0.3)
            found.append(KernelClassifier(support, rng.normal(size=support.size).astype(np.float32), rng.normal()))
        else:
            share = {"dense": 1.0, "sparse": 0.1, "zero": 0.0}[form]
            weights = rng.normal(size=12) * (rng.random(12) < share)
            found.append(LinearClassifier(weights.astype(np.float32), rng.normal()))
    return found


def assert_same(one: Classifier, other: Classifier) -> None:
    assert type(one) is type(other)
    assert one.bias == other.bias
    for name in ("weights", "support", "coefficients"):
        if hasattr(one, name):
            mine, theirs = getattr(one, name), getattr(other, name)
            np.testing.assert_array_equal(mine, theirs)
            assert mine.dtype == theirs.dtype


@given(form=st.sampled_from(FORMS), n=st.integers(0, 5), seed=seeds)
def test_classifiers_come_back_as_they_were(form: str, n: int, seed: int) -> None:
    before = classifiers(form, n, seed)
    after = Unpacked(packed(before))
    assert len(after) == n
    assert len(after[1:]) == max(n - 1, 0)
    for one, other in zip(before, after, strict=True):
        assert_same(one, other)


def test_few_weights_are_kept_by_their_entries() -> None:
    assert "weights" in packed(classifiers("dense", 3))
    assert packed(classifiers("sparse", 3, 1))["values"].size < 12


@pytest.fixture
def ground(tmp_path: Path) -> Ground:
    return ground_of(tmp_path, RELAXED, Planted.of(0))


def split_node(classes: list[int], colors: list[int]) -> Learnt:
    record = {"depth": 2, "value": 1.5, "objective": [3.0, 1.5], "steps": ["svm", "coloring"]}
    return Learnt(SPLIT, np.array(classes, np.int32), np.array(colors, np.int8), classifiers("dense", 1), record)


def test_a_finished_node_is_read_as_it_was_written(ground: Ground) -> None:
    learnt = split_node([0, 2, 3, 5, 7], [1, 0, -1, 0, 1])
    summary = write_node(ground, learnt)
    assert (summary.name, summary.kind) == (node_name(learnt.classes), SPLIT)
    found = read_node(ground, summary.name)
    assert found is not None
    assert (found.kind, found.record) == (SPLIT, learnt.record)
    assert found.classes.tolist() == [0, 2, 3, 5, 7]
    assert found.coloring.tolist() == [1, 0, -1, 0, 1]
    assert_same(found.classifiers[0], learnt.classifiers[0])
    assert summary_of(ground, found) == summary
    negative, positive = summary.children
    assert (negative.side, negative.n_classes, negative.n_rows) == (-1, 3, 18)
    assert (positive.side, positive.n_classes, positive.n_rows) == (1, 4, 24)
    assert negative.name == node_name(np.array([2, 3, 5]))
    assert positive.name == node_name(np.array([0, 2, 5, 7]))


@pytest.mark.parametrize(("kind", "n"), [(ONE_VS_ALL, 3), (SINGLE, 0)])
def test_leaves_have_no_children(ground: Ground, kind: str, n: int) -> None:
    classes = np.arange(max(n, 1), dtype=np.int32)
    leaf = Learnt(kind, classes, np.zeros(classes.size, np.int8), classifiers("dense", n), {"depth": 1})
    summary = write_node(ground, leaf)
    assert summary.children == ()
    found = read_node(ground, summary.name)
    assert found is not None
    assert len(found.classifiers) == n


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_file_is_no_node(ground: Ground, damage: Callable[[Path], None]) -> None:
    summary = write_node(ground, split_node([1, 4], [1, -1]))
    damage(ground.file(summary.name))
    assert read_node(ground, summary.name) is None


def test_classes_of_a_task_are_those_of_its_side_of_the_parent(ground: Ground) -> None:
    assert classes_at(ground, root_of(ground)).tolist() == list(range(8))
    parent = write_node(ground, split_node([0, 2, 3, 5, 7], [1, 0, -1, 0, 1]))
    for child in parent.children:
        task = NodeTask(child.name, parent.name, child.side, child.n_classes, child.n_rows, 1)
        assert node_name(classes_at(ground, task)) == child.name
    ground.file(parent.name).unlink()
    with pytest.raises(FileNotFoundError, match="parent"):
        classes_at(ground, task)


def test_names_and_streams_are_of_the_set_of_classes() -> None:
    names = {node_name(np.array(classes)) for classes in ([1], [1, 2], [1, 2, 3], [12], [2])}
    assert len(names) == 5
    assert node_name(np.array([1, 2], np.int64)) == node_name(np.array([1, 2], np.int32))


def test_streams_differ_by_node_purpose_seed_and_learner(ground: Ground) -> None:
    grounds = [ground, replace(ground, seed=6), replace(ground, name="other")]
    drawn = [one.stream(node, what).random() for one in grounds for node in ("a", "b") for what in ("pairs", "order")]
    assert len(set(drawn)) == len(drawn)
    assert ground.stream("a", "pairs").random() == drawn[0]


def test_confusion_and_rows_are_those_of_the_classes_asked_for(tmp_path: Path) -> None:
    data = Planted.of(1)
    ground = ground_of(tmp_path, RELAXED, data, most_rows=20)
    classes = np.array([1, 4, 6])
    full = confused(data, 8).toarray()
    np.testing.assert_array_equal(ground.confusion(classes).toarray(), full[np.ix_(classes, classes)])
    np.testing.assert_array_equal(ground.judged(classes), full[classes].sum(axis=1))
    assert ground.node_rows(classes).n_rows == 18
    assert ground.node_rows(np.arange(8)).n_rows == 20
    assert ground.node_rows(classes, 7).n_rows == 7
    assert ground.node_rows(np.arange(8), 1 << 30).n_rows == 20
    assert ground.linear
    assert pickle.loads(pickle.dumps(ground)) == ground
    assert len(pickle.dumps(ground)) < 2000


def test_a_large_leaf_has_its_classifiers_in_files_of_their_own(ground: Ground) -> None:
    classes, made = np.arange(5, dtype=np.int32), classifiers("kernel", 5)
    name = node_name(classes)
    for first, part in ((0, made[:2]), (2, made[2:4]), (4, made[4:])):
        write_part(ground, name, first, part)
    leaf = Learnt(ONE_VS_ALL, classes, np.zeros(5, np.int8), Parts(ground, name, (0, 2, 4)), {"depth": 0})
    assert write_node(ground, leaf).kind == ONE_VS_ALL
    found = read_node(ground, name)
    assert found is not None
    assert len(found.classifiers) == 5
    for one, other in zip(made, found.classifiers, strict=True):
        assert_same(one, other)


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_leaf_with_a_damaged_part_is_none(ground: Ground, damage: Callable[[Path], None]) -> None:
    classes = np.arange(3, dtype=np.int32)
    name = node_name(classes)
    write_part(ground, name, 0, classifiers("dense", 2))
    write_part(ground, name, 2, classifiers("dense", 1))
    parts = Parts(ground, name, (0, 2))
    write_node(ground, Learnt(ONE_VS_ALL, classes, np.zeros(3, np.int8), parts, {"depth": 0}))
    damage(ground.file(name, 2))
    assert read_part(ground, name, 0) is not None
    assert read_part(ground, name, 2) is None
    assert read_node(ground, name) is None
    with pytest.raises(FileNotFoundError):
        list(parts)
