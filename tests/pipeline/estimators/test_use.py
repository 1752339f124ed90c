"""Estimators as people use them: parameters, labels, pipelines, grids, pickles, folders."""

from __future__ import annotations

import os
import pickle
import re
import shutil
import warnings
from pathlib import Path
from typing import Any

import dask.array as da
import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from joblib import parallel_config
from scipy import sparse
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from pipeline import (
    AveragedSGDClassifier,
    HeshingClassifier,
    KMeansTreeClassifier,
    LabelTreeClassifier,
    ProductQuantizer,
    TrainedClassifier,
    WTAHasher,
)
from pipeline.config import OneVsRest
from pipeline.errors import ClusterLost
from pipeline.estimators import BadParameter, BadRows, FewRowsWarning, FolderTaken
from pipeline.estimators.errors import raise_in_python
from pipeline.ingest.layout import order_rows
from pipeline.owned import PlaceTaken
from pipeline.section import Learner
from pipeline.sections import KINDS
from pipeline.svm_sections import SvmKeys
from tasks.errors import InputError, LabelgroveError, UsageError
from tasks.models.folder import load_model, save_model
from tests.pipeline.cli_caller import labelgrove
from tests.pipeline.estimators.small import classifiers, name_of, problem, transformers

QUICK: dict[str, Any] = {"rounds": 1, "least_rows": 500}
OWN = {"random_state", "encode", "scheduler", "folder", "validation_fraction", "output"}
NOT_OURS = {
    "ambiguity_of",
    "kind",
    "seed",
}  # of another model of the config; of an encoding whose class or random_state says it


@pytest.mark.parametrize("estimator", [*classifiers(), *transformers()], ids=name_of)
def test_parameters_are_the_keys_of_the_config(estimator: Any) -> None:
    section = KINDS[getattr(estimator, "learner_kind", None) or estimator._kind()]
    away = (
        {"name", "sweep", "rows", "test_rows"} | NOT_OURS | ({"classes", "draw"} if section is not OneVsRest else set())
    )
    away |= set(SvmKeys.model_fields) | {"kernel"} if section is OneVsRest else set()
    keys = {key: field.default for key, field in section.model_fields.items() if key not in away}
    defaults = type(estimator)().get_params()
    given = {key: value for key, value in defaults.items() if key not in OWN}
    if isinstance(estimator, WTAHasher):  # of both kinds
        given = {key: value for key, value in given.items() if key in keys}
    assert given == keys
    assert {"name", "rows"} <= set(Learner.model_fields)


WRONG: list[tuple[Any, str]] = [
    (LabelTreeClassifier(ambiguity=2.0, depth=0), r"depth: .*; ambiguity: .*less than or equal to 1 \(it is 2.0\)"),
    (LabelTreeClassifier(ambiguity=0.3, loss=0.1), "^BadParameter: ambiguity and loss are 2 constraints"),
    (LabelTreeClassifier(encode=StandardScaler()), "encode: StandardScaler is neither"),
    (LabelTreeClassifier(encode=ProductQuantizer(3, bits=2)), "8 features cannot be cut into 3 equal parts"),
    (AveragedSGDClassifier(loss="log"), "loss: Input should be 'squared-hinge'"),
    (AveragedSGDClassifier(step="fast"), "step: Input should be a valid number or 'auto'"),
    (AveragedSGDClassifier(scheduler="foo"), "scheduler 'foo' is none of the known forms"),
    (KMeansTreeClassifier(validation_fraction=1.5), "validation_fraction = 1.5"),
    (KMeansTreeClassifier(random_state=-1), "random_state = -1"),
    (HeshingClassifier({"a": ["oak", "elm"]}), r"labels \[.*\] are no nodes"),
    (HeshingClassifier({"a": ["oak", "elm", "ash", "rye"], "b": ["rye", "oat", "fir"]}), "TaxonomyMultiParent: 'rye'"),
    (HeshingClassifier("nowhere.tsv"), "there is no such file"),
    (HeshingClassifier(3), "int is no taxonomy"),
]


@pytest.mark.parametrize(("estimator", "said"), WRONG, ids=[str(i) for i in range(len(WRONG))])
def test_errors_name_the_parameter(estimator: Any, said: str) -> None:
    with pytest.raises(BadParameter, match=said) as found:
        estimator.fit(*problem())
    assert isinstance(found.value, ValueError)
    assert not any(word in str(found.value) for word in ("[[", "--", "train[", "encode["))


