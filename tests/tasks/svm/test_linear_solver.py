"""The linear solver against exact quadratic programs, LIBSVM, and its own promises."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.svm import SVC

from tasks.errors import Diverged, ParamError
from tasks.rows import Csr, Dense
from tasks.rows.base import Array
from tasks.svm.dual_ascent import BY_BLAS, GAP, HIGHEST, LOST, LOWEST, OFFSET, SURPLUS, dot, entries, short_dot, sweep
from tasks.svm.linear_solver import LinearHalfspace, LinearSolver
from tasks.svm.solver import Halfspace
from tests.bodies import csr_of
from tests.naive import svm as naive
from tests.strategies import seeds

Drawn = tuple[Array, Array, Array]


def problem(seed: int, n: int, d: int, apart: float = 1.0, zeros: float = 0.0) -> Drawn:
    """(values (n, d) float32, sides (n,) int8 with both signs and zeros, costs (n,) float32)."""
    rng = np.random.default_rng(seed)
    values = rng.normal(size=(n, d)) * (rng.random((n, d)) >= zeros)
    sides = rng.integers(-1, 2, n).astype(np.int8)
    sides[:2] = 1, -1
    values[:, 0] += apart * sides
    return values.astype(np.float32), sides, rng.choice(np.array([0.5, 1.0, 3.0], np.float32), n)


def solver_of(values: Array, costs: Array, tolerance: float = 1e-3, sweeps: int = 2000, seed: int = 0) -> LinearSolver:
    return LinearSolver(Dense(values), costs, np.random.default_rng(seed), tolerance, sweeps)


def assert_consistent(fit: LinearHalfspace, solver: LinearSolver, values: Array, sides: Array) -> None:
    """Margins, norm and weights are of one hyperplane, and duals lie within their bounds."""
    classifier = solver.classifier(fit, sides)
    margins = values.astype(np.float64) @ classifier.weights.astype(np.float64) + classifier.bias
    np.testing.assert_allclose(fit.margins, margins, rtol=1e-4, atol=1e-4 * (1 + abs(margins).max()))
    assert fit.squared_norm == pytest.approx(float(classifier.weights.astype(np.float64) @ classifier.weights))
    assert ((fit.duals >= 0) & (fit.duals <= solver.costs)).all()
    assert not fit.duals[sides == 0].any()
    assert fit.objective(sides, solver.costs) == pytest.approx(
        naive.hinge_objective(classifier.weights.astype(float), fit.bias, values, sides, solver.costs), rel=1e-4
    )


@settings(max_examples=40)
@given(seed=seeds, n=st.integers(2, 14), d=st.integers(1, 5), apart=st.sampled_from([0.0, 1.0, 4.0]))
def test_it_ends_at_the_least_objective(seed: int, n: int, d: int, apart: float) -> None:
    values, sides, costs = problem(seed, n, d, apart)
    solver = solver_of(values, costs)
    fit = solver.solve(sides)
    least = naive.least_hinge_objective(values, sides, costs)
    found = fit.objective(sides, costs)
    assert fit.gap <= 1e-3
    assert least * (1 - 1e-5) <= found <= least * (1 + 1e-3 + 1e-5)
    assert_consistent(fit, solver, values, sides)


@settings(max_examples=30)
@given(seed=seeds, cost=st.sampled_from([1e-6, 1e-2, 1.0, 30.0]), tolerance=st.sampled_from([0.3, 0.03, 0.003]))
def test_the_gap_is_certified(seed: int, cost: float, tolerance: float) -> None:
    """Not only at the end: what is said of the objective holds wherever the solver stops."""
    values, sides, costs = problem(seed, 14, 3)
    costs = (costs * cost).astype(np.float32)
    least = naive.least_hinge_objective(values, sides, costs)
    for sweeps in (1, 4, 2000):
        fit = solver_of(values, costs, tolerance, sweeps).solve(sides)
        assert (1 - fit.gap) * fit.objective(sides, costs) <= least * (1 + 1e-5)
    assert fit.gap <= tolerance


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("cost", [0.01, 1.0, 100.0])
def test_the_objective_is_that_of_libsvm(seed: int, cost: float) -> None:
    values, sides, _ = problem(seed, 200, [1, 3, 20, 150][seed], apart=0.7)
    costs = np.full(200, cost, np.float32)
    fit = solver_of(values, costs).solve(sides)
    own, signs = values[sides != 0].astype(np.float64), sides[sides != 0]
    theirs = SVC(kernel="linear", C=cost, tol=1e-5).fit(own, signs)
    weights = theirs.coef_[0]
    bias = naive.best_bias(own @ weights, signs, costs[sides != 0])
    reached = naive.hinge_objective(weights, bias, own, signs, costs[sides != 0])
    assert fit.gap <= 2e-3
    assert (1 - fit.gap) * fit.objective(sides, costs) <= reached * (1 + 1e-6)


@pytest.mark.parametrize("d", [1, 7, 8, 61, BY_BLAS - 1, BY_BLAS, BY_BLAS + 5])
@pytest.mark.parametrize("sparse", [False, True])
def test_a_sweep_is_exact_steps_in_turn(d: int, sparse: bool) -> None:
    """Also which rows are left out of the next one, and the mean of the duals over this one."""
    values, sides, costs = problem(d, 16, d, zeros=0.4)
    values /= np.float32(np.sqrt(d))
    order, unit, offset = np.random.default_rng(1).permutation(np.flatnonzero(sides)), 0.5, 0.25
    arrays = entries(csr_of(values) if sparse else Dense(values))
    steps = (1.0 / ((values.astype(np.float64) ** 2).sum(axis=1) + unit)).astype(np.float32)
    signs, duals, averaged = sides.astype(np.float32), np.zeros(16, np.float32), np.zeros(16, np.float32)
    weights, state = np.zeros(d, np.float32), np.zeros(7)
    state[OFFSET] = offset
    expected, given_order = np.zeros(16), order.copy()
    for _ in range(3):
        state[HIGHEST], state[LOWEST] = 0.0, 0.0  # nothing is shrunk
        given_order = order.copy()
        n_active = sweep(
            *arrays, order, order.size, signs, costs, steps, np.float32(unit), duals, averaged, weights, state
        )
        expected, mean = naive.hinge_sweep(values, sides, costs, expected, given_order, unit, offset)
        assert n_active == order.size
        np.testing.assert_allclose(duals, expected, rtol=1e-4, atol=1e-4)
        np.testing.assert_allclose(averaged, mean, rtol=1e-4, atol=1e-4)
    assert state[SURPLUS] == pytest.approx(float(expected @ sides), abs=1e-4)
    np.testing.assert_allclose(weights, (expected * sides) @ values, atol=1e-4)


def test_rows_beyond_the_limits_are_shrunk_and_their_hinges_remembered() -> None:
    values = np.array([[3.0], [-5.0], [-1.0], [0.5]], np.float32)
    signs, costs = np.array([1, 1, -1, -1], np.float32), np.full(4, 2.0, np.float32)
    duals, weights, state = np.array([0, 2, 0.5, 1], np.float32), np.ones(1, np.float32), np.zeros(7)
    state[HIGHEST], state[LOWEST] = 1.0, -1.0
    order, steps, averaged = np.array([1, 0, 2, 3]), np.full(4, 0.1, np.float32), np.zeros(4, np.float32)
    arrays = entries(Dense(values))
    unit = np.float32(0.01)
    n_active = sweep(*arrays, order, 4, signs, costs, steps, unit, duals, averaged, weights, state)
    assert (n_active, sorted(order[:n_active])) == (2, [2, 3])  # row 0: y f = 3 > 1 + 1 at 0; row 1: far below, at c
    assert state[LOST] == pytest.approx(2.0 * 6.0)
    assert (duals[0], duals[1], averaged[1]) == (0.0, 2.0, 2.0)
    assert state[GAP] > 0


@given(seed=seeds, d=st.integers(0, 40))
def test_short_products(seed: int, d: int) -> None:
    rng = np.random.default_rng(seed)
    x, w = rng.normal(size=d).astype(np.float32), rng.normal(size=d).astype(np.float32)
    expected = float(x.astype(np.float64) @ w)
    assert float(short_dot(x, w)) == pytest.approx(expected, abs=1e-4)
    sparse = csr_of(x[None, :])
    assert float(dot(sparse.data, sparse.indices, 0, sparse.data.size, w)) == pytest.approx(expected, abs=1e-4)


@pytest.mark.parametrize("seed", range(3))
def test_sparse_rows_are_solved_as_dense_ones(seed: int) -> None:
    values, sides, costs = problem(seed, 120, 30, zeros=0.7)
    values[5] = 0.0
    dense = solver_of(values, costs).solve(sides)
    sparse = LinearSolver(csr_of(values), costs, np.random.default_rng(0), 1e-3, 2000).solve(sides)
    assert sparse.objective(sides, costs) == pytest.approx(dense.objective(sides, costs), rel=2e-3)
    np.testing.assert_allclose(sparse.margins, dense.margins, atol=0.1 * abs(dense.margins).max())


@settings(max_examples=30)
@given(seed=seeds, changed=st.sampled_from([0.0, 0.05, 0.5]), cost=st.sampled_from([0.1, 1.0, 30.0]))
def test_a_start_changes_the_way_not_the_end(seed: int, changed: float, cost: float) -> None:
    values, sides, costs = problem(seed, 40, 4)
    costs, rng = (costs * cost).astype(np.float32), np.random.default_rng(seed)
    others = np.where(rng.random(40) < changed, rng.integers(-1, 2, 40), sides).astype(np.int8)
    others[:2] = 1, -1
    solver = solver_of(values, costs)
    start = solver.solve(sides)
    cold, warm = solver.solve(others), solver.solve(others, start)
    assert warm.objective(others, costs) == pytest.approx(cold.objective(others, costs), rel=1.1e-3)
    assert_consistent(warm, solver, values, others)


@settings(max_examples=30)
@given(seed=seeds, tolerance=st.sampled_from([0.5, 0.1]))
def test_no_worse_than_the_start(seed: int, tolerance: float) -> None:
    """A half step of an alternation that does not solve to the end still never goes up."""
    values, sides, costs = problem(seed, 40, 4)
    exact, loose = solver_of(values, costs, 1e-3), solver_of(values, costs, tolerance, sweeps=2)
    others = sides.copy()
    others[np.random.default_rng(seed).integers(2, 40, 3)] = 0
    start = exact.solve(sides)
    found = loose.solve(others, start)
    assert found.objective(others, costs) <= start.objective(others, costs) * (1 + 1e-6)
    assert_consistent(found, loose, values, others)


def test_a_start_that_is_the_end_is_kept() -> None:
    values, sides, costs = problem(3, 60, 5)
    solver = solver_of(values, costs)
    start = solver.solve(sides)
    again = solver.solve(sides, start)
    assert again.sweeps == 0
    np.testing.assert_array_equal(again.weights, start.weights)


def test_a_start_of_another_solver_is_only_a_hint() -> None:
    values, sides, costs = problem(3, 60, 5)
    solver = solver_of(values, costs)
    cold = solver.solve(sides)
    start = Halfspace(np.zeros(60), 0.0, 0.0, np.zeros(60, np.float32))
    np.testing.assert_array_equal(solver.solve(sides, start).margins, cold.margins)
    foreign = Halfspace(cold.margins, cold.bias, cold.squared_norm, cold.duals)
    np.testing.assert_array_equal(solver.classifier(foreign, sides).weights, cold.weights)


def bits(fit: LinearHalfspace) -> tuple[bytes, ...]:
    return fit.margins.tobytes(), fit.duals.tobytes(), fit.weights.tobytes(), np.float64(fit.bias).tobytes()


def test_the_same_bits_again_whatever_was_solved_before() -> None:
    values, sides, costs = problem(5, 90, 140)
    first = solver_of(values, costs, 0.03)
    fit = first.solve(sides)
    first.solve(-sides, fit)
    assert bits(first.solve(sides)) == bits(fit)
    assert bits(solver_of(values, costs, 0.03).solve(sides)) == bits(fit)
    assert bits(solver_of(values, costs, 0.03, seed=1).solve(sides)) != bits(fit)


def test_a_cost_counts_as_so_many_rows() -> None:
    values, sides, _ = problem(7, 40, 3)
    times = np.random.default_rng(7).integers(1, 4, 40)
    fit = solver_of(values, times.astype(np.float32), 1e-4).solve(sides)
    ones = np.ones(times.sum(), np.float32)
    repeated = solver_of(np.repeat(values, times, axis=0), ones, 1e-4).solve(np.repeat(sides, times))
    found = repeated.objective(np.repeat(sides, times), ones)
    assert fit.objective(sides, times.astype(np.float32)) == pytest.approx(found, rel=2e-4)


def test_turned_sides_turn_the_hyperplane() -> None:
    values, sides, costs = problem(8, 80, 6)
    solver = solver_of(values, costs, 0.03)
    np.testing.assert_array_equal(solver.solve(-sides).margins, -solver.solve(sides).margins)


ODD: dict[str, tuple[Any, Any]] = {
    "two rows": ([[1.0, 2.0], [0.0, 1.0]], [1, -1]),
    "two equal rows": ([[1.0, 2.0], [1.0, 2.0]], [1, -1]),
    "all zero": (np.zeros((6, 3)), [1, 1, 1, 1, -1, -1]),
    "one row a side, others ignored": ([[1.0], [2.0], [3.0], [4.0]], [0, 1, -1, 0]),
    "opposite duplicates": ([[1.0], [1.0], [1.0], [1.0], [-2.0]], [1, 1, -1, -1, 1]),
    "one against many": (np.arange(20.0)[:, None], [1] + 19 * [-1]),
}


@pytest.mark.parametrize("name", ODD)
@pytest.mark.parametrize("cost", [1e-6, 1.0, 100.0])
def test_odd_problems_are_solved(name: str, cost: float) -> None:
    values, sides = np.array(ODD[name][0], np.float32), np.array(ODD[name][1], np.int8)
    costs = np.full(len(sides), cost, np.float32)
    solver = solver_of(values, costs)
    fit = solver.solve(sides)
    least = naive.least_hinge_objective(values, sides, costs)
    assert fit.objective(sides, costs) == pytest.approx(least, rel=2e-3)
    assert_consistent(fit, solver, values, sides)


@pytest.mark.parametrize("scale", [1e-12, 1e-3, 1e6])
@pytest.mark.parametrize("cost", [1e-6, 1.0, 1e6])
@pytest.mark.parametrize("apart", [0.0, 6.0])
def test_extreme_scales_and_costs_end_near_the_best(scale: float, cost: float, apart: float) -> None:
    """Scale s and cost C are as scale 1 and cost C s^2; where that is huge, hinges are as good as forbidden."""
    values, sides, _ = problem(11, 30, 2, apart)
    hard = min(cost * scale**2, 1e4)
    ones = np.full(30, hard, np.float64)
    scaled = values * np.float32(scale)
    costs = np.full(30, cost, np.float32)
    fit = solver_of(scaled, costs).solve(sides)
    own, signs = values[sides != 0].astype(np.float64), sides[sides != 0]
    if hard < 1e-6:
        minority = min((sides > 0).sum(), (sides < 0).sum())
        assert fit.objective(sides, costs) == pytest.approx(2.0 * cost * minority, rel=1e-4)
        return
    theirs = SVC(kernel="linear", C=hard, max_iter=100_000).fit(own, signs)
    weights = theirs.coef_[0]
    bias = naive.best_bias(own @ weights, signs, ones[sides != 0])
    expected = naive.hinge_objective(weights, bias, own, signs, ones[sides != 0])
    reached = 0.5 * fit.squared_norm * scale**2 + hard * np.maximum(0, 1 - sides * fit.margins)[sides != 0].sum()
    assert reached <= 1.02 * expected


@pytest.mark.parametrize("bad", [np.nan, np.inf, 1e16])
def test_rows_that_are_no_numbers_are_refused(bad: float) -> None:
    values, _, costs = problem(1, 8, 2)
    values[3, 1] = bad
    with pytest.raises(Diverged):
        solver_of(values, costs)
    with pytest.raises(Diverged):
        LinearSolver(csr_of(values), costs, np.random.default_rng(0))


@pytest.mark.parametrize("sides", [[1, 1, 0], [0, -1, -1], [0, 0, 0]])
def test_both_sides_are_needed(sides: list[int]) -> None:
    with pytest.raises(ValueError, match="both"):
        solver_of(np.ones((3, 1), np.float32), np.ones(3, np.float32)).solve(np.array(sides, np.int8))


@pytest.mark.parametrize("costs", [[1.0, 0.0], [1.0, -1.0], [1.0, np.nan], [1.0, np.inf], [1.0]])
def test_costs_are_checked(costs: list[float]) -> None:
    with pytest.raises(ParamError, match="costs"):
        solver_of(np.ones((2, 1), np.float32), np.array(costs, np.float32))


@pytest.mark.parametrize(("tolerance", "sweeps"), [(0.0, 10), (np.nan, 10), (0.1, 0)])
def test_limits_are_checked(tolerance: float, sweeps: int) -> None:
    with pytest.raises(ParamError):
        solver_of(np.ones((2, 1), np.float32), np.ones(2, np.float32), tolerance, sweeps)


def test_a_matrix_without_entries_is_a_matrix_of_zeros() -> None:
    empty = Csr(np.zeros(0, np.float32), np.zeros(0, np.int32), np.zeros(6, np.int64), 4)
    sides, costs = np.array([1, 1, 1, -1, 0], np.int8), np.ones(5, np.float32)
    fit = LinearSolver(empty, costs, np.random.default_rng(0)).solve(sides)
    assert fit.objective(sides, costs) == pytest.approx(2.0)
    assert not fit.weights.any()
