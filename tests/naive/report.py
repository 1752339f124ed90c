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