def test_errors_are_named_ones() -> None:
    assert issubclass(BadParameter, UsageError)
    assert issubclass(BadRows, InputError)
    assert issubclass(FolderTaken, LabelgroveError)
    rows, labels = problem()
    with pytest.raises(BadRows, match="y holds 1 class"):
        AveragedSGDClassifier().fit(rows, np.zeros(len(labels)))


@pytest.mark.parametrize(
    ("what", "hint"),
    [
        ("An attempt has been made to start a new process before the", 'if __name__ == "__main__":'),
        ("the workers do not start", "fewer workers (scheduler local:1), then call fit again"),
    ],
    ids=["guard", "other"],
)
def test_errors_of_clusters_stay_what_they_are(what: str, hint: str) -> None:
    told = "fewer workers (--scheduler local:1), then type the same command again"
    with pytest.raises(ClusterLost) as found:
        raise_in_python(ClusterLost(what, "local cluster", told), "train ovr")
    assert hint in str(found.value)


@pytest.mark.parametrize("estimator", [*classifiers()], ids=name_of)
def test_one_row_a_class(estimator: Any) -> None:
    rows = np.eye(6, dtype=np.float32) * 3
    estimator = clone(estimator)
    if getattr(estimator, "validation_fraction", 0):
        with pytest.warns(FewRowsWarning, match="validation_fraction"):
            estimator.fit(rows, np.arange(6))
    else:
        estimator.fit(rows, np.arange(6))
    assert estimator.score(rows, np.arange(6)) > 0.5


def test_methods_that_there_are() -> None:
    rows, labels = problem()
    assert not hasattr(AveragedSGDClassifier(), "predict_proba")
    assert hasattr(AveragedSGDClassifier("multinomial"), "predict_proba")
    assert not hasattr(LabelTreeClassifier(**QUICK).fit(rows, labels), "decision_function")
    trees = KMeansTreeClassifier(branching=2, beam=1, **QUICK).fit(rows, labels)
    told = trees.predict_proba(rows)
    np.testing.assert_allclose(told.sum(axis=1), 1.0)
    np.testing.assert_array_equal(trees.classes_[told.argmax(axis=1)], trees.predict(rows))
    assert told.min() >= 0


def test_pipeline_and_grid() -> None:
    rows, labels = problem()
    scaled = make_pipeline(StandardScaler(), AveragedSGDClassifier(**QUICK))
    grid = GridSearchCV(scaled, {"averagedsgdclassifier__rounds": np.arange(1, 3)}, cv=2).fit(rows, labels)
    assert grid.best_score_ > 0.8
    coded = make_pipeline(WTAHasher(100, window=2), LogisticRegression(max_iter=50))
    assert cross_val_score(coded, rows, labels, cv=2).mean() > 0.8
    nested = LabelTreeClassifier(encode=ProductQuantizer(4), **QUICK).set_params(encode__bits=4)
    assert cross_val_score(nested, rows, labels, cv=2).mean() > 0.7


def test_pickles_fitted_and_not() -> None:
    rows, labels = problem()
    model = LabelTreeClassifier(**QUICK)
    assert pickle.loads(pickle.dumps(model)).get_params() == model.get_params()
    model.fit(rows, labels)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(model)).predict(rows), model.predict(rows))


def test_quantizer_comes_back() -> None:
    rows, _ = problem()
    coder = ProductQuantizer(4, bits=6).fit(rows)
    codes = coder.transform(rows)
    assert codes.dtype == np.uint8
    assert codes.shape == (240, 4)
    near = coder.inverse_transform(codes)
    assert np.mean((near - rows) ** 2) < 0.1 * rows.var()
    np.testing.assert_array_equal(coder.transform(near), codes)
    with pytest.raises(BadRows, match="codes go from 0 to 63"):
        coder.inverse_transform(np.full((1, 4), 64))


def test_partial_fit_goes_on(tmp_path: Path) -> None:
    rows, labels = problem(480)
    model = AveragedSGDClassifier("multinomial", least_rows=500)
    for part in np.array_split(np.arange(480), 3):
        model.partial_fit(rows[part], labels[part], classes=np.unique(labels))
    assert model.rounds_done_ == 3
    assert model.score(rows, labels) > 0.9
    before = model.predict_proba(rows)
    model.partial_fit(rows[:4], labels[:4])
    assert 0 < np.abs(model.predict_proba(rows) - before).max() < 0.9
    with pytest.raises(BadRows, match="none of `classes`"):
        model.partial_fit(rows[:2], np.array(["oak", "yew"]))
    digest = model.save(tmp_path / "m")
    assert TrainedClassifier.load(tmp_path / "m").model_.digest == digest
    fitted = HeshingClassifier(bits=8, **QUICK).fit(rows, labels)
    assert fitted.partial_fit(rows, labels).rounds_done_ == 2


