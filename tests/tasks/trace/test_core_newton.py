"""Newton steps on factors: products with the Hessian, where a search ends, and how few sums it asks for."""

from __future__ import annotations

import numpy as np
import pytest

from tasks.trace import curvature as curved
from tasks.trace.core_newton import CELLS, CoreNewton, affordable, balanced, most_bytes
from tasks.trace.core_search import Coordinates, CoreSearch
from tasks.trace.curvature import Scaling, curvature_at, dot, newton_step
from tasks.trace.point import Basis, Point
from tasks.trace.reg_path import path
from tasks.trace.risk import LocalRisk
from tasks.trace.solution import Penalty, SolverParams, unwatched
from tasks.trace.subspace import subspace_descent
from tests.naive import trace as naive
from tests.naive.curvature import hessian_product
from tests.tasks.trace.problems import Array, Problem, at, random_problem, weights


class CountedRisk(LocalRisk):
    """Counts sums over kept projections."""

    evaluations = 0

    def evaluate(self, point: Point):  # type: ignore[no-untyped-def]
        self.evaluations += 1
        return super().evaluate(point)


@pytest.fixture
def all_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(curved, "KEPT", 2.0)


@pytest.mark.usefixtures("all_rows")
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize(("seed", "d", "k"), [(0, 8, 5), (1, 1, 2), (2, 3, 40)])
def test_products_with_the_hessian(seed: int, d: int, k: int, bias: bool) -> None:
    problem, rng = random_problem(seed, d=d, k=k), np.random.default_rng(seed)
    C, D = rng.standard_normal((2, d, k))
    b, db = rng.standard_normal((2, k)) if bias else np.zeros((2, 0))
    found = curvature_at(problem.X, C, b, 0.3, bias).product(D, db)
    zeros = np.zeros(k)
    wanted = hessian_product(problem.X, C, b if bias else zeros, D, db if bias else zeros)
    np.testing.assert_allclose(found[0], wanted[0] + 0.3 * D, atol=1e-12)
    np.testing.assert_allclose(found[1], wanted[1] if bias else db, atol=1e-12)


@pytest.mark.usefixtures("all_rows")
def test_curvature_along_pairs() -> None:
    problem, rng = random_problem(3), np.random.default_rng(3)
    C = rng.standard_normal((8, 5))
    u, v = (np.linalg.qr(rng.standard_normal((size, 3)))[0] for size in (8, 5))
    found = curvature_at(problem.X, C, np.zeros(0), 0.3, False)
    wanted = [np.vdot(D, found.product(D, np.zeros(0))[0]) for D in (np.outer(u[:, j], v[:, j]) for j in range(3))]
    np.testing.assert_allclose(found.along(u, v), wanted, rtol=1e-12)


def test_settled_rows_are_left_out() -> None:
    Z = np.concatenate([np.full((90, 1), 50.0), np.full((10, 1), 0.1)])
    found = curvature_at(Z, np.array([[1.0, -1.0]]), np.zeros(0), 0.0, False)
    assert (len(found.z), found.n_rows) == (10, 100)
    assert (found.z == 0.1).all()


def test_a_newton_step_solves_the_system() -> None:
    problem, rng = random_problem(4), np.random.default_rng(4)
    p, q, b = rng.standard_normal((8, 2)), rng.standard_normal((5, 2)), np.zeros(0)
    curvature = curvature_at(problem.X, p @ q.T, b, 0.0, False)
    scaling = Scaling(curvature, p, q, 0.05)

    def product(change: curved.Change) -> curved.Change:
        turn = curvature.product(change[0] @ q.T + p @ change[1].T, b)[0]
        return turn @ q + 0.05 * change[0], turn.T @ p + 0.05 * change[1], b

    gradient = rng.standard_normal((8, 2)), rng.standard_normal((5, 2)), b
    found = newton_step(product, gradient, scaling, 1e-9, 200)
    left = tuple(a + g for a, g in zip(product(found), gradient, strict=True))
    assert dot(left, left) < 1e-12 * dot(gradient, gradient)  # type: ignore[arg-type]


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("lambda2", [0.0, 0.01])
@pytest.mark.parametrize("seed", range(4))
def test_ends_where_proximal_gradient_ends(seed: int, lambda2: float, bias: bool) -> None:
    problem, rng = random_problem(seed), np.random.default_rng(seed)
    penalty, risk = Penalty(0.01, lambda2), problem.risk()
    columns = np.linalg.qr(rng.standard_normal((8, 6)))[0]
    coordinates = Coordinates(Basis(8).with_group(risk.group(columns)), columns.T @ risk.mean() if bias else None, 2.0)
    start = Point(coordinates.basis, rng.standard_normal((6, 5)), np.zeros(5) if bias else None)
    found = CoreNewton(risk, penalty, coordinates, risk).run(start, 1e-7, 60)
    slow = CoreSearch(risk, penalty, coordinates, 10.0, 0.0).run(start, 1e-8, 5000)
    assert found.steady
    assert objective(problem, penalty, found.point) == pytest.approx(objective(problem, penalty, slow.point), rel=1e-6)
    assert found.evaluations < slow.evaluations / 2


