"""The regularisation path: many pairs of penalties, from strong to weak, each solved from its neighbour's solution.

Harchaoui et al. 2012, section 4.1, "Regularization path": lambda_l = lambda_0 alpha^l for both, lambda1 in the inner
loop (SPECS section 3, reading 6).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from tasks.errors import ParamError
from tasks.trace.point import Point
from tasks.trace.risk import Risk
from tasks.trace.solution import Penalty, Solution, Solver, SolverParams, Watch, unwatched

ROUGH = 0.02  # relative duality gap on few rows: their best weights are no nearer to those of all rows


def geometric(start: float, alpha: float, steps: int) -> list[float]:
    """[start alpha^l for l < steps]; raises ParamError unless 0 < alpha < 1."""
    if not 0 < alpha < 1:
        raise ParamError("trace-norm.alpha", alpha, "between 0 and 1", "penalties fall along a path")
    return [start * alpha**step for step in range(steps)]


def grid(lambdas1: Sequence[float], lambdas2: Sequence[float]) -> list[Penalty]:
    """All pairs in the order of the path: lambda1 runs through its values for each lambda2."""
    return [Penalty(lambda1, lambda2) for lambda2 in lambdas2 for lambda1 in lambdas1]


def path(
    risk: Risk,
    penalties: Sequence[Penalty],
    params: SolverParams,
    bias: bool,
    solver: Solver,
    watch: Watch,
    skip: int = 0,
    start: Point | None = None,
    few: Risk | None = None,
) -> Iterator[tuple[int, Penalty, Solution]]:
    """(index, penalty, solution) of each pair but the first `skip`, as soon as it is solved.

    start  where pair skip - 1 ended: going on from there gives what the whole path would have given
    few    fewer of the rows: each pair is solved on them first, roughly, and all rows only set that right

    Each pair starts where the one before it ended, the first of a row as well: at its other end, which costs no more
    than starting from zero or from the row's neighbour did, and needs nothing else to be kept.
    """
    point = start
    rough = replace(params, gap=max(ROUGH, params.gap), epsilon=None)
    for index in range(skip, len(penalties)):
        if few is not None:
            point = solver(few, penalties[index], rough, bias, point, unwatched).point
        solution = solver(risk, penalties[index], params, bias, point, watch)
        yield index, penalties[index], solution
        point = solution.point
