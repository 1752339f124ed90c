"""Rows far from their centre: the risk of centred rows, and where rank-one descent ends on them."""

from __future__ import annotations

import numpy as np
import pytest

from tasks.trace.atom_descent import DescentParams, atom_descent
from tasks.trace.centred import CentredRisk
from tasks.trace.point import Direction
from tasks.trace.solution import Penalty, SolverParams, unwatched
from tasks.trace.subspace import subspace_descent
from tests.naive import trace as naive
from tests.tasks.trace.problems import Problem, at, random_problem, weights

PAPER = DescentParams(atoms_per_pass=1, restricted_every=1, proximal=False)


@pytest.mark.parametrize("seed", range(3))
def test_it_is_the_risk_of_centred_rows(seed: int) -> None:
    problem, rng = random_problem(seed), np.random.default_rng(seed)
    rows, mean = problem.risk(), problem.X.mean(axis=0)
    wanted, found = Problem(problem.X - mean, problem.y, problem.k).risk(), CentredRisk(rows, rows.mean())
    W, b = rng.standard_normal((8, 5)), rng.standard_normal(5)
    one, two = (risk.gradient(at(wanted, W, b), np.linspace(0, 1, 5)) for risk in (wanted, found))
    here, there = (risk.evaluate(at(wanted, W, b)) for risk in (wanted, found))
    for first, second in ((one, two), (here, there)):
        assert second.loss == pytest.approx(first.loss)
        np.testing.assert_allclose(second.gradient, first.gradient, atol=1e-12)
        np.testing.assert_allclose(second.bias, first.bias, atol=1e-12)
    direction = Direction(rng.standard_normal((8, 5)), rng.standard_normal(5))
    losses = [risk.losses(at(wanted, W, b), direction, [0.0, 0.3, 2.0]) for risk in (wanted, found)]
    np.testing.assert_allclose(losses[1], losses[0])
    np.testing.assert_allclose(found.confusion(at(wanted, W, b)), wanted.confusion(at(wanted, W, b)))
    assert not found.mean().any()


def test_there_and_back() -> None:
    problem = random_problem(3)
    risk = CentredRisk(problem.risk(), problem.X.mean(axis=0))
    point = at(problem.risk(), np.ones((8, 5)), np.arange(5.0))
    again = risk.to_rows(risk.to_centred(point))
    assert again.bias is not None
    np.testing.assert_allclose(again.bias, np.arange(5.0), atol=1e-12)
    assert risk.to_centred(at(problem.risk(), np.ones((8, 5)))).bias is None


@pytest.mark.parametrize("how", [DescentParams(), PAPER])
@pytest.mark.parametrize("offset", [1e2, 1e4, 1e6])
def test_rank_one_descent_on_rows_far_away(offset: float, how: DescentParams) -> None:
    near = random_problem(5, n=200, d=6, k=4)
    problem, penalty, params = Problem(near.X + offset, near.y, 4), Penalty(0.03), SolverParams(gap=1e-4)
    found = atom_descent(problem.risk(), penalty, params, True, None, unwatched, how)
    wanted = subspace_descent(near.risk(), penalty, params, True, None, unwatched)
    assert found.converged
    assert found.certificate.objective == pytest.approx(wanted.certificate.objective, rel=2e-4)
    seen = naive.objective(problem.X, problem.y, weights(found), found.bias, 0.03, 0.0)
    assert found.certificate.objective == pytest.approx(seen, abs=1e-8)
