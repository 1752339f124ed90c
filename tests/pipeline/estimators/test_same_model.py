"""A fit gives the model of `labelgrove ingest` and `labelgrove run` for the same rows, labels, seed and parameters."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pipeline import (
    AveragedSGDClassifier,
    HeshingClassifier,
    KMeansTreeClassifier,
    LabelTreeClassifier,
    ProductQuantizer,
    RelaxedHierarchyClassifier,
    TraceNormClassifier,
)
from pipeline.config import load_config
from pipeline.connection.profile import Profile
from pipeline.ingest import ingest
from pipeline.runner import run_config
from tasks.models.folder import load_model
from tests.pipeline.estimators.small import PLANTS, problem

SEED = 3
CASES: list[tuple[str, Any, str]] = [
    ("ovr", AveragedSGDClassifier("logistic", rounds=2, random_state=SEED), 'loss = "logistic"\nrounds = 2'),
    ("heshing", HeshingClassifier(PLANTS, bits=8, rounds=2, random_state=SEED), "bits = 8\nrounds = 2"),
    ("label-tree", LabelTreeClassifier(2, 2, rounds=2, random_state=SEED), "branching = 2\ndepth = 2\nrounds = 2"),
    (
        "kmeans-tree",
        KMeansTreeClassifier(2, rounds=2, encode=ProductQuantizer(4, bits=4), random_state=SEED),
        'branching = 2\nrounds = 2\nrows = "codes"',
    ),
    ("relaxed-hierarchy", RelaxedHierarchyClassifier(0.4, C=1.0, random_state=SEED), "rho = 0.4\nC = 1.0"),
    ("trace-norm", TraceNormClassifier(0.01, random_state=SEED), "lambda1 = 0.01"),
]
ENCODE = '[[encode]]\nname = "codes"\nkind = "pq"\nsubquantizers = 4\nbits = 4\n'


@pytest.mark.parametrize(("kind", "estimator", "keys"), CASES, ids=[case[0] for case in CASES])
def test_the_model_is_that_of_a_run(kind: str, estimator: Any, keys: str, tmp_path: Path) -> None:
    rows, labels = problem()
    np.save(tmp_path / "rows.npy", rows)
    (tmp_path / "labels.txt").write_text("\n".join(labels) + "\n")
    tree = {"plants": {parent: dict.fromkeys(children) for parent, children in PLANTS.items()}}
    (tmp_path / "tree.json").write_text(json.dumps(tree))
    taxonomy = str(tmp_path / "tree.json") if kind == "heshing" else None
    share = getattr(estimator, "validation_fraction", 0.0)
    files = {"labels": tmp_path / "labels.txt", "classes": sorted(set(labels)), "taxonomy": taxonomy}
    dataset = ingest(tmp_path / "rows.npy", tmp_path / "d.zarr", validation=share, test=0.0, seed=SEED, **files)
    section = f'[[train]]\nname = "{kind}"\nkind = "{kind}"\n{keys}\n'
    config = f'name = "r"\nseed = {SEED}\n[data]\npath = "d.zarr"\n{ENCODE if "codes" in keys else ""}{section}'
    (tmp_path / "c.toml").write_text(config)
    if kind == "heshing":
        estimator.set_params(taxonomy=taxonomy)
    result = run_config(load_config(tmp_path / "c.toml"), Profile("serial"))
    estimator.fit(rows, labels)
    made = load_model(result.folder / "models" / kind)
    assert estimator.digest_ == dataset.digest
    assert estimator.model_.digest == made.digest
    for name, tensor in made.model.tensors().items():
        np.testing.assert_array_equal(estimator.model_.model.tensors()[name], tensor)


def test_a_mapping_is_the_taxonomy_of_a_file(tmp_path: Path) -> None:
    rows, labels = problem()
    (tmp_path / "tree.tsv").write_text(
        "".join(f"{parent}\t{child}\n" for parent, below in {"plants": PLANTS, **PLANTS}.items() for child in below)
    )
    quick = {"bits": 8, "rounds": 1, "least_rows": 500}
    nested = HeshingClassifier({"plants": PLANTS}, **quick).fit(rows, labels)
    flat = HeshingClassifier({"plants": list(PLANTS), **PLANTS}, **quick).fit(rows, labels)
    of_file = HeshingClassifier(tmp_path / "tree.tsv", **quick).fit(rows, labels)
    assert nested.model_.digest == flat.model_.digest == of_file.model_.digest
    alone = HeshingClassifier(**quick).fit(rows, labels)
    assert alone.model_.digest != flat.model_.digest
    few = labels != "rye"  # as a fold of a cross-validation may be
    assert "rye" not in HeshingClassifier(PLANTS, **quick).fit(rows[few], labels[few]).predict(rows)
