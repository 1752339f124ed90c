"""From the scores of a node's children to their probabilities.

With SOFTMAX and SIGMOID a node tells of its children given itself, so these are multiplied down the path. With REACH it
does so at the root alone; a node below was trained with rows of other nodes' classes, too, tells "none of these" of
them, and so gives its children's probabilities nearly as such: they are multiplied by a small power (TRUST) of the
path's so far, as the rows that it knew were those near its own.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tasks.exponential import LANES, largest, lower_and_raise32, total
from tasks.later import numba
from tasks.rows.base import Array

SOFTMAX, SIGMOID = "softmax", "sigmoid"
REACH = "reach"
LINKS = (SOFTMAX, SIGMOID, REACH)  # kernels know a link by its place here

TRUST = 1 / 3  # power of a path's probability in the link REACH: 1 if nodes knew of their own rows alone, 0 if of all


class Room(NamedTuple):
    """Working space of `link_children`: float32 of n children three times, LANES float32 and float64."""

    powers: Array
    lowered: Array
    turns: Array
    few: Array
    lanes: Array


def room_for(n_children: int) -> Room:
    """For nodes of at most n_children."""
    powers, lowered, turns = (np.empty(n_children, np.float32) for _ in range(3))
    return Room(powers, lowered, turns, np.empty(LANES, np.float32), np.empty(LANES))


@numba.njit(cache=True, nogil=True)
def softmax_children(scores: Array, scale: float, mass: float, out: Array, room: Room) -> None:
    """out = mass * softmax(scale * scores): exponentials in float32, sums in float64.

    scores (n,) float32, n >= 1; out (n,) float64
    """
    powers, lowered, turns = room.powers[: out.size], room.lowered[: out.size], room.turns[: out.size]
    for q in range(out.size):
        powers[q] = np.float32(scale) * scores[q]
    highest = largest(powers, room.few)
    lower_and_raise32(powers, highest, lowered, turns, turns.view(np.int32), powers.view(np.int32))
    factor = mass / total(powers, room.lanes)
    for q in range(out.size):
        out[q] = factor * powers[q]


@numba.njit(cache=True, nogil=True)
def sigmoid_children(scores: Array, scale: float, mass: float, out: Array) -> None:
    """out = mass / (1 + exp(-scale * scores)), float64; scores (n,) float32."""
    for q in range(out.size):
        score = np.float64(scale) * scores[q]
        power = np.exp(-abs(score))
        out[q] = mass * (1.0 if score >= 0 else power) / (1.0 + power)


@numba.njit(cache=True, nogil=True)
def reach_children(scores: Array, scale: float, mass: float, out: Array, room: Room) -> None:
    """out = mass^TRUST times the softmax of scale * scores and one more output, of score 0: "none of these".

    scores (n,) float32, n >= 1; out (n,) float64
    """
    powers, lowered, turns = room.powers[: out.size], room.lowered[: out.size], room.turns[: out.size]
    for q in range(out.size):
        powers[q] = np.float32(scale) * scores[q]
    highest = max(largest(powers, room.few), np.float32(0.0))
    lower_and_raise32(powers, highest, lowered, turns, turns.view(np.int32), powers.view(np.int32))
    factor = mass**TRUST / (total(powers, room.lanes) + np.exp(-np.float64(highest)))
    for q in range(out.size):
        out[q] = factor * powers[q]


@numba.njit(cache=True, nogil=True, inline="always")
def link_children(link: int, at_root: bool, scores: Array, scale: float, mass: float, out: Array, room: Room) -> None:
    """out (n,) float64 = the probabilities of the children of a node of probability `mass`, of their scores (n,)."""
    if link == 2 and not at_root:
        reach_children(scores, scale, mass, out, room)
    elif link == 1:
        sigmoid_children(scores, scale, mass, out)
    else:
        softmax_children(scores, scale, mass, out, room)
