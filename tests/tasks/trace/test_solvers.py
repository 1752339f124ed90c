"""All solvers find the same optima, and say the same of them."""

from __future__ import annotations

import numpy as np
import pytest

from tasks.trace.atom_descent import atom_descent
from tasks.trace.objective import weights_of
from tasks.trace.reg_path import geometric, grid, path
from tasks.trace.solution import Penalty, Solver, SolverParams, unwatched
from tasks.trace.subspace import subspace_descent
from tests.naive import trace as naive
from tests.tasks.trace.problems import case, random_problem

SOLVERS: dict[str, Solver] = {"r1d": atom_descent, "subspace": subspace_descent}
TIGHT = SolverParams(gap=1e-7, max_iterations=400)


@pytest.mark.parametrize("name", SOLVERS)
def test_case_tr_02(name: str) -> None:
    told, problem = case("tr-02")
    for wanted in told["expected"]["optima"]:
        penalty = Penalty(wanted["lam1"], wanted["lam2"])
        found = SOLVERS[name](problem.risk(), penalty, TIGHT, False, None, unwatched)
        certificate, W = found.certificate, weights_of(found.factors)
        assert found.converged
        assert -1e-6 <= certificate.objective - wanted["objective"] <= told["tolerance"]
        assert certificate.rank == wanted["rank"]
        seen = naive.gap(problem.X, problem.y, W, None, penalty.lambda1, penalty.lambda2)
        assert certificate.gap == pytest.approx(seen, abs=1e-9)


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("lambda2", [0.0, 0.01])
@pytest.mark.parametrize(("d", "k"), [(70, 60), (20, 80), (90, 6)])
def test_solvers_agree_on_problems_beyond_full_decompositions(d: int, k: int, lambda2: float, bias: bool) -> None:
    problem = random_problem(d + k, n=300, d=d, k=k)
    penalty, params = Penalty(0.02, lambda2), SolverParams(gap=1e-4, max_iterations=400)
    solutions = [solver(problem.risk(), penalty, params, bias, None, unwatched) for solver in SOLVERS.values()]
    one, two = (solution.certificate for solution in solutions)
    assert all(solution.converged for solution in solutions)
    assert one.objective - one.gap <= two.objective
    assert two.objective - two.gap <= one.objective
    assert one.objective == pytest.approx(two.objective, rel=1e-4)
    if lambda2:  # then the optimum is unique
        first, second = (weights_of(solution.factors) for solution in solutions)
        assert np.linalg.norm(first - second) <= 2 * np.sqrt(1e-4 * one.objective / lambda2)


@pytest.mark.parametrize("name", SOLVERS)
def test_paths_end_where_single_pairs_do(name: str) -> None:
    problem, params = random_problem(61, n=120, d=15, k=6), SolverParams(gap=1e-5, max_iterations=400)
    penalties = grid(geometric(0.2, 0.4, 4), [0.0, 0.05])
    for _, penalty, solution in path(problem.risk(), penalties, params, True, SOLVERS[name], unwatched):
        alone = naive.fista(problem.X, problem.y, problem.k, penalty.lambda1, penalty.lambda2, True)
        assert solution.converged
        assert solution.certificate.objective == pytest.approx(alone.objective, rel=1e-5)
