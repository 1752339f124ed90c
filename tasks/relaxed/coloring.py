"""The coloring of classes that is best for a given classifier (Gao & Koller 2011, equation 2), exactly, O(K log K).

Class k costs p_k where it is +1, q_k where it is -1, nothing where it is 0. Wanted is the cheapest coloring whose
colors add up to -B .. B, with a +1 and a -1 at least. Costs may be any numbers; there are two kinds of classes:

- bent (p + q >= 0; all of them where rho <= 1, for the two hinges of a row add up to 2 at least): the cost is convex in
  the color, so unit steps -1 -> 0 -> +1 of all bent classes together, in ascending order of what they add, pass through
  the cheapest coloring of every sum. The second step of a class never comes before its first.
- split (p + q < 0): at most one of them is 0 in a best coloring. Of two, one made +1 and the other -1 keeps the sum,
  and of the two ways to do so one gains, because both together change the cost by p_i + q_i + p_j + q_j < 0. With the
  number of +1 given, those with the least p - q are +1; the one that is 0, if any, follows from running maxima.

So only the number of +1 among split classes is tried out. At least one of each color: if the best coloring without that
demand has no +1, some best one with it has exactly one +1 and 1 .. B + 1 times -1. (The least cost of a times +1 and b
times -1 is the value of a transport problem, hence M-natural-convex in (a, b) whatever the costs; exchanges between a
best coloring with a >= 2 and the one without a +1 lead to another best one with a - 1.)
"""

from __future__ import annotations

import math

import numpy as np

from tasks.errors import Diverged, InputError, ParamError
from tasks.rows.base import Array


def coloring_costs(
    hinge_plus: Array, hinge_minus: Array, counts: Array, cost: float, rho: float
) -> tuple[Array, Array]:
    """What coloring a class +1 or -1 costs, each (K,) float64: C S - A n with A = rho C (equation 2).

    hinge_plus, hinge_minus  (K,) float64: sums over the rows of a class of max(0, 1 - f) and of max(0, 1 + f) (S+, S-)
    counts                   (K,) rows of each class (n)
    cost, rho                C and A / C
    """
    reward = rho * cost * np.asarray(counts, np.float64)
    return cost * np.asarray(hinge_plus, np.float64) - reward, cost * np.asarray(hinge_minus, np.float64) - reward


def coloring_value(plus: Array, minus: Array, coloring: Array) -> float:
    """The objective of (2), correctly rounded, so that the order of the classes does not matter."""
    return math.fsum(_own(np.asarray(plus), np.asarray(minus), coloring).tolist())


def unforced(plus: Array, minus: Array, coloring: Array) -> bool:
    """Whether every class that is not 0 gains by it: its cost is below 0, its mean hinge below rho.

    A best coloring is forced by the demand for both signs (`signs_bind`), or by the balance alone: where most of many
    classes want one side, it costs less to color a few the other way than to leave as many out.
    """
    own = _own(np.asarray(plus), np.asarray(minus), coloring)
    return bool((own[coloring != 0] < 0).all())


def best_coloring(plus: Array, minus: Array, balance: int) -> Array:
    """The cheapest coloring with a sum in -balance .. balance and both signs: (K,) int8 in {-1, 0, 1}.

    plus, minus  (K,) float64, cost of +1 and of -1; K >= 2
    balance      int >= 0 (B)
    The least cost is unique, the coloring need not be. Of equally cheap ones: a class that would gain nothing is 0; of
    classes with equal steps that of the lowest index has the higher color; the one class of a sign that would not be
    there otherwise is that of the lowest index.
    Raises InputError for fewer than two classes, ParamError for a negative balance, Diverged for costs that are not
    finite.
    """
    plus, minus, balance = _checked(plus, minus, balance)
    coloring = _balanced(plus, minus, balance)
    if not (coloring > 0).any():
        return _one_plus(plus, minus, balance)
    if not (coloring < 0).any():
        return -_one_plus(minus, plus, balance)
    return coloring


def balanced_coloring(plus: Array, minus: Array, balance: int) -> Array:
    """`best_coloring` without the demand for both signs: where one is missing here, that demand binds.

    Same arguments and errors.
    """
    return _balanced(*_checked(plus, minus, balance))


def signs_bind(plus: Array, minus: Array, balance: int) -> bool:
    """Whether the demand for both signs binds: the best coloring without it lacks one, so a class must be forced.

    With rho <= 1 and where the balance does not bind, that is whether the best coloring is not `unforced`; with rho > 1
    a forced class may gain by either color. Arguments and errors of `best_coloring`.
    """
    coloring = balanced_coloring(plus, minus, balance)
    return not ((coloring > 0).any() and (coloring < 0).any())


def _own(plus: Array, minus: Array, coloring: Array) -> Array:
    """(K,) float64: what each class costs under its color."""
    return np.where(coloring > 0, plus, np.where(coloring < 0, minus, 0.0))


def _checked(plus: Array, minus: Array, balance: int) -> tuple[Array, Array, int]:
    """The same as float64, with a balance of at most K (more cannot bind)."""
    plus, minus = np.asarray(plus, np.float64), np.asarray(minus, np.float64)
    if plus.size < 2:
        raise InputError(f"{plus.size} classes cannot be colored with two signs", "coloring", "two classes are needed")
    if balance < 0:
        raise ParamError("balance", balance, "0 or more", "it is how far the numbers of +1 and -1 may differ")
    with np.errstate(over="ignore", invalid="ignore"):
        total = np.abs(plus) + np.abs(minus)
        if not np.isfinite(total.sum()):
            worst = int(np.argmax(np.where(np.isnan(total), np.inf, total)))
            raise Diverged(
                f"costs of coloring are not finite or too large to add: {plus[worst]:g} of +1, {minus[worst]:g} of -1",
                f"class {worst} of {plus.size} at this node",
                "the node's classifier has diverged: scale the features down, or make C smaller",
            )
    return plus, minus, min(int(balance), plus.size)


