"""What a search found: classes by probability, the path to the first, and the probability of a row's own label."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tasks.later import numba
from tasks.rows.base import Array
from tasks.trees.prediction.search import Search, Shape

NO_CLASS = -1
LEAST_NORM = 1e-300  # of values that are all 0
TURNS = 4  # of sharpnesses tried from one to its double
UNHEARD = 2.0**-24  # the probability of a class that no node holds, so that its logarithm is a number


class Named(NamedTuple):
    """What naming fills in, a row of each for every row.

    labels (n_rows, top) int32: best first, NO_CLASS where fewer were reached; values (n_rows, top) float64: their path
    probabilities, NaN without class
    evaluations (n_rows,) int32; path (n_rows, n_depths + 1) int32, -1 padded
    norms (n_rows,) float64: what values are divided by to be probabilities; own (n_rows,) float32: the natural
    logarithm of the probability of the row's label, NaN where that is not known
    """

    labels: Array
    values: Array
    evaluations: Array
    path: Array
    norms: Array
    own: Array


class Holders(NamedTuple):
    """The nodes that hold each class: offsets (n_classes + 1,) int64 into nodes int32, ascending for a class."""

    offsets: Array
    nodes: Array


def holders_of(offsets: Array, classes: Array, n_classes: int) -> Holders:
    """Of the label sets of a tree, see `LabelTree`."""
    owner = np.repeat(np.arange(offsets.size - 1, dtype=np.int32), np.diff(offsets))
    counts = np.bincount(classes, minlength=n_classes)
    return Holders(np.concatenate([[0], np.cumsum(counts)]).astype(np.int64), owner[np.argsort(classes, kind="stable")])


class Tally(NamedTuple):
    """Room to add up a row's classes: masses (n_classes,) float64 and seen (n_classes,) bool, all False; and

    touched (n_classes,) int32: the classes seen, leaves (n_classes,) int32: the best leaf of each
    leaf_masses (n_classes,) float64
    """

    masses: Array
    seen: Array
    touched: Array
    leaves: Array
    leaf_masses: Array


def tally_of(n_classes: int) -> Tally:
    masses, leaf_masses = np.zeros(n_classes), np.zeros(n_classes)
    touched, leaves = np.zeros(n_classes, np.int32), np.zeros(n_classes, np.int32)
    return Tally(masses, np.zeros(n_classes, np.bool_), touched, leaves, leaf_masses)


@numba.njit(cache=True, nogil=True)
def name_classes(
    search: Search, pool: Array, shape: Shape, tally: Tally, holders: Holders, known: Array, named: Named
) -> None:
    """Name the classes of each row's reached leaves, several leaves of one added up; ties to the lower class.

    known  (n_rows,) int32: the label whose probability is wanted, -1 for none; or (0,), for no probabilities at all
    """
    power = np.array([shape.sharpness])
    norms, masses, room = np.ones(1), np.empty(1), np.empty(1)
    for i in range(search.at.size):
        n, empty = add_up(search, i, pool, shape, tally, named)
        select(tally, n, named.labels[i], named.values[i])
        best = named.labels[i, 0]
        leaf = tally.leaves[best] if best != NO_CLASS else empty
        while leaf >= 0:
            named.path[i, shape.depths[leaf]] = leaf
            leaf = shape.parents[leaf]
        if known.size:
            if shape.link != 0 or shape.sharpness != 1:  # products of softmaxes add up to 1
                norms[0] = 0.0
                add_frontier(search, i, pool, shape, power, norms, room)
            named.norms[i] = max(norms[0], LEAST_NORM)
            if known[i] >= 0:
                masses[0] = 0.0
                add_own(search, i, known[i], pool, shape, tally, holders, power, masses, room)
                named.own[i] = log_of(masses[0], norms[0])
        for k in range(n):
            tally.seen[tally.touched[k]] = False


@numba.njit(cache=True, nogil=True)
def add_up(search: Search, i: int, pool: Array, shape: Shape, tally: Tally, named: Named) -> tuple[int, int]:
    """(number of classes reached, the best empty leaf or -1) of row i; counts its evaluations."""
    n, empty, highest = 0, -1, -1.0
    seen, touched, masses = tally.seen, tally.touched, tally.masses
    leaves, leaf_masses = tally.leaves, tally.leaf_masses
    n_children, offsets, classes = shape.n_children, shape.offsets, shape.classes
    for e in range(search.n_found[i]):
        node, start = search.expanded[i, e], search.starts[i, e]
        named.evaluations[i] += n_children[node]
        first = shape.first_child[node]
        for q in range(n_children[node]):
            leaf, mass = first + q, pool[start + q]
            if n_children[leaf] > 0:
                continue
            if offsets[leaf] == offsets[leaf + 1] and mass > highest:
                empty, highest = leaf, mass
            mass /= max(1, offsets[leaf + 1] - offsets[leaf])
            for p in range(offsets[leaf], offsets[leaf + 1]):
                c = classes[p]
                if not seen[c]:
                    seen[c], touched[n], masses[c], leaves[c], leaf_masses[c] = True, c, mass, leaf, mass
                    n += 1
                    continue
                masses[c] += mass
                if mass > leaf_masses[c] or (mass == leaf_masses[c] and leaf < leaves[c]):
                    leaves[c], leaf_masses[c] = leaf, mass
    return n, empty


@numba.njit(cache=True, nogil=True)
def select(tally: Tally, n: int, labels: Array, values: Array) -> None:
    """The best of n classes seen; labels (top,) and values (top,) are filled, NO_CLASS and NaN after the last."""
    found, top, touched, masses = 0, labels.size, tally.touched, tally.masses
    for k in range(n):
        c = touched[k]
        mass = masses[c]
        if found == top and (mass < values[top - 1] or (mass == values[top - 1] and c > labels[top - 1])):
            continue
        place = found if found < top else top - 1
        while place > 0 and (mass > values[place - 1] or (mass == values[place - 1] and c < labels[place - 1])):
            labels[place], values[place] = labels[place - 1], values[place - 1]
            place -= 1
        labels[place], values[place] = c, mass
        found = min(found + 1, top)
    labels[found:], values[found:] = NO_CLASS, np.nan


# ---- probabilities -------------------------------------------------------------------------------------------------


@numba.njit(cache=True, nogil=True)
def turn_of(search: Search, i: int, node: int) -> int:
    """When row i expanded a node; -1 if it did not."""
    for e in range(search.n_found[i]):
        if search.expanded[i, e] == node:
            return e
    return -1


@numba.njit(cache=True, nogil=True)
def node_mass(search: Search, i: int, node: int, pool: Array, shape: Shape) -> float:
    """The probability of a node other than the root, 0 when row i never came to its parent."""
    parent = shape.parents[node]
    turn = turn_of(search, i, parent)
    return float(pool[search.starts[i, turn] + node - shape.first_child[parent]]) if turn >= 0 else 0.0


@numba.njit(cache=True, nogil=True)
def add_own_logs(
    search: Search,
    pool: Array,
    shape: Shape,
    tally: Tally,
    holders: Holders,
    known: Array,
    named: Named,
    tried: Array,
    total: Array,
) -> None:
    """total[k] (n_tried,) += what `name_classes` says of the labels known (n_rows,) with sharpness tried[k].

    named  room, of which only evaluations are used
    """
    norms, masses, room = np.empty(tried.size), np.empty(tried.size), np.empty(tried.size)
    for i in range(search.at.size):
        n, _ = add_up(search, i, pool, shape, tally, named)
        if known[i] >= 0:
            norms[:], masses[:] = 0.0, 0.0
            add_frontier(search, i, pool, shape, tried, norms, room)
            add_own(search, i, known[i], pool, shape, tally, holders, tried, masses, room)
            for k in range(tried.size):
                total[k] += log_of(masses[k], norms[k])
        for k in range(n):
            tally.seen[tally.touched[k]] = False


@numba.njit(cache=True, nogil=True)
def add_frontier(search: Search, i: int, pool: Array, shape: Shape, tried: Array, norms: Array, room: Array) -> None:
    """norms += the sum over all nodes that row i came to and did not expand, at each sharpness tried.

    A leaf's classes share its mass. norms, room (n_tried,)
    """
    for e in range(search.n_found[i]):
        node, start = search.expanded[i, e], search.starts[i, e]
        for q in range(shape.n_children[node]):
            child = shape.first_child[node] + q
            if turn_of(search, i, child) >= 0:
                continue
            held = max(1, shape.sizes[child]) if shape.n_children[child] == 0 else 1
            add_powers(pool[start + q] / held, held, tried, norms, room)


@numba.njit(cache=True, nogil=True)
def add_own(
    search: Search,
    i: int,
    c: int,
    pool: Array,
    shape: Shape,
    tally: Tally,
    holders: Holders,
    tried: Array,
    masses: Array,
    room: Array,
) -> None:
    """masses += that of a class: of its reached leaves, or its even shares of the open nodes that hold it.

    At each sharpness tried; masses, room (n_tried,)
    """
    if tally.seen[c]:
        add_powers(tally.masses[c], 1.0, tried, masses, room)
        return
    for h in range(holders.offsets[c], holders.offsets[c + 1]):
        node = holders.nodes[h]
        if turn_of(search, i, node) < 0:
            add_powers(node_mass(search, i, node, pool, shape), 1.0 / shape.sizes[node], tried, masses, room)


@numba.njit(cache=True, nogil=True)
def add_powers(x: float, factor: float, powers: Array, sums: Array, room: Array) -> None:
    """sums[k] += factor * x ** powers[k], by squares of squares: each power is twice the one TURNS before it."""
    for k in range(powers.size):
        room[k] = x ** powers[k] if k < TURNS else room[k - TURNS] * room[k - TURNS]
        sums[k] += factor * room[k]


@numba.njit(cache=True, nogil=True)
def log_of(mass: float, norm: float) -> float:
    """The logarithm of a class's probability."""
    return float(np.log(mass / max(norm, LEAST_NORM) if mass > 0 else UNHEARD))
