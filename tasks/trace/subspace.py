"""Trace norm by a small moving basis: a fully corrective block method.

An iteration passes over the rows once, for the gradient G. The basis is made anew from the left singular vectors of W,
those that G turns them to, and those along which G is steeper than lambda1; on it the problem is small
(`tasks.trace.core_search`) and its projections are kept. It ends with the same certificate as rank-one descent.
Related: block Frank-Wolfe with fully corrective steps (Allen-Zhu et al. 2017), active subspace selection (Hsieh &
Olsen 2014), LOBPCG (Knyazev 2001), from which keeping the last basis' directions is taken.
"""

from __future__ import annotations

import numpy as np
from scipy import linalg

from tasks.rows.base import Array
from tasks.trace.balance import log_shares
from tasks.trace.certificate import certify, gap_of, relative
from tasks.trace.core_search import Coordinates, CoreSearch
from tasks.trace.objective import factors_of, no_factors, penalty_of
from tasks.trace.point import Basis, Point
from tasks.trace.risk import LocalRisk, Risk, project
from tasks.trace.singular import thin_svd
from tasks.trace.solution import Factors, Penalty, Record, Solution, SolverParams, Watch

SAMPLE_ROWS, LEAST_ROWS, SAMPLE_CELLS = 4096, 512, 1 << 24  # rows of the model; fewer where they are wide
NEW_MOST = 64  # columns that join beside the turns of W, at most
WHOLE = 0.6  # of the features: a basis of more columns is all of them
FIRST, SHARE, LAST = 0.05, 0.2, 0.3  # tolerances of the restricted problems: the first, of the gap, of the goal
CORE_STEPS = 150
KEEP = True
STUCK = 3  # iterations in a row without descent, after which floats allow no more
NEARLY = 0.95  # of lambda1: directions as steep as this may join


def subspace_descent(
    risk: Risk, penalty: Penalty, params: SolverParams, bias: bool, start: Point | None, watch: Watch
) -> Solution:
    """Minimise J over a small basis that follows the gradient; see `Solver`."""
    return _Search(risk, penalty, params, watch).run(start, bias)


subspace_newton = subspace_descent  # the name that callers know


