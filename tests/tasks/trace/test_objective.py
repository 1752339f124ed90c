"""Objective and decomposition of points, against the reference case and dense formulas."""

from __future__ import annotations

import numpy as np
import pytest

from tasks.trace.objective import factors_of, no_factors, objective_of, point_of, singular_values, weights_of
from tasks.trace.point import Basis, Point
from tasks.trace.solution import Penalty
from tests.naive import trace as naive
from tests.tasks.trace.problems import at, case, random_factors, random_problem


def test_case_tr_01() -> None:
    told, problem = case("tr-01")
    inputs, expected = told["inputs"], told["expected"]
    risk = problem.risk()
    point = at(risk, np.array(inputs["W"]))
    sums = risk.gradient(point)
    smooth = sums.gradient + 2 * inputs["lam2"] * point.weights
    penalty = Penalty(inputs["lam1"], inputs["lam2"])
    assert sums.loss == pytest.approx(expected["risk"], abs=1e-9)
    assert singular_values(point).sum() == pytest.approx(expected["trace_norm"], abs=1e-9)
    assert objective_of(point, sums.loss, penalty) == pytest.approx(expected["objective"], abs=1e-9)
    np.testing.assert_allclose(smooth, expected["smooth_gradient"], atol=1e-9)
    assert np.linalg.norm(smooth, 2) == pytest.approx(expected["spectral_norm_of_gradient"], abs=1e-9)


@pytest.mark.parametrize(("d", "k", "rank"), [(9, 5, 3), (4, 6, 7), (5, 5, 5), (1, 3, 1), (7, 2, 4)])
def test_factors_are_the_decomposition_whatever_the_basis(d: int, k: int, rank: int) -> None:
    rng = np.random.default_rng(d * 100 + k)
    risk = random_problem(0, d=d, k=k).risk()
    columns, core = rng.standard_normal((d, rank)), rng.standard_normal((rank, k))
    point = Point(Basis(d).with_group(risk.group(columns)), core)
    factors = factors_of(point)
    values = np.linalg.svd(columns @ core, compute_uv=False)
    np.testing.assert_allclose(factors.theta, values[: factors.rank], rtol=1e-10)
    np.testing.assert_allclose(weights_of(factors), columns @ core, atol=1e-12)
    np.testing.assert_allclose(factors.u.T @ factors.u, np.eye(factors.rank), atol=1e-12)
    np.testing.assert_allclose(point_of(risk, factors, None).weights, columns @ core, atol=1e-12)
    expected = naive.objective(np.zeros((1, d)), np.zeros(1, int), columns @ core, None, 0.3, 0.2)
    assert objective_of(point, np.log(k), Penalty(0.3, 0.2)) == pytest.approx(expected)


def test_values_below_the_cut_are_no_rank() -> None:
    risk = random_problem(0, d=6, k=4).risk()
    factors = random_factors(1, 6, 4, 3)
    theta = np.array([2.0, 1.0, 1e-9])
    point = Point(point_of(risk, factors, None).basis, theta[:, None] * factors.v.T)
    assert factors_of(point).rank == 2
    assert factors_of(point, cut=1e-10).rank == 3


def test_zero_weights_have_no_factors() -> None:
    risk = random_problem(0).risk()
    empty = Point(Basis(8), np.zeros((0, 5)))
    zero = at(risk, np.zeros((8, 5)))
    assert factors_of(empty).rank == factors_of(zero).rank == 0
    assert objective_of(empty, 1.5, Penalty(3.0, 2.0)) == objective_of(zero, 1.5, Penalty(3.0, 2.0)) == 1.5
    assert point_of(risk, no_factors(8, 5), None).basis.rank == 0
