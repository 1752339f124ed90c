"""Seconds of processor time to a relative duality gap: the solvers, and proximal gradient with a full SVD a step.

The references are plain NumPy in float32. "fista" takes steps of the worst curvature, as in the textbook; "fista+"
backtracks and restarts, so each of its steps costs a third product, and there are far fewer. Duality gaps are measured
outside the clock for these two, inside for the product's solvers, whose end is the certificate of what they return.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

from tasks.rows import Dense
from tasks.rows.base import Array
from tasks.trace.atom_descent import atom_descent
from tasks.trace.certificate import gap_of, relative
from tasks.trace.objective import penalty_of
from tasks.trace.point import Group, Point
from tasks.trace.risk import SHRINK, LocalRisk, RiskSums
from tasks.trace.softmax import softmax_losses, softmax_residuals
from tasks.trace.solution import Penalty, Solver, SolverParams, unwatched
from tasks.trace.subspace import subspace_descent
from tests.bench.bench_kernels import gemm_rate, seconds
from tests.bench.record import record

N_ROWS, N_FEATURES, N_CLASSES, RANK, GROUPS = 50_000, 512, 200, 24, 20
SPREAD_WITHIN, NOISE = 5.0, 0.08
GAP, EVERY, MOST = 1e-3, 10, 800
SOLVERS: dict[str, Solver] = {"subspace": subspace_descent, "r1d": atom_descent}


@pytest.fixture(autouse=True, scope="module")
def one_thread() -> Iterator[None]:
    with threadpool_limits(1):
        yield


@pytest.fixture(scope="module")
def rows() -> tuple[Array, Array]:
    """Classes in groups, two modes each near a subspace, much noise, labels that slip mostly within their group."""
    rng = np.random.default_rng(4)
    basis, within = rng.standard_normal((2, RANK, N_FEATURES)) / np.sqrt(RANK)
    group = np.arange(N_CLASSES) % GROUPS
    means = 0.9 * rng.standard_normal((GROUPS, RANK))[group] + 0.8 * rng.standard_normal((N_CLASSES, RANK))
    modes = means[:, None] + 0.35 * rng.standard_normal((N_CLASSES, 2, RANK))
    y, mode = rng.integers(0, N_CLASSES, N_ROWS), rng.integers(0, 2, N_ROWS)
    x = modes[y, mode] @ basis + SPREAD_WITHIN * 0.25 * rng.standard_normal((N_ROWS, RANK)) @ within
    x += SPREAD_WITHIN * rng.standard_normal(x.shape)
    slips, near = rng.random(N_ROWS) < NOISE, rng.random(N_ROWS) < 0.7
    sister = (rng.integers(0, N_CLASSES // GROUPS, N_ROWS) * GROUPS + group[y]) % N_CLASSES
    y = np.where(slips, np.where(near, sister, rng.integers(0, N_CLASSES, N_ROWS)), y)
    return (x / x.std()).astype(np.float32), y.astype(np.int32)


class CountedRisk(LocalRisk):
    """Counts multiplications and additions of matrix products."""

    flops = 0.0

    def evaluate(self, point: Point) -> RiskSums:
        self.flops += 4.0 * self.n_rows * point.core.size
        return super().evaluate(point)

    def gradient(self, point: Point, scale: Array | None = None) -> RiskSums:
        self.flops += 2.0 * self.n_rows * (point.core.size + self.n_features * self.n_classes)
        return super().gradient(point, scale)

    def _projected(self, group: Group) -> Array:
        if group.token not in self._kept:
            self.flops += 2.0 * self.n_rows * self.n_features * group.size
        return super()._projected(group)


@dataclass
class Fista:
    """Accelerated proximal gradient, a full SVD a step; W (n_features, n_classes) float32.

    adaptive  backtracking from a curvature that may fall, and restarts where momentum points uphill
    """

    x: Array
    y: Array
    lambda1: float
    adaptive: bool

    def residuals(self, w: Array) -> tuple[float, Array]:
        z = self.x @ w
        z -= z.max(axis=1, keepdims=True)
        own = z[np.arange(self.y.size), self.y].copy()
        np.exp(z, out=z)
        mass = z.sum(axis=1, keepdims=True)
        z /= mass
        z[np.arange(self.y.size), self.y] -= 1
        return float((np.log(mass[:, 0]) - own).mean(dtype=np.float64)), z

    def loss(self, w: Array) -> float:
        z = self.x @ w
        highest = z.max(axis=1)
        own = z[np.arange(self.y.size), self.y]
        return float((np.log(np.exp(z - highest[:, None]).sum(axis=1)) + highest - own).mean(dtype=np.float64))

    def run(self) -> Iterator[Array]:
        """The weights after each step."""
        w = np.zeros((self.x.shape[1], N_CLASSES), np.float32)
        ahead, momentum = w, 1.0
        worst = 0.5 / self.y.size * float(np.linalg.norm(self.x.T @ self.x, 2))
        curvature = worst / 50 if self.adaptive else worst
        while True:
            loss, residuals = self.residuals(ahead)
            gradient = self.x.T @ (residuals / np.float32(self.y.size))
            while True:
                moved = self.shrunk(ahead - gradient / np.float32(curvature), self.lambda1 / curvature)
                change = moved - ahead
                if not self.adaptive or curvature >= worst:
                    break
                model = loss + float(np.vdot(gradient, change)) + curvature / 2 * float(np.vdot(change, change))
                if self.loss(moved) <= model + 1e-7 * loss:
                    break
                curvature *= 1.5
            if self.adaptive and np.vdot(change, moved - w) < 0:
                momentum, ahead = 1.0, moved
            else:
                grown = (1 + np.sqrt(1 + 4 * momentum**2)) / 2
                ahead, momentum = moved + np.float32((momentum - 1) / grown) * (moved - w), grown
            w = moved
            curvature *= 0.95 if self.adaptive else 1.0
            yield w

    def shrunk(self, w: Array, by: float) -> Array:
        u, s, vt = np.linalg.svd(w, full_matrices=False)
        return ((u * np.maximum(s - by, 0)) @ vt).astype(np.float32)


def true_gap(x: Array, y: Array, w: Array, penalty: Penalty) -> float:
    """The relative duality gap of weights."""
    scores, entropies = x @ w, np.zeros(SHRINK.size)
    loss = softmax_residuals(scores, y, np.ones(N_CLASSES), SHRINK, entropies) / y.size
    gradient = np.asarray(x.T @ scores, np.float64) / y.size
    objective = penalty_of(np.linalg.svd(w.astype(np.float64), compute_uv=False), penalty) + loss
    return relative(
        gap_of(RiskSums(y.size, loss, gradient, np.zeros(0), entropies / y.size), objective, penalty), objective
    )


def reference(x: Array, y: Array, penalty: Penalty, adaptive: bool) -> tuple[float, int, float]:
    """Seconds, steps and gap of proximal gradient, until the gap or MOST steps."""
    began, spent = time.process_time(), 0.0
    for step, w in enumerate(Fista(x, y, penalty.lambda1, adaptive).run(), 1):
        if step % EVERY == 0:
            spent += time.process_time() - began
            gap = true_gap(x, y, w, penalty)
            if gap <= GAP or step >= MOST:
                return spent, step, gap
            began = time.process_time()
    raise AssertionError("the iteration does not end by itself")


def warm(risk: LocalRisk) -> None:
    """Compile the kernels."""
    subspace_descent(risk.sample(300), Penalty(0.05), SolverParams(gap=0.5), False, None, unwatched)


@pytest.mark.parametrize("lambda1", [0.03, 0.01])
def bench_trace_norm(rows: tuple[Array, Array], lambda1: float) -> None:
    x, y = rows
    penalty, sgemm = Penalty(lambda1), gemm_rate()
    warm(LocalRisk(Dense(x), y, N_CLASSES, np.float32))
    figures: dict[str, object] = {"gap": GAP, "lambda1": lambda1, "sgemm_flops": sgemm}
    lines, slowest = [], {}
    for name, solver in SOLVERS.items():
        risk = CountedRisk(Dense(x), y, N_CLASSES, np.float32)
        began = time.process_time()
        found = solver(risk, penalty, SolverParams(gap=GAP), False, None, unwatched)
        spent, gap = time.process_time() - began, found.certificate.relative_gap
        said = f"{found.iterations} passes, {found.evaluations} sums, {risk.flops / spent / 1e9:.0f} GFLOP/s"
        figures[name] = {"seconds": spent, "passes": found.iterations, "evaluations": found.evaluations, "gap": gap}
        lines.append((name, spent, gap, said))
    for name, adaptive in {"fista+": True, "fista": False}.items():
        spent, steps, gap = reference(x, y, penalty, adaptive)
        figures[name] = {"seconds": spent, "passes": steps, "gap": gap}
        slowest[name] = spent
        lines.append((name, spent, gap, f"{steps} steps"))
    print(f"\ntrace norm, lambda1 {lambda1}, {x.shape} x {N_CLASSES} classes, to a gap of {GAP}; ", end="")
    print(f"float32 product {sgemm / 1e9:.0f} GFLOP/s")
    for name, spent, gap, said in lines:
        ratios = "".join(f"   {slowest[other] / spent:5.1f}x {other}" for other in slowest)
        print(f"{name:<9} {spent:7.2f} s   gap {gap:.1e}{ratios}   {said}")
    record(f"trace-norm-{lambda1}", figures)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def bench_trace_norm_softmax(dtype: type[np.floating]) -> None:
    """Scores a second of the kernels that every sum of the risk calls, beside NumPy's exponential alone."""
    scores = -20 * np.random.default_rng(0).random((10_000, N_CLASSES)).astype(dtype)
    labels, none, whole = np.arange(10_000, dtype=np.int32) % N_CLASSES, np.zeros(0), np.ones(N_CLASSES)
    entropies = np.zeros(SHRINK.size)
    copied = seconds(lambda: scores.copy())
    rates = {
        "residuals": seconds(lambda: softmax_residuals(scores.copy(), labels, whole, none, none)),
        "with entropies": seconds(lambda: softmax_residuals(scores.copy(), labels, whole, SHRINK, entropies)),
        "losses": seconds(lambda: softmax_losses(scores.copy(), labels)),
        "numpy exp": seconds(lambda: np.exp(scores.copy())),
    }
    rates = {name: scores.size / max(1e-9, spent - copied) for name, spent in rates.items()}
    print(f"\nsoftmax {np.dtype(dtype).name}: " + ", ".join(f"{n} {r / 1e9:.2f} G/s" for n, r in rates.items()))
    record(f"trace-norm-softmax-{np.dtype(dtype).name}", {"scores_per_second": rates})
