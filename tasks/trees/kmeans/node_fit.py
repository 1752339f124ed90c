"""A k-means tree's node trained whole: hinges by dual ascent on sparse rows, softmax by Newton-like steps."""

from __future__ import annotations

import numpy as np

from tasks.fit.fit import FitResult
from tasks.fit.hinge_ascent import ascend
from tasks.fit.problem import StepTrial
from tasks.fit.prune import prune
from tasks.fit.scorer import Parameters
from tasks.fit.sgd import AUTO
from tasks.fit.softmax_newton import Frame, fit_softmax, frame_of, spread_of
from tasks.later import numba
from tasks.rows.base import Array, Rows
from tasks.rows.csr import Csr
from tasks.rows.onehot import OneHot
from tasks.seeds import stream
from tasks.trees.kmeans.params import KMeansTreeParams
from tasks.trees.on_codes.slices import slices
from tasks.trees.scale import add_exponentials
from tasks.trees.weights import node_scores

SOFTMAX_PENALTY, HINGE_PENALTY = 0.2, 1.0  # regularization "auto" is this times |x|^2 / n_rows
LEAST = 1e-30  # penalty asked for, in place of 0
SMALL = 0.01  # share of the squared norm of hinge weights that the smallest of them hold, nine in ten, and are dropped
HINGE_UNITS = 4.0  # hinge scores times this are about log-odds


def plain_rows(rows: Rows) -> Rows:
    """One-hot codes as the sparse rows that they are; any other body as it is."""
    return rows.decoded() if isinstance(rows, OneHot) else rows


def fit_whole(
    rows: Rows, children: Array, n_children: int, reference: bool, params: KMeansTreeParams, seed: int, name: str
) -> FitResult:
    """Classifiers of a node; children (n_rows,) int32: the child of each row, -1 for a row of others' classes.

    reference  whether there is the answer "none of these", of score 0
    """
    norm = float(rows.squared_norms().mean()) if rows.n_rows else 0.0
    norm = norm if norm > 0 else 1.0
    sparse, n = isinstance(rows, Csr), max(1, rows.n_rows)
    frame = None if sparse else _frame(rows, params.bias)
    norm = frame.size**2 if frame else norm
    asked = params.regularization
    auto = (HINGE_PENALTY if sparse else SOFTMAX_PENALTY) * norm / n
    decay = max(auto if asked == AUTO else float(asked), LEAST)
    if isinstance(rows, Csr):
        unit = float(np.sqrt(norm)) if params.bias else 0.0
        fitted = ascend(rows, children, n_children, 1.0 / (decay * n), unit, stream(seed, "ascent", name))
        prune(fitted.weights, SMALL)
        weights, bias, passes = fitted.weights, fitted.bias * np.float32(HINGE_UNITS), fitted.sweeps
        weights *= np.float32(HINGE_UNITS)
    else:
        weights, bias, _, passes = fit_softmax(rows, children, n_children, reference, decay, params.bias, frame)
    trial = StepTrial(1.0, decay, norm, passes, float(np.log(n_children + reference)), (), rows.n_rows)
    return FitResult({"weights": weights, "bias": bias}, [], trial, 2.0 * passes * rows.n_rows * n_children)


def _frame(rows: Rows, bias: bool) -> Frame | None:
    """What dense rows are seen in while they are learnt; without a bias nothing may be taken away from them."""
    mean, spread = spread_of(rows)
    if bias:
        return frame_of(mean, spread)
    return frame_of(np.zeros_like(mean), spread + float(mean @ mean))


def sum_likelihoods(rows: Rows, weights: Parameters, children: Array, reference: bool, scales: Array) -> Array:
    """(n_scales,) float64: the log-probabilities of the rows' children, summed, at each scale of the scores.

    children (n_rows,) int32, -1 for "none of these" if there is a reference of score 0, else such rows do not count
    """
    matrix, bias = weights["weights"], weights.get("bias", np.zeros(1, np.float32))
    total = np.zeros(scales.size)
    for start, stop, part in slices(rows, matrix.shape[1]):
        add_likelihoods(node_scores(part, matrix, bias), children[start:stop], reference, scales, total)
    return total


@numba.njit(cache=True, nogil=True)
def add_likelihoods(scores: Array, children: Array, reference: bool, scales: Array, total: Array) -> None:
    """total[k] += sum of log softmax(scales[k] * scores)[child]; scores (n, Q), children (n,), total (n_scales,).

    scales  as of `scale.add_exponentials`
    """
    mass, room = np.empty(scales.size), np.empty(scales.size)
    for i in range(scores.shape[0]):
        child = children[i]
        if child < 0 and not reference:
            continue
        highest = 0.0 if reference else np.float64(scores[i, 0])
        for q in range(scores.shape[1]):
            highest = max(highest, np.float64(scores[i, q]))
        own = np.float64(scores[i, child]) if child >= 0 else 0.0
        mass[:] = 0.0
        if reference:
            add_exponentials(-highest, scales, mass, room)
        for q in range(scores.shape[1]):
            add_exponentials(scores[i, q] - highest, scales, mass, room)
        for k in range(scales.size):
            total[k] += scales[k] * (own - highest) - np.log(mass[k])
