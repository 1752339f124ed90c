"""Coloring and classifier in turn: every half step against all colorings and a machine solved elsewhere."""

from __future__ import annotations

import itertools
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tasks.relaxed import alternate as module
from tasks.relaxed.alternate import COLORING, SVM, ColoringParams, NodeProblem, ObjectiveRose, Tried, alternate
from tasks.relaxed.coloring import coloring_value
from tasks.rows import Dense
from tasks.svm.classifier import Classifier
from tasks.svm.kernel_solver import KernelSolver
from tasks.svm.linear_solver import LinearSolver
from tasks.svm.solver import BinarySolver, Halfspace
from tests.naive import relaxed as naive
from tests.strategies import seeds

PARAMS = ColoringParams(cost=1.0, rho=0.5, balance=10, half_steps=40)


class Node:
    """Rows of some classes in the plane, one to five a class, each standing for one to three."""

    def __init__(self, seed: int, n_classes: int) -> None:
        rng = np.random.default_rng(seed)
        self.rng, self.n_classes = rng, n_classes
        sizes = rng.integers(1, 6, n_classes)
        self.labels = np.repeat(np.arange(n_classes, dtype=np.int32), sizes)
        centres = rng.normal(size=(n_classes, 2)) * rng.choice([0.3, 2.0])
        self.values = (centres[self.labels] + 0.5 * rng.normal(size=(self.labels.size, 2))).astype(np.float32)
        per_class = rng.integers(1, 4, n_classes)
        self.weights = per_class[self.labels].astype(np.float32)
        self.counts = sizes * per_class

    def costs(self, params: ColoringParams) -> np.ndarray:
        return (np.float32(params.cost) * self.weights).astype(np.float32)

    def exact(self, params: ColoringParams) -> BinarySolver:
        gram = self.values.astype(np.float64) @ self.values.T.astype(np.float64)
        return KernelSolver(gram, self.costs(params), np.arange(self.labels.size), tolerance=1e-9)

    def problem(self, params: ColoringParams = PARAMS, solver: BinarySolver | None = None) -> NodeProblem:
        return NodeProblem(solver or self.exact(params), self.labels, self.weights, self.counts, params)

    def pair(self) -> np.ndarray:
        """A coloring of two classes."""
        coloring = np.zeros(self.n_classes, np.int8)
        coloring[self.rng.choice(self.n_classes, 2, replace=False)] = 1, -1
        return coloring


class Sloppy:
    """A solver that answers with any hyperplane, sometimes the best one."""

    def __init__(self, node: Node, params: ColoringParams, seed: int) -> None:
        self.honest, self.node = node.exact(params), node
        self.rng = np.random.default_rng(seed)
        self.answers: list[Halfspace] = []

    @property
    def costs(self) -> np.ndarray:
        return self.honest.costs

    def solve(self, sides: np.ndarray, start: Halfspace | None = None) -> Halfspace:
        found = self.honest.solve(sides, start)
        if self.rng.random() < 0.7:
            w, b = self.rng.normal(size=2) * self.rng.choice([0.1, 1, 5]), float(self.rng.normal())
            found = replace(found, margins=self.node.values @ w + b, bias=b, squared_norm=float(w @ w))
        self.answers.append(found)
        return found

    def classifier(self, fit: Halfspace, sides: np.ndarray) -> Classifier:
        return self.honest.classifier(fit, sides)


class Watched:
    """A solver that remembers what it was asked and what it said."""

    def __init__(self, honest: BinarySolver) -> None:
        self.honest = honest
        self.calls: list[tuple[np.ndarray, Halfspace | None, Halfspace]] = []

    @property
    def costs(self) -> np.ndarray:
        return self.honest.costs

    def solve(self, sides: np.ndarray, start: Halfspace | None = None) -> Halfspace:
        found = self.honest.solve(sides, start)
        self.calls.append((sides.copy(), start, found))
        return found

    def classifier(self, fit: Halfspace, sides: np.ndarray) -> Classifier:
        return self.honest.classifier(fit, sides)


def params_of(rng: np.random.Generator, **more: Any) -> ColoringParams:
    told = {"cost": float(rng.choice([0.05, 1.0, 20.0])), "rho": float(rng.choice([0.1, 0.5, 0.9, 1.0, 1.7]))}
    return ColoringParams(**{**told, "balance": int(rng.integers(0, 4)), "half_steps": 40, **more})


def assert_never_rises(tried: Tried) -> None:
    for before, after in pairwise(tried.objective):
        assert after <= before + 1e-7 * (1 + abs(before))
    assert len(tried.objective) == len(tried.steps)
    assert set(tried.steps[::2]) == {SVM}
    assert set(tried.steps[1::2]) <= {COLORING}
    assert tried.value == tried.objective[-1]


