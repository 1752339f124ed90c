"""Beam search down a tree whose nodes give probabilities: best-first, at most `beam` nodes expanded a depth.

The probability of a node is the product of those on its path, or mostly what its parent tells of it (`links.REACH`). Of
a row's open nodes (children of expanded inner nodes) the most probable one is expanded next, ties to the lower id, if
its depth has fewer than `beam` expanded ones, and only while it is more probable than a class of the best leaf found so
far. Below a node no product is higher than its own, so the answer is the most probable leaf of the whole tree as the
beam grows (with REACH a leaf may turn out more probable than a node above it), and the mean cost stays far below `beam`
walks. A leaf of m classes gives each the m-th part of its probability (nothing tells them apart); an empty one ends
nothing.

Rows take turns: in each round every unfinished row expands one node, rows at the same node together.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tasks.later import numba
from tasks.rows.base import Array
from tasks.trees.prediction.links import Room, link_children
from tasks.trees.prediction.rounds import Round

NO_NODE = -1


class Shape(NamedTuple):
    """What a search needs of a tree; fields as in `LabelTree`, and

    sizes     (n_nodes,) int64: classes of each node
    depths    (n_nodes,) int32
    parents   (n_nodes,) int32, -1 of the root
    scales    (n_nodes,) float32; link: its place among LINKS
    sharpness what values that do not add up to 1 are raised to, to be probabilities
    """

    first_child: Array
    n_children: Array
    offsets: Array
    classes: Array
    sizes: Array
    depths: Array
    parents: Array
    scales: Array
    link: int
    sharpness: float


class Search(NamedTuple):
    """The state of the search of some rows.

    places       (n_depths + 1,) int64: where the room of each depth begins among `open_nodes`; as much as its beam
    open_nodes   (n_rows, n_places) int32: at each depth the best open nodes, by descending probability
    open_masses  (n_rows, n_places) float64: their probabilities
    n_open, n_expanded  (n_rows, n_depths) int32: open nodes, and how many were expanded
    expanded     (n_rows, n_places) int32: expanded nodes in their order; starts (n_rows, n_places) int64: where the
                 probabilities of the children of each begin; n_found (n_rows,) int32: how many there are
    at           (n_rows,) int32: the node to expand next, NO_NODE when the row is finished; mass (n_rows,) float64
    best         (n_rows,) float64: the highest probability of a class of a leaf so far
    """

    places: Array
    open_nodes: Array
    open_masses: Array
    n_open: Array
    n_expanded: Array
    expanded: Array
    starts: Array
    n_found: Array
    at: Array
    mass: Array
    best: Array


def places_of(n_inner: Array, beam: int) -> Array:
    """`places` of a search. n_inner (n_depths,) int: inner nodes of each depth, no more of which can be expanded"""
    most = min(beam, int(n_inner.max(initial=1)))  # a beam may be a larger number than arrays hold
    return np.concatenate([[0], np.cumsum(np.minimum(n_inner, most))]).astype(np.int64)


def begin(n_rows: int, places: Array) -> Search:
    """All rows at the root, an inner node."""
    n_places, n_depths = int(places[-1]), places.size - 1
    n_expanded = np.zeros((n_rows, n_depths), np.int32)
    n_expanded[:, 0] = 1
    return Search(
        places=places,
        open_nodes=np.empty((n_rows, n_places), np.int32),
        open_masses=np.empty((n_rows, n_places)),
        n_open=np.zeros((n_rows, n_depths), np.int32),
        n_expanded=n_expanded,
        expanded=np.empty((n_rows, n_places), np.int32),
        starts=np.empty((n_rows, n_places), np.int64),
        n_found=np.zeros(n_rows, np.int32),
        at=np.zeros(n_rows, np.int32),
        mass=np.ones(n_rows),
        best=np.zeros(n_rows),
    )


@numba.njit(cache=True, nogil=True)
def expand(search: Search, group: Round, scores: Array, shape: Shape, room: Room, used: int, pool: Array) -> None:
    """Every row of a round expands its node and chooses its next.

    scores  (n_scores,) float32 of the round; their probabilities go to pool[used:], float64, in the same order
    """
    best, mass, at, n_found = search.best, search.mass, search.at, search.n_found
    expanded, starts, n_expanded = search.expanded, search.starts, search.n_expanded
    places, open_nodes, open_masses, n_open = search.places, search.open_nodes, search.open_masses, search.n_open
    link = shape.link
    rows, bounds, n_children, sizes = group.rows, group.bounds, shape.n_children, shape.sizes
    for g in range(group.nodes.size):
        node = group.nodes[g]
        width, scale, first = n_children[node], shape.scales[node], shape.first_child[node]
        opens = n_children[first : first + width].max() > 0
        inner, held, depth = n_children[first : first + width], sizes[first : first + width], shape.depths[node] + 1
        for t in range(bounds[g], bounds[g + 1]):
            i, start = rows[t], group.starts[g] + (t - bounds[g]) * width
            masses = pool[used + start : used + start + width]
            link_children(link, node == 0, scores[start : start + width], scale, mass[i], masses, room)
            expanded[i, n_found[i]], starts[i, n_found[i]] = node, used + start
            n_found[i] += 1
            best[i] = best_leaf(masses, inner, held, best[i])
            if opens:
                first_place, room_left = places[depth], places[depth + 1] - places[depth] - n_expanded[i, depth]
                nodes = open_nodes[i, first_place : first_place + room_left]
                open_here = open_masses[i, first_place : first_place + room_left]
                n_open[i, depth] = open_children(masses, inner, first, best[i], nodes, open_here, n_open[i, depth])
            at[i], mass[i] = next_node(places, open_nodes, open_masses, n_open, n_expanded, i, best[i])


@numba.njit(cache=True, nogil=True)
def best_leaf(masses: Array, inner: Array, held: Array, best: float) -> float:
    """The highest probability of a class of the leaves among some nodes, or `best` if that is higher.

    masses (n,) float64 of the nodes, inner (n,): 0 for leaves, held (n,): how many classes share it
    """
    for q in range(masses.size):
        if inner[q] == 0 and held[q] > 0:
            best = max(best, masses[q] / held[q])
    return best


@numba.njit(cache=True, nogil=True)
def open_children(
    masses: Array, inner: Array, first: int, best: float, open_nodes: Array, open_masses: Array, n: int
) -> int:
    """Insert the inner nodes among first, first + 1, ... that are more probable than `best` among n open ones.

    masses, inner  (n_children,): as in `best_leaf`
    open_nodes (room,) int32, open_masses (room,) float64: the open ones of the depth, best first, ties to the lower;
    those for which there is no room could not be expanded any more. Returns how many there are now.
    """
    room = open_nodes.size
    for q in range(masses.size):
        mass, node = masses[q], first + q
        if inner[q] == 0 or mass <= best or room == 0:
            continue
        place = n
        while place > 0 and (
            mass > open_masses[place - 1] or (mass == open_masses[place - 1] and node < open_nodes[place - 1])
        ):
            place -= 1
        if place == room:
            continue
        n = min(n + 1, room)
        for later in range(n - 1, place, -1):
            open_nodes[later], open_masses[later] = open_nodes[later - 1], open_masses[later - 1]
        open_nodes[place], open_masses[place] = node, mass
    return n


@numba.njit(cache=True, nogil=True)
def next_node(
    places: Array, open_nodes: Array, open_masses: Array, n_open: Array, n_expanded: Array, i: int, best: float
) -> tuple[int, float]:
    """Take the most probable open node of row i out: (node, its probability); NO_NODE if none is above `best`.

    Arrays as in `Search`.
    """
    depth, mass = -1, best
    for d in range(places.size - 1):
        if n_open[i, d] > 0 and open_masses[i, places[d]] > mass:
            depth, mass = d, open_masses[i, places[d]]
    if depth < 0:
        return NO_NODE, best
    first, n = places[depth], n_open[i, depth] - 1
    node = open_nodes[i, first]
    for place in range(first, first + n):
        open_nodes[i, place], open_masses[i, place] = open_nodes[i, place + 1], open_masses[i, place + 1]
    n_open[i, depth] = n
    n_expanded[i, depth] += 1
    return node, mass
