"""What a solver is asked for and what it returns, the same for every solver."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any, Protocol

from tasks.errors import ParamError
from tasks.rows.base import Array
from tasks.trace.point import Point
from tasks.trace.risk import Risk

Record = dict[str, float]  # of an iteration: iteration, objective, gap, rank, atoms, step, and what else a solver knows
Watch = Callable[[Record], None]  # hears each record as it is made


def unwatched(record: Record) -> None:
    """Nobody listens."""


@dataclass(frozen=True, slots=True)
class Penalty:
    """J(W, b) = lambda1 |W|_* + lambda2 |W|_F^2 + R_n(W, b): equation (4), no 1/2; the bias is free."""

    lambda1: float
    lambda2: float = 0.0

    def __post_init__(self) -> None:
        for name, value in (("lambda1", self.lambda1), ("lambda2", self.lambda2)):
            if not 0 <= value < float("inf"):
                raise ParamError(f"trace-norm.{name}", value, "at least 0, finite", "it weighs a penalty")


@dataclass(frozen=True, slots=True)
class SolverParams:
    """When a solver ends.

    gap             relative duality gap: gap / objective
    epsilon         instead of it, (C1) and (C2) to this number, as in the paper; None: by the gap
    max_iterations  passes over all rows at most
    """

    gap: float = 1e-3
    epsilon: float | None = None
    max_iterations: int = 200

    def __post_init__(self) -> None:
        if not 0 < self.gap < 1:
            raise ParamError("trace-norm.gap", self.gap, "between 0 and 1", "it is a share of the objective")
        if self.epsilon is not None and not 0 < self.epsilon < float("inf"):
            raise ParamError("trace-norm.epsilon", self.epsilon, "more than 0", "the conditions hold up to it")
        if self.max_iterations < 1:
            raise ParamError("trace-norm.max_iterations", self.max_iterations, "at least 1", "it counts iterations")


@dataclass(frozen=True, eq=False)
class Factors:
    """W = U diag(theta) V': u (n_features, rank), theta (rank,) falling and > 0, v (n_classes, rank); all float64."""

    u: Array
    theta: Array
    v: Array

    @property
    def rank(self) -> int:
        return int(self.theta.size)


@dataclass(frozen=True, slots=True)
class Certificate:
    """How near the optimum some weights are, from the weights alone (SPECS section 3, "Certificates").

    objective     J(W, b) of equation (4); risk: R_n(W, b); trace_norm: |W|_*
    gap           J - D for a feasible dual point, at least J - J*; relative_gap: over the objective
    c1            max(0, |G|_2 - lambda1), G the gradient of the smooth part: (C1) holds up to it
    c2            largest |u_j . G v_j + lambda1| over the singular vectors of W: (C2) holds up to it
    rank          of W
    """

    objective: float
    risk: float
    trace_norm: float
    gap: float
    relative_gap: float
    c1: float
    c2: float
    rank: int

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True, eq=False)
class Solution:
    """Where a solver ended.

    point        as it was searched: what a neighbouring problem starts from
    factors      its singular value decomposition
    bias         (n_classes,) float64, or None
    certificate  of the factors and the bias
    history      one record an iteration
    iterations   passes over X for a gradient; restricted  searches on kept projections; evaluations  sums over these
    converged    whether the params' criterion was met before max_iterations
    """

    point: Point
    factors: Factors
    bias: Array | None
    certificate: Certificate
    history: list[Record]
    iterations: int
    restricted: int
    evaluations: int
    converged: bool


class Solver(Protocol):
    """Minimise J. start: a point of a neighbouring problem, None for W = 0 (and the best bias for it, with `bias`)."""

    def __call__(
        self, risk: Risk, penalty: Penalty, params: SolverParams, bias: bool, start: Point | None, watch: Watch
    ) -> Solution: ...
