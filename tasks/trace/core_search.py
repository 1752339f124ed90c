"""The restricted problem: the best core and bias over a fixed basis, by accelerated proximal gradient.

min over C, b of lambda1 |C|_* + lambda2 |C|_F^2 + R_n(U C, b), U orthonormal, so that |U C|_* = |C|_*. Only kept
projections are asked of the risk, some tens of times.

FISTA (Beck & Teboulle 2009) with the steps that the curvature met on the way allows instead of the worst case, some
twenty times longer: 1 / L, L from how the gradient turned between the last two points. What it costs is one sum a step.
Momentum is dropped where it points uphill (O'Donoghue & Candes 2015) and never grows beyond a horizon: without one it
overshoots for as long as it took to grow.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tasks.later import later
from tasks.rows.base import Array
from tasks.trace.balance import missed_by_bias
from tasks.trace.objective import penalty_of
from tasks.trace.point import Basis, Point
from tasks.trace.risk import Risk, RiskSums
from tasks.trace.soft_threshold import soft_threshold
from tasks.trace.solution import Penalty

linalg = later("scipy.linalg")

SAFE = 1.3  # L over the curvature met between two points
FADE = 0.95  # of L a step, as long as the curvature is less
JUMP = 4.0  # growth of L at once, in which the last step was too long to keep
NEAR = 1e-6  # steps this short beside the core say little of the curvature
HORIZON, PATIENCE, FARTHER = 10.0, 3.0, 1.5  # of momentum; that many times it without half the gap: the horizon grows
WORST = 0.5  # curvature of logsumexp at most (Boehning 1992)


@dataclass(frozen=True, eq=False)
class Coordinates:
    """A core and a bias as one matrix: core, and below it the bias of centred rows, over `length`.

    Centring rows changes nothing but what the bias is, and uncouples it from the core; a constant feature as long as
    the longest direction of the rows lets both take steps of the same length.

    basis   of the core
    mean    (rank,) mean of the rows' projections, None for a model without bias; length: of the constant feature
    """

    basis: Basis
    mean: Array | None = None
    length: float = 1.0

    def stacked(self, point: Point) -> Array:
        """(rank, n_classes), or one row more."""
        if self.mean is None or point.bias is None:
            return point.core
        return np.vstack([point.core, (point.bias + self.mean @ point.core) / self.length])

    def point(self, stacked: Array) -> Point:
        """The inverse of `stacked`."""
        if self.mean is None:
            return Point(self.basis, stacked)
        core = stacked[:-1]
        return Point(self.basis, core, self.length * stacked[-1] - self.mean @ core)

    def gradient(self, sums: RiskSums, core: Array, ridge: float) -> Array:
        """Of R_n + ridge / 2 |core|^2, in the shape of `stacked`."""
        smooth = sums.gradient + ridge * core
        if self.mean is None:
            return smooth
        return np.vstack([smooth - np.outer(self.mean, sums.bias), self.length * sums.bias])


@dataclass(frozen=True, eq=False)
class Found:
    """point; L: curvature at the end, for the next search; evaluations: sums asked for; steady: the gap was met"""

    point: Point
    curvature: float
    evaluations: int
    steady: bool


def expected_gap(gradient: Array, core: Array, values: Array, loss: float, penalty: Penalty) -> float:
    """What the duality gap is about to be: exact to first order at the optimum, from the loss's gradient in the core.

    D at q = e_y + t (p - e_y) is near t = 1 about D(1) + (1 - t) <G, W>, whence J - D is about
    Omega(W) + t <G, W> + Omega*(t G), a Fenchel gap; far from it D is less curved than that, for which (1 - t)^2 J is
    added. t = min(1, lambda1 / |G|_2), and 1 where lambda2 > 0 allows it, are tried. values: of the core
    """
    along = float(np.vdot(gradient, core))
    slopes = linalg.svdvals(gradient, check_finite=False) if gradient.size else np.zeros(0)
    largest = float(slopes.max(initial=0.0))
    own = penalty_of(values, penalty)
    shrink = 1.0 if largest <= penalty.lambda1 else penalty.lambda1 / largest
    gaps = [own + shrink * along + (1.0 - shrink) ** 2 * (own + loss)]
    if penalty.lambda2 > 0:
        over = np.maximum(0.0, slopes - penalty.lambda1)
        gaps.append(own + along + float(np.vdot(over, over)) / (4 * penalty.lambda2))
    return max(0.0, min(gaps))


class CoreSearch:
    """A search on one basis.

    longest    largest eigenvalue of the second moments of the rows' projections, roughly
    curvature  where L begins; 0: where p is even
    """

    def __init__(
        self, risk: Risk, penalty: Penalty, coordinates: Coordinates, longest: float, curvature: float
    ) -> None:
        self.risk, self.penalty, self.coordinates = risk, penalty, coordinates
        self.rank = coordinates.basis.rank
        self.ridge = 2 * penalty.lambda2
        self.limit = 2 * WORST * longest + self.ridge
        even = 2 * longest / max(2, risk.n_classes) + self.ridge
        self.curvature = min(curvature or even, self.limit) or 1.0

    def run(self, point: Point, tolerance: float, most: int) -> Found:
        """From the point until the expected gap is `tolerance` of the objective; at most so many evaluations."""
        here = ahead = self.coordinates.stacked(point)
        momentum, horizon, lowest, since = 1.0, HORIZON, np.inf, 0
        last: tuple[Array, Array] | None = None
        for count in range(1, most + 1):
            sums = self.risk.evaluate(self.coordinates.point(ahead))
            gradient = self.coordinates.gradient(sums, ahead[: self.rank], self.ridge)
            if last is not None and self.learn(ahead - last[0], gradient - last[1], ahead):
                ahead, gradient, momentum = last[0], last[1], 1.0
            last = ahead, gradient
            moved = ahead - gradient / self.curvature
            moved[: self.rank], values = soft_threshold(moved[: self.rank], self.penalty.lambda1 / self.curvature)
            gap, objective = self.gap(sums, moved, values)
            if count > 1 and gap <= tolerance * objective:
                return Found(self.coordinates.point(moved), self.curvature, count, True)
            lowest, since = (gap, count) if gap < lowest / 2 else (lowest, since)
            if count - since > PATIENCE * horizon:
                horizon, since = FARTHER * horizon, count
            if float(np.vdot(ahead - moved, moved - here)) > 0:
                momentum, ahead = 1.0, moved
            else:
                grown = min((1.0 + np.sqrt(1.0 + 4.0 * momentum * momentum)) / 2.0, horizon)
                ahead, momentum = moved + (momentum - 1.0) / grown * (moved - here), grown
            here = moved
        return Found(self.coordinates.point(here), self.curvature, most, False)

    def learn(self, step: Array, turn: Array, at: Array) -> bool:
        """L from the curvature along the last step; True where that was too long to keep."""
        square = float(np.vdot(step, step))
        met = 0.0
        if square > NEAR**2 * float(np.vdot(at, at)):
            met = min(SAFE * float(np.vdot(step, turn)) / square, self.limit)
        jump = met > JUMP * self.curvature
        self.curvature = max(met, FADE * self.curvature)
        return jump

    def gap(self, sums: RiskSums, moved: Array, values: Array) -> tuple[float, float]:
        """The expected gap and the objective at the end of a step, with the gradient of its beginning."""
        bias = 0.0 if self.coordinates.mean is None else missed_by_bias(sums.bias, self.risk.counts)
        found = expected_gap(sums.gradient, moved[: self.rank], values, sums.loss, self.penalty)
        return found + bias, sums.loss + penalty_of(values, self.penalty)
