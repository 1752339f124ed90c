"""Hierarchical and top-down support vector machines by their definitions, one row, class and node at a time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tests.naive.hashing import path

Matrix = Any


def node_of_each_level(parent: Sequence[int], leaf: int) -> list[int]:
    """Nodes root..leaf, the leaf repeated down to the last level of the tree."""
    deepest = max(depth(parent, node) for node in range(len(parent)))
    return path(list(parent), leaf, deepest + 1)


def depth(parent: Sequence[int], node: int) -> int:
    return 0 if parent[node] < 0 else 1 + depth(parent, parent[node])


def level_scores(row: Matrix, vectors: Matrix, parent: Sequence[int], leaves: Sequence[int]) -> list[float]:
    """Equation (24): of each class (1 / sqrt T) times the sum over its levels of w_{level, node} . row.

    vectors[level][node] is one vector each: copies of a leaf are vectors of their own.
    """
    scores = []
    for leaf in leaves:
        nodes = node_of_each_level(parent, leaf)
        scores.append(sum(float(vectors[t][u] @ row) for t, u in enumerate(nodes)) / np.sqrt(len(nodes)))
    return scores


def below(parent: Sequence[int], node: int) -> list[int]:
    """A node and all nodes below it."""
    found = [node]
    for child in (u for u in range(len(parent)) if parent[u] == node):
        found += below(parent, child)
    return found


def splits(parent: Sequence[int]) -> list[tuple[int, list[int]]]:
    """(node, its children) of every node with several children, breadth-first."""
    children = [[u for u in range(len(parent)) if parent[u] == node] for node in range(len(parent))]
    return [(node, of) for node, of in enumerate(children) if len(of) > 1]


def top_down_loss(child_scores: dict[int, float], parent: Sequence[int], leaf: int) -> float:
    """Sum of the multi-class hinges at the splits above a leaf; child_scores of every child of a split."""
    on_path = set(path(list(parent), leaf, 0))
    total = 0.0
    for node, children in splits(parent):
        if node in on_path:
            right = next(child for child in children if child in on_path)
            total += max((child != right) + child_scores[child] - child_scores[right] for child in children)
    return total


def top_down_ranking(
    child_scores: dict[int, float], parent: Sequence[int], leaves: Sequence[int]
) -> tuple[list[int], list[float], int]:
    """(classes, each with the score of the child that it stands below, classifiers evaluated) of one row.

    First the leaf that the best children lead to; then the classes passed over, from the last split up, those of the
    better child first, a child's own in ascending order.
    """
    node, evaluated = 0, 0
    taken: list[int] = []
    scored: list[float] = []
    while True:
        children = [u for u in range(len(parent)) if parent[u] == node]
        if not children:
            return taken, scored, evaluated
        order = sorted(children, key=lambda child: -child_scores.get(child, 0.0))
        node = order[0]
        if len(children) == 1:
            continue
        evaluated += len(children)
        ends = end_of_chain(parent, node) in leaves
        here = [
            (c, child_scores[child])
            for child in (order if ends else order[1:])
            for c in range(len(leaves))
            if leaves[c] in below(parent, child)
        ]
        taken, scored = [c for c, _ in here] + taken, [score for _, score in here] + scored


def end_of_chain(parent: Sequence[int], node: int) -> int:
    """The first node from here down with no child or several."""
    children = [u for u in range(len(parent)) if parent[u] == node]
    return end_of_chain(parent, children[0]) if len(children) == 1 else node


def random_tree(seed: int, n_nodes: int = 14) -> tuple[list[int], list[int]]:
    """(parent of each node, breadth-first; leaves in a random order): chains, wide nodes, leaves at all depths."""
    rng = np.random.default_rng(seed)
    above = [-1] + [int(rng.integers(max(0, node - 4), node)) for node in range(1, n_nodes)]
    order = [0]
    for node in order:  # grows while it is walked: breadth-first
        order += [u for u in range(n_nodes) if above[u] == node]
    parent = [-1 if above[node] < 0 else order.index(above[node]) for node in order]
    leaves = [u for u in range(n_nodes) if u not in parent]
    return parent, [int(u) for u in rng.permutation(leaves)]
