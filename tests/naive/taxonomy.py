"""The taxonomy by following parents one at a time."""

from __future__ import annotations

from collections.abc import Sequence


def ancestors(parent: Sequence[int], node: int) -> list[int]:
    """The node and its ancestors, root last."""
    found = [int(node)]
    while parent[found[-1]] >= 0:
        found.append(int(parent[found[-1]]))
    return found


def lca(parent: Sequence[int], a: int, b: int) -> int:
    """Lowest common ancestor of two nodes."""
    others = ancestors(parent, b)
    return next(node for node in ancestors(parent, a) if node in others)


def height(parent: Sequence[int], node: int) -> int:
    """Longest downward path from a node."""
    children = [c for c, p in enumerate(parent) if p == node]
    return 1 + max(height(parent, c) for c in children) if children else 0


def level(parent: Sequence[int], node: int) -> int:
    return len(ancestors(parent, node)) - 1


def path(parent: Sequence[int], leaf: int, n_levels: int) -> list[int]:
    """Root..leaf, the leaf replicated to n_levels entries."""
    nodes = ancestors(parent, leaf)[::-1]
    return nodes + [nodes[-1]] * (n_levels - len(nodes))
