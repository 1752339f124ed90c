"""Problem (8) of Harchaoui et al. 2012: the best weights theta >= 0 of given atoms, and the bias with them.

Solved by L-BFGS-B on kept projections, so that no row is read. Its own test of convergence passes coordinates whose
theta is below the tolerance while their derivative is large, which (C2) does not (SPECS section 3, reading 5): these
are set to zero, and the rest is solved again.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tasks.rows.base import Array
from tasks.trace.atoms import Atoms
from tasks.trace.risk import Risk
from tasks.trace.solution import Penalty

ROUNDS = 6  # of clamping and solving again
MEMORY = 20  # corrections that L-BFGS-B keeps
STEEPER = 3.0  # the derivatives in the bias are held to this much less than is balanced


@dataclass(frozen=True, eq=False)
class Restricted:
    """What solving (8) came to.

    atoms        those of positive weight
    objective    I(theta) = lambda1 sum(theta) + lambda2 |W|_F^2 + R_n
    violation    largest |derivative| where theta > 0 and in the bias by its unit, largest -derivative where theta = 0
    evaluations  of the risk on kept projections
    """

    atoms: Atoms
    objective: float
    violation: float
    evaluations: int


def bias_unit(n_classes: int, length: float) -> float:
    """What a derivative g in the bias is multiplied by to be compared with those in theta.

    A derivative g in theta costs about g^2 length, one in the bias g^2 n_classes: curvatures are their inverses.
    """
    return STEEPER * float(np.sqrt(n_classes / length))


class _Problem:
    """I as a function of theta and the bias in one vector x, each in a unit in which I curves alike, for L-BFGS-B."""

    def __init__(self, risk: Risk, atoms: Atoms, penalty: Penalty, length: float) -> None:
        self.risk, self.atoms, self.penalty = risk, atoms, penalty
        self.unit = float(np.sqrt(length))
        self.stretch = self.unit * bias_unit(risk.n_classes, length)
        self.quadratic = penalty.lambda2 * atoms.quadratic() if penalty.lambda2 else None
        self.evaluations = 0

    def start(self) -> Array:
        theta, bias = self.atoms.theta / self.unit, self.atoms.bias
        return np.asarray(theta) if bias is None else np.concatenate([theta, bias / self.stretch])

    def split(self, x: Array) -> Atoms:
        size = self.atoms.size
        return self.atoms.with_values(
            self.unit * x[:size], None if self.atoms.bias is None else self.stretch * x[size:]
        )

    def __call__(self, x: Array) -> tuple[float, Array]:
        """(I, its gradient)."""
        self.evaluations += 1
        atoms = self.split(x)
        sums = self.risk.evaluate(atoms.point)
        slope = np.einsum("rj,rj->j", atoms.mix, sums.gradient @ atoms.v) + self.penalty.lambda1
        value = sums.loss + self.penalty.lambda1 * float(atoms.theta.sum())
        if self.quadratic is not None:
            turned = self.quadratic @ atoms.theta
            value += float(atoms.theta @ turned)
            slope += 2 * turned
        slope *= self.unit
        return value, slope if atoms.bias is None else np.concatenate([slope, self.stretch * sums.bias])


def solve_restricted(
    risk: Risk, atoms: Atoms, penalty: Penalty, tolerance: float, length: float = 1.0, limit: int = 500
) -> Restricted:
    """An eps-solution of (8) from the theta and bias in hand, eps = `tolerance`: |derivative| <= eps where theta > 0.

    length  about that of a gradient step in theta, the inverse of I's curvature: what tells small theta from large;
            derivatives in the bias are held to tolerance / bias_unit
    limit   evaluations of the risk at most; like the floats of the risk, it may end the search before: see `violation`

    Atoms of weight zero are dropped, those of the start as well if they have not gained any.
    """
    spent, objective, violation = 0, float("inf"), float("inf")
    for _ in range(ROUNDS):
        problem = _Problem(risk, atoms, penalty, length)
        x, objective, gradient = _minimise(problem, tolerance, max(1, limit - spent))
        spent += problem.evaluations
        atoms, slope = problem.split(x), gradient[: atoms.size]
        violation = _violation(atoms.theta, gradient)
        clamped = (atoms.theta > 0) & (atoms.theta <= length * tolerance) & (slope > tolerance)
        atoms = atoms.with_values(np.where(clamped, 0.0, atoms.theta), atoms.bias)
        atoms = atoms.kept(atoms.theta > 0)
        if not clamped.any() or spent >= limit:
            break
    return Restricted(atoms, objective, violation, spent)


def _minimise(problem: _Problem, tolerance: float, limit: int) -> tuple[Array, float, Array]:
    """(x, I, derivatives in theta and by its unit in the bias) where L-BFGS-B ended.

    That is: within `tolerance`, at the limit, or where floats allow no descent.
    """
    from scipy.optimize import minimize  # slow to load, for whoever solves no such problem

    start, size = problem.start(), problem.atoms.size
    if not start.size:
        return start, *problem(start)
    bounds = [(0.0, None)] * size + [(None, None)] * (start.size - size)
    options = {"gtol": problem.unit * tolerance, "ftol": 0.0, "maxfun": limit, "maxiter": limit, "maxcor": MEMORY}
    found = minimize(problem, start, jac=True, method="L-BFGS-B", bounds=bounds, options=options)
    return np.asarray(found.x), float(found.fun), np.asarray(found.jac) / problem.unit


def _violation(theta: Array, gradient: Array) -> float:
    slope = gradient[: theta.size]
    broken = np.where(theta > 0, np.abs(slope), np.maximum(0.0, -slope))
    return float(max(broken.max(initial=0.0), np.abs(gradient[theta.size :]).max(initial=0.0)))
