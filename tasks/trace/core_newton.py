"""The restricted problem by Newton steps on factors of the core, where all rows are at hand in this process.

C = P Q', and |C|_* is the least of (|P|_F^2 + |Q|_F^2) / 2 (Srebro, Rennie & Jaakkola 2004), so that what is left to
minimise is smooth in P, Q and the bias. It has minima that are not the problem's only where P and Q have too few
columns; pairs of the gradient above lambda1 join with the length that the curvature gives them.

Where penalties are weak, the problem is flat in many directions and an accelerated gradient method needs hundreds of
sums over the rows; here a step is one sum, and ten to twenty products with the Hessian (`tasks.trace.curvature`), over
the rows that are not settled.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tasks.later import later
from tasks.rows.base import Array
from tasks.trace.balance import missed_by_bias
from tasks.trace.core_search import Coordinates, Found, expected_gap
from tasks.trace.curvature import Change, Curvature, Scaling, curvature_at, moved, newton_step
from tasks.trace.objective import penalty_of
from tasks.trace.point import Point
from tasks.trace.risk import LocalRisk, Risk, RiskSums, project
from tasks.trace.singular import thin_svd
from tasks.trace.solution import Penalty

linalg = later("scipy.linalg")

ACCURACY, PRODUCTS = 0.4, 40  # of a Newton step: of its residual; products with the Hessian at most
JOINING, STEEPER = 64, 1.0001  # pairs that join a step at most, and over lambda1 their values at least
FLAT = 1e-6  # of the rows' mean square: the curvature along a pair that joins is taken to be this at least
VANISHED = 1e-5  # share of the largest singular value below which one is zero
DROPPED = 1e-3  # share of the gap asked for that small singular values may cost the objective in the end
SHORTER, SHORTEST = 0.4, 1e-2  # of steps that do not descend
STALLED, BETTER = 3, 0.9  # steps in a row that end it, which neither descend nor bring the gap to this share
CELLS = 1 << 25  # projections and probabilities of all rows, those and a row's turn, that a search may hold
NOISE = 4.0  # descent is seen in the objective down to this many units of rounding of the scores


def affordable(n_rows: int, rank: int, n_classes: int) -> bool:
    """Whether a search on a basis of this rank fits into CELLS."""
    return n_rows * (rank + 2 * n_classes) <= CELLS


def most_bytes(n_rows: int, n_features: int, n_classes: int) -> int:
    """What a search holds at most, of float32 rows: all that is affordable, and the rows that weigh once more."""
    return 2 * 4 * min(n_rows * (n_features + 2 * n_classes), CELLS) if affordable(n_rows, 0, n_classes) else 0


@dataclass(frozen=True, eq=False)
class _Look:
    """What one sum says of factors: the point and its core, objective, expected gap, and the risk's gradient.

    at        P, Q and the bias of centred rows
    gradient  (rank, n_classes) of the smooth part in the core; bias: in the bias, (0,) without one
    """

    at: Change
    point: Point
    core: Array
    value: float
    gap: float
    gradient: Array
    bias: Array


class CoreNewton:
    """A search on one basis; whole: all rows of the risk."""

    def __init__(self, risk: Risk, penalty: Penalty, coordinates: Coordinates, whole: LocalRisk) -> None:
        self.risk, self.penalty, self.coordinates = risk, penalty, coordinates
        self.with_bias = coordinates.mean is not None
        self.ridge = 2 * penalty.lambda2
        self.z = project(whole.rows, coordinates.basis, whole.dtype)
        if coordinates.mean is not None:
            self.z -= coordinates.mean.astype(self.z.dtype)
        self.noise = NOISE * float(np.finfo(self.z.dtype).eps)
        squares = np.einsum("ij,ij->", self.z, self.z, dtype=np.float64)
        self.reach = float(np.sqrt(squares / max(1, len(self.z)))) or 1.0
        self.evaluations = 0

    def run(self, point: Point, tolerance: float, most: int) -> Found:
        """From the point until the expected gap is `tolerance` of the objective; at most so many evaluations.

        Ends unsteadily where no step descends: near the floats' end.
        """
        rank = self.coordinates.basis.rank
        stacked = self.coordinates.stacked(point)
        bias = stacked[rank] * self.coordinates.length if self.with_bias else np.zeros(0)
        here = best = self.look((*balanced(stacked[:rank]), bias))
        lowest, stalled = here.value, 0
        while best.gap > tolerance * best.value and self.evaluations < most and stalled < STALLED:
            there = self.step(here)
            if there is None:
                break
            progress = there.value < lowest * (1 - self.noise) or there.gap < BETTER * best.gap
            stalled = 0 if progress else stalled + 1
            here, lowest = there, min(lowest, there.value)
            best = there if there.value < best.value * (1 - self.noise) or there.gap < best.gap else best
        steady = best.gap <= tolerance * best.value
        return Found(self.trimmed(best, tolerance), 0.0, self.evaluations, steady)

    def look(self, at: Change) -> _Look:
        """One sum over the rows."""
        core = at[0] @ at[1].T
        point = self.point(core, at[2])
        sums = self.risk.evaluate(point)
        self.evaluations += 1
        stacked = self.coordinates.gradient(sums, core, self.ridge)
        rank = self.coordinates.basis.rank
        in_bias = stacked[rank] / self.coordinates.length if self.with_bias else np.zeros(0)
        value = sums.loss + self.penalty.lambda2 * float(np.vdot(core, core)) + self.length(at)
        return _Look(at, point, core, value, self.gap(sums, core), stacked[:rank], in_bias)

    def point(self, core: Array, bias: Array) -> Point:
        return self.coordinates.point(np.vstack([core, bias / self.coordinates.length]) if self.with_bias else core)

    def length(self, at: Change) -> float:
        """lambda1 (|P|^2 + |Q|^2) / 2, at least lambda1 |P Q'|_*."""
        return 0.5 * self.penalty.lambda1 * (float(np.vdot(at[0], at[0])) + float(np.vdot(at[1], at[1])))

    def gap(self, sums: RiskSums, core: Array) -> float:
        values = linalg.svdvals(core, check_finite=False) if core.size else np.zeros(0)
        bias = missed_by_bias(sums.bias, self.risk.counts) if self.with_bias else 0.0
        return expected_gap(sums.gradient, core, values, sums.loss, self.penalty) + bias

    def step(self, here: _Look) -> _Look | None:
        """Where a Newton step leads, shortened until it descends; None where it does not."""
        curvature = curvature_at(self.z, here.core, here.at[2], self.ridge, self.with_bias)
        start, gradient, in_bias = self.joined(here, curvature)
        size = here.at[0].shape[1]
        change = self.direction(start, gradient, in_bias, curvature)
        length = 1.0
        while length > SHORTEST:
            p, q, bias = moved(start, length, change)
            p[:, size:], q[:, size:] = np.sqrt(length) * p[:, size:], np.sqrt(length) * q[:, size:]
            if self.holds(p, q, bias):
                there = self.look((p, q, bias))
                if there.value <= here.value * (1 + self.noise):
                    return self.rebalanced(there)
            length *= SHORTER
        return None

    def holds(self, *sides: Array) -> bool:
        """Whether the floats of the rows hold factors of these lengths, and their products."""
        largest = np.sqrt(np.finfo(self.z.dtype).max) / max(1.0, self.reach)
        return all(np.isfinite(side).all() and np.abs(side).max(initial=0.0) < np.sqrt(largest) for side in sides)

    def joined(self, here: _Look, curvature: Curvature) -> tuple[Change, Array, Array]:
        """The factors with pairs that are too steep to be left out, and the gradient that the curvature gives there."""
        p, q, bias = here.at
        nothing = here.at, here.gradient, here.bias
        left, right = (linalg.qr(side, mode="economic", check_finite=False)[0] for side in (p, q))
        rest = here.gradient - left @ (left.T @ here.gradient)
        rest -= rest @ right @ right.T
        u, values, v = thin_svd(rest)
        steep = values[:JOINING] > STEEPER * self.penalty.lambda1
        count = int(np.count_nonzero(steep))
        if not count:
            return nothing
        u, v, slopes = u[:, :count], -v[:, :count], values[:count] - self.penalty.lambda1
        sizes = slopes / np.maximum(curvature.along(u, v), FLAT * self.reach**2)
        met = float(np.vdot((u * sizes) @ v.T, curvature.product((u * sizes) @ v.T, np.zeros_like(bias))[0]))
        if not 0 < met < np.inf:
            return nothing
        sizes *= min(1.0, float(slopes @ sizes) / met)
        turn = curvature.product((u * sizes) @ v.T, np.zeros_like(bias))
        roots = np.sqrt(sizes)
        wider = np.hstack([p, u * roots]), np.hstack([q, v * roots]), bias
        return wider, here.gradient + turn[0], here.bias + turn[1]

    def direction(self, at: Change, gradient: Array, in_bias: Array, curvature: Curvature) -> Change:
        """The step of the factors by the Hessian, in which the gradient's singular values end at lambda1."""
        p, q, _ = at
        lambda1 = self.penalty.lambda1
        u, values, v = thin_svd(gradient)
        bent = gradient - (u * np.maximum(values - lambda1, 0.0)) @ v.T

        def product(change: Change) -> Change:
            in_p, in_q, bias = change
            turn, by_bias = curvature.product(in_p @ q.T + p @ in_q.T, bias)
            return turn @ q + lambda1 * in_p + bent @ in_q, turn.T @ p + lambda1 * in_q + bent.T @ in_p, by_bias

        slope = gradient @ q + lambda1 * p, gradient.T @ p + lambda1 * q, in_bias
        return newton_step(product, slope, Scaling(curvature, p, q, lambda1), ACCURACY, PRODUCTS)

    def rebalanced(self, look: _Look) -> _Look:
        """The same core by factors of equal length, which are the shortest."""
        at = *balanced(look.core), look.at[2]
        value = look.value - self.length(look.at) + self.length(at)
        return _Look(at, look.point, look.core, value, look.gap, look.gradient, look.bias)

    def trimmed(self, look: _Look, tolerance: float) -> Point:
        """Without singular values that weigh nothing beside the tolerance: neither as a penalty nor for the loss."""
        u, values, v = thin_svd(look.core)
        allowed = DROPPED * tolerance * look.value
        costs = np.cumsum([penalty_of(values[i : i + 1], self.penalty) for i in range(values.size)][::-1])[::-1]
        kept = costs > allowed
        if kept.all():
            return look.point
        roots = np.sqrt(values[kept])
        there = self.look((u[:, kept] * roots, v[:, kept] * roots, look.at[2]))
        return there.point if there.value <= look.value * (1 + self.noise) + allowed else look.point


def balanced(core: Array) -> tuple[Array, Array]:
    """(P, Q) with core = P Q', of equal length: singular vectors times the roots of their values."""
    u, values, v = thin_svd(core)
    kept = values > VANISHED * values.max(initial=0.0)
    roots = np.sqrt(values[kept])
    return u[:, kept] * roots, v[:, kept] * roots
