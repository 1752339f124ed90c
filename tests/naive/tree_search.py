"""Search down a tree by its definition: one row at a time, all open nodes in one list."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]
Children = Callable[[int, float], Sequence[float]]  # probabilities of the children of a node of this probability


@dataclass
class Tree:
    """children and classes of each node; a leaf has no children."""

    children: list[list[int]]
    classes: list[list[int]]

    def parent(self, node: int) -> int:
        return next((u for u, below in enumerate(self.children) if node in below), -1)

    def path(self, node: int) -> list[int]:
        return [*self.path(self.parent(node)), node] if node else [0]


@dataclass
class Found:
    """What one row's search came to: probability of every node it saw, and which it expanded."""

    seen: dict[int, float] = field(default_factory=lambda: {0: 1.0})
    expanded: list[int] = field(default_factory=list)


def softmax(scores: Sequence[float]) -> list[float]:
    powers = [math.exp(s - max(scores)) for s in scores]
    return [p / sum(powers) for p in powers]


def sigmoid(scores: Sequence[float]) -> list[float]:
    return [1 / (1 + math.exp(-s)) if s > -700 else 0.0 for s in scores]


def everywhere(tree: Tree, given: Children) -> Found:
    """All nodes expanded."""
    found = Found()
    for node, below in enumerate(tree.children):  # parents come before their children
        if below:
            found.expanded.append(node)
            found.seen |= dict(zip(below, given(node, found.seen[node]), strict=True))
    return found


def search(tree: Tree, given: Children, beam: int) -> Found:
    """Best first, at most `beam` nodes a depth, while a node is above the best class of a leaf."""
    found = Found()
    while True:
        leaves = [found.seen[n] / len(tree.classes[n]) for n in found.seen if is_leaf(tree, n) and tree.classes[n]]
        best = max(leaves, default=0.0)
        depths = [len(tree.path(node)) for node in found.expanded]
        ready = [
            n
            for n in found.seen
            if tree.children[n] and n not in found.expanded and depths.count(len(tree.path(n))) < beam
        ]
        ready = [n for n in ready if found.seen[n] > best]
        if not ready:
            return found
        node = min(ready, key=lambda n: (-found.seen[n], n))
        found.expanded.append(node)
        found.seen |= dict(zip(tree.children[node], given(node, found.seen[node]), strict=True))


def is_leaf(tree: Tree, node: int) -> bool:
    return not tree.children[node]


def reached(tree: Tree, found: Found) -> dict[int, float]:
    """Probability of every class of the reached leaves, added in the order in which nodes were expanded."""
    total: dict[int, float] = {}
    for node in [child for parent in found.expanded for child in tree.children[parent] if is_leaf(tree, child)]:
        for c in tree.classes[node]:
            total[c] = total.get(c, 0.0) + found.seen[node] / len(tree.classes[node])
    return total


def ranked(tree: Tree, found: Found) -> list[int]:
    total = reached(tree, found)
    return sorted(total, key=lambda c: (-total[c], c))


def path_of_first(tree: Tree, found: Found) -> list[int]:
    """To the best leaf with the first class; without any class, to the best empty leaf."""
    first = ranked(tree, found)[:1]
    leaves = [n for n in found.seen if is_leaf(tree, n) and (first[0] in tree.classes[n] if first else True)]
    share = {n: found.seen[n] / max(1, len(tree.classes[n])) for n in leaves}
    return tree.path(min(leaves, key=lambda n: (-share[n], n)))


def frontier(found: Found) -> list[int]:
    """Nodes that were seen and not expanded."""
    return [n for n in found.seen if n not in found.expanded]


def norm(tree: Tree, found: Found, sharpness: float) -> float:
    """Over all seen and unexpanded nodes: of leaves every class's part, of others the whole, to a power."""
    parts = {n: len(tree.classes[n]) or 1 if is_leaf(tree, n) else 1 for n in frontier(found)}
    return sum(parts[n] * (found.seen[n] / parts[n]) ** sharpness for n in parts)


def label_mass(tree: Tree, found: Found, label: int, sharpness: float = 1.0) -> float:
    """Of the reached leaves with the label; else its even shares of the seen nodes that hold it."""
    total = reached(tree, found)
    if label in total:
        return total[label] ** sharpness
    nodes = [n for n in frontier(found) if label in tree.classes[n]]
    return sum(found.seen[n] ** sharpness / len(tree.classes[n]) for n in sorted(nodes))


def mean_of_trees(named: Sequence[dict[int, float]], top: int) -> list[tuple[int, float]]:
    """Classes by the mean of what trees give them, 0 where one does not name it."""
    classes = {c for one in named for c in one}
    means = {c: sum(one.get(c, 0.0) for one in named) / len(named) for c in classes}
    return sorted(means.items(), key=lambda item: (-item[1], item[0]))[:top]
