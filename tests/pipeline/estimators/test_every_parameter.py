"""Every parameter of every estimator does something: another value gives another model, or other predictions."""

from __future__ import annotations

import functools
import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone

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
from pipeline.stages import grow
from tests.pipeline.estimators.small import name_of

WHERE = {"scheduler", "folder"}  # where a fit runs
TRIED = {"patience"}  # pairs that are tried before the path ends: tests/pipeline/test_trace_path.py
BOUNDS = {"most_nodes"}  # beyond which a fit ends by an error: tests/pipeline/test_svm_growth.py
SPREAD = "spread"  # nodes of trees are trained by blocks, as those of large data are
FEW = "few"  # rows of six classes alone
N_CLASSES, N_ROWS = 18, 216
PARENTS = {"a": list(range(9)), "b": list(range(9, N_CLASSES))}
Others = dict[str, tuple[Any, dict[str, Any]]]
SGD: dict[str, Any] = {"rounds": 1, "least_rows": 300}
OF_ALL: Others = {"random_state": (1, {}), "encode": (ProductQuantizer(4, bits=3), {})}
LOOP: Others = {
    "rounds": (2, {}),
    "passes": (3, {"least_rows": 1}),
    "partitions": (2, {}),
    "least_rows": (900, {}),
    "batch": (4, {}),
    "step": (0.05, {}),
    "regularization": (0.3, {}),
}
SHAPE: Others = {
    "branching": (4, {"branching": 3}),
    "depth": (1, {}),
    "beam": (5, {"beam": 1, "branching": 3, "depth": 2}),
    "bias": (False, {}),
    "validation_fraction": (0.3, {}),
}
HIERARCHY = {"rho": 0.8, "leaf_classes": 1}  # that has splits

# Each estimator with another value of every parameter, and what stands in both fits.
CASES: list[tuple[Any, Others]] = [
    (
        LabelTreeClassifier(**SGD, alternations=1),
        OF_ALL
        | LOOP
        | SHAPE
        | {
            "partitions": (2, {SPREAD: True}),
            "ambiguity": (0.9, {}),
            "speedup": (2.0, {}),
            "loss": (0.5, {}),
            "alternations": (2, {}),
            "initialisation": ("random", {}),
            "training_rows": ("routed", {}),
            "runners_up": (False, {"ambiguity": 0.6}),
            "most_rows": (30, {"encode": ProductQuantizer(4, bits=3)}),
        },
    ),
    (
        KMeansTreeClassifier(**SGD),
        OF_ALL
        | {key: (value, {**more, SPREAD: True}) for key, (value, more) in LOOP.items()}
        | SHAPE
        | {
            "speedup": (2.0, {}),
            "reach": (1, {}),
            "trees": (2, {}),
            "most_rows": (30, {"encode": ProductQuantizer(4, bits=3)}),
        },
    ),
    (
        RelaxedHierarchyClassifier(C=1.0, samples=2, finalists=1, half_steps=2),
        OF_ALL
        | {
            "rho": (1.0, HIERARCHY),
            "kernel": ("rbf", {}),
            "C": (0.01, {}),
            "width": (50.0, {"kernel": "rbf"}),
            "balance": (1, HIERARCHY),
            "initialisation": ("top-down", HIERARCHY),
            "samples": (3, HIERARCHY),
            "finalists": (2, HIERARCHY | {"split_rows": 60, "search_rows": 30}),
            "search_rows": (30, HIERARCHY | {"split_rows": 60}),
            "split_rows": (60, HIERARCHY),
            "half_steps": (3, HIERARCHY),
            "leaves": ("continued", {"rho": 0.8, FEW: True}),
            "least_active": (1.0, HIERARCHY),
            "first_rho": (1.0, HIERARCHY),
            "most_lost": (1.0, {}),
            "doubt": (0.0, HIERARCHY | {"initialisation": "top-down"}),
            "leaf_classes": (5, HIERARCHY),
            "rows_per_node": (60, {}),
        },
    ),
    (
        TraceNormClassifier(0.1, gap=0.05),
        OF_ALL
        | {
            "lambda1": (0.05, {}),
            "lambda1_steps": (2, {}),
            "lambda2": (0.1, {}),
            "lambda2_steps": (2, {"lambda2": 0.1}),
            "alpha": (0.1, {"lambda1_steps": 2}),
            "choose": ("top1", {"lambda1_steps": 6}),
            "standard_errors": (9.0, {"lambda1_steps": 3}),
            "gap": (1e-3, {}),
            "epsilon": (1e-3, {}),
            "max_iterations": (1, {}),
            "solver": ("r1d", {}),
            "bias": (False, {}),
            "validation_fraction": (0.3, {}),
        },
    ),
    (
        AveragedSGDClassifier(**SGD),
        OF_ALL | LOOP | {"loss": ("hinge", {}), "class_weight": ("balanced", {}), "bias": (False, {})},
    ),
    (
        HeshingClassifier(bits=6, **SGD),
        OF_ALL
        | LOOP
        | {
            "taxonomy": (PARENTS, {}),
            "bits": (7, {}),
            "buckets": (50, {}),
            "table": ("per-level", {"taxonomy": PARENTS}),
            "loss": ("multinomial", {}),
        },
    ),
    (
        ProductQuantizer(4, bits=3, iterations=2),
        {
            "subquantizers": (2, {}),
            "bits": (2, {}),
            "iterations": (4, {}),
            "sample": (100, {}),
            "random_state": (1, {}),
        },
    ),
    (
        WTAHasher(10, window=3),
        {
            "hashes": (11, {}),
            "kind": ("wta", {}),
            "window": (2, {}),
            "empty": ("first", {"kind": "wta"}),
            "shift": (5, {}),
            "range": (5, {}),
            "output": ("codes", {}),
            "random_state": (1, {}),
        },
    ),
]
EACH = [(place, key) for place, (_, others) in enumerate(CASES) for key in others]


