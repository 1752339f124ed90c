"""Problem (8), the atoms it weighs, and the line search along new ones."""

from __future__ import annotations

import numpy as np
import pytest

from tasks.trace.atoms import Atoms, atoms_of_factors, merged, no_atoms, penalty_over, slopes
from tasks.trace.line_search import SIGMA, armijo
from tasks.trace.objective import factors_of
from tasks.trace.restricted import solve_restricted
from tasks.trace.risk import LocalRisk
from tasks.trace.solution import Penalty
from tests.naive import trace as naive
from tests.tasks.trace.problems import Problem, random_factors, random_problem


def random_atoms(risk: LocalRisk, seed: int, count: int, bias: bool = False) -> Atoms:
    """Unit atoms in no particular direction, of equal weights; two groups in the basis."""
    rng = np.random.default_rng(seed)
    u, v = rng.standard_normal((risk.n_features, count)), rng.standard_normal((risk.n_classes, count))
    u, v = u / np.linalg.norm(u, axis=0), v / np.linalg.norm(v, axis=0)
    atoms = no_atoms(risk, np.zeros(risk.n_classes) if bias else None)
    atoms = atoms.joined(risk, u[:, :2], v[:, :2]).joined(risk, u[:, 2:], v[:, 2:])
    return atoms.with_values(np.full(count, 0.5), atoms.bias)


def over_complete(problem: Problem, atoms: Atoms, penalty: Penalty) -> float:
    """I(theta)."""
    W = atoms.weights
    risk = naive.risk(problem.X, problem.y, W, atoms.bias)
    return penalty.lambda1 * float(atoms.theta.sum()) + penalty.lambda2 * float(np.sum(W**2)) + risk


def derivatives(problem: Problem, atoms: Atoms, penalty: Penalty) -> tuple[np.ndarray, np.ndarray]:
    W = atoms.weights
    in_W, in_b = naive.risk_gradient(problem.X, problem.y, W, atoms.bias)
    G = in_W + 2 * penalty.lambda2 * W
    return np.array([u @ G @ v for u, v in zip(atoms.u.T, atoms.v.T, strict=True)]) + penalty.lambda1, in_b


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize(("lambda1", "lambda2"), [(0.02, 0.0), (0.1, 0.05), (0.0, 0.3)])
@pytest.mark.parametrize("seed", range(3))
def test_solutions_satisfy_c2_really(seed: int, lambda1: float, lambda2: float, bias: bool) -> None:
    problem, penalty, tolerance = random_problem(seed), Penalty(lambda1, lambda2), 1e-6
    risk = problem.risk()
    start = random_atoms(risk, seed, 12, bias)
    found = solve_restricted(risk, start, penalty, tolerance)
    slope, in_b = derivatives(problem, found.atoms, penalty)
    assert np.all(found.atoms.theta > 0)
    assert np.abs(slope).max(initial=0) <= tolerance
    assert not bias or np.abs(in_b).max() <= tolerance
    assert found.violation <= tolerance
    assert found.objective == pytest.approx(over_complete(problem, found.atoms, penalty), abs=1e-9)
    everyone = start.with_values(np.zeros(12), found.atoms.bias)
    kept = [int(np.argmax(np.abs(start.v.T @ v))) for v in found.atoms.v.T]
    everyone = everyone.with_values(np.bincount(kept, found.atoms.theta, minlength=12), found.atoms.bias)
    assert derivatives(problem, everyone, penalty)[0].min() >= -tolerance
    assert found.objective <= over_complete(problem, start, penalty)


def test_small_weights_with_steep_derivatives_are_clamped() -> None:
    """L-BFGS-B alone takes a theta below its tolerance for stationary, however steep I is (SPECS 3, reading 5)."""
    problem, penalty, tolerance = random_problem(5), Penalty(5.0), 1e-3
    risk = problem.risk()
    start = random_atoms(risk, 5, 4)
    start = start.with_values(np.array([1e-4, 5e-4, 2e-4, 9e-4]), None)
    slope = derivatives(problem, start, penalty)[0]
    assert slope.min() > 1
    found = solve_restricted(risk, start, penalty, tolerance)
    assert found.atoms.size == 0
    assert found.objective == pytest.approx(np.log(problem.k), abs=1e-2)


def test_the_limit_of_evaluations_holds() -> None:
    problem = random_problem(6)
    found = solve_restricted(problem.risk(), random_atoms(problem.risk(), 6, 8), Penalty(0.01), 1e-12, limit=3)
    assert found.evaluations <= 3 + 1
    assert found.violation > 1e-12


