"""Small models of every kind, rows for them, and folders that say something else than they did."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from tasks.classes import ClassTable
from tasks.hashing.heshing import HashedScorer
from tasks.models.certificate import NUMBERS, SOLVER, SPECTRUM
from tasks.models.factored import FactoredModel
from tasks.models.hashed import HashedModel
from tasks.models.linear import LinearModel
from tasks.models.sums import sums_text
from tasks.rows import Dense, OneHot, PqCodes
from tasks.rows.base import Rows
from tests.bodies import csr_of

NAMES = ("[/x]", "a/b", "..", "<script>alert(1)</script>", "école \N{SNOWMAN}", "", "x\x1b[31m", "crane", "crane")


def class_table(n: int) -> ClassTable:
    return ClassTable(tuple(f"id-{c}" for c in range(n)), tuple(NAMES[c % len(NAMES)] for c in range(n)))


def linear(seed: int, n_features: int = 6, n_classes: int = 9) -> LinearModel:
    random = np.random.default_rng(seed)
    weights = random.integers(-3, 4, (n_features, n_classes)).astype(np.float32)
    return LinearModel(weights, random.integers(-2, 3, n_classes).astype(np.float32))


def small_rows(seed: int, n: int = 7, n_features: int = 6) -> np.ndarray:
    """Small integers, so that products are exact and ties are common."""
    return np.random.default_rng(seed).integers(-2, 3, (n, n_features)).astype(np.float32)


def hashed(kind: str) -> HashedModel:
    scorer = HashedScorer(
        node_seeds=np.arange(6, dtype=np.uint32),
        parent=np.array([-1, 0, 0, 1, 1, 2], np.int32),
        level=np.array([0, 1, 1, 2, 2, 2], np.int32),
        leaf_of_class=np.array([3, 4, 5], np.int32),
        n_levels=3,
        n_buckets=16,
        n_features=6,
        scale=float(1 / np.sqrt(3)),
    )
    table = np.random.default_rng(1).normal(size=(2, 16)).astype(np.float32)
    return HashedModel(scorer, table, kind)


def certificate(**changes: Any) -> dict[str, Any]:
    values: dict[str, Any] = {name: 0.25 * i for i, name in enumerate(NUMBERS)}
    return {**values, "rank": 2, "atoms": 3, SPECTRUM: [2.0, 0.5], SOLVER: "r1d", **changes}


def factors(seed: int, d: int = 6, k: int = 5, rank: int = 2, bias: bool = True) -> tuple[Any, ...]:
    """Small integers, so that products are exact and ties are common."""
    random = np.random.default_rng(seed)
    u, v = (random.integers(-2, 3, (n, rank)).astype(np.float32) for n in (d, k))
    theta = random.integers(1, 4, rank).astype(np.float32)
    return u, theta, v, random.integers(-2, 3, k).astype(np.float32) if bias else None


def factored(seed: int, **sizes: Any) -> FactoredModel:
    return FactoredModel(*factors(seed, **sizes), certificate())


def model_rows(seed: int) -> dict[str, Rows]:
    """Six columns each: dense (both widths), CSR, PQ codes (3 x 2), one-hot codes (3 hashes of 2 codes)."""
    random, values = np.random.default_rng(seed), small_rows(seed)
    books = random.integers(-2, 3, (3, 4, 2)).astype(np.float32)
    return {
        "dense": Dense(values),
        "half": Dense(values.astype(np.float16)),
        "csr": csr_of(values),
        "pq": PqCodes(random.integers(0, 4, (7, 3)).astype(np.uint8), books),
        "onehot": OneHot(random.integers(0, 3, (7, 3)).astype(np.uint8), 2),  # code 2 is none
    }


def reseal(folder: Path) -> None:
    """SHA256SUMS as a stranger would write it after changing a file."""
    (folder / "SHA256SUMS").write_text(sums_text(folder))


def change_header(folder: Path, **values: Any) -> None:
    header = json.loads((folder / "model.json").read_text())
    header.update(values)
    (folder / "model.json").write_text(json.dumps(header))
    reseal(folder)
