"""Rank-one descent (R1D): add the steepest atoms, re-weigh all of them, until (C1) and (C2) hold.

Harchaoui, Douze, Paulin, Dudik, Malick 2012, section 4.1. One pass over the rows an iteration, for the gradient G of
the smooth part; the line search and the restricted problem (8) work on kept projections.

(C1) |G|_2 <= lambda1 + eps; (C2) |u_j.G v_j + lambda1| <= eps for every theta_j > 0. Together I(theta) - J* <=
eps (sum(theta) + |W*|_*), and the duality gap is about 2 eps sum(theta): without an epsilon of its own the descent
takes the one for which that is the gap that is asked for, and tightens it where it did not do.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from tasks.errors import ParamError
from tasks.rows.base import Array
from tasks.trace.atoms import Atoms, atoms_of_factors, merged, no_atoms, penalty_over, slopes
from tasks.trace.balance import log_shares
from tasks.trace.centred import CentredRisk
from tasks.trace.certificate import balanced_sums, certify, gap_of, relative
from tasks.trace.line_search import LARGER, armijo
from tasks.trace.objective import CUT, factors_of, singular_values
from tasks.trace.point import Point
from tasks.trace.proximal import Proximal
from tasks.trace.restricted import bias_unit, solve_restricted
from tasks.trace.risk import Risk, RiskSums
from tasks.trace.singular import Pairs, top_pairs
from tasks.trace.solution import Penalty, Record, Solution, SolverParams, Watch

LOOSE = 0.5  # epsilon is at most this times lambda1 (or, with lambda1 = 0, the first |G|_2)
TIGHTER = 0.3  # of epsilon, when (C1) and (C2) hold and the gap is not reached
STUCK = 10  # iterations in a row without progress, after which floats allow no more
LESS = 0.95  # of the least gap so far is progress
BLIND = 1e-10  # of the objective: a smaller decrease than this is not seen in its values, only in its derivatives
ROUGH = 0.1  # of the largest -g_j: tolerance of the restricted problem while atoms are missing
TURNING = 1.0  # the same where the atoms turn: then more is gained by the next turn
NOISE = 1e-13  # of the objective: less is no descent


@dataclass(frozen=True, slots=True)
class DescentParams:
    """How rank-one descent goes about it; every choice ends at the same optimum.

    atoms_per_pass    singular pairs of -G that may join in an iteration; 1: the paper's algorithm
    restricted_every  solve (8) after every so many added atoms' steps; 0: in step 4 only, the paper's box
    proximal          let the singular pairs of a proximal step from W join as well, which turn those of W, and make the
                      atoms the singular pairs of W after each restricted problem; False: the paper's algorithm
    """

    atoms_per_pass: int = 8
    restricted_every: int = 1
    proximal: bool = True

    def __post_init__(self) -> None:
        if self.atoms_per_pass < 1:
            raise ParamError("trace-norm.atoms_per_pass", self.atoms_per_pass, "at least 1", "atoms must join")
        if self.restricted_every < 0:
            raise ParamError("trace-norm.restricted_every", self.restricted_every, "at least 0", "it counts iterations")


BEST = DescentParams()


def atom_descent(
    risk: Risk,
    penalty: Penalty,
    params: SolverParams,
    bias: bool,
    start: Point | None,
    watch: Watch,
    how: DescentParams = BEST,
) -> Solution:
    """Minimise J by rank-one descent; see `Solver`. `iterations` counts its own passes, not those of the certificate.

    Ends without convergence after params.max_iterations passes, or when the risk's floats allow no more descent.
    """
    if not bias:
        return _Descent(risk, penalty, params, watch, how).run(_first_atoms(risk, bias, start))
    centred = CentredRisk(risk, risk.mean())
    first = _first_atoms(centred, bias, centred.to_centred(start) if start is not None else None)
    return _Descent(centred, penalty, params, watch, how).run(first)


def _first_atoms(risk: Risk, bias: bool, start: Point | None) -> Atoms:
    """The singular vectors of the start's weights; its bias, or the best for W = 0 where one is wanted and missing."""
    offset = log_shares(risk.counts) if bias else None
    if start is None:
        return no_atoms(risk, offset)
    if bias and start.bias is not None:
        offset = start.bias
    factors = factors_of(start)
    return atoms_of_factors(risk, factors, offset) if factors.rank else no_atoms(risk, offset)


