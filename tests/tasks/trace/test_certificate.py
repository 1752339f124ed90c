"""Certificates: against a slow twin that knows only the weights, as bounds, and at optima that another solver found."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from tasks.trace.balance import balanced_scale, log_shares, without_empty
from tasks.trace.certificate import certify, gap_of, lambda1_max, relative
from tasks.trace.objective import factors_of, no_factors, penalty_of, point_of
from tasks.trace.solution import Factors, Penalty
from tests.naive import trace as naive
from tests.tasks.trace.problems import Problem, at, case, random_factors, random_problem

PENALTIES = [(0.05, 0.0), (0.05, 0.02), (0.0, 0.1), (0.4, 1e-6), (2.0, 0.0)]
SHAPES = [(8, 5), (3, 7), (1, 3), (6, 2)]


def some_weights(seed: int, d: int, k: int) -> Factors:
    return random_factors(seed, d, k, max(1, min(d, k) - 1))


def dense(factors: Factors) -> np.ndarray:
    return (factors.u * factors.theta) @ factors.v.T


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize(("lambda1", "lambda2"), PENALTIES)
@pytest.mark.parametrize(("d", "k"), SHAPES)
def test_agrees_with_the_slow_twin(d: int, k: int, lambda1: float, lambda2: float, bias: bool) -> None:
    problem, factors = random_problem(d, d=d, k=k), some_weights(k, d, k)
    b = np.random.default_rng(d + k).standard_normal(k) if bias else None
    found = certify(problem.risk(), factors, b, Penalty(lambda1, lambda2))
    told = (problem.X, problem.y, dense(factors), b, lambda1, lambda2)
    assert found.objective == pytest.approx(naive.objective(*told), abs=1e-9)
    assert found.risk == pytest.approx(naive.risk(*told[:4]), abs=1e-9)
    assert found.trace_norm == pytest.approx(naive.trace_norm(told[2]), abs=1e-9)
    assert found.gap == pytest.approx(naive.gap(*told), abs=1e-9)
    assert found.relative_gap == pytest.approx(found.gap / found.objective)
    assert (found.c1, found.c2) == pytest.approx(naive.conditions(*told), abs=1e-9)
    assert found.rank == factors.rank


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize(("lambda1", "lambda2"), [(0.05, 0.0), (0.05, 0.02), (0.0, 0.05), (0.3, 0.01)])
def test_the_gap_bounds_the_excess_everywhere_and_vanishes_at_the_optimum(
    lambda1: float, lambda2: float, bias: bool
) -> None:
    problem = random_problem(11)
    best = naive.fista(problem.X, problem.y, problem.k, lambda1, lambda2, bias)
    risk, penalty = problem.risk(), Penalty(lambda1, lambda2)
    rng = np.random.default_rng(5)
    to_w, to_b = rng.standard_normal(best.W.shape), rng.standard_normal(problem.k)
    gaps = []
    for far in (3.0, 0.3, 1e-2, 1e-4, 0.0):
        b = best.b + far * to_b if bias else None
        found = certify(risk, factors_of(at(risk, best.W + far * to_w), cut=1e-14), b, penalty)
        assert found.gap >= found.objective - best.objective - 1e-12
        gaps.append(found.gap)
    assert gaps[-1] < 1e-7
    assert gaps[-2] < 1e-2
    assert gaps[0] > 0.1


def test_a_bias_far_off_alone_is_seen_by_the_gap() -> None:
    problem = random_problem(12)
    best = naive.fista(problem.X, problem.y, problem.k, 0.1, 0.0, True)
    risk = problem.risk()
    factors = factors_of(at(risk, best.W))
    for off in (0.0, 1e-3, 1.0, 30.0):
        b = best.b + off * np.arange(problem.k)
        found = certify(risk, factors, b, Penalty(0.1))
        assert found.objective - best.objective - 1e-10 <= found.gap <= found.objective + 1e-12
        assert found.gap < 1e-6 or off > 0


@pytest.mark.parametrize("seed", range(5))
def test_the_balanced_dual_point_cancels_the_gradient_in_the_bias(seed: int) -> None:
    problem, rng = random_problem(seed, k=6, present=6 - seed % 3), np.random.default_rng(seed)
    risk = problem.risk()
    point = at(risk, 3 * rng.standard_normal((8, 6)), 2 * rng.standard_normal(6))
    assert np.abs(risk.gradient(point).bias).max() > 1e-2
    inside = without_empty(point, risk.counts)
    scale = balanced_scale(risk.confusion(inside), risk.counts)
    assert scale.min() >= 0
    assert scale.max() == 1
    assert np.abs(risk.gradient(inside, scale).bias).max() < 1e-11


def test_classes_never_mistaken_for_each_other_keep_their_rows() -> None:
    counts = np.array([5, 0, 7, 8])
    apart = np.diag(counts / 20)
    np.testing.assert_allclose(balanced_scale(apart, counts), np.ones(4), atol=1e-4)
    one_way = apart.copy()
    one_way[0, 2], one_way[0, 0] = 0.1, 0.15  # rows of class 0 are taken for class 2, never the other way round
    scale = balanced_scale(one_way, counts)
    assert scale[0] < 1e-10
    assert scale[2] == 1


def test_classes_without_rows_leave_the_gap_a_bound_that_vanishes() -> None:
    problem, fewer = random_problem(3, k=5, present=3), random_problem(3, k=5, present=3)
    reduced = Problem(fewer.X, fewer.y, 3)
    best = naive.fista(reduced.X, reduced.y, 3, 0.1, 0.0, True)
    W, risk = np.hstack([best.W, np.zeros((8, 2))]), problem.risk()
    start = log_shares(risk.counts)
    b = np.concatenate([best.b - best.b.mean() + start[:3].mean(), start[3:]])
    found = certify(risk, factors_of(at(risk, W)), b, Penalty(0.1))
    assert found.objective == pytest.approx(best.objective, abs=1e-8)
    assert 0 <= found.gap < 1e-6
    far = certify(risk, factors_of(at(risk, W)), np.zeros(5), Penalty(0.1))
    assert far.gap >= far.objective - best.objective - 1e-12


def test_without_penalties_the_bound_is_that_losses_are_not_negative() -> None:
    problem = random_problem(4)
    found = certify(problem.risk(), some_weights(1, 8, 5), None, Penalty(0.0))
    assert found.gap == pytest.approx(found.objective)
    assert found.relative_gap == pytest.approx(1.0)


def test_one_class_is_certain() -> None:
    problem = Problem(random_problem(0, n=9).X, np.zeros(9, np.int32), 1)
    for b in (None, np.zeros(1)):
        found = certify(problem.risk(), no_factors(8, 1), b, Penalty(0.1))
        assert (found.objective, found.gap, found.relative_gap) == (0.0, 0.0, 0.0)


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("lambda2", [0.0, 0.05])
def test_zero_is_optimal_from_lambda1_max_on(bias: bool, lambda2: float) -> None:
    problem = random_problem(6)
    risk, zero = problem.risk(), no_factors(8, 5)
    b = log_shares(risk.counts) if bias else None
    largest = lambda1_max(risk, bias)
    assert largest == pytest.approx(naive.lambda1_max(problem.X, problem.y, problem.k, bias), abs=1e-12)
    at_it, below = (
        certify(risk, zero, b, Penalty(largest, lambda2)),
        certify(risk, zero, b, Penalty(0.9 * largest, 0.0)),
    )
    assert at_it.gap < 1e-12
    assert at_it.c1 < 1e-12
    assert below.gap > 1e-3
    assert below.c1 == pytest.approx(0.1 * largest)


def test_case_tr_02_lambda1_max() -> None:
    told, problem = case("tr-02")
    assert lambda1_max(problem.risk(), False) == pytest.approx(told["expected"]["lambda1_max"], abs=1e-9)


def test_float32_rows_tell_the_same_to_their_precision() -> None:
    problem, factors = random_problem(8, n=300), some_weights(2, 8, 5)
    b = np.linspace(-1, 1, 5)
    for bias in (None, b):
        exact = certify(problem.risk(), factors, bias, Penalty(0.05, 0.01))
        rough = certify(problem.risk(np.float32), factors, bias, Penalty(0.05, 0.01))
        for one, two in zip(exact.as_json().values(), rough.as_json().values(), strict=True):
            assert one == pytest.approx(two, rel=2e-5)


def test_the_gap_from_sums_in_hand_is_that_of_the_certificate() -> None:
    problem, factors = random_problem(9), some_weights(3, 8, 5)
    risk, penalty = problem.risk(), Penalty(0.05, 0.01)
    sums = risk.gradient(point_of(risk, factors, None))
    objective = penalty_of(factors.theta, penalty) + sums.loss
    assert gap_of(sums, objective, penalty) == certify(risk, factors, None, penalty).gap
    assert gap_of(replace(sums, gradient=0 * sums.gradient), -1.0, penalty) == 0
    assert relative(0.0, 0.0) == 0


def test_a_certificate_is_plain_numbers() -> None:
    found = certify(random_problem(1).risk(), some_weights(1, 8, 5), np.zeros(5), Penalty(0.05, 0.01)).as_json()
    assert json.loads(json.dumps(found, allow_nan=False)) == found


def test_shares_are_the_best_bias_for_zero_weights() -> None:
    problem = random_problem(2, k=5, present=4)
    risk = problem.risk()
    b = log_shares(risk.counts)
    here = risk.evaluate(point_of(risk, no_factors(8, 5), b))
    assert np.abs(here.bias).max() < 1e-9
    shares = risk.counts[:4] / risk.counts.sum()
    assert here.loss == pytest.approx(-np.sum(shares * np.log(shares)), abs=1e-9)
    assert log_shares(np.zeros(3, int)).tolist() == [0, 0, 0]
