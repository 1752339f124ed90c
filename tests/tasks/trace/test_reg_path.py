"""The regularisation path: its order, its warm starts, and going on from where it stopped."""

from __future__ import annotations

import pytest

from tasks.errors import ParamError
from tasks.rows.dense import Dense
from tasks.trace.atom_descent import atom_descent
from tasks.trace.certificate import lambda1_max
from tasks.trace.objective import weights_of
from tasks.trace.point import Point
from tasks.trace.reg_path import ROUGH, geometric, grid, path
from tasks.trace.risk import LocalRisk, Risk
from tasks.trace.solution import Penalty, Solution, SolverParams, Watch, unwatched
from tasks.trace.subspace import subspace_descent
from tests.naive import trace as naive
from tests.tasks.trace.problems import Problem, random_problem

PARAMS = SolverParams(gap=1e-5, max_iterations=400)


def penalties_of(problem: Problem, bias: bool) -> list[Penalty]:
    largest = lambda1_max(problem.risk(), bias)
    return grid(geometric(largest, 0.4, 4), geometric(0.1, 0.1, 3))


def test_penalties_fall_geometrically_lambda1_in_the_inner_loop() -> None:
    assert geometric(0.8, 0.5, 3) == [0.8, 0.4, 0.2]
    assert geometric(0.8, 0.5, 0) == []
    pairs = [(p.lambda1, p.lambda2) for p in grid([3, 2], [1, 0])]
    assert pairs == [(3, 1), (2, 1), (3, 0), (2, 0)]


@pytest.mark.parametrize("alpha", [0.0, 1.0, -0.5, float("nan")])
def test_paths_that_do_not_fall_are_refused(alpha: float) -> None:
    with pytest.raises(ParamError, match="alpha"):
        geometric(1.0, alpha, 2)


def test_a_pair_starts_where_the_one_before_ended() -> None:
    starts: list[Point | None] = []

    def solver(
        risk: Risk, penalty: Penalty, params: SolverParams, bias: bool, start: Point | None, watch: Watch
    ) -> Solution:
        starts.append(start)
        return atom_descent(risk, penalty, params, bias, start, watch)

    penalties = grid([0.3, 0.2], [1, 0])
    walked = list(path(random_problem(55).risk(), penalties, PARAMS, False, solver, unwatched))
    assert starts[0] is None
    assert all(start is solution.point for start, (_, _, solution) in zip(starts[1:], walked, strict=False))


@pytest.mark.parametrize("bias", [False, True])
def test_every_pair_reaches_its_own_optimum(bias: bool) -> None:
    problem = random_problem(51)
    penalties = penalties_of(problem, bias)
    walked = list(path(problem.risk(), penalties, PARAMS, bias, atom_descent, unwatched))
    assert [(index, penalty) for index, penalty, _ in walked] == list(enumerate(penalties))
    for _, penalty, solution in walked:
        best = naive.fista(problem.X, problem.y, problem.k, penalty.lambda1, penalty.lambda2, bias)
        assert solution.converged
        assert -1e-9 <= solution.certificate.objective - best.objective <= 1e-5 * best.objective
    assert [solution.certificate.rank for _, _, solution in walked][::4] == [0, 0, 0]


def test_a_path_goes_on_from_its_last_pair_to_the_same_bits() -> None:
    problem = random_problem(52)
    penalties = penalties_of(problem, True)
    whole = [solution for _, _, solution in path(problem.risk(), penalties, PARAMS, True, atom_descent, unwatched)]
    for skip in (3, 4, 7):
        rest = path(problem.risk(), penalties, PARAMS, True, atom_descent, unwatched, skip, whole[skip - 1].point)
        found = {index: solution for index, _, solution in rest}
        assert sorted(found) == list(range(skip, len(penalties)))
        for index, solution in found.items():
            assert weights_of(solution.factors).tobytes() == weights_of(whole[index].factors).tobytes()
            assert solution.certificate == whole[index].certificate


def test_warm_starts_spare_passes() -> None:
    problem = random_problem(53, n=200, d=20, k=10)
    penalties = grid(geometric(0.1, 0.8, 6), [0.0])
    warm = list(path(problem.risk(), penalties, PARAMS, False, atom_descent, unwatched))
    cold = [atom_descent(problem.risk(), penalty, PARAMS, False, None, unwatched) for penalty in penalties]
    assert sum(solution.evaluations for _, _, solution in warm) < sum(solution.evaluations for solution in cold)


def test_pairs_that_are_solved_on_few_rows_first_reach_their_optima_on_all() -> None:
    problem = random_problem(56, n=200, d=20, k=5)
    few = LocalRisk(Dense(problem.X[:40]), problem.y[:40], problem.k)
    asked: list[tuple[int, float, Point | None]] = []

    def solver(
        risk: Risk, penalty: Penalty, params: SolverParams, bias: bool, start: Point | None, watch: Watch
    ) -> Solution:
        asked.append((risk.n_rows, params.gap, start))
        return subspace_descent(risk, penalty, params, bias, start, watch)

    penalties = grid([0.1, 0.03], [0.0])
    walked = list(path(problem.risk(), penalties, PARAMS, True, solver, unwatched, few=few))
    assert [(n, gap) for n, gap, _ in asked] == [(40, ROUGH), (200, PARAMS.gap)] * 2
    assert asked[2][2] is walked[0][2].point
    for _, penalty, solution in walked:
        best = naive.fista(problem.X, problem.y, problem.k, penalty.lambda1, penalty.lambda2, True)
        assert solution.converged
        assert -1e-9 <= solution.certificate.objective - best.objective <= 1e-5 * best.objective


def test_solutions_come_as_soon_as_they_are_found() -> None:
    asked: list[float] = []

    def solver(
        risk: Risk, penalty: Penalty, params: SolverParams, bias: bool, start: Point | None, watch: Watch
    ) -> Solution:
        asked.append(penalty.lambda1)
        return atom_descent(risk, penalty, params, bias, start, watch)

    walking = path(random_problem(54).risk(), grid([0.3, 0.2], [0.0]), PARAMS, False, solver, unwatched)
    next(walking)
    assert asked == [0.3]
    assert len(list(walking)) == 1
    assert asked == [0.3, 0.2]