@pytest.mark.parametrize(
    "model", [AveragedSGDClassifier(), AveragedSGDClassifier("multinomial"), HeshingClassifier(bits=8)], ids=name_of
)
def test_one_partial_fit_is_a_round_of_a_fit(model: Any) -> None:
    """Of rows in the order in which a dataset of one block stores them: the same bits."""
    rows, labels = problem(200)
    model.set_params(rounds=1, partitions=1, least_rows=500)
    order = order_rows(np.zeros(200, np.uint8), np.ones(200, bool), 0)
    part = clone(model).partial_fit(rows[order], labels[order], np.unique(labels))
    assert part.model_.digest == model.fit(rows, labels).model_.digest


def test_folder_is_that_of_the_command_line(tmp_path: Path) -> None:
    rows, labels = problem()
    model = LabelTreeClassifier(2, **QUICK).fit(rows, labels)
    model.save(tmp_path / "tree")
    np.save(tmp_path / "rows.npy", rows)
    (tmp_path / "labels.txt").write_text("\n".join(labels))
    place, out = tmp_path / "tree", tmp_path / "p.parquet"
    asked = ["predict", place, tmp_path / "rows.npy", "-o", out, "--labels", tmp_path / "labels.txt"]
    for words in (["verify", place], ["inspect", place], asked):
        done = labelgrove(*words)
        assert done.code == 0, done.err
    best = [row[0] for row in pq.read_table(out)["classes"].to_pylist()]
    np.testing.assert_array_equal(model.classes_[best], model.predict(rows))
    for again in (LabelTreeClassifier.load(place), TrainedClassifier.load(place), clone(TrainedClassifier.load(place))):
        np.testing.assert_array_equal(again.predict(rows), model.predict(rows))
        assert again.score(rows, labels) > 0.8
    assert LabelTreeClassifier.load(place).branching == 2
    with pytest.raises(BadParameter, match="kind label-tree"):
        AveragedSGDClassifier.load(place)


@pytest.mark.parametrize("form", ["csr", "csc", "coo"])
@pytest.mark.parametrize("broken", [99, -1])
def test_indices_outside_of_a_sparse_matrix(form: str, broken: int) -> None:
    """Compiled code would follow them: the process died, or the rows were others."""
    rows, labels = problem(40, 4)
    fitted = AveragedSGDClassifier(**QUICK).fit(sparse.csr_matrix(rows), labels)
    for names in {"csr": ("indices", "indptr"), "csc": ("indices", "indptr"), "coo": ("row", "col")}[form]:
        damaged = sparse.csr_matrix(rows).asformat(form, copy=True)
        getattr(damaged, names)[1] = broken if names != "indptr" else 10**6
        with pytest.raises(BadRows, match="describe no matrix"):
            AveragedSGDClassifier(**QUICK).fit(damaged, labels)
        with pytest.raises(BadRows, match="describe no matrix"):
            fitted.predict(damaged)


def test_nothing_is_saved_among_what_others_own(tmp_path: Path) -> None:
    rows, labels = problem(40, 4)
    fitted = AveragedSGDClassifier(**QUICK).fit(rows, labels)
    (tmp_path / "d.zarr").mkdir()
    (tmp_path / "d.zarr" / "zarr.json").write_text("{}")
    with pytest.raises(PlaceTaken, match="within the dataset"):
        fitted.save(tmp_path / "d.zarr" / "model", overwrite=True)
    with pytest.raises(BadParameter, match="no such folder"):
        AveragedSGDClassifier(**QUICK, folder=str(tmp_path / "absent")).fit(rows, labels)


