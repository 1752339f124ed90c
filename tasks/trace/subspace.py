"""Trace norm over a small moving basis: a fully corrective block method.

An iteration passes over the rows once, for the gradient G. The basis is made anew of the left singular vectors of W, of
those that G turns them to, of directions beside them in which G is steeper than lambda1, and of the last W's vectors
(what LOBPCG, Knyazev 2001, keeps for the same reason: two bases in a row tell where the third one goes). On it the
problem is small (`tasks.trace.core_search`, and `tasks.trace.core_newton` where that is slow and rows are few). It ends
with the same certificate as rank-one descent. Related: active subspace selection (Hsieh & Olsen 2014), block
Frank-Wolfe (Allen-Zhu, Hazan, Hu & Li 2017).
"""

from __future__ import annotations

import numpy as np

from tasks.later import later
from tasks.rows.base import Array
from tasks.trace.balance import log_shares
from tasks.trace.certificate import certify, gap_of, relative
from tasks.trace.core_newton import CoreNewton, affordable
from tasks.trace.core_search import Coordinates, CoreSearch
from tasks.trace.objective import factors_of, no_factors, penalty_of, weights_of
from tasks.trace.point import Basis, Point
from tasks.trace.risk import LocalRisk, Risk, project
from tasks.trace.solution import Certificate, Factors, Penalty, Record, Solution, SolverParams, Watch

linalg = later("scipy.linalg")

SAMPLE_ROWS, LEAST_ROWS, SAMPLE_CELLS = 4096, 256, 1 << 24  # rows for the scale of projections; fewer of wide rows
NEW_MOST = 64  # columns that join beside the turns of W, at most, but for the first basis
NEARLY = 0.95  # of lambda1: directions as steep as this may join
NOTHING = 1e-4  # sine of the angle to the basis below which a direction adds nothing to it
WHOLE = 0.75  # of the features: a basis of more columns is all of them
FIRST, SHARE, LAST = 0.05, 0.2, 0.3  # tolerances of the restricted problems: of the first, of the gap, of the goal
CORE_STEPS, FEW_STEPS, NEWTON_STEPS = 150, 16, 40  # evaluations of a restricted problem, by what solves it
TIGHTER = 0.3  # of the tolerance, where the certificate found the goal not reached
STUCK = 4  # iterations in a row without a better objective or gap, after which floats allow no more
BETTER = 1e-9, 0.9  # share of the objective by which it is less; of the gap that is left


def subspace_descent(
    risk: Risk, penalty: Penalty, params: SolverParams, bias: bool, start: Point | None, watch: Watch
) -> Solution:
    """Minimise J over a small basis that follows the gradient; see `Solver`. `iterations` counts its own passes.

    Ends without convergence after params.max_iterations passes, or when the risk's floats allow no more descent.
    """
    search = _Search(risk, penalty, params, watch)
    return search.run(*search.begin(start, bias))