def assert_consistent(problem: NodeProblem, tried: Tried) -> None:
    """The value is that of the classifier and the coloring, which is allowed."""
    params = problem.params
    value = naive.objective(
        tried.fit.margins, tried.fit.squared_norm, problem.labels, problem.solver.costs, params.rho, tried.coloring
    )
    assert tried.value == pytest.approx(value, rel=1e-6, abs=1e-6)
    assert abs(int(tried.coloring.astype(int).sum())) <= params.balance
    assert (tried.n_positive, tried.n_negative) == ((tried.coloring > 0).sum(), (tried.coloring < 0).sum())
    assert tried.n_positive > 0 < tried.n_negative


@given(seed=seeds, n_classes=st.integers(2, 9))
@settings(max_examples=60)
def test_the_objective_never_rises(seed: int, n_classes: int) -> None:
    node = Node(seed, n_classes)
    problem = node.problem(params_of(node.rng))
    tried = alternate(problem, node.pair())
    assert_never_rises(tried)
    assert_consistent(problem, tried)


@given(seed=seeds, n_classes=st.integers(2, 9))
@settings(max_examples=60)
def test_an_answer_that_is_worse_is_not_taken(seed: int, n_classes: int) -> None:
    node = Node(seed, n_classes)
    params = params_of(node.rng)
    sloppy = Sloppy(node, params, seed)
    problem = node.problem(params, sloppy)
    tried = alternate(problem, node.pair())
    assert_never_rises(tried)
    assert_consistent(problem, tried)
    assert any(tried.fit is one for one in sloppy.answers)


def test_a_worse_answer_leaves_the_classifier_before_it() -> None:
    class Worsens(Sloppy):
        """The best hyperplane first, then one that is wrong about everything."""

        def solve(self, sides: np.ndarray, start: Halfspace | None = None) -> Halfspace:
            found = self.honest.solve(sides, start)
            if start is not None:
                found = replace(found, margins=-100 * sides.astype(float), squared_norm=1e6)
            self.answers.append(found)
            return found

    node = Node(3, 6)
    solver = Worsens(node, PARAMS, 0)
    tried = alternate(node.problem(PARAMS, solver), node.pair())
    assert len(solver.answers) == 2
    assert tried.fit is solver.answers[0]
    assert_never_rises(tried)


@given(seed=seeds, n_classes=st.integers(2, 5))
@settings(max_examples=40)
def test_half_steps_equal_all_colorings_tried_and_a_machine_solved_elsewhere(seed: int, n_classes: int) -> None:
    """Every classifier is the best one of its coloring, every coloring the best one of its classifier."""
    node = Node(seed, n_classes)
    params = params_of(node.rng)
    watched = Watched(node.exact(params))
    problem = node.problem(params, watched)
    tried = alternate(problem, node.pair())
    costs = node.costs(params)
    slack = 1e-4 * (1 + float(costs.sum()))
    for place, (sides, start, found) in enumerate(watched.calls):
        assert start is None if place == 0 else start is watched.calls[place - 1][2]
        coloring = np.array([sides[node.labels == k][0] for k in range(n_classes)])
        reward = params.rho * float(costs[sides != 0].sum())
        value = naive.machine(node.values, sides, costs) - reward
        assert tried.objective[2 * place] == pytest.approx(value, abs=slack)
        assert tried.objective[2 * place] == pytest.approx(problem.value(found, coloring))
        least = naive.least_objective(found.margins, found.squared_norm, node.labels, costs, params.rho, params.balance)
        last = place + 1 == len(watched.calls)
        after = tried.value if last else tried.objective[2 * place + 1]
        assert after == pytest.approx(least, abs=1e-6 * (1 + float(costs.sum())))
    assert len(watched.calls) == tried.steps.count(SVM)


@given(seed=seeds, n_classes=st.integers(2, 9))
@settings(max_examples=60)
def test_active_classes_of_unforced_models_have_small_hinges(seed: int, n_classes: int) -> None:
    node = Node(seed, n_classes)
    params = params_of(node.rng, rho=float(node.rng.choice([0.2, 0.5, 0.8, 1.0])), balance=int(node.rng.integers(1, 9)))
    tried = alternate(node.problem(params), node.pair())
    assert len(tried.steps) < params.half_steps
    if tried.forced or abs(int(tried.coloring.astype(int).sum())) == params.balance:
        return
    for k in np.flatnonzero(tried.coloring):
        of_class = node.labels == k
        hinges = np.maximum(0, 1 - int(tried.coloring[k]) * tried.fit.margins[of_class])
        assert hinges.mean() <= params.rho + 1e-6


