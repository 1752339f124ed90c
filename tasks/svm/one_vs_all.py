"""One-vs-all squared hinges: of dense rows by dual ascent a block of rows at a time, of sparse ones row by row.

Every output q is min 1/2 (|w_q|^2 + v_q^2) + C sum of max(0, 1 - y_i (w_q . x_i + unit v_q))^2, its bias unit v_q; the
dual has a number a_i >= 0 a row (Hsieh et al. 2008). A block's scores are one product, and so is what it does to the
weights; between them its rows have their turns one after another on the scores, kept right by the rows' own products.
That is the same as row after row, at the speed of products of matrices. The weights are averaged over a sweep, which
makes them good long before they converge (Shalev-Shwartz & Zhang 2013, theorem 2).
"""

from __future__ import annotations

import numba
import numpy as np

from tasks.errors import Diverged, ParamError
from tasks.fit.hinge_ascent import ABREAST, ascend
from tasks.rows import Csr, Dense
from tasks.rows.base import Array
from tasks.seeds import stream

BLOCK = 64  # rows whose scores are one product
SWEEPS = 32  # at most, at the full cost
LOW, RISE, STAGE = 1.0, 4.0, 2  # costs begin where C unit^2 is at most LOW, and rise by so much every so many sweeps
GAP = 0.05  # relative duality gap, as seen during a sweep, after which there is no other
FIRST_LOOK = 4  # the objective is looked at after so many sweeps, and twice, four times, ... as many
WORTH = 0.015  # by less than this share of it the objective went down since the last look: enough


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
    unit = float(np.sqrt(rows.squared_norms().mean())) if rows.n_rows else 0.0
    unit, own = unit if unit > 0 else 1.0, np.asarray(labels, np.int32) - np.int32(outputs.start)
    own[(own < 0) | (own >= len(outputs))] = -1
    if isinstance(rows, Csr):
        fitted = ascend(rows, own, len(outputs), cost, unit, rng)
        weights, bias = fitted.weights, fitted.bias
    else:
        weights, bias = _dense(np.ascontiguousarray(rows.values, np.float32), own, len(outputs), cost, unit, rng)
    if not (np.isfinite(weights).all() and np.isfinite(bias).all()):
        raise Diverged("weights of one-vs-all classifiers are not finite", "one-vs-all", "scale the rows, or lower C")
    return weights, bias


def _dense(
    values: Array, labels: Array, n_outputs: int, cost: float, unit: float, rng: np.random.Generator
) -> tuple[Array, Array]:
    """Values (n, d) float32; labels (n,) int32, -1 for none. ABREAST outputs at a time, which bounds the duals held."""
    weights, bias = np.zeros((values.shape[1], n_outputs), np.float32), np.zeros(n_outputs, np.float32)
    seed = int(rng.integers(2**63))
    for start in range(0, n_outputs, ABREAST):
        part = slice(start, min(start + ABREAST, n_outputs))
        own = np.where((labels >= part.start) & (labels < part.stop), labels - np.int32(start), np.int32(-1))
        group = Group(values, own, part.stop - start, cost, unit)
        weights[:, part], bias[part] = group.fit(stream(seed, "sweeps"))
    return weights, bias


