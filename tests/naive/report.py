"""Slow, obvious twins of what the report finds out about models."""

from __future__ import annotations

from typing import Any


def top_k(ranked: Any, labels: Any) -> list[float]:
    """For each k the share of labelled rows whose label is among their first k classes, row by row."""
    known = [i for i in range(len(labels)) if labels[i] >= 0]
    return [
        sum(int(labels[i]) in [int(c) for c in ranked[i][:k]] for i in known) / len(known)
        for k in range(1, len(ranked[0]) + 1)
    ]


def simplest(records: list[dict[str, Any]], losses: list[list[float]], errors: float, n_rows: int) -> int:
    """Of the pairs at most so many standard errors worse than the first of least mean, one of least rank.

    losses  of each pair, of all rows; records: rank and log_loss, which decides between pairs of equal rank
    """
    means = [sum(one) / n_rows for one in losses]
    best = min(range(len(means)), key=lambda i: (means[i], i))
    found = []
    for i, one in enumerate(losses):
        apart = [a - b for a, b in zip(one, losses[best], strict=True)]
        mean = sum(apart) / n_rows
        error = (sum((d - mean) ** 2 for d in apart) / (n_rows - 1) / n_rows) ** 0.5
        if means[i] - means[best] <= errors * error:
            found.append((records[i]["rank"], records[i]["log_loss"], i))
    return int(min(found)[2])


def compressions(learners: list[dict[str, Any]], codes: dict[str, str]) -> set[tuple[str, tuple[str, ...]]]:
    """(codes, names of the full, PQ and semi-PQ model, "" where there is none), of every pair that belongs together.

    learners  sections with name, rows, test_rows and settings; codes  encoding -> the rows it stands for
    """
    found = set()
    for encoding in codes:
        root = encoding
        while root in codes:
            root = codes[root]
        for one in learners:
            alike = [
                other
                for other in learners
                if all(one[key] == other[key] for key in one if key not in ("name", "rows", "test_rows"))
            ]
            places = [(root, root), (encoding, encoding), (encoding, root)]
            names = tuple(
                next((other["name"] for other in alike if (other["rows"], other["test_rows"]) == place), "")
                for place in places
            )
            if (names[1] or names[2]) and sum(map(bool, names)) > 1:
                found.add((encoding, names))
    return found