def _balanced(plus: Array, minus: Array, balance: int) -> Array:
    split = plus + minus < 0
    bent_at, split_at = np.flatnonzero(~split), np.flatnonzero(split)
    steps, order, free = _unit_steps(plus[bent_at], minus[bent_at])
    sums, costs = _split_costs(plus[split_at], minus[split_at])
    low, high = np.maximum(-balance - sums, -bent_at.size), np.minimum(balance - sums, bent_at.size)
    bent_sums = np.clip(free, low, high)  # convex: the nearest to the cheapest
    walked = np.concatenate([[0.0], np.cumsum(steps[order])])
    totals = costs + walked[np.clip(bent_sums + bent_at.size, 0, 2 * bent_at.size)]
    best = int(np.argmin(np.where(low <= high, totals, np.inf)))

    coloring = np.empty(plus.size, np.int8)
    taken = order[: int(bent_sums[best]) + bent_at.size] % max(bent_at.size, 1)
    coloring[bent_at] = np.bincount(taken, minlength=bent_at.size) - 1
    coloring[split_at] = _split_coloring(plus[split_at], minus[split_at], best)
    return coloring


def _unit_steps(plus: Array, minus: Array) -> tuple[Array, Array, int]:
    """Steps of bent classes from all -1 to all +1: what each adds, in which order, and the cheapest coloring's sum.

    Returns (2n,) float64: those of -1 -> 0, then those of 0 -> +1; (2n,) int64, ascending; an int in -n .. n.
    """
    steps = np.concatenate([-minus, plus])
    order = np.argsort(steps, kind="stable")  # of equal ones first steps come first, so they precede second ones
    free = int(np.count_nonzero(minus >= 0)) + int(np.count_nonzero(plus < 0)) - plus.size
    return steps, order, free


def _split_order(plus: Array, minus: Array) -> Array:
    """Split classes in the order in which they become +1."""
    return np.argsort(plus - minus, kind="stable")


def _split_costs(plus: Array, minus: Array) -> tuple[Array, Array]:
    """Sum of colors and least cost of every way to color n split classes, each (2n + 1,).

    First 0 .. n of them +1 and the others -1; then 0 .. n - 1 of them +1, one 0, the others -1.
    """
    n, order = plus.size, _split_order(plus, minus)
    p, q = plus[order], minus[order]
    none = np.concatenate([[0.0], np.cumsum(p)]) + np.concatenate([np.cumsum(q[::-1])[::-1], [0.0]])
    before, after = _dropped(p, q)
    one = np.minimum(none[1:] - p[before], none[:-1] - q[after])
    sums = np.concatenate([2 * np.arange(n + 1) - n, 2 * np.arange(n) - (n - 1)])
    return sums, np.concatenate([none, one])


def _dropped(p: Array, q: Array) -> tuple[Array, Array]:
    """Which class is 0 best when m of the others are +1, for m = 0 .. n - 1, as places in the order: each (n,) int64.

    before  among the first m + 1, all others of which are +1: the dearest as +1
    after   from place m on, all others of which are -1: the dearest as -1
    """
    return _running_argmax(p), (p.size - 1 - _running_argmax(q[::-1]))[::-1]


def _running_argmax(values: Array) -> Array:
    """(n,) int64: the place of the largest of values[: i + 1], the last of equal ones."""
    largest = values == np.maximum.accumulate(values)
    return np.maximum.accumulate(np.where(largest, np.arange(values.size), 0))


def _split_coloring(plus: Array, minus: Array, way: int) -> Array:
    """The coloring (n,) int8 behind one entry of `_split_costs`."""
    n, order = plus.size, _split_order(plus, minus)
    colors = np.full(n, -1, np.int8)  # in that order
    if way <= n:
        colors[:way] = 1
    else:
        p, q, m = plus[order], minus[order], way - n - 1
        before, after = (int(place[m]) for place in _dropped(p, q))
        if p[m] - p[before] <= q[m] - q[after]:  # both against the first m +1 and all others -1
            colors[: m + 1], colors[before] = 1, 0
        else:
            colors[:m], colors[after] = 1, 0
    coloring = np.empty(n, np.int8)
    coloring[order] = colors
    return coloring


def _one_plus(plus: Array, minus: Array, balance: int) -> Array:
    """The cheapest coloring with exactly one +1 and 1 .. balance + 1 times -1: (K,) int8."""
    n = plus.size
    order = np.argsort(minus, kind="stable")
    place = np.empty(n, np.int64)
    place[order] = np.arange(n)
    below = np.concatenate([[0.0], np.cumsum(minus[order])])  # the cheapest r as -1
    wanted = np.count_nonzero(minus < 0) - (minus < 0)  # among the others
    r = np.clip(wanted, 1, min(balance + 1, n - 1))
    inside = place < r
    totals = plus + np.where(inside, below[np.minimum(r + 1, n)] - minus, below[r])
    best = int(np.argmin(totals))
    coloring = np.zeros(n, np.int8)
    coloring[order[: int(r[best]) + int(inside[best])]] = -1
    coloring[best] = 1
    return coloring