def test_nothing_but_a_model_is_replaced(tmp_path: Path) -> None:
    rows, labels = problem()
    model = AveragedSGDClassifier(**QUICK).fit(rows, labels)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "file").write_text("x")
    for overwrite in (False, True):
        with pytest.raises(FolderTaken, match="no model is there"):
            model.save(tmp_path / "mine", overwrite=overwrite)
    assert (tmp_path / "mine" / "file").read_text() == "x"
    model.save(tmp_path / "m")
    with pytest.raises(FolderTaken, match="overwrite=True"):
        model.save(tmp_path / "m")
    (tmp_path / ".m.partial-999999999" / "m").mkdir(parents=True)  # of a process that was killed
    assert model.save(tmp_path / "m", overwrite=True) == model.model_.digest
    assert sorted(path.name for path in tmp_path.iterdir()) == ["m", "mine"]
    (tmp_path / f".m.partial-{os.getppid()}").mkdir()
    with pytest.raises(FolderTaken, match=f"process {os.getppid()} is writing it"):
        model.save(tmp_path / "m", overwrite=True)


def test_of_two_saves_the_faster_one_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows, labels = problem(40, 4)
    model, other = (AveragedSGDClassifier(loss, **QUICK).fit(rows, labels) for loss in ("squared-hinge", "logistic"))
    other.save(tmp_path / "other")

    def slowly(place: Path, *given: Any, **named: Any) -> str:
        digest = save_model(place, *given, **named)
        shutil.copytree(tmp_path / "other", tmp_path / "m")
        return digest

    monkeypatch.setattr("pipeline.estimators.saving.save_model", slowly)
    with pytest.raises(FolderTaken, match=r"meanwhile(.|\n)*overwrite=True"):
        model.save(tmp_path / "m")
    assert load_model(tmp_path / "m").digest == other.model_.digest
    assert sorted(path.name for path in tmp_path.iterdir()) == ["m", "other"]


@pytest.mark.parametrize("kind", ["memory", "frame", "dask", "partial_fit"])
def test_the_card_says_how_it_is_used(kind: str, tmp_path: Path) -> None:
    rows, labels = problem(40, 4)
    given = {"frame": lambda: pd.DataFrame(rows, columns=list("abcdefgh")), "dask": lambda: da.from_array(rows)}
    given_rows = given.get(kind, lambda: rows)()
    model = AveragedSGDClassifier("multinomial", **QUICK)
    if kind == "partial_fit":
        model.partial_fit(rows, labels, np.unique(labels))
    else:
        model.fit(given_rows, labels)
    model.save(tmp_path / "m")
    card = (tmp_path / "m" / "README.md").read_text("utf-8")
    origin = {"dask": "Dask array, 40 x 8", "partial_fit": "rows in memory, given to partial_fit, n x 8"}
    assert f"- dataset: {origin.get(kind, 'rows in memory, 40 x 8')}\n" in card
    assert "- estimator: AveragedSGDClassifier, its parameters are in model.json\n" in card
    assert ("the 8 columns of the fit" in card) == (kind == "frame")
    assert "\\" not in card
    assert "dataset.zarr" not in card
    (code,) = re.findall(r"```python\n(.*?)```", card, re.DOTALL)
    found: dict[str, Any] = {"rows": given_rows}
    exec(code.replace("THIS_FOLDER", str(tmp_path / "m")), found)
    np.testing.assert_array_equal(found["labels"], model.predict(rows if kind != "frame" else given_rows))
    assert found["shares"].shape == (40, 4)


def test_codes_have_names_and_frames() -> None:
    rows, _ = problem(300, 4)
    quantizer = ProductQuantizer(4, bits=4).set_output(transform="pandas").fit(rows)
    assert list(quantizer.transform(rows).columns) == [f"productquantizer{i}" for i in range(4)]
    hasher = WTAHasher(3, kind="wta").fit(rows)
    assert len(hasher.get_feature_names_out()) == hasher.transform(rows).shape[1]


def test_a_first_partial_fit_with_all_classes_warns_of_nothing() -> None:
    rows, labels = problem(80)[0], np.arange(80) % 40
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = AveragedSGDClassifier(**QUICK).partial_fit(rows, labels, classes=np.unique(labels))
    with pytest.raises(BadRows, match=r"\[100, 101, 102, 103, 104\] and 35 more, which"):
        model.partial_fit(rows, labels + 100)


@pytest.mark.slow
def test_a_grid_in_processes_is_that_of_one() -> None:
    """Each process has folders of its own."""
    rows, labels = problem(120, 4)
    found = []
    for jobs in (1, 2):
        with parallel_config("loky", n_jobs=jobs):
            grid = GridSearchCV(AveragedSGDClassifier(**QUICK), {"rounds": [1, 2]}, cv=2).fit(rows, labels)
        found.append((grid.cv_results_["mean_test_score"].tolist(), grid.best_estimator_.model_.digest))
    assert found[0] == found[1]
