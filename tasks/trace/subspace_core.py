"""The restricted problem: the best core and bias over a fixed basis, by sub-sampled proximal Newton.

min over C, b of lambda1 |C|_* + lambda2 |C|_F^2 + R_n(U C, b), U orthonormal, so that |U C|_* = |C|_*. Only kept
projections are asked of the risk, some tens of times. Lee, Sun & Saunders 2014 ("Proximal Newton-type methods") give
the step and its line search; the metric is `tasks.trace.subspace_model`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tasks.rows.base import Array
from tasks.trace.objective import penalty_of
from tasks.trace.point import Point
from tasks.trace.proximal_newton import minimise_model
from tasks.trace.risk import Risk, RiskSums
from tasks.trace.singular import thin_svd
from tasks.trace.solution import Penalty
from tasks.trace.subspace_model import Curvature

SHORTER = (0.5, 0.2, 0.05, 0.01, 0.001)  # steps tried at once where the whole one does not descend
ARMIJO = 1e-3  # share of the promised descent that has to come
STRONGER, WEAKER = 2.0, 0.6  # the model's strength where a whole step failed; where it kept its promise
ROUGH = (0.1, 0.02)  # of the model's first step: where its solution ends; the second one near the optimum
INNER_STEPS = 100


@dataclass(frozen=True, eq=False)
class Core:
    """A point with what the risk says of it: sums of `Risk.evaluate`, J, and the trace norm's singular values."""

    point: Point
    sums: RiskSums
    objective: float
    values: Array


@dataclass(frozen=True, eq=False)
class Found:
    """core: the best found; evaluations: sums over kept projections; step: the last; steady: it met the tolerance"""

    core: Core
    evaluations: int
    step: float
    steady: bool


def expected_gap(gradient: Array, core: Array, values: Array, objective: float, penalty: Penalty) -> float:
    """What the duality gap is about to be: exact to first order at the optimum, from the loss's gradient in the core.

    D at q = e_y + t (p - e_y) is near t = 1 about D(1) + (1 - t) <G, W>, whence J - D is about
    Omega(W) + t <G, W> + Omega*(t G) (a Fenchel gap); t = min(1, lambda1 / |G|_2) serves lambda2 = 0, and the best of
    that and 1 any other.
    """
    along = float(np.vdot(gradient, core))
    slopes = thin_svd(gradient)[1] if gradient.size else np.zeros(0)
    largest = float(slopes.max(initial=0.0))
    own = penalty_of(values, penalty)
    shrink = 1.0 if largest <= penalty.lambda1 else penalty.lambda1 / largest
    gaps = [own + shrink * along + (1.0 - shrink) ** 2 * objective]
    if penalty.lambda2 > 0:
        over = np.maximum(0.0, slopes - penalty.lambda1)
        gaps.append(own + along + float(np.vdot(over, over)) / (4 * penalty.lambda2))
    return max(0.0, min(gaps))


class CoreSearch:
    """Proximal Newton on one basis.

    curvature  the model, on this basis
    """

    def __init__(self, risk: Risk, penalty: Penalty, curvature: Curvature, noise: float) -> None:
        self.risk, self.penalty, self.curvature, self.noise = risk, penalty, curvature, noise
        self.shares = np.maximum(risk.counts, 1) / max(1, risk.n_rows)
        self.evaluations = 0

    def run(self, point: Point, tolerance: float, most: int) -> Found:
        """From the point until the expected gap is `tolerance` of the objective, at most `most` steps."""
        here, step = self.at(point), 1.0
        for _ in range(most):
            if self.gap(here) <= tolerance * here.objective:
                return Found(here, self.evaluations, step, True)
            there, step = self.advance(here)
            if there is None:
                return Found(here, self.evaluations, step, False)
            here = there
        return Found(here, self.evaluations, step, self.gap(here) <= tolerance * here.objective)

    def at(self, point: Point) -> Core:
        self.evaluations += 1
        sums = self.risk.evaluate(point)
        values = thin_svd(point.core)[1] if point.core.size else np.zeros(0)
        return Core(point, sums, penalty_of(values, self.penalty) + sums.loss, values)

    def gap(self, core: Core) -> float:
        """See `expected_gap`."""
        bias_gap = 0.0 if core.point.bias is None else 0.5 * float(np.sum(np.square(core.sums.bias) / self.shares))
        return bias_gap + expected_gap(core.sums.gradient, core.point.core, core.values, core.objective, self.penalty)

    def advance(self, here: Core) -> tuple[Core | None, float]:
        """One step of proximal Newton; None where no step descends by more than the noise of the sums."""
        curvature, rank = self.curvature, here.point.basis.rank
        curvature.at(here.point)
        gradient = curvature.coordinates.gradient(here.sums, here.point.core, 2 * self.penalty.lambda2)
        stacked = curvature.coordinates.stacked(here.point.core)
        end = minimise_model(
            stacked, gradient, curvature, curvature.largest(), self.penalty.lambda1, rank, ROUGH[0], INNER_STEPS
        )
        change = end - stacked
        values = thin_svd(end[:rank])[1]
        promise = float(np.vdot(gradient, change)) + self.penalty.lambda1 * float(values.sum() - here.values.sum())
        direction = curvature.coordinates.direction(change)
        there = self.at(here.point.moved(direction, 1.0))
        if there.objective <= here.objective + ARMIJO * promise:
            kept = here.objective - there.objective > 0.5 * -promise * 0.5
            curvature.strength = max(1.0, WEAKER * curvature.strength) if kept else curvature.strength
            return there, 1.0
        if -promise <= self.noise * here.objective:
            return None, 0.0
        curvature.strength *= STRONGER
        losses = self.risk.losses(here.point, direction, SHORTER)
        self.evaluations += 1
        totals = [
            loss + penalty_of(thin_svd(here.point.core + step * direction.core)[1], self.penalty)
            for step, loss in zip(SHORTER, losses, strict=True)
        ]
        best = int(np.argmin(totals))
        if totals[best] >= here.objective - self.noise * here.objective:
            return None, 0.0
        return self.at(here.point.moved(direction, SHORTER[best])), SHORTER[best]
