"""Results that add: field by field, and over a fixed tree."""

from __future__ import annotations

import pickle
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.sums import FAN_IN, FieldSums, add_up, tree_sum

VALUES = st.lists(st.floats(-1e6, 1e6, width=32), min_size=1, max_size=3 * FAN_IN + 1)


@dataclass(frozen=True, eq=False)
class Inner(FieldSums):
    sums: Any


@dataclass(frozen=True, slots=True)
class Outer(FieldSums):
    rows: int
    digests: tuple[str, ...]
    inner: Inner


def outer(row: int) -> Outer:
    return Outer(row, (f"{row}",), Inner(np.array([row, 2 * row])))


def test_every_field_adds_and_the_result_is_of_the_same_class() -> None:
    total = add_up([outer(1), outer(2), outer(4)])
    assert type(total) is Outer
    assert (total.rows, total.digests) == (7, ("1", "2", "4"))
    assert type(total.inner) is Inner
    np.testing.assert_array_equal(total.inner.sums, [7, 14])


def test_terms_stay_as_they_were() -> None:
    first, second = outer(1), outer(2)
    assert (first + second).rows == 3
    assert (first.rows, first.digests, first.inner.sums.tolist()) == (1, ("1",), [1, 2])
    assert (second.rows, second.inner.sums.tolist()) == (2, [2, 4])


def test_sums_travel_and_take_no_attributes_of_their_own() -> None:
    again = pickle.loads(pickle.dumps(outer(1) + outer(2)))
    assert (again.rows, again.digests) == (3, ("1", "2"))
    assert not hasattr(again, "__dict__")  # the base has none either, else slots were in vain


def left_to_right(values: list[float]) -> float:
    """Python's own `sum` compensates for rounding."""
    total = values[0]
    for value in values[1:]:
        total += value
    return total


@given(values=VALUES)
def test_a_tree_adds_consecutive_groups_from_left_to_right(values: list[float]) -> None:
    level = values
    while len(level) > 1:
        level = [left_to_right(level[i : i + FAN_IN]) for i in range(0, len(level), FAN_IN)]
    assert tree_sum([Inner(value) for value in values]).sums == level[0]


def test_nothing_has_no_sum() -> None:
    with pytest.raises(IndexError):
        tree_sum([])
