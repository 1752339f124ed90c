"""Rank-one descent: reference optima, an independent solver, and what every end of it must say of itself."""

from __future__ import annotations

from dataclasses import asdict

import numpy as np
import pytest
import scipy.sparse
from sklearn.linear_model import LogisticRegression

from tasks.errors import ParamError
from tasks.rows import Csr, Dense, OneHot, PqCodes, Rows
from tasks.trace.atom_descent import DescentParams, atom_descent
from tasks.trace.certificate import certify, lambda1_max
from tasks.trace.objective import weights_of
from tasks.trace.point import Point
from tasks.trace.risk import LocalRisk
from tasks.trace.solution import Penalty, Record, Solution, SolverParams, unwatched
from tests.naive import trace as naive
from tests.tasks.trace.problems import Problem, at, case, random_problem

PAPER = DescentParams(atoms_per_pass=1, restricted_every=0, proximal=False)
WAYS = [
    DescentParams(),
    PAPER,
    DescentParams(atoms_per_pass=1, restricted_every=1, proximal=False),
    DescentParams(atoms_per_pass=3, restricted_every=2, proximal=True),
]
TIGHT = SolverParams(gap=1e-7, max_iterations=400)


def solve(
    problem: Problem | LocalRisk,
    penalty: Penalty,
    params: SolverParams = TIGHT,
    bias: bool = False,
    start: Point | None = None,
    how: DescentParams | None = None,
) -> Solution:
    risk = problem.risk() if isinstance(problem, Problem) else problem
    return atom_descent(risk, penalty, params, bias, start, unwatched, how or DescentParams())


def optimum(problem: Problem, penalty: Penalty, bias: bool = False) -> float:
    found = naive.fista(problem.X, problem.y, problem.k, penalty.lambda1, penalty.lambda2, bias)
    assert naive.gap(problem.X, problem.y, found.W, found.b, penalty.lambda1, penalty.lambda2) < 1e-7
    return found.objective


def assert_certified(problem: Problem, penalty: Penalty, solution: Solution) -> None:
    """The certificate is that of the returned weights, by the slow twin."""
    said, W = solution.certificate, weights_of(solution.factors)
    told = (problem.X, problem.y, W, solution.bias, penalty.lambda1, penalty.lambda2)
    assert said.objective == pytest.approx(naive.objective(*told), abs=1e-9)
    assert said.gap == pytest.approx(naive.gap(*told), abs=1e-9)
    assert (said.c1, said.c2) == pytest.approx(naive.conditions(*told), abs=1e-9)
    assert said.rank == np.linalg.matrix_rank(W) if said.rank else not W.any()
    np.testing.assert_allclose(solution.point.weights, W, atol=1e-6 * max(1.0, said.trace_norm))


@pytest.mark.parametrize("how", WAYS, ids=str)
@pytest.mark.parametrize("params", [TIGHT, SolverParams(epsilon=1e-6, max_iterations=400)], ids=["gap", "epsilon"])
def test_case_tr_02(params: SolverParams, how: DescentParams) -> None:
    told, problem = case("tr-02")
    for wanted in told["expected"]["optima"]:
        penalty = Penalty(wanted["lam1"], wanted["lam2"])
        found = solve(problem, penalty, params, how=how)
        assert found.converged
        assert -1e-6 <= found.certificate.objective - wanted["objective"] <= told["tolerance"]
        assert found.certificate.rank == wanted["rank"]
        assert_certified(problem, penalty, found)


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize(("lambda1", "lambda2"), [(0.03, 0.0), (0.03, 0.02), (0.2, 0.0), (0.0, 0.05)])
@pytest.mark.parametrize(("d", "k"), [(8, 5), (3, 7), (1, 3), (6, 2)])
def test_agrees_with_accelerated_proximal_gradient(d: int, k: int, lambda1: float, lambda2: float, bias: bool) -> None:
    problem, penalty = random_problem(d * 10 + k, d=d, k=k), Penalty(lambda1, lambda2)
    best = optimum(problem, penalty, bias)
    found = solve(problem, penalty, bias=bias)
    assert found.converged
    assert -1e-9 <= found.certificate.objective - best <= 1e-6
    assert_certified(problem, penalty, found)


