"""Kernel machines on a Gram matrix: optimal, with the right signs, whatever the rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tasks.errors import Diverged, ParamError
from tasks.rows import Dense
from tasks.rows.base import Array
from tasks.svm import kernel_solver
from tasks.svm.kernel_solver import KernelSolver, one_vs_all_kernel, square_part
from tasks.svm.kernels import Kernel
from tasks.svm.solver import BinarySolver, Halfspace
from tests.naive import kernel_svm as naive

seeds = st.integers(0, 2**32 - 1)


def solver_of(gram: Array, costs: Any, **settings: Any) -> KernelSolver:
    costs = np.broadcast_to(np.asarray(costs, np.float32), len(gram)).copy()
    return KernelSolver(np.ascontiguousarray(gram, np.float64), costs, 100 + 3 * np.arange(len(gram)), **settings)


def drawn(seed: int, n_rows: int, ignored: float = 0.3) -> tuple[Array, Array, Array]:
    """(gram, sides, costs): two clouds that overlap, some rows twice, sides of both signs."""
    rng = np.random.default_rng(seed)
    values = rng.random((n_rows, 3))
    values[rng.integers(0, n_rows, n_rows // 4)] = values[0]
    sides = np.where(values[:, 0] + 0.3 * rng.standard_normal(n_rows) > 0.5, 1, -1).astype(np.int8)
    sides[rng.random(n_rows) < ignored] = 0
    sides[:2] = [-1, 1]
    kind = rng.choice(["rbf", "linear", "chi2", "histogram-intersection"])
    kernel = Kernel(kind, 0.3 if kind in ("rbf", "chi2") else 1.0)
    rows = Dense(values)
    costs = np.float32(rng.choice([0.01, 1.0, 30.0])) * rng.integers(1, 4, n_rows).astype(np.float32)
    return kernel.block(rows, rows).astype(np.float64), sides, costs


def coefficients(fit: Halfspace, sides: Array) -> Array:
    return fit.duals.astype(np.float64) * sides


@settings(max_examples=50, deadline=None)
@given(seed=seeds, n_rows=st.integers(2, 25))
def test_reaches_the_optimum(seed: int, n_rows: int) -> None:
    gram, sides, costs = drawn(seed, n_rows)
    solver: BinarySolver = solver_of(gram, costs)
    fit = solver.solve(sides, None)
    value = naive.primal(gram, sides, costs, coefficients(fit, sides), fit.bias)
    assert fit.objective(sides, costs) == pytest.approx(value, rel=1e-9, abs=1e-9)
    best = naive.dual_optimum(gram, sides, costs)
    slack = 2e-4 * float(costs[sides != 0].sum(dtype=np.float64))  # what the tolerance allows
    assert best - 1e-5 * (1 + best) <= value <= best + slack


@settings(max_examples=50, deadline=None)
@given(seed=seeds, n_rows=st.integers(2, 25))
def test_duals_are_feasible_and_the_bias_the_best(seed: int, n_rows: int) -> None:
    gram, sides, costs = drawn(seed, n_rows)
    fit = solver_of(gram, costs).solve(sides)
    assert fit.duals.dtype == np.float32
    assert np.all(fit.duals >= 0)
    assert np.all(fit.duals <= costs)
    assert not fit.duals[sides == 0].any()
    assert abs(coefficients(fit, sides).sum()) <= 1e-5 * costs.sum(dtype=np.float64)
    value = fit.objective(sides, costs)
    for other in [*(sides - (fit.margins - fit.bias))[sides != 0], fit.bias + 1e-3, fit.bias - 1e-3]:
        moved = Halfspace(fit.margins - fit.bias + other, float(other), fit.squared_norm, fit.duals)
        assert value <= moved.objective(sides, costs) * (1 + 1e-12) + 1e-12


@settings(max_examples=50, deadline=None)
@given(seed=seeds, n_rows=st.integers(2, 25))
def test_the_classifier_gives_the_margins_of_all_rows(seed: int, n_rows: int) -> None:
    gram, sides, costs = drawn(seed, n_rows)
    solver = solver_of(gram, costs)
    fit = solver.solve(sides)
    kept = solver.classifier(fit, sides)
    assert kept.support.dtype == np.int64
    assert kept.coefficients.dtype == np.float32
    assert np.all(np.diff(kept.support) > 0)
    assert len(kept.support) == fit.n_support > 0
    columns = (kept.support - 100) // 3
    found = gram[:, columns] @ kept.coefficients.astype(np.float64) + kept.bias
    np.testing.assert_allclose(found, fit.margins, rtol=1e-9, atol=1e-9 * costs.sum(dtype=np.float64))


@pytest.mark.parametrize("positive", [[0, 1], [2, 3]])
def test_the_positive_side_has_positive_margins(positive: list[int]) -> None:
    values = np.array([[0.0], [0.1], [3.0], [3.1], [1.5]])
    sides = np.array([-1, -1, -1, -1, 0], np.int8)
    sides[positive] = 1
    fit = solver_of(values @ values.T, 100.0, tolerance=1e-6).solve(sides)
    np.testing.assert_array_equal(np.sign(fit.margins[:4]), sides[:4])
    assert fit.margins[4] == pytest.approx(1 / 29 if positive == [0, 1] else -1 / 29, abs=1e-4)
    assert fit.squared_norm == pytest.approx((2 / 2.9) ** 2, rel=1e-4)


def test_swapped_sides_turn_the_hyperplane() -> None:
    gram, sides, costs = drawn(5, 30)
    solver = solver_of(gram, costs, tolerance=1e-8)
    one, other = solver.solve(sides), solver.solve((-sides).astype(np.int8))
    assert one.objective(sides, costs) == pytest.approx(other.objective(-sides, costs), rel=1e-6)
    np.testing.assert_allclose(one.margins, -other.margins, atol=1e-3)


@pytest.mark.parametrize("seed", range(6))
def test_same_bits_again_and_whatever_came_before(seed: int) -> None:
    gram, sides, costs = drawn(seed, 40)
    solver = solver_of(gram, costs)
    first = solver.solve(sides)
    again = solver.solve(sides, start=solver.solve((-sides).astype(np.int8)))
    np.testing.assert_array_equal(first.margins, again.margins)
    np.testing.assert_array_equal(first.duals, again.duals)
    assert (first.bias, first.squared_norm) == (again.bias, again.squared_norm)


@pytest.mark.parametrize("seed", range(4))
def test_a_cost_is_a_row_repeated(seed: int) -> None:
    gram, sides, _ = drawn(seed, 20, ignored=0.0)
    weights = np.random.default_rng(seed).integers(1, 4, 20)
    whole = np.repeat(np.arange(20), weights)
    weighted = solver_of(gram, 2.0 * weights, tolerance=1e-8).solve(sides)
    repeated = solver_of(gram[np.ix_(whole, whole)], 2.0, tolerance=1e-8).solve(sides[whole])
    np.testing.assert_allclose(repeated.margins, weighted.margins[whole], atol=1e-4)


def test_rows_of_cost_0_do_not_count() -> None:
    gram, sides, costs = drawn(8, 30, ignored=0.0)
    costs[10:] = 0
    without = sides.copy()
    without[10:] = 0
    solver = solver_of(gram, costs)
    np.testing.assert_array_equal(solver.solve(sides).margins, solver.solve(without).margins)


def test_one_row_a_side_meets_both_margins() -> None:
    fit = solver_of(np.eye(3), 10.0, tolerance=1e-9).solve(np.array([1, 0, -1], np.int8))
    np.testing.assert_allclose(fit.margins, [1.0, 0.0, -1.0], atol=1e-6)
    np.testing.assert_allclose(fit.duals, [1.0, 0.0, 1.0], atol=1e-6)


@pytest.mark.parametrize("gram", [np.ones((6, 6)), np.zeros((6, 6)), np.eye(6) * 1e-30, np.eye(6) * 1e12])
def test_rows_that_say_nothing_or_too_much_end_finite(gram: Array) -> None:
    sides = np.array([1, -1, 1, -1, -1, -1], np.int8)
    fit = solver_of(gram, 3.0).solve(sides)
    assert np.isfinite(fit.margins).all()
    assert fit.objective(sides, np.full(6, 3.0, np.float32)) <= 2 * 2 * 3.0 * (1 + 1e-6)


def test_a_row_on_both_sides_costs_its_two_hinges() -> None:
    sides = np.array([1, -1], np.int8)
    fit = solver_of(np.ones((2, 2)), 5.0).solve(sides)
    assert fit.objective(sides, np.full(2, 5.0, np.float32)) == pytest.approx(10.0)


@pytest.mark.parametrize("cost", [1e-6, 1e6])
def test_extreme_costs_end_at_feasible_duals(cost: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernel_solver, "STEPS_AT_LEAST", 2000)
    monkeypatch.setattr(kernel_solver, "STEPS_A_ROW", 1)
    gram, sides, _ = drawn(3, 60)
    fit = solver_of(gram, cost).solve(sides)
    assert np.isfinite(fit.margins).all()
    assert 0 < fit.duals.max() <= np.float32(cost)


def test_a_fit_is_stopped_where_it_is_without_a_word(
    monkeypatch: pytest.MonkeyPatch, recwarn: pytest.WarningsRecorder
) -> None:
    gram, sides, costs = drawn(11, 60)
    whole = solver_of(gram, 30 * costs).solve(sides)
    monkeypatch.setattr(kernel_solver, "STEPS_AT_LEAST", 3)
    monkeypatch.setattr(kernel_solver, "STEPS_A_ROW", 0)
    stopped = solver_of(gram, 30 * costs).solve(sides)
    assert stopped.n_support < whole.n_support
    assert stopped.objective(sides, 30 * costs) > whole.objective(sides, 30 * costs)
    assert list(recwarn) == []


def test_a_matrix_a_little_indefinite_is_taken() -> None:
    gram, sides, costs = drawn(2, 40)
    noise = np.random.default_rng(0).standard_normal(gram.shape) * 1e-6
    fit = solver_of(gram + noise + noise.T, costs).solve(sides)
    clean = solver_of(gram, costs).solve(sides)
    assert fit.objective(sides, costs) == pytest.approx(clean.objective(sides, costs), rel=5e-3)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_kernel_values_that_are_not_finite_are_named(bad: float) -> None:
    gram, sides, costs = drawn(4, 12)
    gram[3, 5] = gram[5, 3] = bad
    with pytest.raises(Diverged, match="not finite") as caught:
        solver_of(gram, costs).solve(sides)
    assert "rows" in caught.value.hint


@pytest.mark.parametrize("sides", [[1, 1, 0], [-1, 0, 0], [0, 0, 0]])
def test_one_sign_alone_is_no_problem_to_solve(sides: list[int]) -> None:
    with pytest.raises(ValueError, match="both signs"):
        solver_of(np.eye(3), 1.0).solve(np.array(sides, np.int8))


@pytest.mark.parametrize(
    "wrong", [{"tolerance": 0.0}, {"tolerance": 1.0}, {"tolerance": np.nan}, {"cache_megabytes": 0.0}]
)
def test_settings_out_of_range_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(ParamError, match=next(iter(wrong))):
        solver_of(np.eye(3), 1.0, **wrong)


def test_one_vs_all_finds_classes_in_any_range() -> None:
    rng = np.random.default_rng(0)
    labels = np.repeat(np.arange(5), 8)
    rows = Dense(rng.standard_normal((5, 4))[labels] * 2 + 0.3 * rng.standard_normal((40, 4)))
    gram = Kernel("rbf", 8.0).block(rows, rows).astype(np.float64)
    solver = solver_of(gram, 10.0)
    whole = one_vs_all_kernel(solver, labels, 0, 5)
    parts = one_vs_all_kernel(solver, labels, 0, 2) + one_vs_all_kernel(solver, labels, 2, 5)
    for one, other in zip(whole, parts, strict=True):
        np.testing.assert_array_equal(one.support, other.support)
        np.testing.assert_array_equal(one.coefficients, other.coefficients)
        assert one.bias == other.bias
    margins = [gram[:, (one.support - 100) // 3] @ one.coefficients.astype(np.float64) + one.bias for one in whole]
    np.testing.assert_array_equal(np.argmax(margins, axis=0), labels)


@pytest.mark.parametrize("seed", range(5))
def test_square_part_selects_rows_and_columns(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernel_solver, "ROWS_AT_ONCE", 3)
    rng = np.random.default_rng(seed)
    gram = rng.random((12, 12))
    index = np.flatnonzero(rng.random(12) < 0.6)
    part = square_part(gram, index)
    assert part.flags.c_contiguous
    np.testing.assert_array_equal(part, gram[index][:, index])
