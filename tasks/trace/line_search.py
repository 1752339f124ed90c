"""Armijo's rule on kept scores: how far to go along new atoms (Harchaoui et al. 2012, algorithm R1D, step 3)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tasks.rows.base import Array
from tasks.trace.atoms import Atoms
from tasks.trace.risk import Risk
from tasks.trace.solution import Penalty

SIGMA = 0.1  # share of the first-order decrease that is asked for, at most 1/2
SHRINKING = 0.5 ** np.arange(3)  # tried in one call: the scores along the direction are computed once for all
LARGER = 4.0  # the first step tried, over the one taken last time
CALLS = 20  # then steps are 2^-60 of the first


@dataclass(frozen=True, slots=True)
class Step:
    """length: 0 where none descends; objective: I after it, as far as floats tell; calls of the oracle."""

    length: float
    objective: float
    calls: int


def armijo(
    risk: Risk, atoms: Atoms, change: Array, penalty: Penalty, objective: float, slope: float, first: float
) -> Step:
    """The best of the steps tried that satisfy I(theta + s change) <= I(theta) + SIGMA s slope, from the largest down.

    change     (n_atoms,) >= 0 in theta
    objective  I(theta)
    slope      < 0: its derivative along the change
    first      the largest step tried
    """
    direction, point = atoms.direction(change), atoms.point
    linear, quadratic = _penalty_along(atoms, change, penalty)
    for call in range(1, CALLS + 1):
        steps = first * SHRINKING
        values = risk.losses(point, direction, [float(s) for s in steps])
        values = values + linear[0] + steps * linear[1] + steps**2 * quadratic
        passing = np.flatnonzero((values <= objective + SIGMA * steps * slope) & (values < objective))
        if passing.size:
            best = passing[np.argmin(values[passing])]
            return Step(float(steps[best]), float(values[best]), call)
        first = float(steps[-1]) * 0.5
    return Step(0.0, objective, CALLS)


def _penalty_along(atoms: Atoms, change: Array, penalty: Penalty) -> tuple[tuple[float, float], float]:
    """((constant, slope), curvature) of lambda1 sum(theta) + lambda2 |W|_F^2 along the change."""
    constant, slope, curvature = penalty.lambda1 * atoms.theta.sum(), penalty.lambda1 * change.sum(), 0.0
    if penalty.lambda2:
        turned = penalty.lambda2 * (atoms.quadratic() @ np.stack([atoms.theta, change], axis=1))
        constant, slope = constant + atoms.theta @ turned[:, 0], slope + 2 * (change @ turned[:, 0])
        curvature = float(change @ turned[:, 1])
    return (float(constant), float(slope)), curvature