class _Search:
    """The state of one run."""

    def __init__(self, risk: Risk, penalty: Penalty, params: SolverParams, watch: Watch) -> None:
        self.risk, self.penalty, self.params, self.watch = risk, penalty, params, watch
        self.history: list[Record] = []
        self.iterations = self.restricted = self.evaluations = self.stuck = 0
        self.curvature, self.tightness = 0.0, 1.0
        self.best_objective = self.best_gap = float("inf")
        self.last: Array | None = None  # W's left singular vectors an iteration ago
        self.whole: Basis | None = None  # all features, once a basis was so large
        self.sample: LocalRisk | None = None
        self.mean: Array | None = None

    def begin(self, start: Point | None, bias: bool) -> tuple[Point, Factors]:
        """W and bias of the start, on a basis of this risk; W = 0 and the best bias for it without one."""
        offset = log_shares(self.risk.counts) if bias else None
        empty = Basis(self.risk.n_features)
        if start is None:
            core = np.zeros((0, self.risk.n_classes))
            return Point(empty, core, offset), no_factors(self.risk.n_features, self.risk.n_classes)
        if bias and start.bias is not None:
            offset = start.bias
        factors = factors_of(start)
        basis = empty.with_group(self.risk.group(factors.u)) if factors.rank else empty
        return _over(basis, factors, offset), factors

    def run(self, point: Point, factors: Factors) -> Solution:
        """Passes over the rows, and a restricted problem after each, until the criterion is met or nothing helps."""
        while True:
            sums = self.risk.gradient(point)
            self.iterations += 1
            objective = penalty_of(factors.theta, self.penalty) + sums.loss
            gap = gap_of(sums, objective, self.penalty, None if point.bias is None else self.risk.counts)
            smooth = sums.gradient + 2 * self.penalty.lambda2 * weights_of(factors)
            self.note(point, factors, objective, gap)
            if self.promising(factors, smooth, relative(gap, objective)):
                solution = self.solution(point, factors)
                if solution.converged:
                    return solution
                self.tightness *= TIGHTER
            if self.iterations >= self.params.max_iterations or self.stuck >= STUCK:
                return self.solution(point, factors)
            point = self.improve(point, factors, smooth, relative(gap, objective))
            factors = factors_of(point)

    def promising(self, factors: Factors, smooth: Array, gap: float) -> bool:
        """Whether the certificate is worth its passes."""
        if self.params.epsilon is None:
            return gap <= self.params.gap
        steepest = float(np.sqrt(_largest(_gram(smooth))))
        slopes = np.einsum("dr,dr->r", factors.u, smooth @ factors.v) + self.penalty.lambda1
        return max(steepest - self.penalty.lambda1, float(np.abs(slopes).max(initial=0.0))) <= self.params.epsilon

    def improve(self, point: Point, factors: Factors, smooth: Array, gap: float) -> Point:
        """The best point over a new basis, as nearly as the gap is worth."""
        basis = self.basis(factors, smooth)
        coordinates, longest = self.coordinates(basis, point.bias is not None)
        goal = LAST * self.tightness * self.params.gap
        tolerance = max(goal, SHARE * gap * self.tightness if factors.rank else FIRST)
        if basis is self.whole or self.params.epsilon is not None:
            tolerance = min(tolerance, goal)
        found = self.restrict(_over(basis, factors, point.bias), coordinates, longest, tolerance)
        self.restricted += 1
        return found

    def restrict(self, point: Point, coordinates: Coordinates, longest: float, tolerance: float) -> Point:
        """The restricted problem: a few proximal steps find the rank; then Newton's, where all rows are at hand."""
        whole = self.whole_rows(coordinates.basis.rank)
        steps = CORE_STEPS if whole is None else FEW_STEPS
        search = CoreSearch(self.risk, self.penalty, coordinates, longest, self.curvature)
        found = search.run(point, tolerance, steps)
        self.curvature = found.curvature
        self.evaluations += found.evaluations
        if whole is None or found.steady:
            return found.point
        found = CoreNewton(self.risk, self.penalty, coordinates, whole).run(found.point, tolerance, NEWTON_STEPS)
        self.evaluations += found.evaluations
        if not found.steady:  # floats end it, or a start too far away
            search = CoreSearch(self.risk, self.penalty, coordinates, longest, self.curvature)
            found = search.run(found.point, tolerance, CORE_STEPS)
            self.curvature = found.curvature
            self.evaluations += found.evaluations
        return found.point

    def whole_rows(self, rank: int) -> LocalRisk | None:
        """All rows, where they, their projections and probabilities are few enough for this process."""
        fits = affordable(self.risk.n_rows, rank, self.risk.n_classes)
        return self.risk.whole() if fits and rank and self.penalty.lambda1 > 0 else None

    def basis(self, factors: Factors, smooth: Array) -> Basis:
        """Orthonormal: W's vectors, their turns by the gradient, what is steep beside them, and W's vectors before."""
        if self.whole is not None:
            return self.whole
        u, v, last = factors.u, factors.v, self.last
        self.last = u
        rest = smooth - u @ (u.T @ smooth)
        turns = rest @ v
        most = NEW_MOST if factors.rank else min(rest.shape)
        steep = _steepest(rest - turns @ v.T, NEARLY * self.penalty.lambda1, most)
        columns = _orthonormal([u, turns, steep] if last is None else [u, turns, steep, last])
        if columns.shape[1] > WHOLE * columns.shape[0]:
            columns = np.eye(columns.shape[0])
        basis = Basis(self.risk.n_features)
        if columns.shape[1]:
            basis = basis.with_group(self.risk.group(columns))
        if columns.shape[0] == columns.shape[1]:
            self.whole = basis
        return basis

    def coordinates(self, basis: Basis, bias: bool) -> tuple[Coordinates, float]:
        """Those of a search, and the second moment of the rows along their longest direction, from a sample."""
        if self.sample is None:
            size = min(SAMPLE_ROWS, max(LEAST_ROWS, SAMPLE_CELLS // max(1, self.risk.n_features)))
            self.sample = self.risk.sample(size)
            self.mean = self.risk.mean() if bias else None
        projected = np.asarray(project(self.sample.rows, basis, self.sample.dtype), np.float64)
        moments = _gram(projected) / max(1, len(projected))
        if self.mean is None:
            return Coordinates(basis), _largest(moments)
        centre = projected.mean(axis=0)
        longest = _largest(moments - np.outer(centre, centre)) or 1.0
        return Coordinates(basis, basis.columns.T.astype(np.float64) @ self.mean, float(np.sqrt(longest))), longest

    def note(self, point: Point, factors: Factors, objective: float, gap: float) -> None:
        """One record for whoever watches, and whether there is progress."""
        better = objective < self.best_objective - BETTER[0] * abs(objective) or gap < BETTER[1] * self.best_gap
        self.stuck = 0 if better else self.stuck + 1
        self.best_objective, self.best_gap = min(self.best_objective, objective), min(self.best_gap, gap)
        record = {
            "iteration": float(self.iterations),
            "objective": objective,
            "gap": gap,
            "rank": float(factors.rank),
            "atoms": float(point.basis.rank),
            "step": 1.0 / self.curvature if self.curvature else 0.0,
            "restricted": float(self.restricted),
            "evaluations": float(self.evaluations),
        }
        self.history.append(record)
        self.watch(record)

    def solution(self, point: Point, factors: Factors) -> Solution:
        """With the certificate of what is returned, which alone says whether it converged."""
        found = certify(self.risk, factors, point.bias, self.penalty)
        return Solution(
            point=point,
            factors=factors,
            bias=point.bias,
            certificate=found,
            history=self.history,
            iterations=self.iterations,
            restricted=self.restricted,
            evaluations=self.evaluations,
            converged=_meets(found, self.params),
        )


def _meets(found: Certificate, params: SolverParams) -> bool:
    if params.epsilon is None:
        return found.relative_gap <= params.gap
    return max(found.c1, found.c2) <= params.epsilon


def _over(basis: Basis, factors: Factors, bias: Array | None) -> Point:
    """W over orthonormal columns that hold its left singular vectors."""
    columns = np.asarray(basis.columns, np.float64)
    return Point(basis, (columns.T @ factors.u * factors.theta) @ factors.v.T, bias)


def _steepest(matrix: Array, threshold: float, most: int) -> Array:
    """Left singular vectors (n_rows, count) of the values above the threshold, the `most` largest at most.

    By the product with the transpose on the smaller side; nearly orthonormal, which is enough to start from.
    """
    if not matrix.size:
        return np.zeros((matrix.shape[0], 0))
    wide = matrix.shape[0] < matrix.shape[1]
    squares, vectors = linalg.eigh(_gram(matrix.T if wide else matrix), check_finite=False)
    values = np.sqrt(np.maximum(squares[::-1], 0.0))
    count = min(most, int(np.count_nonzero(values > max(threshold, 1e-12 * values[0]))))
    leading = vectors[:, ::-1][:, :count]
    if wide:
        return np.asarray(leading)
    return np.asarray(matrix @ leading / values[:count])


def _orthonormal(parts: list[Array]) -> Array:
    """The first part, which is orthonormal, and what the others add to it, in order; float64.

    Directions within NOTHING of what is there are left out. Twice, as Gram-Schmidt is enough (Giraud et al. 2005).
    """
    columns = parts[0]
    for part in parts[1:]:
        lengths = np.linalg.norm(part, axis=0)
        rest = part[:, lengths > 0] / lengths[lengths > 0]
        for _ in range(2):
            rest = rest - columns @ (columns.T @ rest)
            if rest.size:
                squares, turn = linalg.eigh(_gram(rest), check_finite=False)
                kept = squares > NOTHING**2
                rest = rest @ (turn[:, kept] / np.sqrt(squares[kept]))
        columns = np.hstack([columns, rest])
    return columns


def _gram(matrix: Array) -> Array:
    product: Array = matrix.T @ matrix
    return product


def _largest(matrix: Array) -> float:
    """Largest eigenvalue of a positive semidefinite matrix; 0 of an empty one."""
    return max(0.0, float(linalg.eigvalsh(matrix, check_finite=False)[-1])) if matrix.size else 0.0
