"""Fitting a node's classifiers to rows that are PQ codes: a quasi-Newton method on samples that grow.

SGD in small batches must decode every row, and meets it many times; tables answer whole passes many times faster. So
steps are taken on the mean over many rows at once (`tasks.fit.quasi_newton`), preconditioned by the covariance within
each subquantizer, which counts of the codes tell. Most steps are taken on a small share of the rows (Byrd et al. 2012):
what they learn holds nearly for all, and few steps on more rows mend the rest.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from tasks.fit.fit import FitResult, NoTrainingRows
from tasks.fit.problem import StepTrial
from tasks.fit.quasi_newton import Metric, Pair, descend
from tasks.fit.scorer import Parameters
from tasks.fit.sgd import AUTO
from tasks.rows.base import Array
from tasks.trees.on_codes.moments import CodeCounts, CodeFrame, covariances, frame_of
from tasks.trees.on_codes.risk import RiskSum
from tasks.trees.params import TreeParams

LEAST_ROWS = 8_192  # of a sample; smaller ones tell too little


@dataclass(frozen=True, slots=True)
class Stage:
    """Steps on a sample: its share of the rows, how many steps, when they end, how round the loss's corners are."""

    share: float
    steps: int
    enough: float
    width: float


FIRST = (Stage(1 / 16, 16, 3e-3, 0.5), Stage(1 / 4, 10, 2e-3, 0.3), Stage(1.0, 8, 1e-3, 0.2))
AGAIN = FIRST[1:]  # from the classifiers of nearly the same children
ALONE = (Stage(1.0, 24, 1e-3, 0.2),)  # of rows so few that there is no sample of them


class Passes(Protocol):
    """Whoever can reach the rows that a node learns from: in memory, or spread over blocks.

    codebooks  (n_subquantizers, n_centroids, width) float32
    """

    codebooks: Array

    def code_counts(self) -> CodeCounts:
        """Of all rows that take part."""
        ...

    def risk(self, frame: CodeFrame, point: Array, width: float, share: float) -> RiskSum:
        """Of a share of the rows, evenly spread, in the frame.

        point  (d + 1, Q) float64: weights and, last, the bias; width: of the loss's corners, see `rounded_loss_of`
        """
        ...


def fit_codes(
    rows: Passes, children: Array, class_counts: Array, params: TreeParams, depth: int, start: Parameters | None
) -> FitResult:
    """Classifiers of least mean loss + (decay / 2) |W|^2 for a node's children (Q, K) bool.

    class_counts  (K,): rows of each class that take part; of rows of other classes none
    start         classifiers of nearly the same children
    Raises NoTrainingRows.
    """
    found, n_children = rows.code_counts(), len(children)
    if not found.rows:
        raise NoTrainingRows("no training row takes part in a node", hint="ingest rows of its classes")
    sgd = params.sgd
    frame = frame_of(found, rows.codebooks, sgd.bias)
    norm = frame.size**2
    penalty = params.loss_of(children, depth).penalty_weight * norm / found.rows
    decay = penalty if sgd.regularization == AUTO else float(sgd.regularization) * (2.0 if sgd.doubled else 1.0)
    shares = shares_of(children, class_counts, found.rows)
    point = _first_point(frame, shares, start, params.foreign and sgd.bias, depth > 0)
    metric = block_metric(covariances(found, frame.of(rows.codebooks)), shares, decay / norm)
    pairs: list[Pair] = []
    met, value = 0, 0.0
    taken = min(1.0, params.most_rows / found.rows)
    for stage in stages(round(taken * found.rows), start is not None):

        def value_at(at: Array, stage: Stage = stage) -> tuple[float, Array]:
            nonlocal met
            risk = rows.risk(frame, at, stage.width, taken * stage.share)
            met += risk.rows
            return objective(risk, at, decay / norm, sgd.bias)

        done = descend(value_at, point, metric, stage.steps, stage.enough, pairs)
        point, pairs, value = done.point, done.pairs, done.value
    weights, shift = frame.outside(point)
    regularization = decay / (2.0 if sgd.doubled else 1.0)
    trial = StepTrial(1.0, regularization, norm, 1, float(np.log(n_children)), (), found.rows)
    record = {"round": 0.0, "rows": float(met), "loss": value, "step": 1.0, "operations": 2.0 * met * n_children}
    return FitResult({"weights": weights, "bias": shift}, [record], trial, record["operations"])


def stages(n_rows: int, again: bool) -> tuple[Stage, ...]:
    """Those of a fit to so many rows: the last, and those before it whose samples are large enough."""
    every = AGAIN if again else FIRST
    taken = tuple(stage for stage in every if stage.share == 1.0 or stage.share * n_rows >= LEAST_ROWS)
    return taken if len(taken) > 1 else ALONE


def shares_of(children: Array, class_counts: Array, n_rows: int) -> Array:
    """(Q,) float64: the share of the rows whose class a child holds, half a row at least."""
    held = children.astype(np.float64) @ class_counts
    return np.asarray(np.clip(held, 0.5, max(0.6, n_rows - 0.4)) / n_rows)


def _first_point(frame: CodeFrame, shares: Array, start: Parameters | None, softmax: bool, others: bool) -> Array:
    """Where a fit starts: from given classifiers; from the rows' shares, with the bias of a softmax; from zero."""
    if start is not None:
        return frame.inside(start["weights"], start.get("bias", np.zeros(shares.size, np.float32)))
    point = np.zeros((frame.mean.size + 1, shares.size))
    if softmax:
        rest = max(1.0 - float(shares.sum()), float(shares.min()))
        point[-1] = np.log(shares) - (np.log(rest) if others else 0.0)
    return point


def objective(risk: RiskSum, point: Array, decay: float, bias: bool) -> tuple[float, Array]:
    """(value, gradient (d + 1, Q)) of mean loss + (decay / 2) |W|^2; without a bias its gradient is 0."""
    gradient = np.vstack([risk.gradient, risk.residuals]) / max(1, risk.rows)
    gradient[:-1] += decay * point[:-1]
    if not bias:
        gradient[-1] = 0.0
    return risk.loss / max(1, risk.rows) + 0.5 * decay * float(np.vdot(point[:-1], point[:-1])), gradient


def block_metric(blocks: Array, shares: Array, decay: float) -> Metric:
    """The inverse of p (1 - p) (covariance + decay / mean of p (1 - p)) for each output; p (1 - p) for its bias.

    blocks  (m, width, width): the covariance within each subquantizer; shares (Q,): p
    Nearly the inverse Hessian of a softmax at weights of 0, where features of different subquantizers are unlike.
    """
    bend = shares * (1.0 - shares)
    m, width, _ = blocks.shape
    flat = decay / float(bend.mean()) + 1e-6 * float(np.einsum("qii->", blocks)) / (m * width)
    inverse = np.linalg.inv(blocks + (flat if flat > 0 else 1.0) * np.eye(width))

    def apply(gradient: Array) -> Array:
        solved = np.matmul(inverse, gradient[:-1].reshape(m, width, -1)).reshape(m * width, -1)
        return np.asarray(np.vstack([solved, gradient[-1:]]) / bend)

    return apply
