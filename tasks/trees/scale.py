"""What a node's scores are multiplied by so that their softmax tells how sure it is of its children.

Margins say who is first, not how surely; a search with a beam compares nodes by products of probabilities. So a scale
is fitted to rows that the node has not learnt from, as temperature scaling does (Guo et al. 2017).
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from tasks.later import numba
from tasks.rows.base import Array, Rows
from tasks.trees.on_codes.slices import slices
from tasks.trees.tree import Path
from tasks.trees.weights import AnyWeights, node_scores

STEPS = 2  # of SCALES from one to its double
SCALES = np.exp2(np.arange(-6.0, 10.5, 1 / STEPS))  # of scores, tried: margins are in units of their own
FIRMNESS = 4.0  # log-likelihood that a scale of 2 or 1/2 must gain over 1


def best_scale(likelihoods: Array, around: float = 1.0) -> float:
    """The most probable of SCALES a posteriori, log2(scale) being normal around log2(around); ties to the lower.

    likelihoods (n_scales,): log-probability of all judging rows, 0 when there are none
    """
    return float(SCALES[np.argmax(likelihoods - FIRMNESS * np.log2(SCALES / around) ** 2)])


def scales_of(likelihoods: Mapping[Path, Array]) -> dict[Path, float]:
    """The scale of each node: what its rows say, as far as they are enough, around what all nodes of its depth say."""
    depths = {len(path) for path in likelihoods}
    shared = {
        depth: best_scale(np.sum([likelihoods[path] for path in sorted(likelihoods) if len(path) == depth], axis=0))
        for depth in depths
    }
    return {path: best_scale(own, shared[len(path)]) for path, own in likelihoods.items()}


def held_likelihoods(
    rows: Rows, weights: AnyWeights, bias: Array, columns: Array, children: Array, scales: Array
) -> Array:
    """(n_scales,) float64: log-probability that rows go to a child with their class, summed, at each scale.

    columns (n_rows,) int32: class columns; children (Q, K) bool. Rows whose class no child holds do not count.
    """
    total, holders = np.zeros(scales.size), np.ascontiguousarray(children.T)
    for start, stop, part in slices(rows, len(children)):
        scores = node_scores(part, weights, bias)
        add_held(scores, columns[start:stop], holders, scales, total)
    return total


@numba.njit(cache=True, nogil=True)
def add_held(scores: Array, columns: Array, holders: Array, scales: Array, total: Array) -> None:
    """total[k] += log of the share of sum exp(scales[k] * scores) that the children with the row's class have.

    holders (K, Q) bool: the children that hold each class; scales as of `add_exponentials`
    """
    mass, own, room = np.empty(scales.size), np.empty(scales.size), np.empty(scales.size)
    for i in range(scores.shape[0]):
        held, highest, best = holders[columns[i]], -np.inf, -np.inf
        for q in range(scores.shape[1]):
            score = np.float64(scores[i, q])
            highest = max(highest, score)
            if held[q]:
                best = max(best, score)
        if best == -np.inf:
            continue
        mass[:], own[:] = 0.0, 0.0
        for q in range(scores.shape[1]):
            add_exponentials(scores[i, q] - highest, scales, mass, room)
            if held[q]:
                add_exponentials(scores[i, q] - best, scales, own, room)
        for k in range(scales.size):
            total[k] += scales[k] * (best - highest) + np.log(own[k]) - np.log(mass[k])


@numba.njit(cache=True, nogil=True)
def add_exponentials(x: float, scales: Array, sums: Array, room: Array) -> None:
    """sums[k] += exp(scales[k] * x), by squares of squares: of scales (n,) each is twice the one STEPS before it."""
    for k in range(scales.size):
        room[k] = np.exp(scales[k] * x) if k < STEPS else room[k - STEPS] * room[k - STEPS]
        sums[k] += room[k]
