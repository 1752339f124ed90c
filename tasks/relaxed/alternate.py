"""One node: coloring of its classes and classifier in turn (Gao & Koller 2011, equations 1 and 2).

    min  1/2 |w|^2 + C sum over active rows of their hinge - A (number of active rows),  A = rho C

over the classifier and the coloring, with |sum of colors| <= B and a class of each sign. With the coloring fixed this
is a binary support vector machine; with the classifier fixed it is the coloring step. Neither step makes the objective
larger: a solver's answer that is no better than the classifier before it is not taken.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from tasks.relaxed.coloring import best_coloring, coloring_costs, coloring_value, signs_bind, unforced
from tasks.rows.base import Array
from tasks.svm.solver import BinarySolver, Halfspace

SVM, COLORING = "svm", "coloring"  # kinds of half steps
ROUNDING = 1e-9  # of an objective, relative to the largest of its parts


@dataclass(frozen=True)
class ColoringParams:
    """C, rho = A / C and B of equation (1); half steps at most."""

    cost: float
    rho: float
    balance: int
    half_steps: int


@dataclass(frozen=True, eq=False)
class NodeProblem:
    """Rows of a node with a solver on them.

    labels  (n,) int32 in 0 ... K - 1; weights (n,) float32: rows that a row stands for; counts (K,) of all rows
    """

    solver: BinarySolver
    labels: Array
    weights: Array
    counts: Array
    params: ColoringParams

    def value(self, fit: Halfspace, coloring: Array) -> float:
        """The objective (1)."""
        sides = coloring[self.labels]
        reward = self.params.rho * self.params.cost * float(self.counts[coloring != 0].sum())
        return fit.objective(sides, self.solver.costs) - reward

    def costs(self, fit: Halfspace) -> tuple[Array, Array]:
        """What a class costs as +1, and as -1, by a classifier."""
        weights, n_classes = self.weights.astype(np.float64), self.counts.size
        plus, minus = (
            np.bincount(self.labels, weights * np.maximum(0.0, 1.0 - sign * fit.margins), minlength=n_classes)
            for sign in (1.0, -1.0)
        )
        return coloring_costs(plus, minus, self.counts, self.params.cost, self.params.rho)


@dataclass(frozen=True, eq=False)
class Tried:
    """Where one initial coloring has led.

    coloring   (K,) int8; fit: its classifier; value: of the objective
    forced     whether the demand for a class of each sign had to color one that gains nothing by it
    objective  the value after each half step; steps: which these were
    """

    coloring: Array
    fit: Halfspace
    value: float
    forced: bool
    objective: list[float] = field(default_factory=list)
    steps: list[str] = field(default_factory=list)

    @property
    def n_positive(self) -> int:
        return int((self.coloring > 0).sum())

    @property
    def n_negative(self) -> int:
        return int((self.coloring < 0).sum())

    def support_score(self) -> float:
        """Mean number of support vectors that it costs to rule out a class (equation 3)."""
        plus, minus, support = self.n_positive, self.n_negative, self.fit.n_support
        return (minus * support / plus + plus * support / minus) / (plus + minus)


class ObjectiveRose(AssertionError):
    """A half step has made the objective larger: a coloring step that is not exact."""


def alternate(problem: NodeProblem, coloring: Array) -> Tried:
    """Both steps in turn from an initial coloring (K,) int8 with both signs, until it stays or steps are used up."""
    params = problem.params
    fit: Halfspace | None = None
    value = np.inf
    objective, steps = list[float](), list[str]()
    while True:
        solved = problem.solver.solve(coloring[problem.labels], fit)
        found = problem.value(solved, coloring)
        if fit is None or found <= value:
            fit, value = solved, found
        objective.append(value)
        steps.append(SVM)
        plus, minus = problem.costs(fit)
        if len(steps) + 2 > params.half_steps:
            break
        best = best_coloring(plus, minus, params.balance)
        found = 0.5 * fit.squared_norm + coloring_value(plus, minus, best)
        before = 0.5 * fit.squared_norm + coloring_value(plus, minus, coloring)
        within = params.balance >= abs(int(coloring.astype(int).sum()))
        if within and found > before + ROUNDING * max(1.0, float(np.abs(plus).sum() + np.abs(minus).sum())):
            raise ObjectiveRose(f"coloring step: {before!r} to {found!r}")
        if np.array_equal(best, coloring) or (within and found >= before):
            break
        coloring, value = best, found
        objective.append(value)
        steps.append(COLORING)
    return Tried(coloring, fit, value, is_forced(plus, minus, coloring, params.balance), objective, steps)


def is_forced(plus: Array, minus: Array, coloring: Array, balance: int) -> bool:
    """Whether a class of this coloring is there only because there must be one of each sign (SPECS 4, reading 2).

    Active classes that gain nothing may also be there for the balance alone, among many that gain: that is no sign of a
    node that is hard to part.
    """
    return signs_bind(plus, minus, balance) and not unforced(plus, minus, coloring)