@pytest.mark.parametrize("how", WAYS[:3], ids=str)
@pytest.mark.parametrize("epsilon", [1e-2, 1e-4])
def test_c1_and_c2_bound_the_excess(epsilon: float, how: DescentParams) -> None:
    """I(theta) - J* <= eps (sum(theta) + |W*|_*)."""
    problem, penalty = random_problem(31), Penalty(0.05, 0.01)
    best = naive.fista(problem.X, problem.y, problem.k, 0.05, 0.01)
    found = solve(problem, penalty, SolverParams(epsilon=epsilon), how=how)
    assert found.converged
    assert max(found.certificate.c1, found.certificate.c2) <= epsilon
    over_complete = found.history[-1]["objective"]
    atoms_total = (over_complete - found.certificate.objective) / 0.05 + found.certificate.trace_norm
    assert over_complete - best.objective <= epsilon * (atoms_total + naive.trace_norm(best.W)) + 1e-12


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("lambda2", [0.0, 0.05])
def test_weights_are_zero_exactly_from_lambda1_max_on(lambda2: float, bias: bool) -> None:
    problem = random_problem(32)
    largest = lambda1_max(problem.risk(), bias)
    above, below = (solve(problem, Penalty(part * largest, lambda2), bias=bias) for part in (1.0001, 0.98))
    assert above.converged
    assert above.certificate.rank == 0
    assert above.factors.u.shape == (8, 0)
    assert above.iterations <= 2
    assert below.certificate.rank == 1


def test_without_trace_norm_it_is_scikit_learns_regression() -> None:
    problem, lambda2 = random_problem(33, n=80), 0.02
    other = LogisticRegression(C=1 / (2 * len(problem.y) * lambda2), tol=1e-10, max_iter=2000)
    other.fit(problem.X, problem.y)
    found = solve(problem, Penalty(0.0, lambda2), SolverParams(gap=1e-10, max_iterations=400), bias=True)
    assert found.bias is not None
    W = weights_of(found.factors)
    np.testing.assert_allclose(W, other.coef_.T, atol=1e-4)
    np.testing.assert_allclose(found.bias - found.bias.mean(), other.intercept_ - other.intercept_.mean(), atol=1e-4)
    np.testing.assert_array_equal((problem.X @ W + found.bias).argmax(axis=1), other.predict(problem.X))


