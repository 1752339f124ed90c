"""Small problems that the tests of fitting share."""

from __future__ import annotations

from typing import Any

import numpy as np

from tasks.fit.linear import LinearScorer
from tasks.fit.problem import SgdProblem, StepTrial
from tasks.fit.sgd import SgdParams
from tasks.losses.base import Loss
from tasks.losses.hinge import OneVsRestHinge
from tasks.rows import Dense, PqCodes, Rows
from tasks.rows.base import Array
from tests.bodies import csr_of


def bodies(seed: int, n_rows: int = 40, n_features: int = 6) -> dict[str, Rows]:
    """The same kind of rows in every body (their values differ)."""
    rng = np.random.default_rng(seed)
    values = rng.normal(size=(n_rows, n_features)).astype(np.float32)
    keep = rng.random(values.shape) < 0.4
    codebooks = rng.normal(size=(n_features // 2, 4, 2)).astype(np.float32)
    codes = rng.integers(0, 4, (n_rows, n_features // 2)).astype(np.uint8)
    return {
        "dense": Dense(values),
        "half": Dense(values.astype(np.float16)),
        "csr": csr_of(values * keep),
        "pq": PqCodes(codes, codebooks),
    }


def separable(seed: int, n_rows: int = 300, n_classes: int = 3, scale: float = 1.0) -> tuple[Array, Array]:
    """(values (n_rows, 5) float32, labels int32): well separated classes around random centres."""
    rng = np.random.default_rng(seed)
    centres = rng.normal(0, 3, (n_classes, 5))
    labels = rng.integers(0, n_classes, n_rows).astype(np.int32)
    values = centres[labels] + rng.normal(0, 0.5, (n_rows, 5))
    return (scale * values).astype(np.float32), labels


def problem_of(n_features: int, n_outputs: int, loss: Loss | None = None, **params: Any) -> SgdProblem:
    """A linear problem without a trial."""
    made = SgdParams(**{"rounds": 2, "least_rows": 1, **params})
    return SgdProblem(LinearScorer(n_features, n_outputs, made.bias), loss or OneVsRestHinge(), made, 7, "test")


def trial(step: float = 0.1, regularization: float = 0.01, passes: int = 1) -> StepTrial:
    return StepTrial(step, regularization, 1.0, passes, 1e9, (), 0)


def accuracy(problem: SgdProblem, parameters: dict[str, Array], rows: Rows, labels: Array) -> float:
    return float((problem.scorer.scores(parameters, rows).argmax(axis=1) == labels).mean())
