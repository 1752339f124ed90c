"""Measures of label trees from their definitions, with sets and one row at a time.

A tree is `sets` (the classes of each node) and `children` (the node ids below each node, empty for a leaf).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


def by_depth(
    paths: Sequence[Sequence[int]], labels: Sequence[int], sets: Sequence[set[int]]
) -> list[dict[str, float | int]]:
    """Records by depth, of paths of node ids without padding."""
    found: list[dict[str, float | int]] = []
    kept = 1.0
    for depth in range(max(map(len, paths)) - 1):
        steps = [(p[depth], p[depth + 1], y) for p, y in zip(paths, labels, strict=True) if len(p) > depth + 1]
        alive = [(node, child, y) for node, child, y in steps if y in sets[node]]
        lost = [y for _, child, y in alive if y not in sets[child]]
        loss = len(lost) / len(alive) if alive else 0.0
        kept *= 1 - loss
        found.append(
            {
                "depth": depth,
                "rows": len(steps),
                "survivors": len(alive),
                "lost": len(lost),
                "loss": loss,
                "ambiguity": _mean([len(sets[child]) / len(sets[node]) for node, child, _ in steps]),
                "survivors_ambiguity": _mean([len(sets[child]) / len(sets[node]) for node, child, _ in alive]),
                "kept": kept,
            }
        )
    return found


def sizes_by_depth(sets: Sequence[set[int]], children: Sequence[Sequence[int]]) -> list[dict[str, Any]]:
    """Records of one depth after another, from the root."""
    found = []
    level, depth = [0], 0
    while level:
        inner = [node for node in level if children[node]]
        holders = [
            sum(c in sets[child] for child in children[node])  # children that hold a class
            for node in inner
            for c in sets[node]
        ]
        held = [n for n in holders if n]
        found.append(
            {
                "depth": depth,
                "nodes": len(level),
                "leaves": sum(not children[node] for node in level),
                "empty": sum(not sets[node] for node in level),
                "min_classes": min(len(sets[node]) for node in level),
                "max_classes": max(len(sets[node]) for node in level),
                "mean_classes": _mean([len(sets[node]) for node in level]),
                "overlap": (_mean(held) if inner else None),
                "given_up": (sum(n == 0 for n in holders) if inner else None),
            }
        )
        level, depth = [child for node in level for child in children[node]], depth + 1
    return found


def unreachable(sets: Sequence[set[int]], children: Sequence[Sequence[int]], n_classes: int) -> list[int]:
    """Classes in no leaf."""
    return [
        c for c in range(n_classes) if not any(c in s for s, below in zip(sets, children, strict=True) if not below)
    ]


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else 0.0
