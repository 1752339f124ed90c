"""Linear solvers beside LIBLINEAR, to the same objective, and beside what memory and multiplications allow.

Rows are 120 classes in 256 dimensions that overlap; two sides are random halves of the classes, which no hyperplane
parts well. LIBLINEAR's bias is penalised (a constant feature of 1, the length of the rows; a larger one slows it), and
its weights are judged with their best bias. Seconds are of one thread, without reading or copying rows.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning
from sklearn.svm import LinearSVC
from threadpoolctl import threadpool_limits

from tasks.rows import Dense
from tasks.rows.base import Array
from tasks.svm.bias import best_bias
from tasks.svm.dual_ascent import HIGHEST, LOWEST
from tasks.svm.linear_ascent import Ascent
from tasks.svm.linear_solver import LinearSolver
from tasks.svm.one_vs_all import Group, one_vs_all
from tests.bench.limits import copy_rate, gemm_rate, seconds

CLOCK = time.thread_time
N_ROWS, N_FEATURES, N_CLASSES = 24_000, 256, 120
SWEEPS = [1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 256, 512]
TOLERANCES = [0.3, 0.1, 0.05, 0.03, 0.02, 0.01, 0.005, 0.002, 0.001, 0.0005]
Attempt = tuple[float, float]  # seconds, objective


@pytest.fixture(autouse=True, scope="module")
def one_thread() -> Iterator[None]:
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        yield


def drawn() -> tuple[Array, Array]:
    """(values (n, d) float32 of mean squared length 1, labels (n,) int32)."""
    rng = np.random.default_rng(0)
    labels = np.repeat(np.arange(N_CLASSES, dtype=np.int32), N_ROWS // N_CLASSES)
    scales = 1.0 / np.sqrt(np.arange(1.0, N_FEATURES + 1))
    values = (0.7 * rng.normal(size=(N_CLASSES, N_FEATURES))[labels] + rng.normal(size=(N_ROWS, N_FEATURES))) * scales
    return (values / np.sqrt((values**2).sum(axis=1).mean())).astype(np.float32), labels


def timed(work: Callable[[], float]) -> Attempt:
    began = CLOCK()
    objective = work()
    return CLOCK() - began, objective


def first_within(attempts: Iterator[Attempt], best: float, share: float) -> str:
    for taken, objective in attempts:
        if objective <= (1.0 + share) * best:
            return f"{taken:7.3f} s"
    return " never"


def hinge(weights: Array, values: Array, sides: Array, cost: float) -> float:
    scores = values @ weights.astype(np.float64)
    bias = best_bias(scores, sides, np.ones(sides.size))
    return 0.5 * float(weights @ weights) + cost * float(np.maximum(0.0, 1.0 - sides * (scores + bias)).sum())


@pytest.mark.parametrize("cost", [0.1, 1.0, 10.0, 100.0])
def bench_two_sides(cost: float) -> None:
    values, labels = drawn()
    positive = np.random.default_rng(1).permutation(N_CLASSES) < N_CLASSES // 2
    sides = np.where(positive[labels], 1, -1).astype(np.int8)
    costs, wide = np.full(N_ROWS, cost, np.float32), values.astype(np.float64)

    def solver(tolerance: float, sweeps: int = 300) -> LinearSolver:
        return LinearSolver(Dense(values), costs, np.random.default_rng(0), tolerance, sweeps)

    def ours() -> Iterator[Attempt]:
        for tolerance in TOLERANCES:
            made = solver(tolerance)
            yield timed(lambda made=made: made.solve(sides).objective(sides, costs))  # type: ignore[misc]

    def theirs() -> Iterator[Attempt]:
        for sweeps in SWEEPS:
            model = LinearSVC(C=cost, loss="hinge", max_iter=sweeps, tol=1e-9, intercept_scaling=1.0)
            began = CLOCK()
            model.fit(wide, sides)
            yield CLOCK() - began, hinge(model.coef_[0], values, sides, cost)

    solver(0.3).solve(sides)  # compiles
    best = solver(1e-4, 3000).solve(sides).objective(sides, costs)
    for share in (0.01, 0.001):
        mine, other = (first_within(attempts, best, share) for attempts in (ours(), theirs()))
        print(f"two sides, C {cost:<6} to {share:6.1%}: {mine}   LIBLINEAR {other}")
        assert "never" not in mine


def bench_sweep() -> None:
    """All rows are active: each is multiplied by the weights, and added to them."""
    values, labels = drawn()
    sides = np.where(labels % 2 == 0, 1, -1).astype(np.int8)
    solver = LinearSolver(Dense(values), np.full(N_ROWS, 100.0, np.float32), np.random.default_rng(0))
    ascent, rng = Ascent(solver.problem, sides), np.random.default_rng(0)

    def work() -> None:
        ascent.state[HIGHEST], ascent.state[LOWEST] = 0.0, 0.0  # no row is left out
        ascent.sweep(rng)

    taken = seconds(work, CLOCK) / (2 * values.size)
    limit = 0.5 * values.itemsize / (copy_rate(CLOCK) / 2)  # every value read once, multiplied twice
    print(f"sweep of two sides: a multiplication {taken * 1e9:.4f} ns   limit of memory {limit * 1e9:.4f} ns")
    assert ascent.n_active == N_ROWS


@pytest.mark.parametrize("cost", [0.1, 1.0, 10.0])
def bench_one_vs_all(cost: float) -> None:
    """LIBLINEAR's own default tolerance, and ours; the objectives that each reaches."""
    values, labels = drawn()
    unit = float(np.sqrt((values.astype(np.float64) ** 2).sum(axis=1).mean()))
    group, found = Group(values, labels, N_CLASSES, cost, unit), []
    taken = seconds(lambda: found.append(one_vs_all(Dense(values), labels, N_CLASSES, cost, rng())), CLOCK, repeats=1)
    weights, bias = found[-1]
    model = LinearSVC(C=cost, intercept_scaling=unit)
    theirs = timed(lambda: float(model.fit(values.astype(np.float64), labels).n_iter_))[0]
    mine = group.objectives(weights, bias).sum()
    other = group.objectives(model.coef_.T.astype(np.float32), model.intercept_.astype(np.float32)).sum()
    print(f"one-vs-all, C {cost:<5} {taken:7.2f} s   LIBLINEAR {theirs:7.2f} s   objective {mine / other:.4f} of its")
    assert mine <= 1.05 * other


def bench_block_sweep() -> None:
    values, labels = drawn()
    group, order = Group(values, labels, N_CLASSES, 1.0, 1.0), rng().permutation(N_ROWS)
    taken = seconds(lambda: group.sweep(order), CLOCK) / (2 * values.size * N_CLASSES)
    limit = 2 / gemm_rate(CLOCK)
    print(f"sweep of one-vs-all: a multiplication {taken * 1e9:.4f} ns   limit of a product {limit * 1e9:.4f} ns")
    assert taken > 0


def rng() -> np.random.Generator:
    return np.random.default_rng(0)
