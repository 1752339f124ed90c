"""The price of a split: rows that it loses where they are held out, classifiers that it saves."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tasks.relaxed.ground import ONE_VS_ALL, SPLIT, Ground, read_node
from tasks.relaxed.learn import LOST, learn_node
from tasks.relaxed.price import lost_rows, saved_classifiers
from tests.tasks.relaxed.grounds import RELAXED, Planted, ground_of, root_classes, root_of

ALL_ROWS = 1 << 30
COLORS = np.array([1, 1, -1, -1], np.int8)


def on_a_line(places: list[list[float]]) -> Planted:
    """Classes of one feature; the second is 1."""
    values = [[place, 1.0] for row in places for place in row]
    return Planted(np.array(values, np.float32), np.repeat(np.arange(len(places)), [len(row) for row in places]))


def at(folder: Path, places: list[list[float]], **more: Any) -> tuple[Ground, np.ndarray]:
    ground = ground_of(folder, RELAXED, on_a_line(places), cost=10.0, **more)
    return ground, root_classes(ground)


FAR = [[9.0] * 4, [8.0] * 4, [0.0] * 4, [1.0] * 4]


def test_rows_on_their_side_are_not_lost(tmp_path: Path) -> None:
    ground, classes = at(tmp_path, FAR)
    assert lost_rows(ground, classes, COLORS, ALL_ROWS) == 0


def test_a_row_among_the_others_is_lost_once(tmp_path: Path) -> None:
    places = [[9.0, 9.0, 9.0, 0.5], *FAR[1:]]
    ground, classes = at(tmp_path, places)
    assert lost_rows(ground, classes, COLORS, ALL_ROWS) == 1 / 16


def test_an_ignored_class_loses_nothing(tmp_path: Path) -> None:
    places = [[9.0, 0.0, 9.0, 0.0], *FAR[1:]]
    ground, classes = at(tmp_path, places)
    assert lost_rows(ground, classes, np.array([0, 1, -1, -1], np.int8), ALL_ROWS) == 0


def test_a_class_of_one_row_does_not_count(tmp_path: Path) -> None:
    ground, classes = at(tmp_path, [[9.0] * 4, [0.0], [0.0] * 4, [1.0] * 4])  # class 1 is on the wrong side
    assert lost_rows(ground, classes, COLORS, ALL_ROWS) == 0


def test_a_half_of_one_side_judges_nothing(tmp_path: Path) -> None:
    ground, classes = at(tmp_path, [[9.0], [0.0] * 4])
    assert lost_rows(ground, classes, np.array([1, -1], np.int8), ALL_ROWS) == 1


def test_rows_of_a_sample_stand_for_all(tmp_path: Path) -> None:
    """Of 40 rows one in four is taken; the one of class 0 that is lost stands for four."""
    places = [[9.0, 9.0, 9.0, 0.5] * 4, [8.0] * 8, [0.0] * 8, [1.0] * 8]
    ground, classes = at(tmp_path, places)
    rows = ground.node_rows(classes, 16)
    lost = lost_rows(ground, classes, COLORS, 16)
    held = ground.rows.take(rows.numbers).to_array()[:, 0]
    wrong = (rows.labels == 0) & (held < 2)
    assert rows.n_rows == 16 < 40
    assert wrong.any()
    assert lost == pytest.approx(rows.weights[wrong].sum() / rows.weights.sum(), rel=1e-6)


@pytest.mark.parametrize("kind", ["linear", "rbf"])
def test_what_cannot_be_told_apart_loses_about_half(tmp_path: Path, kind: str) -> None:
    print("seed", seed := 4)
    rng = np.random.default_rng(seed)
    data = Planted(rng.standard_normal((160, 6)).astype(np.float32), np.repeat(np.arange(4), 40))
    ground = ground_of(tmp_path, RELAXED, data, kind)
    assert 0.35 < lost_rows(ground, root_classes(ground), COLORS, ALL_ROWS) < 0.65


@pytest.mark.parametrize(
    ("colors", "saved"),
    [([1, -1], 2 - 1), ([1, -1, 0], 3 - 1 - 1), ([1, 1, -1, -1, 0], 5 - 1 - 3), ([1, 0, 0, 0, 0, -1], 6 - 1 - 5)],
)
def test_saved_classifiers(colors: list[int], saved: float) -> None:
    assert saved_classifiers(np.array(colors, np.int8)) == saved


def test_saved_classifiers_are_those_of_leaves_below() -> None:
    print("seed", seed := 3)
    rng = np.random.default_rng(seed)
    for size in rng.integers(2, 30, 50).tolist():
        colors = rng.integers(-1, 2, size).astype(np.int8)
        asked = [{0: 0, 1: 0, 2: 1}.get(n, n) for n in (sum(colors <= 0), sum(colors >= 0))]
        assert saved_classifiers(colors) == size - (1 + np.mean(asked)) or 0 in (sum(colors <= 0), sum(colors >= 0))


@pytest.mark.parametrize("search_rows", [ALL_ROWS, 20])
def test_a_split_that_loses_too_much_is_not_made(tmp_path: Path, search_rows: int) -> None:
    """The same node is a split below its price, and a leaf above it; both ways of learning it ask."""
    kinds, lost = {}, {}
    for name, most in (("all", 1.0), ("some", 0.5), ("none", 0.0)):
        rule = replace(RELAXED, most_lost=most, search_rows=search_rows, rho=0.9)
        data = Planted.of(0, n_classes=8, per_class=8, width=3)
        noise = np.random.default_rng(1).standard_normal(data.values.shape)
        data = Planted((data.values + 1.5 * noise).astype(np.float32), data.labels)
        ground = ground_of(tmp_path / name, rule, data, cost=3.0)
        kinds[name] = learn_node(root_of(ground), ground).kind
        learnt = read_node(ground, root_of(ground).name)
        assert learnt is not None
        lost[name] = learnt.record.get(LOST)
    assert kinds == {"all": SPLIT, "some": SPLIT, "none": ONE_VS_ALL}
    assert lost["all"] is None
    assert lost["some"] is not None
    assert lost["some"] > 0
