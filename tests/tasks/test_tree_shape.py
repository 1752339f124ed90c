"""Shapes of label trees for a wanted speed-up."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.errors import ParamError
from tasks.trees.params import LabelTreeParams, TreeShape
from tasks.trees.shape import DEEPEST, Shape, proposed


def test_the_speedup_of_the_papers_trees_at_even_splits() -> None:
    """Deng et al., Table 1: T_{32,2} 10.3, T_{10,3} 18.2, T_{6,4} 31.3, at the root's ambiguity of Table 2."""
    assert Shape(32, 2, 0.0649).speedup(1000) == pytest.approx(10.32, abs=0.01)
    assert Shape(10, 3, 0.189).speedup(1000) == pytest.approx(17.94, abs=0.01)
    assert Shape(6, 4, 0.247).speedup(1000) == pytest.approx(30.24, abs=0.01)


@given(st.integers(16, 20_000), st.floats(1.2, 200))
def test_what_is_proposed_is_as_quick_as_wanted_and_has_the_most_room(n_classes: int, speedup: float) -> None:
    try:
        shape = proposed(n_classes, speedup)
    except TreeShape:
        return
    assert shape.speedup(n_classes) >= speedup * (1 - 1e-9)
    assert 2 <= shape.branching <= n_classes
    assert 1 <= shape.room <= shape.branching
    for branching in (shape.branching - 1, shape.branching + 2):
        try:
            other = proposed(n_classes, speedup, branching, shape.depth)
        except TreeShape:
            continue
        assert other.room ** (shape.depth - 1) <= shape.room ** (shape.depth - 1) * (1 + 3 / shape.branching)


def test_what_is_given_is_kept_and_the_rest_proposed() -> None:
    assert proposed(200, 5, branching=10, depth=2) == Shape(10, 2, 0.15)
    assert proposed(200, 5, depth=3).depth == 3
    assert proposed(7321, 20, branching=30).branching == 30


@pytest.mark.parametrize(("speedup", "branching", "depth"), [(150, None, None), (5, 50, 2), (1.5, None, 1), (60, 2, 3)])
def test_a_speedup_out_of_reach_is_refused(speedup: float, branching: int | None, depth: int | None) -> None:
    with pytest.raises(TreeShape, match="speedup"):
        proposed(200, speedup, branching, depth)
    assert DEEPEST == 8


def test_a_cap_that_can_hold_no_class_is_refused_before_anything_is_learnt() -> None:
    with pytest.raises(ParamError, match=r"ambiguity = 1e-09: expected at least 0.00357, because .* one of 40 classes"):
        LabelTreeParams(ambiguity=1e-9).settled(40)
    assert LabelTreeParams(ambiguity=1e-9, depth=1).settled(40).ambiguity == 1e-9
    assert LabelTreeParams(ambiguity=0.01).settled(40).branching == 7
