"""The coloring step is exact: against all colorings, against a table, on ties, with signs forced and rho above 1."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tasks.errors import Diverged, InputError, ParamError
from tasks.relaxed.coloring import (
    balanced_coloring,
    best_coloring,
    coloring_costs,
    coloring_value,
    signs_bind,
    unforced,
)
from tasks.rows.base import Array
from tests.naive import coloring as naive
from tests.shared import shared_path
from tests.strategies import seeds

balances = st.integers(0, 8)
KINDS = ("convex", "any", "forced", "split", "ties", "zeros")


def costs_of(kind: str, n: int, seed: int) -> tuple[Array, Array]:
    """Costs of n classes: "convex" as with rho <= 1, "forced" all wanting one side, "split" as with rho > 1."""
    rng = np.random.default_rng(seed)
    plus: Array = rng.normal(size=n)
    minus: Array = rng.normal(size=n)
    if kind == "convex":
        minus = -plus + rng.exponential(size=n)
    elif kind == "forced":
        plus, minus = rng.uniform(0, 3, n), rng.uniform(-3, 3, n)
    elif kind == "split":
        minus = -plus - rng.exponential(size=n) * rng.integers(0, 2, n)
    elif kind in ("ties", "zeros"):
        plus, minus = (rng.integers(0, 3, n) * 1.0 if kind == "zeros" else rng.integers(-2, 3, n) * 1.0 for _ in "ab")
    return (plus, minus) if rng.random() < 0.5 else (minus, plus)


@st.composite
def costs(draw: st.DrawFn, largest: int) -> tuple[Array, Array]:
    return costs_of(draw(st.sampled_from(KINDS)), draw(st.integers(2, largest)), draw(seeds))


def assert_best(plus: Array, minus: Array, balance: int, least: float) -> None:
    """The coloring is feasible and costs no more than `least`."""
    coloring = best_coloring(plus, minus, balance)
    assert coloring.dtype == np.int8
    assert coloring.shape == plus.shape
    assert naive.feasible(tuple(coloring.tolist()), balance)
    value = coloring_value(plus, minus, coloring)
    assert value == naive.cost(plus, minus, tuple(coloring.tolist()))
    assert value == pytest.approx(least, rel=1e-12, abs=1e-12)


@pytest.mark.parametrize("case", ["col-01", "col-03"])
def test_reference_cases(case: str) -> None:
    read: dict[str, Any] = json.loads(shared_path(f"cases/{case}.json").read_text())
    given_, expected = read["inputs"], read["expected"]
    hinges = np.array(given_["S_plus"]), np.array(given_["S_minus"])
    rho = given_["A"] / given_["C"]
    plus, minus = coloring_costs(*hinges, np.array(given_["n_k"]), given_["C"], rho)
    np.testing.assert_allclose(plus, expected["plus_cost"], rtol=0, atol=read["tolerance"])
    np.testing.assert_allclose(minus, expected["minus_cost"], rtol=0, atol=read["tolerance"])
    assert_best(plus, minus, given_["B"], expected["optimal_value"])
    assert best_coloring(plus, minus, given_["B"]).tolist() in expected["optimal_colorings"]


@given(costs(7), balances)
@settings(max_examples=120)
def test_no_coloring_is_cheaper(drawn: tuple[Array, Array], balance: int) -> None:
    assert_best(*drawn, balance, naive.least_cost(*drawn, balance))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("n", [2, 3, 4, 5])
def test_no_coloring_of_few_classes_is_cheaper(kind: str, n: int) -> None:
    for seed in range(12):
        plus, minus = costs_of(kind, n, seed)
        for balance in range(n):
            assert_best(plus, minus, balance, naive.least_cost(plus, minus, balance))


@given(costs(7), balances)
@settings(max_examples=60)
def test_without_the_demand_for_both_signs(drawn: tuple[Array, Array], balance: int) -> None:
    coloring = balanced_coloring(*drawn, balance)
    assert naive.feasible(tuple(coloring.tolist()), balance, both=False)
    least = naive.least_cost(*drawn, balance, both=False)
    assert coloring_value(*drawn, coloring) == pytest.approx(least, rel=1e-12, abs=1e-12)


@given(costs(6), balances)
@settings(max_examples=40)
def test_the_table_is_right_too(drawn: tuple[Array, Array], balance: int) -> None:
    for both in (True, False):
        table, all_of_them = (f(*drawn, balance, both) for f in (naive.least_cost_by_table, naive.least_cost))
        assert table == pytest.approx(all_of_them, rel=1e-12, abs=1e-12)


@given(st.sampled_from(KINDS), st.integers(50, 250), seeds, st.integers(0, 40))
@settings(max_examples=40)
def test_many_classes_against_the_table(kind: str, n: int, seed: int, balance: int) -> None:
    plus, minus = costs_of(kind, n, seed)
    assert_best(plus, minus, balance, naive.least_cost_by_table(plus, minus, balance))


@given(costs(40), balances, seeds)
@settings(max_examples=60)
def test_the_order_of_classes_and_the_names_of_sides_do_not_matter(
    drawn: tuple[Array, Array], balance: int, seed: int
) -> None:
    plus, minus = drawn
    value = coloring_value(plus, minus, best_coloring(plus, minus, balance))
    shuffled = np.random.default_rng(seed).permutation(plus.size)
    again = plus[shuffled], minus[shuffled]
    assert coloring_value(*again, best_coloring(*again, balance)) == pytest.approx(value, rel=1e-12, abs=1e-12)
    mirrored = best_coloring(minus, plus, balance)
    assert coloring_value(minus, plus, mirrored) == pytest.approx(value, rel=1e-12, abs=1e-12)


def test_one_move_a_class_would_not_be_enough() -> None:
    plus, minus = np.array([-2.0, -1.6]), np.array([6.0, 7.0])
    np.testing.assert_array_equal(best_coloring(plus, minus, 0), [-1, 1])
    assert coloring_value(plus, minus, np.array([-1, 1])) == 6.0 - 1.6


def test_ties_go_to_0_and_the_lowest_class() -> None:
    zero = np.zeros(4)
    np.testing.assert_array_equal(best_coloring(zero, zero, 10), [1, -1, 0, 0])
    np.testing.assert_array_equal(
        best_coloring(np.array([-1.0, 0, 0, 1]), np.array([1.0, 0, 0, -1]), 10), [1, 0, 0, -1]
    )
    wish = np.full(5, -1.0)
    np.testing.assert_array_equal(best_coloring(wish, -wish, 1), [-1, 1, 1, 0, 0])
    np.testing.assert_array_equal(best_coloring(wish, wish, 0), [1, 1, 0, -1, -1])


def test_balance_above_the_number_of_classes_does_not_bind() -> None:
    plus, minus = costs_of("any", 9, seed=3)
    np.testing.assert_array_equal(best_coloring(plus, minus, 9), best_coloring(plus, minus, 10**30))


def test_a_class_is_unforced_while_its_mean_hinge_is_below_rho() -> None:
    counts = np.array([2, 4, 3])
    plus, minus = coloring_costs(np.array([1.0, 9.0, 2.4]), np.array([9.0, 2.0, 2.4]), counts, cost=3.0, rho=0.75)
    np.testing.assert_array_equal(np.sign(plus), [-1, 1, 1])
    assert unforced(plus, minus, np.array([1, -1, 0]))
    assert not unforced(plus, minus, np.array([1, -1, 1]))
    assert not unforced(np.array([-1.0, 5.0]), np.array([5.0, 0.0]), np.array([1, -1]))  # a mean hinge of exactly rho


def test_forced_signs_are_seen_in_both_ways() -> None:
    plus, minus = np.array([-3.0, -1.2, -1.2]), np.array([15.0, 5.0, 4.0])
    coloring = best_coloring(plus, minus, 10)
    np.testing.assert_array_equal(coloring, [1, 1, -1])
    assert not unforced(plus, minus, coloring)
    assert signs_bind(plus, minus, 10)


@given(costs(12))
@settings(max_examples=100)
def test_without_a_binding_balance_only_the_demand_for_signs_forces(drawn: tuple[Array, Array]) -> None:
    plus, minus = drawn[0], np.maximum(drawn[1], -drawn[0])  # rho <= 1
    n = plus.size
    assert signs_bind(plus, minus, n) == (not unforced(plus, minus, best_coloring(plus, minus, n)))


@given(st.sampled_from(["convex", "any", "forced"]), st.integers(2, 7), seeds, balances)
@settings(max_examples=80)
def test_signs_bind_where_both_cost_more(kind: str, n: int, seed: int, balance: int) -> None:
    plus, minus = costs_of(kind, n, seed)
    least, without = (naive.least_cost(plus, minus, balance, both) for both in (True, False))
    assert signs_bind(plus, minus, balance) == (least > without + 1e-12)


def test_a_dear_class_for_balance_alone_is_no_forced_sign() -> None:
    plus, minus = np.array([-9.0, -9.0, -9.0, 3.0]), np.array([30.0, 30.0, 30.0, -1.0])
    minus[1] = 1.0
    coloring = best_coloring(plus, minus, 0)
    assert not signs_bind(plus, minus, 0)
    np.testing.assert_array_equal(coloring, [1, -1, 1, -1])
    assert not unforced(plus, minus, coloring)


@pytest.mark.parametrize("n", [0, 1])
def test_fewer_than_two_classes_are_refused(n: int) -> None:
    with pytest.raises(InputError, match=f"{n} classes"):
        best_coloring(np.zeros(n), np.zeros(n), 10)


def test_a_negative_balance_is_refused() -> None:
    with pytest.raises(ParamError, match="balance"):
        best_coloring(np.zeros(3), np.zeros(3), -1)


@pytest.mark.parametrize("wrong", [np.nan, np.inf, -np.inf, 1e308])
def test_costs_that_cannot_be_added_are_refused(wrong: float) -> None:
    plus, minus = np.zeros(3), np.zeros(3)
    plus[1], minus[1] = wrong, wrong
    with pytest.raises(Diverged, match="class 1 of 3"):
        best_coloring(plus, minus, 2)
