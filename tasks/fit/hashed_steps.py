"""Steps of any loss on dense rows and on PQ codes with hashed scores, in float32: what `sgd.descend` does, faster.

The table is un-hashed into plain weights of the nodes once a call, not once a batch (`tasks/hashing/mirror.py`). A step
goes through them in the blocks of `panels`: scores of all nodes; then the update, of the panels alone in which some
node has a residual.
"""

from __future__ import annotations

from functools import partial
from typing import TypeGuard

import numpy as np

from tasks.emit import LANES, LINE, address
from tasks.fit.dense_steps import give_residuals, put_rows, take_scores
from tasks.fit.panels import COMPILED, FEATURES, add_products, lines, row_width
from tasks.fit.scaled import ScaledParameters
from tasks.fit.scorer import Parameters
from tasks.hashing.heshing import ROWS_AT_ONCE, HashedScorer
from tasks.hashing.kernels import path_sums, residuals_below
from tasks.hashing.mirror import Mirror
from tasks.hashing.murmur import SIGN_BIT, bucket_of
from tasks.later import numba
from tasks.losses.base import Loss
from tasks.rows import Dense, PqCodes
from tasks.rows.base import Array, Rows


def fits_hashed(scorer: object, rows: Rows, parameters: Parameters, batch: int) -> TypeGuard[HashedScorer]:
    """Whether `descend_hashed` does what `sgd.descend` does, without a centre."""
    return (
        COMPILED
        and type(scorer) is HashedScorer
        and isinstance(rows, Dense | PqCodes)
        and parameters["table"].dtype == np.float32
        and batch <= ROWS_AT_ONCE
        and scorer.has_mirror
    )