def objective(problem: Problem, penalty: Penalty, point: Point) -> float:
    W = np.asarray(point.basis.columns, np.float64) @ point.core
    return naive.objective(problem.X, problem.y, W, point.bias, penalty.lambda1, penalty.lambda2)


@pytest.mark.parametrize("bias", [False, True])
def test_from_nothing_it_finds_the_rank(bias: bool) -> None:
    problem = random_problem(5)
    risk, eye = problem.risk(), np.eye(8)
    coordinates = Coordinates(Basis(8).with_group(risk.group(eye)), risk.mean() if bias else None, 2.0)
    start = Point(coordinates.basis, np.zeros((8, 5)), np.zeros(5) if bias else None)
    found = CoreNewton(risk, Penalty(0.05), coordinates, risk).run(start, 1e-6, 60)
    wanted = naive.fista(problem.X, problem.y, 5, 0.05, 0.0, bias)
    assert found.steady
    assert objective(problem, Penalty(0.05), found.point) == pytest.approx(wanted.objective, rel=1e-6)
    assert np.linalg.matrix_rank(found.point.core) == np.linalg.matrix_rank(wanted.W, tol=1e-6)


def separable(seed: int) -> Problem:
    """Classes that planes part without an error."""
    rng = np.random.default_rng(seed)
    y = np.arange(300, dtype=np.int32) % 10
    return Problem(3.0 * np.eye(10, 20)[y] + 0.3 * rng.standard_normal((300, 20)), y, 10)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("bias", [False, True])
def test_weak_penalties_need_few_sums(bias: bool, dtype: type[np.floating]) -> None:
    problem = separable(6)
    risk = CountedRisk(problem.risk(dtype).rows, problem.y, problem.k, dtype)
    penalties = [Penalty(0.1 * 0.5**i) for i in range(12)]
    spent: list[int] = []
    for _, penalty, found in path(risk, penalties, SolverParams(gap=1e-3), bias, subspace_descent, unwatched):
        seen = naive.gap(problem.X, problem.y, weights(found), found.bias, penalty.lambda1, 0.0)
        assert found.converged
        assert seen <= 1.02e-3 * found.certificate.objective
        spent.append(risk.evaluations)
    assert spent[-1] < 400
    assert max(np.diff(spent)) < 80


def test_other_rows_than_all_are_not_asked_for_newton_s_steps() -> None:
    problem = random_problem(7)

    class Elsewhere(LocalRisk):
        def whole(self) -> None:  # type: ignore[override]
            return None

    far = Elsewhere(problem.risk().rows, problem.y, problem.k)
    one, two = (
        subspace_descent(risk, Penalty(0.01), SolverParams(gap=1e-6), True, None, unwatched)
        for risk in (problem.risk(), far)
    )
    assert one.converged
    assert two.converged
    assert one.certificate.objective == pytest.approx(two.certificate.objective, rel=2e-6)
    assert one.evaluations < two.evaluations


def test_factors_of_equal_length() -> None:
    core = np.random.default_rng(8).standard_normal((6, 3)) @ np.random.default_rng(9).standard_normal((3, 5))
    p, q = balanced(core)
    assert p.shape == (6, 3)
    np.testing.assert_allclose(p @ q.T, core, atol=1e-12)
    np.testing.assert_allclose(p.T @ p, q.T @ q, atol=1e-12)
    assert [side.shape for side in balanced(np.zeros((4, 3)))] == [(4, 0), (3, 0)]


def test_what_is_affordable() -> None:
    assert affordable(CELLS // 30, 10, 10)
    assert not affordable(CELLS // 30 + 1, 10, 10)
    assert most_bytes(CELLS, 5, 1) == 0
    assert most_bytes(100, 10, 5) == 8 * 100 * 20


def test_bent_rows() -> None:
    rng = np.random.default_rng(10)
    turn, p = rng.standard_normal((7, 37)), rng.dirichlet(np.ones(37), 7)
    wanted: Array = np.stack([(np.diag(a) - np.outer(a, a)) @ t for a, t in zip(p, turn, strict=True)])
    curved.bend(turn, p)
    np.testing.assert_allclose(turn, wanted, atol=1e-14)


def test_starts_at_zero_rank_and_stays_there_under_strong_penalties() -> None:
    risk = random_problem(11).risk()
    found = subspace_descent(
        risk, Penalty(50.0), SolverParams(), True, at(risk, np.ones((8, 5)), np.ones(5)), unwatched
    )
    assert found.converged
    assert found.factors.rank == 0