def test_columns_without_atoms_leave_the_basis() -> None:
    risk = random_problem(7).risk()
    atoms = random_atoms(risk, 7, 6)
    kept = atoms.kept(np.array([True, False, False, True, True, False]))
    assert kept.basis.rank == kept.size == 3
    assert len(kept.basis.groups) == 2
    np.testing.assert_allclose(kept.u, atoms.u[:, [0, 3, 4]], atol=1e-15)
    assert atoms.kept(np.zeros(6, bool)).basis.groups == ()


def test_merging_keeps_the_weights_and_lowers_the_sum_of_theta() -> None:
    risk = random_problem(8).risk()
    atoms = random_atoms(risk, 8, 7)
    less = merged(risk, atoms)
    np.testing.assert_allclose(less.weights, atoms.weights, atol=1e-12)
    assert less.size <= 5
    assert less.theta.sum() == pytest.approx(naive.trace_norm(atoms.weights))
    assert less.theta.sum() < atoms.theta.sum()
    assert penalty_over(less, Penalty(0.3, 0.2)) < penalty_over(atoms, Penalty(0.3, 0.2))
    assert merged(risk, atoms.with_values(np.zeros(7), None)).size == 0


def test_merging_makes_a_crowded_or_oblique_basis_anew() -> None:
    risk = random_problem(9, d=40, k=30).risk()
    crowded = random_atoms(risk, 9, 40).with_values(np.eye(40)[0], None)
    assert merged(risk, crowded).basis.rank == 1
    u = np.ones((40, 2)) / np.sqrt(40)
    u[0, 1] += 1e-5
    oblique = no_atoms(risk, None).joined(risk, u, np.eye(30)[:, :2]).with_values(np.array([1.0, 1.0]), None)
    anew = merged(risk, oblique)
    np.testing.assert_allclose(anew.weights, oblique.weights, atol=1e-12)
    np.testing.assert_allclose(anew.basis.columns.T @ anew.basis.columns, np.eye(anew.size), atol=1e-12)


def test_derivatives_in_theta() -> None:
    problem, penalty = random_problem(10), Penalty(0.3, 0.2)
    risk = problem.risk()
    atoms = random_atoms(risk, 10, 5)
    smooth = risk.gradient(atoms.point).gradient + 2 * penalty.lambda2 * atoms.weights
    found, step = slopes(atoms, smooth, penalty), 1e-6
    for j in range(5):
        up, down = (atoms.with_values(atoms.theta + sign * step * np.eye(5)[j], None) for sign in (1, -1))
        difference = over_complete(problem, up, penalty) - over_complete(problem, down, penalty)
        assert found[j] == pytest.approx(difference / (2 * step), abs=1e-7)


@pytest.mark.parametrize("first", [1e-3, 1.0, 1e4])
@pytest.mark.parametrize("penalty", [Penalty(0.05), Penalty(0.02, 0.1)])
def test_armijo_takes_a_step_that_descends_enough(penalty: Penalty, first: float) -> None:
    problem = random_problem(12)
    risk = problem.risk()
    atoms = atoms_of_factors(risk, random_factors(1, 8, 5, 2), None)
    G = risk.gradient(atoms.point).gradient + 2 * penalty.lambda2 * atoms.weights
    u, values, vt = np.linalg.svd(-G)
    joined = atoms.joined(risk, u[:, :2], vt[:2].T)
    change = np.array([0.0, 0.0, 1.0, 0.5])
    slope = float(change[2:] @ (penalty.lambda1 - values[:2]))
    here = over_complete(problem, joined, penalty)
    step = armijo(risk, joined, change, penalty, here, slope, first)
    there = joined.with_values(joined.theta + step.length * change, None)
    assert 0 < step.length <= first
    assert step.objective == pytest.approx(over_complete(problem, there, penalty), abs=1e-12)
    assert step.objective <= here + SIGMA * step.length * slope
    assert step.calls >= 1


def test_armijo_gives_up_where_nothing_descends() -> None:
    problem = random_problem(13)
    risk = problem.risk()
    atoms = atoms_of_factors(risk, random_factors(1, 8, 5, 2), None)
    here = over_complete(problem, atoms, Penalty(50.0))
    step = armijo(risk, atoms, np.ones(2), Penalty(50.0), here, -1.0, 1.0)
    assert (step.length, step.objective) == (0.0, here)


def test_factors_of_atoms_are_those_of_the_weights() -> None:
    risk = random_problem(14).risk()
    atoms = random_atoms(risk, 14, 4)
    values = np.linalg.svd(atoms.weights, compute_uv=False)
    np.testing.assert_allclose(factors_of(atoms.point).theta, values[:4], rtol=1e-10)
