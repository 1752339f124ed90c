"""Summaries of runs with relaxed hierarchies and their rivals, made up, for tests of the report."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from pipeline.report.summary import RunSummary

Model = dict[str, Any]


def model(family: str, accuracy: float, relative: float, *, n_classes: int = 100, **more: Any) -> Model:
    """A model of a family; by name `kernel`, `setting`, `records`, `draw`, `rows`, `metrics`, `found`."""
    kernel = more.get("kernel", "linear")
    metrics = {
        "top1": accuracy,
        "mean_per_class_top1": accuracy,
        "relative_complexity": relative,
        "test_ops_per_row": relative * n_classes * (1 if kernel == "linear" else 20),
        "classifiers_per_row": n_classes if family == "ovr" else 7.0,
        "relative_classifiers": 1.0 if family == "ovr" else 7.0 / n_classes,
        "ovr_leaf_share": 0.25,
    }
    hierarchy: dict[str, Any] = {
        "family": family,
        "setting": more.get("setting", {}),
        "kernel": kernel,
        "n_classes": n_classes,
        "records": more.get("records", []),
    }
    if family in ("relaxed-hierarchy", "spectral-tree", "marszalek"):
        hierarchy |= {"nodes": 10, "splits": 4, "single_leaves": 4, "ovr_leaves": 2, "ovr_leaf_classes": 30}
    hierarchy |= {"draw": more["draw"]} if "draw" in more else {}
    kind = family + (f" {more['rows']}" if "rows" in more else "")
    return {"kind": kind, "metrics": metrics | more.get("metrics", {}), "hierarchy": hierarchy | more.get("found", {})}


def run_of(models: dict[str, Model], n_classes: int = 100, **more: Any) -> RunSummary:
    """A run with these models."""
    return RunSummary(
        "r",
        {name: one["metrics"] for name, one in models.items()},
        n_classes,
        {name: one["kind"] for name, one in models.items()},
        details={name: {"hierarchy": one["hierarchy"]} for name, one in models.items() if "hierarchy" in one},
        **more,
    )


def plain_ovr(accuracy: float = 0.8, n_classes: int = 100) -> Model:
    """One-vs-rest as every run has it, with nothing said of hierarchies."""
    metrics = {"top1": accuracy, "mean_per_class_top1": accuracy, "test_ops_per_row": float(n_classes)}
    return {"kind": "ovr", "metrics": metrics}


def split_record(
    depth: int, positive: Sequence[int], negative: Sequence[int], ignored: Sequence[int], **more: Any
) -> dict[str, Any]:
    """A node that was split."""
    colors = {"positive": list(positive), "negative": list(negative), "ignored": list(ignored)}
    n_classes = len(positive) + len(negative) + len(ignored)
    steps = ["svm", "coloring", "svm", "coloring", "svm"]
    fall: dict[str, Any] = {"objective": [10.0, 4.0, 2.0, 1.5, 1.0], "steps": steps, "value": 1.0}
    told = {"n_classes": n_classes, "n_rows": 10 * n_classes, "support_vectors": 7 * n_classes, "tried": 30}
    return {"depth": depth, "kind": "split", **colors, **told, **fall, **more}


def leaf_record(depth: int, classes: Sequence[int]) -> dict[str, Any]:
    """A one-vs-all leaf."""
    told = {"n_classes": len(classes), "n_rows": 10 * len(classes), "objective": [], "steps": []}
    return {"depth": depth, "kind": "one-vs-all", "positive": [], "negative": []} | {
        "ignored": list(classes),
        **told,
    }


def three_levels() -> list[dict[str, Any]]:
    """Six classes: the root ignores 2 and 3; its positive child is split, its negative one is a one-vs-all leaf."""
    return [
        split_record(0, [4, 5], [0, 1], [2, 3]),
        leaf_record(1, [0, 1, 2, 3]),
        split_record(1, [4], [2, 3, 5], []),
        split_record(2, [2, 5], [3], []),
    ]


def grown(n_classes: int, seed: int, levels: int = 3) -> list[dict[str, Any]]:
    """Records of a hierarchy with random colors."""
    rng = np.random.default_rng(seed)
    found: list[dict[str, Any]] = []
    level = [list(range(n_classes))]
    for depth in range(levels):
        below: list[list[int]] = []
        for classes in level:
            if len(classes) < 5:
                found.append(leaf_record(depth, classes))
                continue
            colors = rng.choice([-1, 0, 1], len(classes), p=[0.4, 0.2, 0.4])
            colors[:2] = (1, -1)
            sides = [[c for c, color in zip(classes, colors, strict=True) if color == side] for side in (1, -1, 0)]
            fall = np.cumsum(rng.exponential(1.0, 6))[::-1] * n_classes
            steps = ["svm", "coloring"] * 3
            more = {"objective": fall.tolist(), "steps": steps}
            found.append(split_record(depth, *sides, **more))
            below += [sorted(sides[1] + sides[2]), sorted(sides[0] + sides[2])]
        level = below
    return found
