"""Steps of any loss on dense rows and on PQ codes, in float32: what `sgd.descend` does, at the pace of a product."""

from __future__ import annotations

from typing import TypeGuard

import numpy as np

from tasks.emit import LANES, address
from tasks.fit.linear import LinearScorer
from tasks.fit.panels import COMPILED, lines, pack, row_width, step_through, unpack
from tasks.fit.scaled import ScaledParameters
from tasks.fit.scorer import Parameters
from tasks.fit.vectors import copy_half_lines, put_lines
from tasks.later import numba
from tasks.losses.base import Loss
from tasks.quantize.tables import aligned
from tasks.rows import Dense, PqCodes
from tasks.rows.base import Array, Rows


def fits_dense(scorer: object, rows: Rows, parameters: Parameters) -> TypeGuard[LinearScorer]:
    """Whether `descend_dense` does what `sgd.descend` does."""
    return (
        COMPILED
        and type(scorer) is LinearScorer
        and isinstance(rows, Dense | PqCodes)
        and min(rows.n_features, scorer.n_outputs) > 0
        and all(values.dtype == np.float32 for values in parameters.values())
    )


def descend_dense(
    scorer: LinearScorer,
    loss: Loss,
    state: ScaledParameters,
    rows: Rows,
    labels: Array,
    order: Array,
    steps: Array,
    batch: int,
    decay: float,
    curvature: float,
    centre: Array | None,
) -> float:
    """`sgd.descend` where it `fits_dense`: what a step gives to the weights is added when the next one reads them."""
    weights, most = state.values["weights"], min(batch, max(1, order.size))
    bias = state.values.get("bias", np.zeros(0, np.float32))
    n_features, n_outputs = weights.shape
    n_panels = -(-n_outputs // LANES)
    panels, shift = lines(n_panels * n_features), np.zeros(0, np.float32)
    residuals, sums = lines(n_panels, most), lines(n_panels, most)
    before, after = (lines(most, row_width(n_features) // LANES).reshape(most, -1) for _ in range(2))
    norms, room, total, n_before = np.zeros(most), np.empty((most, n_outputs), np.float32), 0.0, 0
    if centre is not None:
        shift = lines(row_width(n_features) // LANES).reshape(-1)
        shift[:n_features] = centre
    pack(weights, panels)
    state.values = {**state.values, "weights": panels}  # so that what decays are the panels
    met = labels[order]
    for position, step in enumerate(steps.tolist()):
        where = slice(position * batch, (position + 1) * batch)
        chosen = order[where]
        n = chosen.size
        put_rows(rows, chosen, shift, curvature > 0, after, norms)
        step_through(panels, n_features, before, residuals, n_before, after, n, sums)
        scores = room[:n]
        take_scores(sums, bias, np.float32(state.scale), scores)
        value, moved = loss.residuals(scores, met[where])
        total += value
        state.decay(1.0 - step * decay)
        factor = step / (n * state.scale)
        give_residuals(moved, curvature * step / n, norms, factor, factor * scorer.bias_rate, residuals, bias)
        before, after, n_before = after, before, n
    step_through(panels, n_features, before, residuals, n_before, after, 0, sums)
    unpack(panels, weights)
    state.values = {**state.values, "weights": weights}
    return total


def put_rows(rows: Rows, chosen: Array, shift: Array, measured: bool, out: Array, norms: Array) -> None:
    """out[:n, :n_features] = the chosen rows (n,) less a centre; norms[:n] their squares.

    shift     (row_width(n_features),) float32, starting a cache line: the centre, then zeros; or (0,)
    measured  whether norms are wanted; (most,) float64
    """
    if isinstance(rows, PqCodes):
        put_decoded(rows.codes, rows.codebooks, chosen, out)
    elif isinstance(rows, Dense) and rows.values.dtype == np.float16:  # which compiled loops do not know
        out[: chosen.size, : rows.n_features] = rows.values[chosen]
    elif isinstance(rows, Dense):
        put_values(rows.values, chosen, out)
    if shift.size or measured:
        shift_and_measure(out, chosen.size, shift, norms)


@numba.njit(cache=True, nogil=True)
def put_values(values: Array, chosen: Array, out: Array) -> None:
    """out[:n, :n_features] = values[chosen]."""
    for i in range(chosen.size):
        source = values[chosen[i]]
        target = out[i, : source.size]
        for j in range(source.size):
            target[j] = source[j]


@numba.njit(cache=True, nogil=True)
def put_decoded(codes: Array, codebooks: Array, chosen: Array, out: Array) -> None:
    """out[:n, :n_features] = what codes[chosen] stand for; codebooks float32, C order."""
    n_centroids, width = codebooks.shape[1], codebooks.shape[2]
    halves = width // 8 if width % 8 == 0 else 0
    flat = codebooks.reshape(codebooks.size)
    for i in range(chosen.size):
        row, target = codes[chosen[i]], out[i]
        for q in range(row.size):
            first = (q * n_centroids + np.int64(row[q])) * width
            if halves:
                copy_half_lines((address(target) + 4 * q * width, address(flat) + 4 * first, halves))
            else:
                for t in range(width):
                    target[q * width + t] = flat[first + t]


@numba.njit(cache=True, nogil=True)
def shift_and_measure(rows: Array, n: int, shift: Array, norms: Array) -> None:
    """rows[:n] -= shift, unless it is (0,); norms[:n] = squared norms. Rows as of `put_rows`, zeros behind them."""
    squares = aligned(LANES)
    zeros = aligned(0 if shift.size else rows.shape[1])
    for c in range(zeros.size):
        zeros[c] = 0.0
    for i in range(n):
        place, taken = address(rows[i]), address(shift) if shift.size else address(zeros)  # here: see `address`
        put_lines((place, place, taken, address(squares), rows.shape[1] // LANES))
        norm = 0.0
        for c in range(LANES):
            norm += squares[c]
        norms[i] = norm


@numba.njit(cache=True, nogil=True)
def take_scores(sums: Array, bias: Array, scale: float, scores: Array) -> None:
    """scores (n, n_outputs) = scale (sums + bias); sums (n_panels, most, LANES), bias (n_outputs,) or (0,)."""
    for i in range(scores.shape[0]):
        for p in range(sums.shape[0]):
            source, target = sums[p, i], scores[i, p * LANES : (p + 1) * LANES]
            if bias.size:
                offset = bias[p * LANES : (p + 1) * LANES]
                for c in range(target.size):
                    target[c] = scale * (source[c] + offset[c])
            else:
                for c in range(target.size):
                    target[c] = scale * source[c]


@numba.njit(cache=True, nogil=True)
def give_residuals(
    given: Array, damping: float, norms: Array, factor: float, bias_factor: float, out: Array, bias: Array
) -> None:
    """out (n_panels, most, LANES) = -factor * given over 1 + damping |x|^2, and bias -= their sums, likewise.

    given (n, n_outputs) float32; damping >= 0; norms (most,) float64; bias (n_outputs,) or (0,)
    """
    for i in range(given.shape[0]):
        share = 1.0 / (1.0 + damping * norms[i])
        weight, lift = np.float32(-factor * share), np.float32(-bias_factor * share)
        for p in range(out.shape[0]):
            source, target = given[i, p * LANES : (p + 1) * LANES], out[p, i]
            for c in range(source.size):
                target[c] = weight * source[c]
        for c in range(bias.size):
            bias[c] += lift * given[i, c]
