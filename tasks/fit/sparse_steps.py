"""Steps of the losses of flat classifiers on sparse rows, a whole chunk in one call: the bits of `sgd.descend`."""

from __future__ import annotations

from typing import Any, TypeGuard

import numpy as np

from tasks.fit.linear import LinearScorer
from tasks.later import numba
from tasks.losses.crammer_singer import CrammerSinger, crammer_singer_rows
from tasks.losses.hinge import OneVsRestHinge, hinge_rows
from tasks.losses.logistic import OneVsRestLogistic, logistic_rows
from tasks.losses.multinomial import Multinomial, multinomial_rows
from tasks.losses.some_classes import SomeClasses
from tasks.losses.weights import row_weights
from tasks.rows import Csr
from tasks.rows.base import Array, Rows

HINGE, SQUARED_HINGE, LOGISTIC, MULTINOMIAL, CRAMMER_SINGER = 0, 1, 2, 3, 4
Separable = OneVsRestHinge | OneVsRestLogistic
Flat = Separable | Multinomial | CrammerSinger


@numba.njit(cache=True, nogil=True)
def sparse_steps(
    entries: tuple[Array, Array, Array],
    targets: tuple[Array, Array],
    order: Array,
    steps: Array,
    batch: int,
    decay: float,
    damping: tuple[float, float],
    loss: tuple[int, float],
    weights: Array,
    bias: Array,
    scale: float,
    smallest: float,
) -> tuple[float, float]:
    """One step per batch of `order`; the parameters are scale * weights and scale * bias.

    entries  of all rows: data (nnz,) float32, indices (nnz,) int32, indptr (n_rows + 1,) int64
    targets  of all rows: outputs (n_rows,) int32, -1 for none, and weights of their losses (n_rows,) float64
    order, steps, batch, decay  as in `sgd.descend`
    damping  (curvature of the loss, how much longer steps of the bias are)
    loss     (kind, weight of the positive output of one-vs-rest)
    weights  (n_features, n_outputs) float32 and bias (n_outputs,) or (0,) float32: changed in place
    returns  (sum of losses, scale)
    """
    outputs, row_weight = targets
    scores = np.empty((batch, weights.shape[1]), np.float32)
    residuals = np.empty_like(scores)
    total = 0.0
    for position in range(steps.size):
        chosen = order[position * batch : (position + 1) * batch]
        size, step = chosen.size, steps[position]
        score_rows(entries, chosen, weights, bias, np.float32(scale), scores)
        total += _losses(scores[:size], outputs[chosen], row_weight[chosen], loss, residuals[:size])
        if damping[0] > 0:
            damp_rows(entries, chosen, damping[0] * step / size, residuals)
        scale *= max(1.0 - step * decay, 0.0)
        if scale < smallest:
            weights *= np.float32(scale)
            bias *= np.float32(scale)
            scale = 1.0
        subtract_rows(entries, chosen, residuals, step / (size * scale), damping[1], weights, bias)
    return total, scale


@numba.njit(cache=True, nogil=True)
def _losses(scores: Array, outputs: Array, row_weight: Array, loss: tuple[int, float], residuals: Array) -> float:
    """Fill `residuals`; returns the sum of losses."""
    total: float
    if loss[0] == LOGISTIC:
        total = logistic_rows(scores, outputs, row_weight, loss[1], residuals)
    elif loss[0] == MULTINOMIAL:
        total = multinomial_rows(scores, outputs, row_weight, residuals)
    elif loss[0] == CRAMMER_SINGER:
        total = crammer_singer_rows(scores, outputs, row_weight, residuals)
    else:
        total = hinge_rows(scores, outputs, row_weight, loss[1], loss[0] == SQUARED_HINGE, residuals)
    return total


@numba.njit(cache=True, nogil=True)
def score_rows(
    entries: tuple[Array, Array, Array], chosen: Array, weights: Array, bias: Array, scale: float, scores: Array
) -> None:
    """scores[:n] = scale (X W + bias) of the rows `chosen` (n,)."""
    data, indices, indptr = entries
    for i in range(chosen.size):
        row = scores[i]
        row[:] = np.float32(0.0)
        for p in range(indptr[chosen[i]], indptr[chosen[i] + 1]):
            value, source = data[p], weights[indices[p]]
            for c in range(row.size):
                row[c] += value * source[c]
        if bias.size:
            for c in range(row.size):
                row[c] += bias[c]
        for c in range(row.size):
            row[c] *= scale