@functools.cache
def problem() -> tuple[Any, Any]:
    """Rows (N_ROWS, 8) float32, not below 0, half of them 0, of classes near one another and of unequal size."""
    rng = np.random.default_rng(0)
    centres = rng.normal(scale=1.5, size=(N_CLASSES, 8))
    classes = np.minimum(rng.integers(0, N_CLASSES, N_ROWS), rng.integers(0, N_CLASSES, N_ROWS))
    classes[: 3 * N_CLASSES] = np.arange(3 * N_CLASSES) % N_CLASSES
    rows = np.maximum(centres[classes] + rng.normal(size=(N_ROWS, 8)), 0)
    return rows.astype(np.float32), classes


def made(estimator: Any, given: dict[str, Any]) -> tuple[Any, ...]:
    """What a fit comes to: the model's digest and what it says of rows."""
    rows, labels = problem()
    given = dict(given)
    if given.pop(FEW, False):
        rows, labels = rows[labels < 6], labels[labels < 6]
    estimator = clone(estimator).set_params(**given).fit(rows, labels)
    if hasattr(estimator, "transform"):
        coded = estimator.transform(rows)
        return coded.shape, (coded.toarray() if hasattr(coded, "toarray") else coded).tobytes()
    return estimator.model_.digest, estimator.predict(rows).tobytes()


BARE: dict[str, tuple[Any, ...]] = {}  # fits without the other value, which several parameters share


@pytest.mark.parametrize(("place", "key"), EACH, ids=[f"{name_of(CASES[place][0])}-{key}" for place, key in EACH])
def test_another_value_makes_a_difference(place: int, key: str, monkeypatch: pytest.MonkeyPatch) -> None:
    estimator, others = CASES[place]
    value, more = others[key]
    more = dict(more)
    if spread := more.pop(SPREAD, False):
        told = grow.tree_params
        monkeypatch.setattr(
            grow, "tree_params", lambda *given: replace(told(*given), whole_root_bytes=0, whole_node_bytes=0)
        )
    asked = json.dumps([place, spread, more], default=repr)
    if asked not in BARE:
        BARE[asked] = made(estimator, more)
    assert made(estimator, {**more, key: value}) != BARE[asked]


@pytest.mark.parametrize(("estimator", "others"), CASES, ids=[name_of(estimator) for estimator, _ in CASES])
def test_no_parameter_is_left_out(estimator: Any, others: Others) -> None:
    assert set(others) == set(estimator.get_params(deep=False)) - WHERE - TRIED - BOUNDS