class Group:
    """Outputs that are fitted abreast: weights (d, Q), constant (Q,), duals (n, Q), all float32.

    `asked` is C of the sweep under way, `cost` that of the problem.
    """

    def __init__(self, values: Array, labels: Array, n_outputs: int, cost: float, unit: float) -> None:
        self.values, self.labels, self.cost, self.unit = values, labels, cost, np.float32(unit)
        self.asked = cost
        n, d = values.shape
        self.weights, self.constant = np.zeros((d, n_outputs), np.float32), np.zeros(n_outputs, np.float32)
        self.duals = np.zeros((n, n_outputs), np.float32)
        self.size = int(np.clip(n // 8, 1, BLOCK))
        self.moves = np.empty((self.size, n_outputs), np.float32)

    def fit(self, rng: np.random.Generator) -> tuple[Array, Array]:
        """(weights, bias): of each output the best that was looked at."""
        self.climb(rng)
        weights, bias = self.weights, self.constant
        best, look = np.full(bias.size, np.inf), FIRST_LOOK
        for sweep in range(1, SWEEPS + 1):
            mean, constant, gap = self.sweep(rng.permutation(len(self.values)))
            last = gap <= GAP or sweep == SWEEPS
            if not (last or sweep == look):
                continue
            if sweep < FIRST_LOOK:
                return mean, constant * self.unit
            look *= 2
            found = self.objectives(mean, constant * self.unit)
            enough = last or not found.sum() < (1.0 - WORTH) * best.sum()
            weights = np.where(found <= best, mean, weights)
            bias, best = np.where(found <= best, constant * self.unit, bias), np.minimum(found, best)
            if enough:
                break
        return weights, bias

    def climb(self, rng: np.random.Generator) -> None:
        """Sweeps with rising costs, after each of which the duals are stretched by what is best for their objective.

        They end at 2 C h, and a step is bounded by the rows' norms: where C is high, it would take many sweeps to get
        there. Sum of a_i - a_i^2 / 4 C, less 1/2 |w|^2, has its maximum along the duals at a known multiple of them.
        """
        n_stages = int(np.ceil(np.log(max(self.cost * float(self.unit) ** 2 / LOW, 1.0)) / np.log(RISE)))
        for stage in range(n_stages, 0, -1):
            self.asked = self.cost * RISE**-stage
            for _ in range(STAGE):
                self.sweep(rng.permutation(len(self.values)))
            self.asked *= RISE
            norms = np.einsum("dq,dq->q", self.weights, self.weights) + self.constant**2
            norms += np.einsum("nq,nq->q", self.duals, self.duals) / np.float32(2.0 * self.asked)
            stretch = np.clip(self.duals.sum(axis=0) / np.maximum(norms, np.float32(1e-30)), 1.0, RISE).astype(
                np.float32
            )
            for changed in (self.duals, self.weights, self.constant):
                changed *= stretch
        self.asked = self.cost

    def sweep(self, order: Array) -> tuple[Array, Array, float]:
        """One step for every row and output: (mean weights, mean constant, relative duality gap as seen on the way)."""
        mean, constant = np.zeros_like(self.weights), np.zeros_like(self.constant)
        gaps, losses = np.zeros(constant.size), np.zeros(constant.size)
        softness, n_blocks = np.float32(0.5 / self.asked), 0
        for start in range(0, order.size, self.size):
            index = order[start : start + self.size]
            block, moves = self.values[index], self.moves[: index.size]
            scores = block @ self.weights
            scores += self.unit * self.constant
            gram = block @ block.T
            gram += self.unit * self.unit
            take_turns(index, self.labels, scores, gram, softness, self.duals, moves, gaps, losses)
            Dense(block).subtract_gradient(moves, -1.0, self.weights)
            self.constant += self.unit * moves.sum(axis=0)
            mean += self.weights
            constant += self.constant
            n_blocks += 1
        share = np.float32(1.0 / max(1, n_blocks))
        norms = np.einsum("dq,dq->q", self.weights, self.weights) + self.constant**2
        primal = 0.5 * float(norms.sum(dtype=np.float64)) + self.asked * float(losses.sum())
        return mean * share, constant * share, float(gaps.sum()) / primal if primal > 0 else 0.0

    def objectives(self, weights: Array, bias: Array) -> Array:
        """(Q,) float64: the objective of each output."""
        norms: Array = np.einsum("dq,dq->q", weights, weights, dtype=np.float64)
        norms += (bias.astype(np.float64) / self.unit) ** 2
        losses = np.zeros(bias.size)
        for start in range(0, len(self.values), 16 * BLOCK):
            part = slice(start, start + 16 * BLOCK)
            add_losses(self.values[part] @ weights + bias, self.labels[part], losses)
        objectives: Array = 0.5 * norms + self.cost * losses
        return objectives


@numba.njit(cache=True, nogil=True)
def take_turns(
    index: Array,
    labels: Array,
    scores: Array,
    gram: Array,
    softness: float,
    duals: Array,
    moves: Array,
    gaps: Array,
    losses: Array,
) -> None:
    """The exact step of each row of a block for all outputs, seen by the scores of the rows after it.

    index (m,) int64: rows of the block; labels (n,) int32, -1 for none; duals (n, Q) float32, changed
    scores (m, Q) float32 before the first row's turn, changed; gram (m, m) float32: x . x' + unit^2
    softness float32: 1 / (2 C); moves (m, Q) float32, out: changes of a_i y_i
    gaps, losses (Q,) float64 += C h^2 + a g + a^2 / 4 C and h^2, as each row finds them (h = max(0, -g), g = y f - 1)
    """
    n_outputs, one, zero, half = gaps.size, np.float32(1.0), np.float32(0.0), np.float32(0.5)
    hardness, seen, lost = half / softness, np.zeros(n_outputs, np.float32), np.zeros(n_outputs, np.float32)
    for r in range(index.size):
        dual, score, move, label = duals[index[r]], scores[r], moves[r], labels[index[r]]
        inverse = one / (gram[r, r] + softness)
        before, gap, loss = zero, zero, zero
        if label >= 0:
            before, gap, loss = dual[label], seen[label], lost[label]
        for q in range(n_outputs):  # as a row of the others: y = -1
            slope, old = -score[q] - one, dual[q]
            hinge = max(zero, -slope)
            seen[q] += hardness * hinge * hinge + old * (slope + half * softness * old)
            lost[q] += hinge * hinge
            new = max(old - (slope + softness * old) * inverse, zero)
            move[q] = old - new
            dual[q] = new
        if label >= 0:
            slope = score[label] - one
            hinge = max(zero, -slope)
            seen[label] = gap + hardness * hinge * hinge + before * (slope + half * softness * before)
            lost[label] = loss + hinge * hinge
            new = max(before - (slope + softness * before) * inverse, zero)
            move[label] = new - before
            dual[label] = new
        for later in range(r + 1, index.size):
            common, target = gram[later, r], scores[later]
            for q in range(n_outputs):
                target[q] += common * move[q]
    for q in range(n_outputs):
        gaps[q] += seen[q]
        losses[q] += lost[q]


@numba.njit(cache=True, nogil=True)
def add_losses(scores: Array, labels: Array, losses: Array) -> None:
    """losses (Q,) float64 += squared hinges of scores (m, Q) float32; labels (m,) int32, -1 for none."""
    one, zero = np.float32(1.0), np.float32(0.0)
    for i in range(labels.size):
        for q in range(losses.size):
            hinge = max(zero, one - scores[i, q]) if q == labels[i] else max(zero, one + scores[i, q])
            losses[q] += hinge * hinge
