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


def distance_from_best(models: dict[str, tuple[float, float]]) -> set[str]:
    """Names of (gain, cost) pairs that no other pair beats in one and equals or beats in the other."""
    kept = set()
    for name, (gain, cost) in models.items():
        beaten = any(
            g >= gain and c <= cost and (g > gain or c < cost) for other, (g, c) in models.items() if other != name
        )
        if not beaten:
            kept.add(name)
    return kept
