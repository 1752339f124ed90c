"""One node learnt whole: as its parts give it, with the classes of every odd kind."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tasks.relaxed import learn
from tasks.relaxed.alternate import ColoringParams, NodeProblem, alternate
from tasks.relaxed.ground import ONE_VS_ALL, SINGLE, SPLIT, Ground, Learnt, NodeTask, node_name, packed, read_node
from tasks.relaxed.learn import (
    Outcome,
    Split,
    finalists,
    finish_coloring,
    hard,
    leaf_range,
    learn_node,
    left_alone,
    ranked,
    relaxed_split,
    try_coloring,
)
from tasks.relaxed.rules import AllRule, MarszalekRule, SpectralRule, initial_colorings
from tasks.relaxed.solvers import leaf_classifiers, solver_of
from tasks.svm.class_rows import NodeRows
from tasks.svm.classifier import KernelClassifier, LinearClassifier
from tests.naive import relaxed as naive
from tests.tasks.relaxed.grounds import RELAXED, Planted, ground_of, root_classes, root_of

KINDS = (("linear", "float32"), ("linear", "csr"), ("rbf", "float32"), ("chi2", "csr"))
each_kind = pytest.mark.parametrize(("kind", "body"), KINDS, ids=[f"{kind}-{body}" for kind, body in KINDS])


def learnt_at(ground: Ground, task: NodeTask | None = None) -> Learnt:
    summary = learn_node(task or root_of(ground), ground)
    found = read_node(ground, summary.name)
    assert found is not None
    assert found.kind == summary.kind
    return found


def margins(ground: Ground, learnt: Learnt, rows: NodeRows, place: int = 0) -> np.ndarray:
    """f of rows by one classifier of a node."""
    classifier = learnt.classifiers[place]  # type: ignore[index]
    held = ground.rows.take(rows.numbers)
    if isinstance(classifier, LinearClassifier):
        return np.asarray(held.to_array() @ classifier.weights + classifier.bias)
    assert isinstance(classifier, KernelClassifier)
    values = ground.kernel.block(held, ground.rows.take(classifier.support))
    return np.asarray(values @ classifier.coefficients + classifier.bias)


@each_kind
def test_a_split_parts_the_classes_that_it_colors(tmp_path: Path, kind: str, body: str) -> None:
    ground = ground_of(tmp_path, RELAXED, Planted.of(0, width=8), kind, body, cost=10.0)
    found = learnt_at(ground)
    assert found.kind == SPLIT
    rows = ground.node_rows(root_classes(ground))
    f = margins(ground, found, rows)
    sides = found.coloring[rows.labels]
    assert np.mean(np.sign(f)[sides != 0] == sides[sides != 0]) > 0.9
    record = found.record
    assert (record["depth"], record["tried"], len(record["objective"])) == (0, 4, len(record["steps"]))
    assert record["value"] == record["objective"][-1]
    if isinstance(found.classifiers[0], KernelClassifier):  # type: ignore[index]
        assert record["support_vectors"] == found.classifiers[0].support.size  # type: ignore[index]


@each_kind
def test_the_root_is_the_best_of_all_tries(tmp_path: Path, kind: str, body: str) -> None:
    """Of linear models that of the least objective, of kernels that of the least support score; by the definition."""
    ground = ground_of(tmp_path, RELAXED, Planted.of(1, width=8), kind, body)
    classes = root_classes(ground)
    rows = ground.node_rows(classes)
    params = ColoringParams(ground.cost, RELAXED.rho, RELAXED.balance, RELAXED.half_steps)
    problem = NodeProblem(solver_of(ground, rows, classes), rows.labels, rows.weights, rows.counts, params)
    tries = [alternate(problem, coloring) for coloring in initial_colorings(ground, RELAXED, classes)]
    scores = [one.value if kind == "linear" else naive.support_score(one.coloring, one.fit.n_support) for one in tries]
    best = min(range(len(tries)), key=lambda i: (tries[i].forced, scores[i]))
    found = learnt_at(ground)
    assert found.kind == (ONE_VS_ALL if all(one.forced for one in tries) else SPLIT)
    assert found.coloring.tolist() == tries[best].coloring.tolist()
    outcomes = [try_coloring(place, ground, classes) for place in range(len(tries))]
    assert [one.score for one in outcomes] == pytest.approx(scores)


def test_a_finished_node_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ground = ground_of(tmp_path, RELAXED, Planted.of(0))
    before = learn_node(root_of(ground), ground)
    monkeypatch.setattr(learn, "split_of", None)
    assert learn_node(root_of(ground), ground) == before


RULES: dict[str, Any] = {
    "relaxed": RELAXED,
    "spectral": SpectralRule(3),
    "marszalek": MarszalekRule(0.5, 100, 0.0),
    "all": AllRule(),
}


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("kind", ["linear", "histogram-intersection"])
def test_a_single_class_has_no_classifier_and_two_are_always_split(tmp_path: Path, rule: str, kind: str) -> None:
    data = Planted.of(3, n_classes=4)
    one = learnt_at(ground_of(tmp_path / "1", RULES[rule], data, kind, classes=np.array([2])))
    assert (one.kind, one.classes.tolist(), len(one.classifiers)) == (SINGLE, [2], 0)
    two = learnt_at(ground_of(tmp_path / "2", RULES[rule], data, kind, classes=np.array([1, 3])))
    if rule == "all":
        assert (two.kind, len(two.classifiers)) == (ONE_VS_ALL, 2)
    elif rule != "marszalek":
        assert (two.kind, two.coloring.tolist()) == (SPLIT, [1, -1])
        assert [two.side(sign).tolist() for sign in (-1, 1)] == [[3], [1]]


@pytest.mark.parametrize("kind", ["linear", "rbf"])
def test_classes_of_one_row_and_of_none(tmp_path: Path, kind: str) -> None:
    data = Planted.of(5, n_classes=6)
    kept = np.flatnonzero(~np.isin(data.labels, [1, 4]))
    kept = np.sort(np.append(kept, np.flatnonzero(data.labels == 4)[0]))
    data = Planted(data.values[kept], data.labels[kept])
    ground = ground_of(tmp_path, RELAXED, data, kind, n_classes=7)
    assert root_classes(ground).tolist() == [0, 2, 3, 4, 5]
    found = learnt_at(ground)
    assert found.classes.tolist() == [0, 2, 3, 4, 5]
    assert ground.node_rows(found.classes).counts.tolist() == [6, 6, 6, 1, 6]


@pytest.mark.parametrize("kind", ["linear", "histogram-intersection"])
def test_rows_that_are_the_same_in_all_classes_are_left_to_one_vs_all(tmp_path: Path, kind: str) -> None:
    values = np.tile(np.array([[1.0, 2.0, 0.0]], np.float32), (30, 1))
    data = Planted(values, np.arange(30) % 5)
    found = learnt_at(ground_of(tmp_path / "a", RELAXED, data, kind))
    assert (found.kind, len(found.classifiers)) == (ONE_VS_ALL, 5)
    split = learnt_at(ground_of(tmp_path / "b", replace(RELAXED, continued=True), data, kind))
    assert split.kind == SPLIT
    assert {1, -1} <= set(split.coloring.tolist())


def test_rho_above_1_colors_every_class_and_balance_0_as_many_of_each_side(tmp_path: Path) -> None:
    """At rho > 1 a class gains 2 (rho - 1) by the two colors together: at most one is left out, for the balance."""
    data = Planted.of(6, n_classes=7)
    wide = learnt_at(ground_of(tmp_path / "a", replace(RELAXED, rho=3.0), data))
    assert (wide.coloring == 0).sum() <= 1
    even = learnt_at(ground_of(tmp_path / "b", replace(RELAXED, rho=3.0, balance=0), data))
    assert even.coloring.astype(int).sum() == 0
    assert (even.coloring == 0).sum() == 1


@each_kind
def test_a_sample_searches_and_all_rows_finish(tmp_path: Path, kind: str, body: str) -> None:
    rule = replace(RELAXED, search_rows=20, finalists=2)
    ground = ground_of(tmp_path, rule, Planted.of(7, width=8), kind, body, cost=3.0)
    classes = root_classes(ground)
    outcomes = [try_coloring(place, ground, classes) for place in range(rule.samples)]
    splits = [finish_coloring(coloring, ground, classes) for coloring in finalists(rule, outcomes)]
    best = splits[ranked([split.outcome for split in splits])[0]]
    found = learnt_at(ground)
    assert found.kind == SPLIT
    assert found.coloring.tolist() == best.outcome.coloring.tolist()
    assert found.record == {"depth": 0, **best.record, "tried": 4}
    assert ground.node_rows(classes, 20).n_rows == 20 < ground.node_rows(classes).n_rows


@each_kind
def test_splits_learn_from_a_sample_of_rows(tmp_path: Path, kind: str, body: str) -> None:
    data, rule = Planted.of(7, width=8), replace(RELAXED, search_rows=20, split_rows=24)
    grounds = [
        ground_of(tmp_path / "split", rule, data, kind, body, cost=3.0),
        ground_of(tmp_path / "node", RELAXED, data, kind, body, cost=3.0, most_rows=24),
    ]
    classes = root_classes(grounds[0])
    coloring = initial_colorings(grounds[0], rule, classes)[0]
    found, same = (finish_coloring(coloring, ground, classes) for ground in grounds)
    assert found.outcome.coloring.tolist() == same.outcome.coloring.tolist()
    assert found.record == same.record
    assert grounds[0].node_rows(classes, 24).n_rows == 24 < grounds[0].node_rows(classes).n_rows


@each_kind
def test_leaves_learn_from_all_rows(tmp_path: Path, kind: str, body: str) -> None:
    unparted = replace(RELAXED, search_rows=20, split_rows=24, rho=1e-9)
    leaf, whole = (
        learnt_at(ground_of(tmp_path / name, rule, Planted.of(7, width=8), kind, body))
        for name, rule in (("unparted", unparted), ("all", AllRule()))
    )
    assert leaf.kind == whole.kind == ONE_VS_ALL
    one, other = packed(leaf.classifiers), packed(whole.classifiers)  # type: ignore[arg-type]
    assert {key: value.tolist() for key, value in one.items()} == {key: value.tolist() for key, value in other.items()}


def test_rows_of_a_node_may_be_fewer_than_its_classes(tmp_path: Path) -> None:
    ground = ground_of(tmp_path, replace(RELAXED, search_rows=2), Planted.of(8), most_rows=3)
    assert ground.node_rows(root_classes(ground)).n_rows == 8
    assert learnt_at(ground).classes.size == 8


def outcome(score: float, coloring: list[int], forced: bool = False) -> Outcome:
    return Outcome(np.array(coloring, np.int8), score, forced)


def test_outcomes_are_ranked_and_the_best_different_ones_go_on() -> None:
    found = [
        outcome(1.0, [1, -1, 0], forced=True),
        outcome(3.0, [1, 0, -1]),
        outcome(2.0, [0, 1, -1]),
        outcome(2.0, [0, -1, 1]),  # the same classifier the other way round
        outcome(2.5, [1, -1, 1]),
    ]
    assert ranked(found) == [2, 3, 4, 1, 0]
    assert [one.tolist() for one in finalists(replace(RELAXED, finalists=3), found)] == [
        [0, 1, -1],
        [1, -1, 1],
        [1, 0, -1],
    ]
    assert len(finalists(replace(RELAXED, finalists=9), found)) == 4


def test_what_is_hard_to_part_is_left_alone() -> None:
    forced = [outcome(1.0, [1, -1, 0], forced=True)] * 2
    assert hard(RELAXED, forced)
    assert not hard(RELAXED, [*forced, outcome(5.0, [1, -1, 0])])
    assert not hard(replace(RELAXED, continued=True), forced)
    assert not hard(RELAXED, [outcome(1.0, [1, -1], forced=True)])


def split(coloring: list[int], forced: bool = False, **record: float) -> Split:
    return Split(outcome(1.0, coloring, forced), LinearClassifier(np.zeros(2, np.float32), 0.0), record)


def test_what_rules_out_few_classes_or_loses_many_rows_is_left_alone() -> None:
    few = split([1, -1, 0, 0, 0, 0])
    assert left_alone(RELAXED, few)
    assert not left_alone(replace(RELAXED, least_active=0.3), few)
    assert not left_alone(replace(RELAXED, continued=True), few)
    assert left_alone(replace(RELAXED, least_active=0.0), split([1, -1, 0], forced=True))
    assert not left_alone(RELAXED, split([1, -1], forced=True))
    priced = replace(RELAXED, most_lost=0.01)  # two of six classes on either side save three classifiers, less one
    assert not left_alone(priced, split([1, 1, 0, 0, -1, -1], lost=0.01))
    assert left_alone(priced, split([1, 1, 0, 0, -1, -1], lost=0.0101))
    assert left_alone(replace(priced, least_active=0.0), split([1, -1, 0, 0, 0], lost=1e-6))  # saves nothing
    assert not left_alone(priced, split([1, -1], lost=0.4))
    assert not left_alone(replace(priced, continued=True), split([1, 1, 0, 0, -1, -1], lost=0.4))


@each_kind
def test_ranges_of_a_leaf_are_those_of_the_whole(tmp_path: Path, kind: str, body: str) -> None:
    ground = ground_of(tmp_path, AllRule(), Planted.of(9, width=8), kind, body)
    classes = root_classes(ground)
    whole = leaf_classifiers(ground, classes, 0, 8)
    assert len(whole) == 8
    part = [(0, 8)] if kind == "linear" else [(0, 3), (3, 8)]
    pieces = [one for first, last in part for one in leaf_classifiers(ground, classes, first, last)]
    for one, other in zip(whole, pieces, strict=True):
        assert one.bias == other.bias
        names = ("weights",) if kind == "linear" else ("support", "coefficients")
        assert all(np.array_equal(getattr(one, name), getattr(other, name)) for name in names)
    rows = ground.node_rows(classes)
    leaf = learnt_at(ground)
    scores = np.stack([margins(ground, leaf, rows, place) for place in range(8)], axis=1)
    assert (scores.argmax(axis=1) == rows.labels).mean() > 0.3  # chance is 0.125


def test_a_range_that_is_there_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ground = ground_of(tmp_path, AllRule(), Planted.of(9))
    classes = root_classes(ground)
    assert leaf_range((0, 8), ground, classes) == 0
    before = ground.file(node_name(classes), 0).read_bytes()
    monkeypatch.setattr(learn, "leaf_classifiers", None)
    assert leaf_range((0, 8), ground, classes) == 0
    assert ground.file(node_name(classes), 0).read_bytes() == before


def test_spectral_trees_stop_at_their_levels(tmp_path: Path) -> None:
    ground = ground_of(tmp_path, SpectralRule(1), Planted.of(0))
    root = learn_node(root_of(ground), ground)
    assert root.kind == SPLIT
    kinds = []
    for child in root.children:
        task = NodeTask(child.name, root.name, child.side, child.n_classes, child.n_rows, 1)
        kinds.append((child.n_classes > 2, learn_node(task, ground).kind))
    assert all(kind == ONE_VS_ALL for larger, kind in kinds if larger)
    assert any(larger for larger, _ in kinds)


def test_the_depth_is_no_part_of_what_is_found(tmp_path: Path) -> None:
    found = []
    for depth in (0, 4):
        ground = ground_of(tmp_path / str(depth), RELAXED, Planted.of(0))
        found.append(learnt_at(ground, replace(root_of(ground), depth=depth)))
    assert found[0].coloring.tolist() == found[1].coloring.tolist()
    assert found[0].record | {"depth": 4} == found[1].record
    assert relaxed_split(ground, RELAXED, root_classes(ground)) is not None
