"""Slow, obvious twins of the model kernels."""

from __future__ import annotations

from typing import Any

import numpy as np


def top_classes(row: Any, top: int) -> tuple[list[int], list[float]]:
    """Sort all (score, class), best first, lower class first on ties; NaN is left out; padded with -1 and NaN."""
    ranked = sorted((c for c in range(len(row)) if not np.isnan(row[c])), key=lambda c: (-row[c], c))[:top]
    missing = top - len(ranked)
    return ranked + [-1] * missing, [float(row[c]) for c in ranked] + [float("nan")] * missing


def linear_scores(row: Any, weights: Any, bias: Any) -> list[float]:
    """One dot product per class, in float64."""
    return [
        sum(float(row[j]) * float(weights[j, c]) for j in range(len(row))) + float(bias[c])
        for c in range(weights.shape[1])
    ]


def non_dominated(models: dict[str, tuple[float, float]]) -> set[str]:
    """Names of (gain, cost) pairs that no other pair beats in one and equals or beats in the other."""
    kept = set()
    for name, (gain, cost) in models.items():
        beaten = any(
            g >= gain and c <= cost and (g > gain or c < cost) for other, (g, c) in models.items() if other != name
        )
        if not beaten:
            kept.add(name)
    return kept


def height_of_common_ancestor(parent: list[int], leaves: list[int], a: int, b: int) -> int:
    """Longest way down to a leaf from the first node that both classes have above them; the root's for no class."""
    children: dict[int, list[int]] = {}
    for node, above in enumerate(parent):
        children.setdefault(above, []).append(node)

    def height(node: int) -> int:
        return max((1 + height(child) for child in children.get(node, [])), default=0)

    def ancestors(node: int) -> list[int]:
        return [node] if node == 0 else [node, *ancestors(parent[node])]

    if a < 0 or b < 0:
        return height(0)
    others = ancestors(leaves[b])
    return height(next(node for node in ancestors(leaves[a]) if node in others))


def scores(ranked: Any, labels: Any, evaluations: Any, parent: list[int], leaves: list[int]) -> dict[str, float]:
    """The metrics of predictions, row by row: ranked (n, top) classes best first, labels -1 where not known."""
    n_classes = len(leaves)
    rows = [i for i in range(len(labels)) if labels[i] >= 0]
    right = [int(ranked[i][0] == labels[i]) for i in rows]
    per_class = []
    for c in range(n_classes):
        own = [hit for hit, i in zip(right, rows, strict=True) if labels[i] == c]
        if own:
            per_class.append(sum(own) / len(own))
    heights = [height_of_common_ancestor(parent, leaves, int(labels[i]), int(ranked[i][0])) for i in rows]
    ops = sum(int(evaluations[i]) for i in rows) / len(rows)
    return {
        "top1": sum(right) / len(rows),
        "top5": sum(int(labels[i] in list(ranked[i])[:5]) for i in rows) / len(rows),
        "mean_per_class_top1": sum(per_class) / len(per_class),
        "hier_err": sum(heights) / len(rows),
        "test_ops_per_row": ops,
        "speedup": n_classes / ops,
    }
