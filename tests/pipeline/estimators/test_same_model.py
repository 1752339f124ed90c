"""A fit gives the model of `labelgrove ingest` and `labelgrove run` for the same rows, labels, seed and parameters."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pyarrow.parquet as pq
import pytest
from sklearn.model_selection import GridSearchCV

from pipeline import (
    AveragedSGDClassifier,
    HeshingClassifier,
    KMeansTreeClassifier,
    LabelTreeClassifier,
    ProductQuantizer,
    RelaxedHierarchyClassifier,
    TraceNormClassifier,
    TrainedClassifier,
)
from pipeline.config import load_config
from pipeline.connection.profile import Profile
from pipeline.ingest import ingest
from pipeline.runner import run_config
from tasks.models.folder import load_model
from tests.pipeline.cli_caller import labelgrove
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
    estimator.save(tmp_path / "saved")
    saved = load_model(tmp_path / "saved")
    assert estimator.model_.model.header() == saved.model.header() == made.model.header()  # with beam and doubt
    of_run = TrainedClassifier.load(result.folder / "models" / kind)
    np.testing.assert_array_equal(estimator.predict(rows), of_run.predict(rows))
    told, own = estimator.get_params(deep=False), type(estimator).load(tmp_path / "saved")
    assert repr(own) == repr(estimator)
    of_run = type(estimator).load(result.folder / "models" / kind).get_params(deep=False)
    unknown = {"encode", "taxonomy", "validation_fraction"}  # a model does not tell these of a run
    assert {key: value for key, value in told.items() if key not in unknown} == {
        key: value for key, value in of_run.items() if key not in unknown
    }
    assert not {"encode", "taxonomy"} & {key for key, value in of_run.items() if value is not None}


@pytest.mark.parametrize("kind", [KMeansTreeClassifier, LabelTreeClassifier])
def test_the_beam_is_that_of_the_model(kind: Any, tmp_path: Path) -> None:
    """In memory, in the saved folder, on the command line and in ONNX."""
    rows, _ = problem(300, 6)
    labels = np.random.default_rng(0).integers(0, 12, 300)  # nothing to learn: a walk and a search differ
    rows[np.arange(300), labels % 8] += 2
    np.save(tmp_path / "rows.npy", rows)
    said = []
    for beam in (1, 4):
        model = kind(3, 2, beam=beam, rounds=2, least_rows=500).fit(rows, labels)
        place = tmp_path / f"beam-{beam}"
        model.save(place)
        assert model.model_.model.beam == load_model(place).model.beam == beam
        said.append(model.predict(rows))
        done = labelgrove("predict", place, tmp_path / "rows.npy", "-o", tmp_path / "p.parquet", "--force")
        assert done.code == 0, done.err
        best = [row[0] for row in pq.read_table(tmp_path / "p.parquet")["classes"].to_pylist()]
        np.testing.assert_array_equal(model.classes_[best], said[-1])
        done = labelgrove("export", place, "--to", "onnx", "-o", tmp_path / f"{beam}.onnx")
        assert done.code == 0, done.err
        session = onnxruntime.InferenceSession(tmp_path / f"{beam}.onnx")
        classes = session.run(["classes"], {session.get_inputs()[0].name: rows})[0]
        assert np.mean(model.classes_[classes[:, 0]] == said[-1]) > 0.99  # ties of sums in another order
    assert np.mean(said[0] != said[1]) > 0.02
    grid = GridSearchCV(kind(3, 2, rounds=2, least_rows=500), {"beam": [1, 4]}, cv=2).fit(rows, labels)
    assert len(set(grid.cv_results_["mean_test_score"])) == 2


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