@dataclass(frozen=True, eq=False)
class _Look:
    """What one pass over the rows tells of the atoms in hand.

    pairs   leading singular pairs of -G (step 1); rising: g_j = lambda1 - sigma_j of each (step 2)
    slopes  u_j.G v_j + lambda1 of the atoms, and the derivatives in the bias by its unit, if any
    """

    epsilon: float
    objective: float
    gap: float
    weights: Array
    smooth: Array
    pairs: Pairs
    rising: Array
    slopes: Array

    @property
    def first(self) -> bool:
        """(C1), as far as step 4 asks for it."""
        return not self.rising.size or bool(self.rising[0] > -self.epsilon / 2)

    @property
    def second(self) -> bool:
        """(C2)."""
        return bool(np.abs(self.slopes).max(initial=0.0) <= self.epsilon)


class _Descent:
    """The state of one run."""

    def __init__(self, risk: Risk, penalty: Penalty, params: SolverParams, watch: Watch, how: DescentParams) -> None:
        self.risk, self.penalty, self.params, self.watch, self.how = risk, penalty, params, watch, how
        self.history: list[Record] = []
        self.iterations = self.restricted = self.evaluations = 0
        self.tightness, self.scale = 1.0, penalty.lambda1
        self.length, self.since = 0.0, 0
        self.proximal = Proximal(penalty.lambda1)
        self.best, self.least, self.stuck = float("inf"), float("inf"), 0

    def run(self, atoms: Atoms) -> Solution:
        """Steps (1) to (4) until the criterion is met, or nothing more can be done."""
        while True:
            look = self.look(atoms)
            if self.promising(look):
                found = self.solution(atoms)
                if found.converged:
                    return found
            while look.first and look.second and look.epsilon > NOISE * self.scale:
                self.tightness *= TIGHTER
                look = replace(look, epsilon=TIGHTER * look.epsilon)
            if self.iterations >= self.params.max_iterations or self.stuck >= STUCK:
                return self.solution(atoms)
            atoms = self.step(atoms, look)

    def look(self, atoms: Atoms) -> _Look:
        """One pass over the rows; two when the gap of a model with a bias is about to be reached."""
        sums = self.risk.gradient(atoms.point)
        self.iterations += 1
        weights = atoms.weights
        smooth = sums.gradient + 2 * self.penalty.lambda2 * weights
        objective = penalty_over(atoms, self.penalty) + sums.loss
        self.scale = self.scale or float(np.linalg.norm(smooth))
        epsilon = self.epsilon(atoms, objective)
        pairs = top_pairs(-smooth, self.how.atoms_per_pass, epsilon / 2)
        rising = self.penalty.lambda1 - pairs.values
        slope = slopes(atoms, smooth, self.penalty)
        slope = (
            slope
            if atoms.bias is None
            else np.concatenate([slope, bias_unit(self.risk.n_classes, self.proximal.length or 1.0) * sums.bias])
        )
        gap = self.gap(sums, atoms, objective)
        self.progress(objective, gap)
        look = _Look(epsilon, objective, gap, weights, smooth, pairs, rising, slope)
        self.note(atoms, look)
        return look

    def progress(self, objective: float, gap: float) -> None:
        """Count iterations that end in a restricted problem and neither lower the objective nor the gap."""
        if self.since:
            return
        better = objective < self.best - NOISE * objective or gap < LESS * self.least
        self.stuck = 0 if better else self.stuck + 1
        self.best, self.least = min(self.best, objective), min(self.least, gap)

    def gap(self, sums: RiskSums, atoms: Atoms, objective: float) -> float:
        """The duality gap: with a bias, of a balanced dual point once the plain one says that it may be reached."""
        gap = gap_of(sums, objective, self.penalty, None if atoms.bias is None else self.risk.counts)
        if atoms.bias is None or self.params.epsilon is not None or relative(gap, objective) > self.params.gap:
            return gap
        self.iterations += 1
        return gap_of(balanced_sums(self.risk, atoms.point), objective, self.penalty)

    def epsilon(self, atoms: Atoms, objective: float) -> float:
        """That of the params, or the one at which the gap is expected to be reached; tighter where that did not do."""
        if self.params.epsilon is not None:
            return self.tightness * self.params.epsilon
        total = float(atoms.theta.sum())
        expected = self.params.gap * objective / (2 * total) if total else float("inf")
        return self.tightness * min(expected, LOOSE * self.scale)

    def note(self, atoms: Atoms, look: _Look) -> None:
        """One record for whoever watches."""
        values = singular_values(atoms.point)
        record = {
            "iteration": float(self.iterations),
            "objective": look.objective,
            "gap": look.gap,
            "rank": float(np.count_nonzero(values > CUT * values.max(initial=0.0))),
            "atoms": float(atoms.size),
            "step": self.length,
            "epsilon": look.epsilon,
            "restricted": float(self.restricted),
            "evaluations": float(self.evaluations),
        }
        self.history.append(record)
        self.watch(record)

    def step(self, atoms: Atoms, look: _Look) -> Atoms:
        """Step 3 where an atom descends enough; step 4, or the regular re-weighing of all atoms, by problem (8)."""
        turning = self.how.proximal and self.proximal.learn(look.weights, look.smooth)
        if turning:
            atoms = self.turn(atoms, look)
        elif not look.first:
            atoms, length = self.add(atoms, look)
            self.since += 1
            if length and (not self.how.restricted_every or self.since < self.how.restricted_every):
                return atoms
        return self.reweigh(atoms, look)

    def add(self, atoms: Atoms, look: _Look) -> tuple[Atoms, float]:
        """Step 3: the pairs with g_j <= -epsilon / 2 join, each in proportion to -g_j, as far as Armijo allows."""
        count = int(np.count_nonzero(look.rising <= -look.epsilon / 2))
        change = np.concatenate([np.zeros(atoms.size), -look.rising[:count]])
        change /= np.linalg.norm(change)
        atoms = atoms.joined(self.risk, look.pairs.u[:, :count], look.pairs.v[:, :count])
        slope = float(change[atoms.size - count :] @ look.rising[:count])
        first = LARGER * self.length if self.length else look.objective / -slope
        step = armijo(self.risk, atoms, change, self.penalty, look.objective, slope, first)
        self.evaluations += step.calls
        self.length = step.length or self.length
        self.proximal.guess(step.length / -slope)
        return atoms.with_values(atoms.theta + step.length * change, atoms.bias), step.length

    def turn(self, atoms: Atoms, look: _Look) -> Atoms:
        """The pairs of the proximal step join, and as many of -G as in step 3; a step from W towards it by Armijo."""
        pairs = self.proximal.pairs(look.weights, look.smooth, atoms.size + self.how.atoms_per_pass)
        count = int(np.count_nonzero(look.rising <= -look.epsilon / 2))
        old, new = atoms.size, pairs.values.size
        change = np.concatenate([-atoms.theta, pairs.values, np.zeros(count)])
        u, v = np.hstack([pairs.u, look.pairs.u[:, :count]]), np.hstack([pairs.v, look.pairs.v[:, :count]])
        if not u.shape[1]:
            return atoms
        ahead = slopes(pairs, look.smooth, self.penalty)
        slope = float(change @ np.concatenate([look.slopes[:old], ahead, np.zeros(count)]))
        atoms = atoms.joined(self.risk, u, v)
        if not new or slope >= 0:
            return atoms
        share = 1.0
        if -slope > BLIND * look.objective:
            step = armijo(self.risk, atoms, change, self.penalty, look.objective, slope, 1.0)
            self.evaluations += step.calls
            share = step.length
        self.length = self.proximal.tried(share)
        return atoms.with_values(np.maximum(atoms.theta + share * change, 0.0), atoms.bias)

    def reweigh(self, atoms: Atoms, look: _Look) -> Atoms:
        """Problem (8), roughly as long as atoms are missing that promise more."""
        self.since = 0
        missing = float(-look.rising[0]) if look.rising.size else 0.0
        rough = TURNING if self.how.proximal else ROUGH
        tolerance = max(look.epsilon / 2, rough * missing)
        found = solve_restricted(self.risk, atoms, self.penalty, tolerance, self.proximal.length or 1.0)
        self.restricted += 1
        self.evaluations += found.evaluations
        return merged(self.risk, found.atoms) if self.how.proximal else found.atoms

    def promising(self, look: _Look) -> bool:
        """Whether the certificate is worth its passes."""
        if self.params.epsilon is None:
            return relative(look.gap, look.objective) <= self.params.gap
        return look.first and look.second

    def solution(self, atoms: Atoms) -> Solution:
        """Judged by its certificate: (C2) there is of the singular vectors, which is more than of the atoms."""
        risk, point = self.risk, atoms.point
        if isinstance(self.risk, CentredRisk):
            risk, point = self.risk.risk, self.risk.to_rows(point)
        factors = factors_of(point)
        found = certify(risk, factors, point.bias, self.penalty)
        epsilon = self.params.epsilon
        good = found.relative_gap <= self.params.gap if epsilon is None else max(found.c1, found.c2) <= epsilon
        counts = (self.iterations, self.restricted, self.evaluations)
        return Solution(point, factors, point.bias, found, self.history, *counts, good)