def bodies(seed: int) -> dict[str, tuple[Rows, np.ndarray]]:
    """The same kind of problem in every body of rows: (rows, labels), 4 classes."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 4, 50).astype(np.int32)
    X = (rng.standard_normal((4, 8))[y] + 0.5 * rng.standard_normal((50, 8))).astype(np.float32)
    sparse = scipy.sparse.csr_matrix(X * (rng.random(X.shape) < 0.5))
    codes, codebooks = rng.integers(0, 5, (50, 4)).astype(np.uint8), rng.standard_normal((4, 5, 2)).astype(np.float32)
    return {
        "float32": (Dense(X), y),
        "float16": (Dense(X.astype(np.float16)), y),
        "csr": (Csr(sparse.data, sparse.indices, sparse.indptr.astype(np.int64), 8), y),
        "pq": (PqCodes(codes, codebooks), y),
        "onehot": (OneHot(rng.integers(0, 3, (50, 4)).astype(np.int32), 3), y),
    }


@pytest.mark.parametrize("body", ["float32", "float16", "csr", "pq", "onehot"])
def test_every_body_of_rows(body: str) -> None:
    rows, y = bodies(4)[body]
    problem = Problem(rows.to_array(np.float64), y, 4)
    best = optimum(problem, Penalty(0.02, 0.01), True)
    found = solve(LocalRisk(rows, y, 4), Penalty(0.02, 0.01), bias=True)
    assert found.converged
    assert abs(found.certificate.objective - best) <= 1e-6
    assert_certified(problem, Penalty(0.02, 0.01), found)


def test_float32_reaches_small_gaps_and_says_so_where_it_cannot() -> None:
    problem = random_problem(34, n=200)
    best = optimum(problem, Penalty(0.02))
    found = solve(problem.risk(np.float32), Penalty(0.02), SolverParams(gap=1e-4))
    assert found.converged
    assert found.certificate.objective == pytest.approx(best, rel=1e-4)
    never = solve(problem.risk(np.float32), Penalty(0.02), SolverParams(gap=1e-14, max_iterations=150))
    assert not never.converged
    assert never.iterations < 150
    assert never.certificate.objective == pytest.approx(best, rel=1e-5)


def test_a_class_without_rows_is_never_likely() -> None:
    for bias in (False, True):
        problem = random_problem(35, k=5, present=4)
        found = solve(problem, Penalty(0.03), SolverParams(gap=1e-6, max_iterations=400), bias=bias)
        W = weights_of(found.factors)
        assert found.converged
        assert found.certificate.relative_gap <= 1e-6
        p = naive.probabilities(problem.X, W, found.bias)[:, 4]
        assert p.max() < (1e-8 if bias else 0.2)
    fewer = Problem(problem.X, problem.y, 4)
    assert found.certificate.objective == pytest.approx(optimum(fewer, Penalty(0.03), True), abs=1e-6)


def test_two_classes_have_opposite_columns() -> None:
    problem = random_problem(36, k=2)
    W = weights_of(solve(problem, Penalty(0.02)).factors)
    np.testing.assert_allclose(W[:, 0], -W[:, 1], atol=1e-6)


def test_repeated_rows_count_as_often() -> None:
    problem = random_problem(37)
    doubled = Problem(np.vstack([problem.X, problem.X]), np.concatenate([problem.y, problem.y]), problem.k)
    one, two = (solve(p, Penalty(0.05, 0.05)).certificate.objective for p in (problem, doubled))
    assert one == pytest.approx(two, abs=1e-8)


@pytest.mark.parametrize("bias", [False, True])
def test_starts_from_any_point(bias: bool) -> None:
    problem, penalty = random_problem(38), Penalty(0.05, 0.01)
    best = solve(problem, penalty, bias=bias)
    risk = problem.risk()
    rng = np.random.default_rng(2)
    for W in (rng.standard_normal((8, 5)), np.zeros((8, 5)), weights_of(best.factors)):
        found = solve(risk, penalty, bias=bias, start=at(risk, W, best.bias))
        assert found.converged
        assert found.certificate.objective == pytest.approx(best.certificate.objective, abs=1e-7)
    assert found.iterations <= best.iterations / 2
    without = solve(risk, penalty, bias=bias, start=at(risk, W, None))
    assert (without.bias is not None) == bias
    assert without.certificate.objective == pytest.approx(best.certificate.objective, abs=1e-7)


@pytest.mark.parametrize("how", WAYS, ids=str)
def test_passes_are_limited_and_every_iteration_is_told(how: DescentParams) -> None:
    problem, heard = random_problem(39), list[Record]()
    risk = problem.risk()
    params = SolverParams(gap=1e-12, max_iterations=4)
    found = atom_descent(risk, Penalty(0.01), params, False, None, heard.append, how)
    assert not found.converged
    assert found.iterations == 4
    assert heard == found.history
    assert [record["iteration"] for record in heard] == [1, 2, 3, 4]
    objectives = [record["objective"] for record in heard]
    assert objectives == sorted(objectives, reverse=True)
    assert heard[0]["objective"] == pytest.approx(np.log(problem.k))
    assert {"gap", "rank", "atoms", "step", "epsilon", "restricted", "evaluations"} <= set(heard[0])
    assert found.certificate.relative_gap > 1e-12


def test_the_box_solves_the_restricted_problem_in_step_4_only() -> None:
    problem, params = random_problem(40), SolverParams(epsilon=1e-3)
    box, regular = (solve(problem, Penalty(0.03), params, how=way) for way in (WAYS[1], WAYS[2]))
    assert box.converged
    assert regular.converged
    assert box.restricted < box.iterations - 1
    assert regular.restricted == regular.iterations - 1
    assert regular.iterations < box.iterations


def test_the_same_bits_twice() -> None:
    problem = random_problem(41)
    one, two = (solve(problem, Penalty(0.03, 0.01), SolverParams(gap=1e-6), bias=True) for _ in range(2))
    assert weights_of(one.factors).tobytes() == weights_of(two.factors).tobytes()
    assert asdict(one.certificate) == asdict(two.certificate)
    again = certify(problem.risk(), one.factors, one.bias, Penalty(0.03, 0.01))
    assert again == one.certificate


@pytest.mark.parametrize("wrong", [{"atoms_per_pass": 0}, {"restricted_every": -1}])
def test_params_out_of_range_are_refused(wrong: dict[str, int]) -> None:
    with pytest.raises(ParamError, match=next(iter(wrong))):
        DescentParams(**wrong)


@pytest.mark.parametrize("how", WAYS[::3], ids=str)
@pytest.mark.parametrize("bias", [False, True])
def test_the_unit_of_the_features_does_not_matter(bias: bool, how: DescentParams) -> None:
    problem, params = random_problem(42), SolverParams(gap=1e-4)
    found = solve(problem, Penalty(0.05, 0.01), params, bias, how=how)
    for unit in (2.0**-14, 2.0**14):
        other = Problem(unit * problem.X, problem.y, problem.k)
        same = solve(other, Penalty(0.05 * unit, 0.01 * unit**2), params, bias, how=how)
        assert same.iterations == found.iterations
        assert same.certificate.objective == pytest.approx(found.certificate.objective, rel=1e-7)
