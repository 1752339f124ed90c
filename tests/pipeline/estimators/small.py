"""Estimators with parameters that make fits of tiny problems quick."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from pipeline import (
    AveragedSGDClassifier,
    HeshingClassifier,
    KMeansTreeClassifier,
    LabelTreeClassifier,
    ProductQuantizer,
    RelaxedHierarchyClassifier,
    TraceNormClassifier,
    WTAHasher,
)

QUICK = {"rounds": 4, "least_rows": 2000}


def classifiers() -> Iterator[Any]:
    yield AveragedSGDClassifier(**QUICK)
    yield AveragedSGDClassifier("multinomial", **QUICK)
    yield HeshingClassifier(bits=10, **QUICK)
    yield LabelTreeClassifier(**QUICK, alternations=1)
    yield KMeansTreeClassifier(**QUICK)
    yield RelaxedHierarchyClassifier(C=1.0, half_steps=4)
    yield TraceNormClassifier(1e-2, gap=0.05)


def transformers() -> Iterator[Any]:
    yield ProductQuantizer(bits=2)
    yield WTAHasher(20, window=2)
    yield WTAHasher(20, kind="wta", window=2, output="codes")


def name_of(estimator: Any) -> str:
    """A stable id of a test."""
    said = [
        type(estimator).__name__,
        *(str(getattr(estimator, key)) for key in ("loss", "kind") if hasattr(estimator, key)),
    ]
    return "-".join(said)


def problem(n_rows: int = 240, n_classes: int = 6, seed: int = 0) -> tuple[Any, Any]:
    """Rows (n_rows, 8) float32 around a centre for each class, and labels that are names."""
    rng = np.random.default_rng(seed)
    centres = rng.normal(scale=4.0, size=(n_classes, 8))
    classes = rng.permutation(np.arange(n_rows) % n_classes)
    rows = (centres[classes] + rng.normal(size=(n_rows, 8))).astype(np.float32)
    return rows, np.array(["oak", "elm", "ash", "rye", "oat", "fir"])[classes]


PLANTS = {"trees": ["oak", "elm", "ash", "fir"], "cereals": ["rye", "oat"]}
