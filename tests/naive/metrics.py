"""Metrics row by row."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence


def top_hits(classes: Sequence[Sequence[int]], labels: Sequence[int], top: int) -> int:
    return sum(label >= 0 and label in list(row)[:top] for row, label in zip(classes, labels, strict=True))


def confusion(predicted: Sequence[int], labels: Sequence[int]) -> Counter[tuple[int, int]]:
    return Counter((int(y), int(p)) for p, y in zip(predicted, labels, strict=True) if y >= 0 and y != p)


def local_measures(
    paths: Sequence[Sequence[int]], labels: Sequence[int], sets: Sequence[set[int]], depth: int
) -> tuple[float, float, float]:
    """(loss of survivors, ambiguity of all, ambiguity of survivors) at one depth, from the definitions."""
    steps = [(p[depth], p[depth + 1], y) for p, y in zip(paths, labels, strict=True) if p[depth + 1] >= 0]
    survivors = [(node, child, y) for node, child, y in steps if y in sets[node]]
    share = [len(sets[child]) / len(sets[node]) for node, child, _ in steps]
    kept = [len(sets[child]) / len(sets[node]) for node, child, _ in survivors]
    lost = [y not in sets[child] for _, child, y in survivors]
    return _mean(lost), _mean(share), _mean(kept)


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else 0.0
