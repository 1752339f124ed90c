"""Small problems of many shapes that the tests of the trace norm share."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tasks.rows import Dense
from tasks.trace.objective import weights_of
from tasks.trace.point import Basis, Point
from tasks.trace.risk import LocalRisk
from tasks.trace.solution import Factors, Solution
from tests.shared import shared_path

Array = NDArray[Any]


@dataclass(frozen=True, eq=False)
class Problem:
    """Rows X (n, d) float64 and labels y (n,) of k classes."""

    X: Array
    y: Array
    k: int

    def risk(self, dtype: type[np.floating[Any]] = np.float64) -> LocalRisk:
        return LocalRisk(Dense(self.X.astype(dtype)), self.y, self.k, dtype)


def random_problem(seed: int, n: int = 60, d: int = 8, k: int = 5, present: int | None = None) -> Problem:
    """Classes with means of their own; every class among the first `present` (all) has a row, the others none."""
    rng = np.random.default_rng(seed)
    present = present or k
    y = np.concatenate([np.arange(present), rng.integers(0, present, n - present)])
    means = rng.standard_normal((k, d)) * 1.2
    return Problem(means[y] + rng.standard_normal((n, d)), y.astype(np.int32), k)


def case(name: str) -> tuple[dict[str, Any], Problem]:
    """A reference case, and its rows: kept there as columns."""
    told = json.loads(shared_path(f"cases/{name}.json").read_text())
    X, y = np.array(told["inputs"]["X"]).T, np.array(told["inputs"]["y"], np.int32)
    return told, Problem(X, y, int(y.max()) + 1)


def at(risk: LocalRisk, weights: Array, bias: Array | None = None) -> Point:
    """Any weights as a point: the unit vectors are the basis."""
    return Point(Basis(risk.n_features).with_group(risk.group(np.eye(risk.n_features))), weights, bias)


def weights(solution: Solution) -> Array:
    return weights_of(solution.factors)


def random_factors(seed: int, d: int, k: int, rank: int) -> Factors:
    """Orthonormal factors with falling values."""
    rng = np.random.default_rng(seed)
    u, v = np.linalg.qr(rng.standard_normal((d, rank)))[0], np.linalg.qr(rng.standard_normal((k, rank)))[0]
    return Factors(u, np.sort(rng.random(rank) + 0.1)[::-1], v)