@given(seed=seeds, n_classes=st.integers(2, 6))
@settings(max_examples=40)
def test_forced_is_where_no_better_coloring_without_the_demand_has_both_signs(seed: int, n_classes: int) -> None:
    """A forced model: there is a coloring without one of the signs that costs less than all that have both."""
    node = Node(seed, n_classes)
    params = params_of(node.rng, rho=float(node.rng.choice([0.02, 0.2, 0.9])), balance=n_classes)
    tried = alternate(node.problem(params), node.pair())
    plus, minus = node.problem(params).costs(tried.fit)
    least = {True: np.inf, False: np.inf}
    for colors in itertools.product((-1, 0, 1), repeat=n_classes):
        both = 1 in colors and -1 in colors
        least[both] = min(least[both], coloring_value(plus, minus, np.array(colors)))
    gap = 1e-7 * (1 + np.abs(plus).sum() + np.abs(minus).sum())
    if abs(least[True] - least[False]) > gap:
        assert tried.forced == (least[False] < least[True])


def test_rows_that_cannot_be_told_apart_are_forced() -> None:
    node = Node(0, 5)
    node.values[:] = 1.0
    tried = alternate(node.problem(), node.pair())
    assert tried.forced
    assert tried.fit.squared_norm == pytest.approx(0, abs=1e-9)
    assert min(tried.n_positive, tried.n_negative) == 1


def test_classes_far_apart_are_all_colored_and_none_is_forced() -> None:
    node = Node(1, 6)
    node.values[:] = np.where(node.labels[:, None] % 2, 3.0, -3.0)
    coloring = np.array([1, -1, 0, 0, 0, 0], np.int8)
    tried = alternate(node.problem(), coloring)
    assert tried.coloring.tolist() == [1, -1, 1, -1, 1, -1]
    assert not tried.forced
    assert tried.steps == [SVM, COLORING, SVM]
    assert tried.support_score() == pytest.approx(2 * 0.5 * tried.fit.n_support / 3)


@given(seed=seeds, n_classes=st.integers(2, 8))
@settings(max_examples=30)
def test_the_support_score_is_equation_3(seed: int, n_classes: int) -> None:
    node = Node(seed, n_classes)
    tried = alternate(node.problem(params_of(node.rng)), node.pair())
    n_support = sum(1 for dual in tried.fit.duals if dual > 0)
    assert tried.support_score() == pytest.approx(naive.support_score(tried.coloring, n_support))


def test_half_steps_end_it_after_a_classifier() -> None:
    node = next(
        node for node in (Node(seed, 9) for seed in range(50)) if len(alternate(node.problem(), node.pair()).steps) >= 5
    )
    pair = node.pair()
    for most in (2, 3, 4, 5):
        tried = alternate(node.problem(replace(PARAMS, half_steps=most)), pair)
        assert len(tried.steps) <= most
        assert tried.steps[-1] == SVM
        assert_never_rises(tried)


@given(seed=seeds)
@settings(max_examples=20)
def test_a_first_coloring_out_of_balance_is_mended(seed: int) -> None:
    node = Node(seed, 7)
    coloring = np.ones(7, np.int8)
    coloring[node.rng.integers(7)] = -1
    problem = node.problem(replace(PARAMS, balance=1))
    tried = alternate(problem, coloring)
    assert_consistent(problem, tried)
    for before, after in pairwise(tried.objective[2:]):
        assert after <= before + 1e-7 * (1 + abs(before))


def test_a_coloring_step_that_is_not_exact_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    def worst(plus: np.ndarray, minus: np.ndarray, balance: int) -> np.ndarray:
        found = list(naive.colorings(plus.size, balance))
        return max(found, key=lambda coloring: coloring_value(plus, minus, coloring))

    monkeypatch.setattr(module, "best_coloring", worst)
    node = Node(1, 5)
    with pytest.raises(ObjectiveRose):
        alternate(node.problem(), node.pair())


@pytest.mark.parametrize("seed", range(6))
def test_the_linear_solver_never_makes_it_rise_either(seed: int) -> None:
    """It stops at a duality gap, starts from the classifier before, and comes near to the exact one's first value."""
    node, params = Node(seed, 8), replace(PARAMS, rho=0.6)
    solver = LinearSolver(Dense(node.values), node.costs(params), np.random.default_rng(seed), tolerance=1e-3)
    coloring = node.pair()
    problem = node.problem(params, solver)
    tried = alternate(problem, coloring)
    assert_never_rises(tried)
    assert_consistent(problem, tried)
    first = alternate(node.problem(replace(params, half_steps=2)), coloring)
    reward = params.rho * params.cost * float(node.counts[coloring != 0].sum())
    assert tried.objective[0] + reward == pytest.approx(first.value + reward, rel=0.01)
    again = alternate(problem, coloring)
    assert (again.value, again.coloring.tolist()) == (tried.value, tried.coloring.tolist())
