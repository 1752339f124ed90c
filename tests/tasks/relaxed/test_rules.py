"""How each system begins to color the classes of a node."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy.sparse import csr_array, save_npz

from tasks.errors import ParamError
from tasks.relaxed.ground import Ground
from tasks.relaxed.rules import (
    MarszalekRule,
    SpectralRule,
    cut_rows,
    initial_colorings,
    marszalek_coloring,
    spectral_coloring,
    too_few_active,
    voted,
)
from tests.naive.normalized_cut import majority
from tests.tasks.relaxed.grounds import RELAXED, Planted, ground_of

ALL = np.arange(8, dtype=np.int32)


@pytest.fixture
def ground(tmp_path: Path) -> Ground:
    return ground_of(tmp_path, RELAXED, Planted.of(2))


def with_confusion(ground: Ground, counts: np.ndarray) -> Ground:
    path = Path(ground.confused).with_name("other.npz")
    save_npz(path, csr_array(counts.astype(np.float32)))
    return replace(ground, confused=str(path))


def test_bottom_up_begins_with_the_pairs_that_are_confused_least(ground: Ground) -> None:
    counts = np.full((8, 8), 2.0) + 20 * np.eye(8)
    for one, other in ((0, 5), (6, 2), (3, 4)):
        counts[one, other] = counts[other, one] = 0
    counts[5, 0] = 1
    ground = with_confusion(ground, counts)
    found = initial_colorings(ground, replace(RELAXED, samples=3), ALL)
    assert [np.flatnonzero(coloring).tolist() for coloring in found] == [[2, 6], [3, 4], [0, 5]]
    assert all(coloring[coloring != 0].tolist() == [1, -1] for coloring in found)
    assert len(initial_colorings(ground, replace(RELAXED, samples=100), ALL)) == 8


def test_classes_whose_rows_were_judged_in_part_weigh_alike(ground: Ground) -> None:
    """Class 7 had 2 of its rows judged and class 0 had 200: what counts is the share of those."""
    counts = np.full((8, 8), 0.0)
    counts[np.arange(8), np.arange(8)] = 200
    counts += 20 * (1 - np.eye(8))
    counts[7] = counts[7] / 100
    counts[7, 6], counts[6, 7] = 0.1, 10  # half as confused as all others
    (coloring,) = initial_colorings(with_confusion(ground, counts), replace(RELAXED, samples=1), ALL)
    assert np.flatnonzero(coloring).tolist() == [6, 7]
    sides = spectral_coloring(with_confusion(ground, two_groups(scale=100.0)), ALL)
    assert sides[[1, 3, 5, 7]].tolist() == [sides[1]] * 4
    assert sides[[0, 2, 4, 6]].tolist() == [-sides[1]] * 4


def two_groups(scale: float = 1.0) -> np.ndarray:
    """Odd classes are confused with odd ones; `scale` times as many rows of class 0 were judged."""
    counts = 10 * np.eye(8) + np.array([[3.0 * ((a + b) % 2 == 0 and a != b) for a in range(8)] for b in range(8)])
    counts += 0.2 * (1 - np.eye(8))
    counts[0] *= scale
    return counts


def test_two_classes_have_one_beginning_without_a_look_at_anything(ground: Ground) -> None:
    lost = replace(ground, confused="nowhere")
    for initialisation in ("bottom-up", "top-down", "both"):
        found = initial_colorings(lost, replace(RELAXED, initialisation=initialisation), np.array([3, 5]))
        assert [coloring.tolist() for coloring in found] == [[1, -1]]
    assert spectral_coloring(lost, np.array([3, 5])).tolist() == [1, -1]


def test_ways_to_begin_add_up_and_have_both_signs(ground: Ground) -> None:
    found = {
        way: initial_colorings(ground, replace(RELAXED, initialisation=way), ALL)
        for way in ("bottom-up", "top-down", "both")
    }
    assert [len(found[way]) for way in ("bottom-up", "top-down", "both")] == [4, 1, 5]
    np.testing.assert_array_equal(np.stack(found["both"]), np.stack(found["bottom-up"] + found["top-down"]))
    for coloring in found["both"]:
        assert coloring.dtype == np.int8
        assert {1, -1} <= set(coloring.tolist()) <= {1, 0, -1}


def test_votes_of_rows_are_those_of_the_cut(tmp_path: Path) -> None:
    """Two groups of classes: the normalised cut runs between them."""
    data = Planted.of(4, n_classes=6, groups=2)
    values = data.values.copy()
    values[data.labels % 2 == 1, 0] += 30
    values[data.labels % 2 == 0, 1] += 30
    ground = ground_of(tmp_path, RELAXED, Planted(values, data.labels), "rbf")
    classes = np.arange(6, dtype=np.int32)
    sides, labels = cut_rows(ground, classes, 1000)
    assert labels.tolist() == sorted(data.labels.tolist())
    coloring = voted(ground, classes)
    assert coloring.tolist() == majority(sides, labels, 6)
    assert coloring.tolist() == [coloring[0], -coloring[0]] * 3
    assert len(cut_rows(ground, classes, 3)[0]) == 12  # two rows a class at least


def test_a_sign_that_no_class_has_goes_to_the_nearest_class(ground: Ground, monkeypatch: pytest.MonkeyPatch) -> None:
    labels = np.repeat(np.arange(3, dtype=np.int32), 4)
    cuts = {
        "all positive": ([1, 1, 1, 1, 1, 1, 1, -1, 1, 1, 1, -1], [1, -1, 1]),
        "all negative": ([-1, -1, -1, -1, -1, -1, -1, 1, -1, -1, -1, 1], [-1, 1, -1]),
        "ties alone": ([1, -1] * 6, [-1, 1, 0]),
        "a tie and no positive": ([1, -1, 1, -1, -1, -1, -1, -1, -1, -1, -1, 1], [1, -1, -1]),
    }
    for name, (sides, expected) in cuts.items():
        found = np.array(sides, np.int8)
        monkeypatch.setattr("tasks.relaxed.rules.cut_rows", lambda *_, found=found: (found, labels))
        assert voted(ground, np.arange(3)).tolist() == expected, name


def test_marszalek_leaves_nodes_that_rule_out_too_little(ground: Ground, monkeypatch: pytest.MonkeyPatch) -> None:
    labels = np.repeat(np.arange(4, dtype=np.int32), 4)
    sides = np.array([1, 1, 1, 1, 1, 1, -1, -1, 1, -1, 1, -1, -1, -1, -1, -1], np.int8)
    monkeypatch.setattr("tasks.relaxed.rules.cut_rows", lambda *_: (sides, labels))
    classes = np.arange(4, dtype=np.int32)
    coloring = marszalek_coloring(ground, MarszalekRule(0.5, 100, 0.5), classes)
    assert coloring is not None
    assert coloring.tolist() == [1, 0, 0, -1]
    assert marszalek_coloring(ground, MarszalekRule(0.5, 100, 0.51), classes) is None
    hard = marszalek_coloring(ground, MarszalekRule(1.0, 100, 0.51), classes)
    assert hard is not None
    assert hard.tolist() == [1, 1, 1, -1]
    one_sided = np.ones(16, np.int8)
    monkeypatch.setattr("tasks.relaxed.rules.cut_rows", lambda *_: (one_sided, labels))
    assert marszalek_coloring(ground, MarszalekRule(1.0, 100, 0.0), classes) is None


def test_marszalek_cuts_so_many_rows_alike_of_all_classes(ground: Ground) -> None:
    sides, labels = cut_rows(ground, ALL, 24)
    assert np.bincount(labels).tolist() == [3] * 8
    assert set(sides.tolist()) == {-1, 1}


def test_spectral_parts_hold_classes_that_are_confused_with_each_other(ground: Ground) -> None:
    sides = spectral_coloring(with_confusion(ground, two_groups()), ALL)
    assert sides.tolist() == [sides[0], -sides[0]] * 4
    part = spectral_coloring(with_confusion(ground, two_groups()), np.array([0, 1, 2, 5]))
    assert part.tolist() == [part[0], -part[0], part[0], -part[0]]


def test_classes_that_are_never_confused_are_parted_nevertheless(ground: Ground) -> None:
    sides = spectral_coloring(with_confusion(ground, 6 * np.eye(8)), ALL)
    assert set(sides.tolist()) == {1, -1}
    assert spectral_coloring(with_confusion(ground, 6 * np.eye(8)), ALL).tolist() == sides.tolist()


@pytest.mark.parametrize(
    ("coloring", "least", "expected"),
    [([1, -1, 0, 0, 0], 0.4, False), ([1, -1, 0, 0, 0], 0.41, True), ([1, -1], 1.0, False), ([1, -1, 0], 0.0, False)],
)
def test_few_active_classes(coloring: list[int], least: float, expected: bool) -> None:
    assert too_few_active(np.array(coloring, np.int8), least) == expected


@pytest.mark.parametrize(
    "wrong",
    [{"rho": 0.0}, {"rho": -1.0}, {"rho": np.inf}, {"rho": np.nan}, {"least_active": -0.1}, {"least_active": 1.1}],
)
def test_what_is_out_of_range_is_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(ParamError, match=next(iter(wrong))):
        replace(RELAXED, **wrong)  # type: ignore[arg-type]
    assert SpectralRule(1) != MarszalekRule(1.0, 2, 0.0)