def descend_hashed(
    scorer: HashedScorer,
    loss: Loss,
    state: ScaledParameters,
    rows: Rows,
    labels: Array,
    order: Array,
    steps: Array,
    batch: int,
    decay: float,
    curvature: float,
) -> float:
    """`sgd.descend` where it `fits_hashed`; the plain weights stay with the state, for the next chunk of rows."""
    mirror, most = scorer.mirror, min(batch, max(1, order.size))
    if state.restore is None:
        table = state.values["table"]
        panels, kept = mirror.weights(table)
        state.values = {"table": table, "panels": panels, "kept": kept}  # all of them decay
        state.restore = partial(put_back, mirror)
    panels, kept = state.values["panels"], state.values["kept"]
    n_nodes, n_features = mirror.n_nodes, mirror.n_features
    residuals, sums = (lines(-(-n_nodes // LANES), most) for _ in range(2))
    values, norms = lines(most, row_width(n_features) // LANES).reshape(most, -1), np.zeros(most)
    of_nodes, of_classes = np.empty((most, n_nodes), np.float32), np.empty((most, scorer.n_outputs), np.float32)
    none, unscored, total = np.zeros(0, np.float32), np.flatnonzero(mirror.rows < 0), 0.0
    scale, shared = np.float32(scorer.scale), (mirror.starts, mirror.where, mirror.words)
    met = labels[order]
    for position, step in enumerate(steps.tolist()):
        where = slice(position * batch, (position + 1) * batch)
        chosen = order[where]
        n = chosen.size
        put_rows(rows, chosen, none, curvature > 0, values, norms)
        score_nodes(panels, n_features, shared, kept, values, n, sums)
        scores = of_classes[:n]
        take_scores(sums, none, np.float32(state.scale), of_nodes[:n])
        path_sums(of_nodes[:n], mirror.parent, mirror.inner, mirror.leaf_of_class, mirror.above, scale, scores)
        value, moved = loss.residuals(scores, met[where])
        total += value
        state.decay(1.0 - step * decay)
        below = residuals_below(moved, mirror.parent, mirror.leaf_of_class, scale)
        below[:, unscored] = 0.0
        give_residuals(below, curvature * step / n, norms, step / (n * state.scale), 0.0, residuals, none)
        some = residuals[:, :n] != 0
        move_nodes(panels, n_features, shared, kept, values, residuals, some.any(axis=2), some.any(axis=1))
    return total


def put_back(mirror: Mirror, values: Parameters) -> Parameters:
    """The table alone, with what plain weights have come to."""
    mirror.put_back(values["panels"], values["kept"], values["table"])
    return {"table": values["table"]}


@numba.njit(cache=True, nogil=True)
def score_nodes(
    panels: Array, n_features: int, shared: tuple[Array, Array, Array], kept: Array, rows: Array, n: int, sums: Array
) -> None:
    """sums = rows @ weights, after the places that share a bucket have got what it holds.

    panels  (n_panels * n_features, LANES) float32, as of `panels.pack`
    shared  starts, where, words of a `Mirror`; kept (n_shared_buckets,) float32: what the shared buckets hold
    rows    (most, row_width(n_features)) float32, n of them; sums (n_panels, most, LANES) float32
    """
    starts, where, words = shared
    n_panels, most, width = sums.shape[0], sums.shape[1], 4 * rows.shape[1]
    n_blocks = (n_features + FEATURES - 1) // FEATURES
    weights, held = panels.reshape(panels.size).view(np.uint32), kept.view(np.uint32)  # bits: signs need no branches
    seen = np.zeros(1, np.uint32)
    for p in range(n_panels):
        for i in range(n):
            for c in range(LANES):
                sums[p, i, c] = 0.0
    for block in range(n_blocks):
        first = block * FEATURES
        size = min(FEATURES, n_features - first)
        for p in range(n_panels):
            run = (p * n_blocks + block) * LANES
            start = (first * n_panels + p * size) * LANES
            for j in range(size):  # in order, as caches foresee: the places that follow are not
                seen[0] += weights[start + j * LANES]
            for k in range(starts[run], starts[run + LANES]):
                value = np.uint32(held[bucket_of(words[k])] ^ np.uint32(words[k] & SIGN_BIT))
                weights[start + np.int64(where[k])] = value
            right = address(panels) + (first * n_panels + p * size) * LINE
            target = address(sums) + p * most * LINE
            add_products(target, address(rows) + 4 * first, width, 4, right, n, size)


@numba.njit(cache=True, nogil=True)
def move_nodes(
    panels: Array,
    n_features: int,
    shared: tuple[Array, Array, Array],
    kept: Array,
    rows: Array,
    residuals: Array,
    given: Array,
    moved: Array,
) -> None:
    """weights += rows' residuals; of the places that share a bucket, `kept` gets all their changes.

    residuals  (n_panels, most, LANES) float32, times minus the step
    given      (n_panels, n) bool: rows that have some in a panel; moved (n_panels, LANES) bool: nodes that have some
    The others as of `score_nodes`, which follows.
    """
    starts, where, words = shared
    n_panels, n, most, width = given.shape[0], given.shape[1], residuals.shape[1], 4 * rows.shape[1]
    n_blocks = (n_features + FEATURES - 1) // FEATURES
    weights = panels.reshape(panels.size)
    bits = weights.view(np.uint32)
    seen = np.zeros(1, np.uint32)
    for block in range(n_blocks):
        first = block * FEATURES
        size = min(FEATURES, n_features - first)
        for p in range(n_panels):
            target, i = address(panels) + (first * n_panels + p * size) * LINE, 0
            while i < n and not given[p, i]:
                i += 1
            if i == n:
                continue
            run = (p * n_blocks + block) * LANES
            start = (first * n_panels + p * size) * LANES
            for j in range(size):
                seen[0] += bits[start + j * LANES]
            for c in range(LANES):
                if moved[p, c]:
                    for k in range(starts[run + c], starts[run + c + 1]):
                        weights[start + np.int64(where[k])] = 0.0  # so that what is there next is the change
            while i < n:
                stop = i
                while stop < n and given[p, stop]:
                    stop += 1
                if stop > i:
                    left, right = address(rows) + i * width + 4 * first, address(residuals) + (p * most + i) * LINE
                    add_products(target, left, 4, width, right, size, stop - i)
                i = stop + 1
            for c in range(LANES):
                if moved[p, c]:
                    for k in range(starts[run + c], starts[run + c + 1]):
                        change = np.uint32(bits[start + np.int64(where[k])] ^ np.uint32(words[k] & SIGN_BIT))
                        kept[bucket_of(words[k])] += change.view(np.float32)
