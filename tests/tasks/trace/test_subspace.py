"""The moving basis: where it ends, from wherever it starts, on rows of every body."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse
from sklearn.linear_model import LogisticRegression

from tasks.rows import Csr, Dense, PqCodes, Rows
from tasks.trace.certificate import lambda1_max
from tasks.trace.core_search import Coordinates, CoreSearch, expected_gap
from tasks.trace.objective import weights_of
from tasks.trace.point import Basis, Point
from tasks.trace.reg_path import geometric, grid, path
from tasks.trace.risk import LocalRisk
from tasks.trace.soft_threshold import soft_threshold
from tasks.trace.solution import Penalty, Record, Solution, SolverParams, unwatched
from tasks.trace.subspace import subspace_descent
from tests.naive import trace as naive
from tests.tasks.trace.problems import Array, Problem, at, random_problem

SHAPES = [(8, 5), (3, 12), (1, 2), (2, 9), (30, 4), (40, 30)]
FINE = SolverParams(gap=1e-7, max_iterations=300)


def solve(problem: Problem, penalty: Penalty, params: SolverParams = FINE, bias: bool = False) -> Solution:
    return subspace_descent(problem.risk(), penalty, params, bias, None, unwatched)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("shape", [(4, 7), (7, 4), (5, 5), (0, 3), (3, 0), (1, 1)])
@pytest.mark.parametrize("threshold", [0.0, 0.5, 100.0])
def test_soft_threshold_is_the_proximal_map(seed: int, shape: tuple[int, int], threshold: float) -> None:
    matrix = np.random.default_rng(seed).standard_normal(shape)
    found, values = soft_threshold(matrix, threshold)
    np.testing.assert_allclose(found, naive.shrink_singular_values(matrix, threshold), atol=1e-12)
    assert values.sum() == pytest.approx(naive.trace_norm(found), abs=1e-12)
    assert (np.diff(values) <= 1e-12).all()


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("lambda2", [0.0, 0.02])
@pytest.mark.parametrize(("d", "k"), SHAPES)
def test_ends_at_the_optimum(d: int, k: int, lambda2: float, bias: bool) -> None:
    problem = random_problem(3 * d + k, d=d, k=k)
    found = solve(problem, Penalty(0.05, lambda2), bias=bias)
    wanted = naive.fista(problem.X, problem.y, k, 0.05, lambda2, bias)
    W = weights_of(found.factors)
    assert found.converged
    assert found.certificate.objective == pytest.approx(wanted.objective, abs=1e-6)
    seen = naive.objective(problem.X, problem.y, W, found.bias, 0.05, lambda2)
    assert found.certificate.objective == pytest.approx(seen, abs=1e-9)


@pytest.mark.parametrize("seed", range(3))
def test_float64_reaches_tiny_gaps(seed: int) -> None:
    found = solve(random_problem(seed), Penalty(0.03), SolverParams(gap=1e-9, max_iterations=300))
    assert found.converged
    assert found.certificate.relative_gap <= 1e-9


@pytest.mark.parametrize("bias", [False, True])
def test_float32_reaches_small_gaps(bias: bool) -> None:
    problem, params = random_problem(4, n=400, d=20, k=8), SolverParams(gap=1e-5, max_iterations=300)
    found = subspace_descent(problem.risk(np.float32), Penalty(0.02), params, bias, None, unwatched)
    assert found.converged
    assert found.certificate.relative_gap <= 1e-5


def test_floats_that_allow_no_more_end_it() -> None:
    problem, params = random_problem(5, n=30, d=4, k=3), SolverParams(epsilon=1e-14, max_iterations=300)
    found = subspace_descent(problem.risk(np.float32), Penalty(0.02), params, False, None, unwatched)
    assert not found.converged
    assert found.iterations < 300
    assert found.certificate.relative_gap < 1e-5


@pytest.mark.parametrize("bias", [False, True])
def test_zero_from_the_largest_lambda1_on(bias: bool) -> None:
    problem = random_problem(6)
    largest = lambda1_max(problem.risk(), bias)
    assert solve(problem, Penalty(1.001 * largest), bias=bias).factors.rank == 0
    assert solve(problem, Penalty(0.9 * largest), bias=bias).factors.rank >= 1


@pytest.mark.parametrize(("d", "k"), [(8, 5), (3, 6), (40, 4)])
def test_without_a_trace_norm_it_is_multinomial_regression(d: int, k: int) -> None:
    problem, lambda2 = random_problem(7, n=120, d=d, k=k), 0.05
    found = solve(problem, Penalty(0.0, lambda2), SolverParams(gap=1e-9, max_iterations=300), bias=True)
    other = LogisticRegression(C=1 / (2 * len(problem.y) * lambda2), tol=1e-10, max_iter=5000)
    other.fit(problem.X, problem.y)
    assert found.converged
    np.testing.assert_allclose(weights_of(found.factors), other.coef_.T, atol=1e-3)


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("start", ["zero", "far", "wide", "optimum", "without bias"])
def test_ends_at_the_same_optimum_from_anywhere(start: str, bias: bool) -> None:
    problem, penalty = random_problem(8), Penalty(0.05)
    risk, rng = problem.risk(), np.random.default_rng(8)
    wanted = subspace_descent(risk, penalty, FINE, bias, None, unwatched)
    offset = None if start == "without bias" or not bias else rng.standard_normal(5)
    wide = Basis(8).with_group(risk.group(rng.standard_normal((8, 20))))
    begin = {
        "zero": at(risk, np.zeros((8, 5)), offset),
        "far": at(risk, 30 * rng.standard_normal((8, 5)), offset),
        "wide": Point(wide, rng.standard_normal((20, 5)), offset),
        "optimum": wanted.point,
        "without bias": at(risk, rng.standard_normal((8, 5))),
    }[start]
    found = subspace_descent(problem.risk(), penalty, FINE, bias, begin, unwatched)
    assert found.converged
    assert found.certificate.objective == pytest.approx(wanted.certificate.objective, rel=2e-7)
    if start == "optimum":
        assert found.iterations <= 2


def bodies(seed: int) -> dict[str, Rows]:
    """The same rows in every body; multiples of 1/8, which half floats hold."""
    rng = np.random.default_rng(seed)
    codebooks = (rng.integers(-16, 17, (4, 6, 3)) / 8).astype(np.float32)
    pq = PqCodes(rng.integers(0, 6, (80, 4), np.uint8), codebooks)
    values = pq.to_array(np.float32)
    sparse = scipy.sparse.csr_matrix(values)
    csr = Csr(sparse.data, sparse.indices.astype(np.int32), sparse.indptr.astype(np.int64), values.shape[1])
    return {"dense": Dense(values), "half": Dense(values.astype(np.float16)), "csr": csr, "pq": pq}


@pytest.mark.parametrize("body", ["half", "csr", "pq"])
def test_every_body_of_rows(body: str) -> None:
    labels, penalty, params = np.arange(80, dtype=np.int32) % 6, Penalty(0.02, 0.001), SolverParams(gap=1e-6)
    risks = [LocalRisk(bodies(9)[name], labels, 6) for name in ("dense", body)]
    one, two = (subspace_descent(risk, penalty, params, True, None, unwatched) for risk in risks)
    assert two.converged
    assert two.certificate.objective == pytest.approx(one.certificate.objective, rel=1e-5)


def test_classes_without_rows_and_rows_twice() -> None:
    problem = random_problem(10, k=6, present=4)
    twice = Problem(np.vstack([problem.X, problem.X]), np.concatenate([problem.y, problem.y]), 6)
    one, two = (solve(each, Penalty(0.05), bias=True) for each in (problem, twice))
    assert one.converged
    assert two.certificate.objective == pytest.approx(one.certificate.objective, rel=1e-6)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("share", [1e-4, 1e-5, 1e-6])
def test_weak_penalties_from_nothing(share: float, bias: bool, dtype: type[np.floating[Any]]) -> None:
    """What the penalty of a singular value costs is next to nothing there; what it does for the loss is not."""
    problem = random_problem(0, n=100, d=6, k=2)
    risk = problem.risk(dtype)
    penalty = Penalty(share * lambda1_max(risk, bias))
    found = subspace_descent(risk, penalty, SolverParams(5e-3), bias, None, unwatched)
    stronger = subspace_descent(
        risk, Penalty(1e-3 * lambda1_max(risk, bias)), SolverParams(5e-3), bias, None, unwatched
    )
    assert found.converged
    assert found.factors.rank == 1
    assert found.certificate.objective < stronger.certificate.objective


def test_penalties_beyond_floats_end_without_harm() -> None:
    """Rows twice with different labels: along some pairs there is no curvature that floats tell from none."""
    once = random_problem(1, n=60, d=5, k=3)
    y = np.concatenate([once.y, (once.y + 1) % 3]).astype(np.int32)
    problem = Problem(np.vstack([once.X, once.X]), y, 3)
    risk = problem.risk(np.float32)
    values = geometric(0.5 * lambda1_max(risk, True), 0.1, 12)
    solved = [
        found for *_, found in path(risk, grid(values, [0.0]), SolverParams(5e-3), True, subspace_descent, unwatched)
    ]
    objectives = [found.certificate.objective for found in solved]
    assert len(solved) == 12
    assert np.diff(objectives).max() <= 1e-5
    assert all(found.converged for found in solved[:5])


@pytest.mark.parametrize("lambda2", [0.0, 0.05])
def test_the_gap_on_the_way_is_about_what_is_still_gained_or_more(lambda2: float) -> None:
    """With a free bias it is an estimate: it counts what the bias would gain."""
    problem = random_problem(2, n=200, d=8, k=6)
    found = solve(problem, Penalty(0.01, lambda2), SolverParams(1e-6), bias=True)
    gained = [(record["gap"], record["objective"] - found.certificate.objective) for record in found.history]
    large = [(gap, more) for gap, more in gained if more > 1e-5]
    assert len(large) >= 2
    assert all(0.5 * more <= gap for gap, more in large)


def test_ends_by_the_paper_s_conditions_too() -> None:
    found = solve(random_problem(11), Penalty(0.05), SolverParams(epsilon=1e-6, max_iterations=300))
    assert found.converged
    assert max(found.certificate.c1, found.certificate.c2) <= 1e-6


def test_same_bits_again_and_what_is_told_on_the_way() -> None:
    problem, told = random_problem(12, n=200, d=25, k=10), list[Record]()
    first, second = (
        subspace_descent(problem.risk(np.float32), Penalty(0.03), SolverParams(gap=1e-4), True, None, watch)
        for watch in (told.append, unwatched)
    )
    assert np.array_equal(weights_of(first.factors), weights_of(second.factors))
    assert told == first.history == second.history
    assert [record["iteration"] for record in told] == list(range(1, first.iterations + 1))
    assert told[-1]["evaluations"] == first.evaluations
    assert set(told[0]) >= {"iteration", "objective", "gap", "rank", "atoms", "step"}


def test_no_more_passes_than_allowed() -> None:
    found = solve(random_problem(13), Penalty(0.01), SolverParams(gap=1e-9, max_iterations=2))
    assert found.iterations == 2
    assert not found.converged


def search_on(problem: Problem, columns: Array, bias: bool) -> tuple[CoreSearch, Coordinates]:
    risk = problem.risk()
    basis = Basis(risk.n_features).with_group(risk.group(columns))
    mean = columns.T @ risk.mean() if bias else None
    coordinates = Coordinates(basis, mean, 2.0)
    longest = float(np.linalg.eigvalsh(columns.T @ problem.X.T @ problem.X @ columns / len(problem.y))[-1])
    return CoreSearch(risk, Penalty(0.05, 0.01), coordinates, longest, 0.0), coordinates


@pytest.mark.parametrize("bias", [False, True])
def test_the_restricted_problem_is_that_of_projected_rows(bias: bool) -> None:
    problem = random_problem(14)
    columns = np.linalg.qr(np.random.default_rng(14).standard_normal((8, 3)))[0]
    search, coordinates = search_on(problem, columns, bias)
    begin = Point(coordinates.basis, np.zeros((3, 5)), np.zeros(5) if bias else None)
    found = search.run(begin, 1e-8, 5000)
    wanted = naive.fista(problem.X @ columns, problem.y, 5, 0.05, 0.01, bias)
    seen = naive.objective(problem.X @ columns, problem.y, found.point.core, found.point.bias, 0.05, 0.01)
    assert found.steady
    assert seen == pytest.approx(wanted.objective, abs=1e-7)


def test_coordinates_there_and_back() -> None:
    rng, problem = np.random.default_rng(15), random_problem(15)
    columns = np.linalg.qr(rng.standard_normal((8, 3)))[0]
    search, coordinates = search_on(problem, columns, True)
    point = Point(coordinates.basis, rng.standard_normal((3, 5)), rng.standard_normal(5))
    stacked = coordinates.stacked(point)
    back = coordinates.point(stacked)
    np.testing.assert_allclose(back.core, point.core)
    np.testing.assert_allclose(back.bias, point.bias)
    gradient = coordinates.gradient(search.risk.evaluate(point), point.core, 0.0)
    for place in [(0, 0), (2, 3), (3, 1)]:  # the last one is the bias
        bump = np.zeros_like(stacked)
        bump[place] = 1e-5
        up, down = (search.risk.evaluate(coordinates.point(stacked + way * bump)).loss for way in (1, -1))
        assert gradient[place] == pytest.approx((up - down) / 2e-5, abs=1e-8)


@pytest.mark.parametrize("lambda2", [0.0, 0.02])
def test_the_expected_gap_is_the_gap_to_first_order(lambda2: float) -> None:
    problem = random_problem(16)
    found = solve(problem, Penalty(0.05, lambda2), SolverParams(gap=1e-10, max_iterations=400))
    W = weights_of(found.factors)
    for size in (1e-3, 1e-4):
        near = W * (1 + size)
        _, gradient = 0.0, naive.risk_gradient(problem.X, problem.y, near)[0]
        values, loss = np.linalg.svd(near, compute_uv=False), naive.risk(problem.X, problem.y, near)
        expected = expected_gap(gradient, near, values, loss, Penalty(0.05, lambda2))
        exact = naive.gap(problem.X, problem.y, near, None, 0.05, lambda2)
        assert expected == pytest.approx(exact, rel=0.3)