class _Search:
    """The state of one run."""

    def __init__(self, risk: Risk, penalty: Penalty, params: SolverParams, watch: Watch) -> None:
        self.risk, self.penalty, self.params, self.watch = risk, penalty, params, watch
        self.history: list[Record] = []
        self.iterations = self.restricted = self.evaluations = self.stuck = 0
        self.best, self.curvature, self.tightness = float("inf"), 0.0, 1.0
        self.sample: LocalRisk | None = None
        self.mean: Array | None = None
        self.last: Array | None = None
        self.noise = 3e-8 if getattr(risk, "dtype", np.float32) == np.float32 else 1e-15

    def run(self, start: Point | None, bias: bool) -> Solution:
        point, factors = self.begin(start, bias)
        while True:
            sums = self.risk.gradient(point)
            self.iterations += 1
            weights = (factors.u * factors.theta) @ factors.v.T
            smooth = sums.gradient + 2 * self.penalty.lambda2 * weights
            objective = penalty_of(factors.theta, self.penalty) + sums.loss
            gap = gap_of(sums, objective, self.penalty)
            self.note(point, factors, objective, gap)
            self.stuck = self.stuck + 1 if objective >= self.best * (1 - self.noise) else 0
            self.best = min(self.best, objective)
            if relative(gap, objective) <= self.params.gap:
                solution = self.solution(point, factors)
                if solution.converged:
                    return solution
                self.tightness *= 0.3
            if self.iterations >= self.params.max_iterations or self.stuck >= STUCK:
                return self.solution(point, factors)
            point, factors = self.improve(point, factors, smooth, relative(gap, objective))

    def begin(self, start: Point | None, bias: bool) -> tuple[Point, Factors]:
        offset = log_shares(self.risk.counts) if bias else None
        if start is None:
            return Point(Basis(self.risk.n_features), np.zeros((0, self.risk.n_classes)), offset), no_factors(
                self.risk.n_features, self.risk.n_classes
            )
        factors = factors_of(start)
        if bias and start.bias is not None:
            offset = start.bias
        return self.on_basis(factors.u, factors, offset), factors

    def on_basis(self, columns: Array, factors: Factors, bias: Array | None) -> Point:
        """W over orthonormal columns that hold its left singular vectors."""
        basis = Basis(self.risk.n_features)
        if columns.shape[1]:
            basis = basis.with_group(self.risk.group(columns))
        return Point(basis, (columns.T @ factors.u * factors.theta) @ factors.v.T, bias)

    def improve(self, point: Point, factors: Factors, smooth: Array, gap: float) -> tuple[Point, Factors]:
        columns = self.columns(factors, smooth)
        point = self.on_basis(columns, factors, point.bias)
        goal = LAST * self.params.gap * self.tightness
        tolerance = FIRST if not factors.rank else max(goal, SHARE * gap)
        if columns.shape[1] >= columns.shape[0]:
            tolerance = goal
        coordinates, longest = self.coordinates(point)
        search = CoreSearch(self.risk, self.penalty, coordinates, longest, self.curvature)
        found = search.run(point, max(goal, tolerance), CORE_STEPS)
        self.restricted += 1
        self.evaluations += found.evaluations
        self.curvature = found.curvature
        return found.point, factors_of(found.point)

    def columns(self, factors: Factors, smooth: Array) -> Array:
        """Orthonormal (n_features, size): W's vectors, the turns that G gives them, and what is steep beside them."""
        u, v = factors.u, factors.v
        rest = smooth - u @ (u.T @ smooth)
        turns = rest @ v
        steep_u, values, _ = thin_svd(rest - turns @ v.T)
        count = min(NEW_MOST, int(np.count_nonzero(values > NEARLY * self.penalty.lambda1)))
        if not factors.rank:
            count = int(np.count_nonzero(values > self.penalty.lambda1))
        parts = [u, turns, steep_u[:, :count]]
        if self.last is not None and KEEP:
            parts.append(self.last)
        self.last = u
        columns = _orthonormal(parts)
        if columns.shape[1] > WHOLE * columns.shape[0]:
            return np.eye(columns.shape[0])
        return columns

    def coordinates(self, point: Point) -> tuple[Coordinates, float]:
        """Those of the search, and the longest direction of the rows' projections, squared."""
        if self.sample is None:
            rows = max(LEAST_ROWS, min(SAMPLE_ROWS, SAMPLE_CELLS // max(1, self.risk.n_features)))
            self.sample = self.risk.sample(rows)
            self.mean = self.risk.mean() if point.bias is not None else None
        projected = np.asarray(project(self.sample.rows, point.basis, self.sample.dtype), np.float64)
        moments = projected.T @ projected / max(1, len(projected))
        if self.mean is None:
            return Coordinates(point.basis), _largest(moments)
        centre = projected.mean(axis=0)
        longest = _largest(moments - np.outer(centre, centre)) or 1.0
        mean = point.basis.columns.T.astype(np.float64) @ self.mean
        return Coordinates(point.basis, mean, float(np.sqrt(longest))), longest

    def note(self, point: Point, factors: Factors, objective: float, gap: float) -> None:
        record = {
            "iteration": float(self.iterations),
            "objective": objective,
            "gap": gap,
            "rank": float(factors.rank),
            "atoms": float(point.basis.rank),
            "step": 1 / self.curvature if self.curvature else 0.0,
            "restricted": float(self.restricted),
            "evaluations": float(self.evaluations),
        }
        self.history.append(record)
        self.watch(record)

    def solution(self, point: Point, factors: Factors) -> Solution:
        certificate = certify(self.risk, factors, point.bias, self.penalty)
        converged = certificate.relative_gap <= self.params.gap
        if self.params.epsilon is not None:
            converged = max(certificate.c1, certificate.c2) <= self.params.epsilon
        return Solution(
            point,
            factors,
            point.bias,
            certificate,
            self.history,
            self.iterations,
            self.restricted,
            self.evaluations,
            converged,
        )


def _orthonormal(parts: list[Array]) -> Array:
    """The first part, which is orthonormal, and what the others add to it, in order; what adds little is left out."""
    columns = parts[0]
    for part in parts[1:]:
        lengths = np.linalg.norm(part, axis=0)
        rest = part / np.where(lengths > 0, lengths, 1.0)
        for _ in range(2):
            rest = rest - columns @ (columns.T @ rest)
        u, values, _ = thin_svd(rest)
        columns = np.hstack([columns, u[:, values > 1e-4]])
    return columns


def _largest(matrix: Array) -> float:
    """Largest eigenvalue of a positive semidefinite matrix; 0 of an empty one."""
    return max(0.0, float(linalg.eigvalsh(matrix, check_finite=False)[-1])) if matrix.size else 0.0
