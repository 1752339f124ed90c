"""The rule of Marszalek and Schmid: pure classes take a side, others both, and a side may come out empty."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tasks.errors import ParamError
from tasks.relaxed.marszalek import relaxed_sides
from tasks.rows.base import Array
from tests.strategies import seeds


def rows_of(shares: list[tuple[int, int]]) -> tuple[Array, Array]:
    """(sides, classes) of classes with so many rows at +1 and at -1."""
    sides = [side for plus, minus in shares for side in [1] * plus + [-1] * minus]
    classes = [k for k, (plus, minus) in enumerate(shares) for _ in range(plus + minus)]
    return np.array(sides, np.int8), np.array(classes, np.int64)


def by_the_rule(sides: Array, classes: Array, n_classes: int, alpha: Fraction) -> list[int] | None:
    """In exact numbers."""
    colors = []
    for k in range(n_classes):
        own = [int(side) for side, c in zip(sides, classes, strict=True) if c == k]
        mean = Fraction(sum(own), len(own)) if own else None
        colors.append(0 if mean is None else 1 if mean >= 1 - alpha else -1 if mean < alpha - 1 else 0)
    return colors if {1, -1} <= set(colors) else None


@given(seeds, st.integers(0, 60), st.integers(1, 6), st.integers(1, 10))
@settings(max_examples=150)
def test_colors_follow_the_rule_in_exact_numbers(seed: int, n: int, n_classes: int, tenths: int) -> None:
    rng = np.random.default_rng(seed)
    classes = rng.integers(0, n_classes, n)
    likely = rng.choice([0.0, 0.1, 0.5, 0.9, 1.0], n_classes)
    sides = np.where(rng.random(n) < likely[classes], 1, -1).astype(np.int8)
    colors = relaxed_sides(sides, classes, n_classes, tenths / 10)
    expected = by_the_rule(sides, classes, n_classes, Fraction(tenths, 10))
    assert (None if colors is None else colors.tolist()) == expected


@pytest.mark.parametrize("tenths", range(1, 11))
def test_means_on_an_edge_are_not_left_to_rounding(tenths: int) -> None:
    shares = [(20 - tenths, tenths), (tenths, 20 - tenths), (20, 0), (0, 20), (10, 10)]
    colors = relaxed_sides(*rows_of(shares), 5, tenths / 10)
    assert colors is not None
    assert colors.dtype == np.int8
    assert colors.tolist() == [1, 1 if tenths == 10 else 0, 1, -1, 1 if tenths == 10 else 0]


def test_a_larger_alpha_leaves_fewer_classes_on_both_sides() -> None:
    sides, classes = rows_of([(20, 0), (17, 3), (12, 8), (8, 12), (3, 17), (0, 20)])
    both = []
    for alpha in (0.1, 0.4, 0.9, 1.0):
        colors = relaxed_sides(sides, classes, 6, alpha)
        assert colors is not None
        both.append(int((colors == 0).sum()))
    assert both == [4, 2, 0, 0]


@pytest.mark.parametrize("shares", [[(9, 1), (10, 0)], [(1, 9), (0, 10)], [(6, 4), (4, 6)]])
def test_a_node_with_an_empty_side_is_not_split(shares: list[tuple[int, int]]) -> None:
    assert relaxed_sides(*rows_of(shares), 2, 0.3) is None


def test_a_class_without_rows_goes_both_ways() -> None:
    colors = relaxed_sides(np.array([1, -1]), np.array([0, 2]), 4, 1.0)
    assert colors is not None
    assert colors.tolist() == [1, 0, -1, 0]


@pytest.mark.parametrize("alpha", [0.0, -0.1, 1.1, float("nan")])
def test_other_alphas_are_refused(alpha: float) -> None:
    with pytest.raises(ParamError, match="alpha"):
        relaxed_sides(np.array([1, -1]), np.array([0, 1]), 2, alpha)