@numba.njit(cache=True, nogil=True)
def damp_rows(entries: tuple[Array, Array, Array], chosen: Array, factor: float, residuals: Array) -> None:
    """Residuals of each row over 1 + factor |x|^2."""
    data, _, indptr = entries
    for i in range(chosen.size):
        norm = 0.0
        for p in range(indptr[chosen[i]], indptr[chosen[i] + 1]):
            norm += np.float64(data[p]) * np.float64(data[p])
        divisor = np.float32(1.0 + factor * norm)
        row = residuals[i]
        for c in range(row.size):
            row[c] /= divisor


@numba.njit(cache=True, nogil=True)
def subtract_rows(
    entries: tuple[Array, Array, Array],
    chosen: Array,
    residuals: Array,
    step: float,
    bias_rate: float,
    weights: Array,
    bias: Array,
) -> None:
    """weights -= step X' R and bias -= step bias_rate (column sums of R), for the rows `chosen` (n,)."""
    data, indices, indptr = entries
    factor = np.float32(-step)
    for i in range(chosen.size):
        source = residuals[i]
        for p in range(indptr[chosen[i]], indptr[chosen[i] + 1]):
            value, row = factor * data[p], weights[indices[p]]
            for c in range(source.size):
                row[c] += value * source[c]
    if bias.size:
        sums = residuals[0].copy()
        for i in range(1, chosen.size):
            sums += residuals[i]
        bias -= np.float32(step * bias_rate) * sums


def fits(scorer: object, loss: object, rows: Rows, parameters: dict[str, Array]) -> TypeGuard[LinearScorer]:
    """Whether `descend_sparse` does what `sgd.descend` does: float32 throughout, and sums of columns left to right."""
    whole = loss.loss if isinstance(loss, SomeClasses) else loss
    return (
        isinstance(scorer, LinearScorer)
        and isinstance(whole, Flat)
        and isinstance(rows, Csr)
        and rows.data.dtype == np.float32
        and all(values.dtype == np.float32 for values in parameters.values())
        and scorer.n_outputs > 1
    )


def descend_sparse(
    scorer: LinearScorer,
    loss: Any,
    parameters: dict[str, Array],
    scale: float,
    rows: Csr,
    labels: Array,
    order: Array,
    steps: Array,
    batch: int,
    decay: float,
    curvature: float,
    smallest: float,
) -> tuple[float, float]:
    """`sgd.descend` where it `fits`: parameters are changed in place; returns (sum of losses, scale).

    smallest  a scale below it is multiplied in
    """
    order = np.asarray(order, np.int64)
    met, weighing = labels[order], loss  # labels of other rows may be anything
    outputs, row_weight = np.full(rows.n_rows, -1, np.int32), np.zeros(rows.n_rows)
    if isinstance(loss, SomeClasses):
        outputs[order], weighing = loss.outputs(met), loss.loss
    else:
        outputs[order] = met
    row_weight[order] = row_weights(met, weighing.class_weight)
    done: tuple[float, float] = sparse_steps(
        (rows.data, rows.indices, np.asarray(rows.indptr, np.int64)),
        (outputs, row_weight),
        order,
        np.asarray(steps, np.float64),
        batch,
        float(decay),
        (float(curvature), float(scorer.bias_rate)),
        (_kind(weighing), float(getattr(weighing, "positive_weight", 1.0))),
        parameters["weights"],
        parameters.get("bias", np.zeros(0, np.float32)),
        float(scale),
        smallest,
    )
    return done


def _kind(loss: Flat) -> int:
    if isinstance(loss, Multinomial):
        return MULTINOMIAL
    if isinstance(loss, CrammerSinger):
        return CRAMMER_SINGER
    if isinstance(loss, OneVsRestLogistic):
        return LOGISTIC
    return SQUARED_HINGE if loss.squared else HINGE
