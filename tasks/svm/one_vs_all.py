"""One-vs-all squared hinges by dual ascent: costs that rise, weights averaged over a sweep, and when to stop.

Every output q is min 1/2 (|w_q|^2 + v_q^2) + C sum of max(0, 1 - y_i (w_q . x_i + unit v_q))^2, its bias unit v_q; the
dual has a number a_i >= 0 a row (Hsieh et al. 2008). The weights are averaged over a sweep, which makes them good long
before they converge (Shalev-Shwartz & Zhang 2013, theorem 2). How a sweep is done is the body's business.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np

from tasks.errors import Diverged, ParamError
from tasks.fit.hinge_ascent import ABREAST
from tasks.rows import Csr, Dense
from tasks.rows.base import Array
from tasks.seeds import stream
from tasks.svm.dense_one_vs_all import DenseAscent
from tasks.svm.sparse_one_vs_all import SparseAscent

FAR = 1e3  # |mean|^2 of rows far from zero, at least, in units of their mean squared distance from it
FEW_ROWS = 100  # which have all the sweeps that they need, wherever they are
SWEEPS = 32  # at most, at the full cost, of many rows
TURNS = 2**15  # of rows, which few of them may take whatever is won: narrow rows of a high cost are slow, but soon done
LOW, RISE, STAGE = 1.0, 4.0, 2  # costs begin where C unit^2 is at most LOW, and rise by so much every so many sweeps
GAP = 0.05  # relative duality gap, as seen during a sweep, after which there is no other
FIRST_LOOK = 4  # the objective is looked at after so many sweeps, and twice, four times, ... as many
WORTH = 0.015  # by less than this share of it the objective went down since the last look: enough


class Ascent(Protocol):
    """Outputs that are fitted abreast: weights (d, Q), constant (Q,), duals (n, Q), all float32, changed in place."""

    weights: Array
    constant: Array
    duals: Array

    def sweep(self, order: Array, cost: float) -> tuple[Array, Array]:
        """One step for every row and output: (gaps, losses), both (Q,) float64, as the rows find them on the way."""

    def mean(self) -> tuple[Array, Array]:
        """(weights, constant), averaged over the last sweep."""

    def losses(self, weights: Array, bias: Array) -> Array:
        """(Q,) float64: sums of the squared hinges of weights (d, Q) and bias (Q,), both float32."""


def one_vs_all(
    rows: Dense | Csr,
    labels: Array,
    n_labels: int,
    cost: float,
    rng: np.random.Generator,
    outputs: range | None = None,
) -> tuple[Array, Array]:
    """(weights (n_features, Q) float32, bias (Q,) float32) of the labels `outputs`, all n_labels of them if not given.

    labels   (n_rows,) int32 in [0, n_labels)
    cost     C > 0
    rng      with one in the same state, outputs have the same bits whichever range they are fitted in
    outputs  starts at a multiple of ABREAST, and ends at one or at n_labels
    Raises ParamError for another cost or range, Diverged when the weights are not finite.
    """
    outputs = range(n_labels) if outputs is None else outputs
    if not 0 < cost < np.inf:
        raise ParamError("C", cost, "a finite number above 0", "hinges cost something")
    if outputs.start % ABREAST or (outputs.stop % ABREAST and outputs.stop != n_labels):
        raise ParamError("outputs", outputs, f"multiples of {ABREAST}", "so many outputs are fitted abreast")
    held, mean = centred(rows)
    unit = float(np.sqrt(held.squared_norms().mean())) if rows.n_rows else 0.0
    unit, labels = unit if unit > 0 else 1.0, np.asarray(labels, np.int32)
    weights = np.zeros((rows.n_features, len(outputs)), np.float32)
    bias, seed = np.zeros(len(outputs), np.float32), int(rng.integers(2**63))
    for start in range(outputs.start, outputs.stop, ABREAST):  # which bounds the duals held
        stop = min(start + ABREAST, outputs.stop)
        own = np.where((labels >= start) & (labels < stop), labels - np.int32(start), np.int32(-1))
        part, sweeps = slice(start - outputs.start, stop - outputs.start), stream(seed, "sweeps")
        weights[:, part], bias[part] = Group(held, own, stop - start, cost, unit).fit(sweeps)
    if mean is not None:
        bias -= (mean.astype(np.float64) @ weights).astype(np.float32)
    if not (np.isfinite(weights).all() and np.isfinite(bias).all()):
        raise Diverged("weights of one-vs-rest classifiers are not finite", "one-vs-rest", "scale the rows, or lower C")
    return weights, bias


def centred(rows: Dense | Csr) -> tuple[Dense | Csr, Array | None]:
    """Dense float32 rows far from zero without their mean, and the mean (n_features,); others as they are, and None.

    Far from zero all rows point one way, and an ascent would spend its sweeps on that. The bias takes the mean up.
    """
    if isinstance(rows, Csr):
        return rows, None
    values = np.ascontiguousarray(rows.values, np.float32)
    if rows.n_rows <= FEW_ROWS:
        return Dense(values), None
    mean = values.mean(axis=0, dtype=np.float64)
    length = float(mean @ mean)
    if float(Dense(values).squared_norms().mean()) > (1.0 + 1.0 / FAR) * length:
        return Dense(values), None
    mean = mean.astype(np.float32)
    return Dense(values - mean), mean


class Group:
    """Outputs that are fitted abreast; labels (n,) int32 are those of theirs, -1 for none."""

    def __init__(self, rows: Dense | Csr, labels: Array, n_outputs: int, cost: float, unit: float) -> None:
        self.n_rows, self.cost, self.unit = rows.n_rows, cost, np.float32(unit)
        self.ascent: Ascent = (
            SparseAscent(rows, labels, n_outputs, unit)
            if isinstance(rows, Csr)
            else DenseAscent(rows.values, labels, n_outputs, unit)
        )

    def fit(self, rng: np.random.Generator) -> tuple[Array, Array]:
        """(weights, bias): of each output the best that was looked at."""
        self.climb(rng)
        weights, bias = self.ascent.weights, self.ascent.constant
        best, look = np.full(bias.size, np.inf), FIRST_LOOK
        free = TURNS // max(1, self.n_rows)
        most = max(SWEEPS, free)
        for sweep in range(1, most + 1):
            gap = self.sweep(rng, self.cost)
            last = gap <= GAP or sweep == most
            if not (last or sweep == look):
                continue
            mean, constant = self.ascent.mean()
            if sweep < FIRST_LOOK:
                return mean, constant * self.unit
            look *= 2
            found = self.objectives(mean, constant * self.unit)
            enough = last or (sweep >= free and not found.sum() < (1.0 - WORTH) * best.sum())
            better = found <= best
            weights = mean if better.all() else np.where(better, mean, weights)
            bias, best = np.where(better, constant * self.unit, bias), np.minimum(found, best)
            if enough:
                break
        return weights, bias

    def climb(self, rng: np.random.Generator) -> None:
        """Sweeps with rising costs, after each of which the duals are stretched by what is best for their objective.

        They end at 2 C h, and a step is bounded by the rows' norms: where C is high, it would take many sweeps to get
        there. Sum of a_i - a_i^2 / 4 C, less 1/2 |w|^2, has its maximum along the duals at a known multiple of them.
        """
        n_stages = int(np.ceil(np.log(max(self.cost * float(self.unit) ** 2 / LOW, 1.0)) / np.log(RISE)))
        duals = self.ascent.duals
        for stage in range(n_stages, 0, -1):
            for _ in range(STAGE):
                self.sweep(rng, self.cost * RISE**-stage)
            softness = np.float32(0.5 / (self.cost * RISE ** (1 - stage)))
            norms = self.norms() + softness * np.einsum("nq,nq->q", duals, duals)
            stretch = np.clip(duals.sum(axis=0) / np.maximum(norms, np.float32(1e-30)), 1.0, RISE).astype(np.float32)
            for changed in (duals, self.ascent.weights, self.ascent.constant):
                changed *= stretch

    def sweep(self, rng: np.random.Generator, cost: float) -> float:
        """The relative duality gap as seen on the way."""
        gaps, losses = self.ascent.sweep(rng.permutation(self.n_rows), cost)
        primal = 0.5 * float(self.norms().sum(dtype=np.float64)) + cost * float(losses.sum())
        return float(gaps.sum()) / primal if primal > 0 else 0.0

    def norms(self) -> Array:
        """(Q,) float32: |w|^2 + v^2."""
        norms: Array = np.einsum("dq,dq->q", self.ascent.weights, self.ascent.weights) + self.ascent.constant**2
        return norms

    def objectives(self, weights: Array, bias: Array) -> Array:
        """(Q,) float64: the objective of each output."""
        norms: Array = np.einsum("dq,dq->q", weights, weights, dtype=np.float64)
        norms += (bias.astype(np.float64) / self.unit) ** 2
        objectives: Array = 0.5 * norms + self.cost * self.ascent.losses(weights, bias)
        return objectives
