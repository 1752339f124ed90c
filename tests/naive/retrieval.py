"""Retrieval by its definitions: every distance on its own, every query on its own, sums in plain Python."""

from __future__ import annotations

from typing import Any

import numpy as np


def distances(queries: np.ndarray, codes: np.ndarray) -> list[list[int]]:
    return [[sum(int(a != b) for a, b in zip(query, row, strict=True)) for row in codes] for query in queries]


def present_distances(queries: np.ndarray, codes: np.ndarray, sentinel: int) -> list[list[int]]:
    """round(n * differing / not missing in both), halves up; 0 where everything is missing in both."""
    found = []
    for query in queries:
        line = []
        for row in codes:
            pairs = [(a, b) for a, b in zip(query, row, strict=True) if not a == b == sentinel]
            share = sum(int(a != b) for a, b in pairs) / len(pairs) if pairs else 0.0
            line.append(int(np.floor(len(query) * share + 0.5 + 1e-9)))
        found.append(line)
    return found


def nearest(of_query: list[int], rows: list[int], top: int) -> list[tuple[int, int]]:
    """(distance, row) of the nearest rows of one query: by distance, then by row."""
    return sorted(zip(of_query, rows, strict=True))[:top]


def average_precision(of_query: list[int], same: list[bool]) -> float | None:
    """Sum over distances that occur of the gain in recall times precision; None without relevant rows."""
    if not any(same):
        return None
    found = 0.0
    for t in sorted(set(of_query)):
        within = [s for d, s in zip(of_query, same, strict=True) if d <= t]
        gained = sum(s for d, s in zip(of_query, same, strict=True) if d == t)
        found += gained / sum(same) * sum(within) / len(within)
    return found


def curve(found: list[list[int]], query_labels: list[int], labels: list[int], n_hashes: int) -> dict[str, list[Any]]:
    """The columns of a curve, None where undefined, of the queries that have a label."""
    known = [(d, [label == y for label in labels]) for d, y in zip(found, query_labels, strict=True) if y >= 0]
    columns: dict[str, list[Any]] = {"threshold": list(range(n_hashes + 1))}
    within = [[[s for d, s in zip(ds, same, strict=True) if d <= t] for ds, same in known] for t in range(n_hashes + 1)]
    columns["retrieved"] = [sum(len(hits) for hits in of_t) for of_t in within]
    columns["relevant"] = [sum(sum(hits) for hits in of_t) for of_t in within]
    pairs = list(zip(columns["relevant"], columns["retrieved"], strict=True))
    columns["precision"] = [hits / n if n else None for hits, n in pairs]
    total = sum(sum(same) for _, same in known)
    columns["recall"] = [hits / total if total else 0.0 for hits in columns["relevant"]]
    columns["macro_precision"] = [mean([sum(hits) / len(hits) for hits in of_t if hits]) for of_t in within]
    answerable = [i for i, (_, same) in enumerate(known) if any(same)]
    recalls = [[sum(of_t[i]) / sum(known[i][1]) for i in answerable] for of_t in within]
    columns["macro_recall"] = [mean(of_t) or 0.0 for of_t in recalls]
    return columns


def mean(values: list[float]) -> float | None:
    return sum(values) / len(values) if values else None
