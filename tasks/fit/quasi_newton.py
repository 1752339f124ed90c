"""Limited-memory BFGS (Nocedal & Wright 2006, section 7.2) whose first guess of the Hessian is the caller's.

Steps are tried at full length first and halved while they gain too little (Armijo). Nothing is known here of rows:
whoever asks gives the value and the gradient at a point, which may take a pass over millions of them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from tasks.rows.base import Array

MEMORY = 8  # pairs of steps and changes of the gradient
ARMIJO, SHORTEST = 1e-4, 1e-3

Pair = tuple[Array, Array, float]  # step, change of the gradient, 1 / their product
Value = Callable[[Array], tuple[float, Array]]
Metric = Callable[[Array], Array]  # the first guess of the inverse Hessian, applied to a gradient


@dataclass(frozen=True, eq=False)
class Descent:
    """Where it came to: the point, its value, how often the value was asked for, the last pairs."""

    point: Array
    value: float
    passes: int
    pairs: list[Pair]


def descend(
    value_at: Value, point: Array, metric: Metric, steps: int, enough: float, pairs: list[Pair] | None = None
) -> Descent:
    """At most `steps` steps from `point` (any shape, float64), until less than `enough` of the value is to be gained.

    pairs  of an earlier descent on nearly the same function
    """
    pairs = list(pairs or [])
    value, gradient = value_at(point)
    passes = 1
    for _ in range(steps):
        step = direction(gradient, pairs, metric)
        slope = float(np.vdot(step, gradient))
        if not slope > enough * value:
            break
        length = 1.0
        while True:
            new = point - length * step
            new_value, new_gradient = value_at(new)
            passes += 1
            if new_value <= value - ARMIJO * length * slope or length < SHORTEST:
                break
            length *= 0.5
        if not new_value < value:
            break
        moved, changed = new - point, new_gradient - gradient
        if (product := float(np.vdot(moved, changed))) > 0:
            pairs = [*pairs, (moved, changed, 1.0 / product)][-MEMORY:]
        point, value, gradient = new, new_value, new_gradient
    return Descent(point, value, passes, pairs)


def direction(gradient: Array, pairs: list[Pair], metric: Metric) -> Array:
    """The two-loop recursion: an approximate inverse Hessian times the gradient."""
    found: Array = gradient.copy()
    shares: list[float] = []
    for moved, changed, inverse in reversed(pairs):
        share = inverse * float(np.vdot(moved, found))
        found -= share * changed
        shares.append(share)
    found = metric(found)
    if pairs:
        _, changed, inverse = pairs[-1]
        found /= inverse * float(np.vdot(changed, metric(changed)))
    for (moved, changed, inverse), share in zip(pairs, reversed(shares), strict=True):
        found += moved * (share - inverse * float(np.vdot(changed, found)))
    return found
