"""Softmax classifiers of dense rows by a quasi-Newton method on whole passes, without a step size.

Limited-memory BFGS (`quasi_newton`) whose first guess of the Hessian is not a multiple of the
identity but what it nearly is for weights of 0: h_q times the rows' covariance, h_q = p_q (1 - p_q) of the share p_q of
each output. Then a dozen passes do what plain gradients need hundreds for, however unlike the features' variances are.
The start is the rows' shares: bias log p_q.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from tasks.fit.quasi_newton import descend
from tasks.later import later
from tasks.losses.child_softmax import child_softmax_rows
from tasks.rows.base import Array, Rows

linalg = later("scipy.linalg")

PASSES = 16  # over the rows at most, trials of a step not counted
ENOUGH = 1e-3  # of the objective: less than this to be gained ends it
WIDEST = 2048  # wider rows: the diagonal of the covariance instead ...
FEWEST = 0.25  # ... and for fewer rows than this times their features, if these are more than SMALLEST
SMALLEST = 256
SLICE_ROWS = 4096  # rows decoded and scored at once
NEAR, MODEST = 4.0, 1e8  # rows whose mean is longer, times their spread, or whose spread is larger or as small: framed


class Frame(NamedTuple):
    """Rows as (x - mean) / size, where they are so far from zero, or so long, that float32 drowns their differences."""

    mean: Array
    size: float


def spread_of(rows: Rows) -> tuple[Array, float]:
    """(mean row (d,) float64, mean squared distance from it)."""
    total, square, n = np.zeros(rows.n_features), 0.0, max(1, rows.n_rows)
    for _, values in _slices(rows):
        total += values.sum(axis=0, dtype=np.float64)
    mean = total / n
    for _, values in _slices(rows):
        gone = values - mean
        square += float(np.vdot(gone, gone))
    return mean, square / n


def frame_of(mean: Array, spread: float) -> Frame | None:
    """None for rows that can be computed with as they are; mean, spread as of `spread_of`."""
    if not spread > 0 or (mean @ mean <= NEAR * spread and 1 / MODEST < spread < MODEST):
        return None
    return Frame(mean.astype(np.float32), float(np.sqrt(spread)))


class SoftmaxFit(NamedTuple):
    """weights (n_features, Q) float32, bias (Q,) float32; objective: mean loss + penalty; passes over the rows."""

    weights: Array
    bias: Array
    objective: float
    passes: int


@dataclass(frozen=True, eq=False)
class _Problem:
    """min mean loss + (decay / 2) |W|^2 over rows less their mean, so that weights and bias hardly touch each other.

    rows (n, d); children (n,) int32, -1 for none; reference: see `child_softmax_rows`; mean (d,) float32, zeros in a
    frame
    """

    rows: Rows
    children: Array
    reference: bool
    decay: float
    mean: Array
    frame: Frame | None

    def value(self, weights: Array, bias: Array) -> tuple[float, Array]:
        """(objective, gradient (d + 1, Q) float64) at weights (d, Q) and the bias (Q,) of centred rows, float32."""
        shift = bias - self.mean @ weights
        gradient, sums, loss = np.zeros(weights.shape), np.zeros(bias.shape), 0.0
        for start, values in _slices(self.rows, self.frame):
            scores = values @ weights
            scores += shift
            loss += child_softmax_rows(scores, self.children[start : start + len(values)], self.reference, scores)
            gradient += values.T @ scores
            sums += scores.sum(axis=0, dtype=np.float64)
        n, wide = self.rows.n_rows, weights.astype(np.float64)
        gradient = (gradient - np.outer(self.mean, sums)) / n + self.decay * wide
        return loss / n + 0.5 * self.decay * float(np.vdot(wide, wide)), np.vstack([gradient, sums / n])


def fit_softmax(
    rows: Rows,
    children: Array,
    n_children: int,
    reference: bool,
    decay: float,
    bias: bool,
    frame: Frame | None = None,
) -> SoftmaxFit:
    """Fit rows of any dense body; children (n_rows,) int32 in [0, Q), or -1 for "none of them" (needs `reference`).

    decay  > 0: weight of |W|^2 / 2 beside the mean loss
    bias   without it rows are not centred, and the shares of the outputs are not told
    frame  that the rows are seen in while they are learnt; weights and bias are of the rows as they are
    """
    if frame is None:
        return _fit(rows, children, n_children, reference, decay, bias, None)
    found = _fit(rows, children, n_children, reference, decay / frame.size**2, bias, frame)
    weights = found.weights.astype(np.float64) / frame.size
    shift = found.bias - frame.mean.astype(np.float64) @ weights if bias else found.bias
    return found._replace(weights=weights.astype(np.float32), bias=shift.astype(np.float32))


def _fit(
    rows: Rows, children: Array, n_children: int, reference: bool, decay: float, bias: bool, frame: Frame | None
) -> SoftmaxFit:
    """The same of rows in a frame."""
    mean, precondition = _metric(rows, children, n_children, decay, bias and frame is None, frame)
    problem = _Problem(rows, children, reference, decay, mean, frame)
    point = np.zeros((rows.n_features + 1, n_children))
    if bias:
        point[-1] = _first_bias(children, n_children, reference)
    return _descend(problem, point, precondition, bias)


def _descend(problem: _Problem, point: Array, precondition: Any, bias: bool) -> SoftmaxFit:
    """Quasi-Newton steps from `point` (d + 1, Q), whose last row is the bias."""
    found = descend(lambda at: _at(problem, at, bias), point, precondition, PASSES, ENOUGH)
    weights = found.point[:-1].astype(np.float32)
    shift = (found.point[-1] - problem.mean @ weights).astype(np.float32)
    return SoftmaxFit(weights, shift, found.value, found.passes)


def _at(problem: _Problem, point: Array, bias: bool) -> tuple[float, Array]:
    value, gradient = problem.value(point[:-1].astype(np.float32), point[-1].astype(np.float32))
    if not bias:
        gradient[-1] = 0.0
    return value, gradient


def _metric(
    rows: Rows, children: Array, n_children: int, decay: float, centred: bool, frame: Frame | None
) -> tuple[Array, Any]:
    """(mean (d,) float32 that is taken away, the function that applies the first guess of the inverse Hessian)."""
    n, d = rows.shape
    whole = d <= WIDEST and (n >= FEWEST * d or d <= SMALLEST)
    second, total = np.zeros((d, d) if whole else d), np.zeros(d)
    for _, values in _slices(rows, frame):
        second += values.T @ values if whole else np.einsum("ij,ij->j", values, values)
        total += values.sum(axis=0, dtype=np.float64)
    mean = (total / n if centred else np.zeros(d)).astype(np.float32)
    share = _shares(children, n_children)
    bend = share * (1 - share)
    flat = decay / float(bend.mean())
    if not whole:
        variance = np.maximum(second / n - mean.astype(np.float64) ** 2, 0.0) + flat
        scale = np.append(variance, 1.0)[:, None] * bend
        return mean, lambda g: g / scale
    covariance = second / n - np.outer(mean, mean).astype(np.float64)
    covariance.flat[:: d + 1] += flat + 1e-6 * float(np.trace(covariance)) / d  # rounding may leave it indefinite
    factor = linalg.cho_factor(covariance, overwrite_a=True, check_finite=False)

    def precondition(g: Array) -> Array:
        return np.asarray(np.vstack([linalg.cho_solve(factor, g[:-1], check_finite=False), g[-1:]]) / bend)

    return mean, precondition


def _shares(children: Array, n_children: int) -> Array:
    """(Q,) float64: the share of the rows of each child, half a row at least."""
    n = max(1, children.size)
    return np.asarray(np.clip(np.bincount(children[children >= 0], minlength=n_children), 0.5, n - 0.4) / n)


def _first_bias(children: Array, n_children: int, reference: bool) -> Array:
    others = max(float((children < 0).sum()), 0.5) / max(1, children.size)
    return np.asarray(np.log(_shares(children, n_children)) - (np.log(others) if reference else 0.0))


def _slices(rows: Rows, frame: Frame | None = None) -> Iterator[tuple[int, Array]]:
    """(first row, values (n, d) float32) of SLICE_ROWS rows at a time, in a frame if there is one."""
    for start in range(0, rows.n_rows, SLICE_ROWS):
        stop = min(start + SLICE_ROWS, rows.n_rows)
        values = (rows if stop - start == rows.n_rows else rows.part(start, stop)).to_array()
        yield start, values if frame is None else (values - frame.mean) / np.float32(frame.size)
