"""Rows whose columns have names, for a model that knows these: put in its order, or refused, never taken blindly."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anndata
import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
import scipy.sparse

from pipeline import AveragedSGDClassifier, TrainedClassifier
from pipeline.config import load_config
from pipeline.connection.profile import load_profile
from pipeline.dataset import Dataset
from pipeline.ingest import errors, ingest
from pipeline.ingest.feature_order import put_in_order
from pipeline.ingest.npy import from_array
from pipeline.ingest.npz import from_sparse
from pipeline.training_only import pool_of, train_only
from tasks.models import feature_names as names_module
from tasks.models.feature_names import FeatureNames, feature_names, places
from tasks.models.folder import load_model
from tasks.rows import Csr, Dense
from tests.pipeline.cli_caller import Said, assert_refused, gaussian, succeeds

N_FEATURES, N_CLASSES = 7, 5
ROWS, Y = gaussian(60, N_FEATURES, N_CLASSES)
NAMES = ["height", "b", "a", "e\u0301tage", "z", "area", "c"]
KEPT = (*NAMES[:3], "\u00e9tage", *NAMES[4:])  # in form NFC
BACKWARDS = NAMES[::-1]
CONFIG = 'name = "named"\n[data]\npath = "d.zarr"\n[[train]]\nname = "model"\nkind = "nearest-class-mean"\n'


def frame(columns: list[str], rows: np.ndarray = ROWS) -> pd.DataFrame:
    return pd.DataFrame(rows, columns=NAMES)[columns]


def parquet(place: Path, columns: list[str], **more: Any) -> Path:
    frame(columns).assign(**more).to_parquet(place.with_suffix(".parquet"))
    return place.with_suffix(".parquet")


def h5ad(place: Path, columns: list[str], sparse: bool = False) -> Path:
    x = frame(columns).to_numpy()
    made = anndata.AnnData(scipy.sparse.csr_matrix(x) if sparse else x, var=pd.DataFrame(index=columns))
    made.obs["label"] = pd.Categorical(Y.astype(str))
    made.write_h5ad(place.with_suffix(".h5ad"))
    return place.with_suffix(".h5ad")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two models: that of a run's stages on a Parquet file, and one that an estimator has saved."""
    folder = tmp_path_factory.mktemp("named")
    succeeds("ingest", parquet(folder / "train", NAMES, label=Y), folder / "d.zarr")
    (folder / "c.toml").write_text(CONFIG.replace("d.zarr", str(folder / "d.zarr")))
    config, dataset = load_config(folder / "c.toml").run, Dataset.open(folder / "d.zarr")
    with pool_of(load_profile(None, scheduler="serial"), folder, dataset) as pool:
        train_only(config, dataset, pool, folder / "steps").model("model").rename(folder / "run")
    AveragedSGDClassifier(rounds=1, least_rows=500).fit(frame(NAMES), Y).save(folder / "estimator")
    return folder


def ranked(made: Path, model: str, source: Path) -> tuple[Any, Said]:
    said = succeeds("predict", made / model, source, "-o", made / "p.parquet", "--force")
    table = pq.read_table(made / "p.parquet")
    return [table[name].to_pylist() for name in ("classes", "scores")], said


@pytest.mark.parametrize("model", ["run", "estimator"])
@pytest.mark.parametrize("write", [parquet, h5ad, lambda *of: h5ad(*of, sparse=True)], ids=["parquet", "h5ad", "csr"])
def test_columns_in_another_order_are_put_in_the_models(made: Path, model: str, write: Callable[..., Path]) -> None:
    plain, said = ranked(made, model, write(made / "x", NAMES))
    assert "FeaturesInOrder" not in said.err
    turned, said = ranked(made, model, write(made / "turned", BACKWARDS))
    assert turned == plain
    assert "info: FeaturesInOrder: turned." in said.err
    np.save(made / "x.npy", ROWS)
    assert ranked(made, model, made / "x.npy")[0][0] == plain[0]  # without names as they stand


@pytest.mark.parametrize("model", ["run", "estimator"])
def test_other_columns_are_refused(made: Path, model: str) -> None:
    """By what is missing and what is more, also where the number of columns is the same."""
    other = parquet(made / "other", NAMES[:-1], weight=ROWS[:, 0])
    more = parquet(made / "more", NAMES, weight=ROWS[:, 0], age=ROWS[:, 1])
    few = parquet(made / "few", NAMES[1:])
    missing = "features of the model that are missing: 1 (the first is {!r})"
    beyond = "columns that are none of the model's: {} (the first is 'weight')"
    for source, words in (
        (other, (missing.format("c"), beyond.format(1))),
        (more, (beyond.format(2),)),
        (few, (missing.format("height"),)),
    ):
        by = ("predict", made / model, source, "-o", made / "q.parquet")
        assert_refused(made, 3, "ColumnMismatch", *words, "--rows-at FIRST..LAST", by=by)
    np.save(made / "y.npy", Y)
    by = ("evaluate", made / model, other, "--labels", made / "y.npy")
    assert_refused(made, 3, "ColumnMismatch", missing.format("c"), by=by)


def test_a_dataset_in_another_order_is_refused(made: Path) -> None:
    succeeds("ingest", parquet(made / "other_train", BACKWARDS, label=Y), made / "turned.zarr")
    by = ("predict", made / "run", made / "turned.zarr", "-o", made / "q.parquet")
    said = ("feature 0 is 'c', and 'height' of the model", "give the files that it was made of")
    assert_refused(made, 3, "ColumnMismatch", *said, by=by)


def test_what_is_kept_of_names(made: Path) -> None:
    dataset = Dataset.open(made / "d.zarr")
    assert dataset.feature_names == FeatureNames.of(KEPT)
    saved = load_model(made / "run")
    assert saved.feature_names == dataset.feature_names
    assert "named features: 7, 'height' .. 'c'" in (made / "run" / "README.md").read_text()
    assert "7, 'height' .. 'c'" in succeeds("inspect", made / "run").out
    assert list(TrainedClassifier.load(made / "run").feature_names_in_) == list(KEPT)
    own = TrainedClassifier.load(made / "estimator")
    np.testing.assert_array_equal(own.predict(frame(NAMES)), own.predict(frame(NAMES).astype(np.float64)))
    with pytest.raises(ValueError, match="feature names should match"):
        own.predict(frame(BACKWARDS))


def test_names_are_part_of_what_a_dataset_holds(made: Path, tmp_path: Path) -> None:
    """Others make another dataset; when they are changed there, `verify` finds it."""
    source = parquet(tmp_path / "x", NAMES, label=Y)
    other = pd.read_parquet(source).rename(columns={"a": "another"})
    other.to_parquet(tmp_path / "other.parquet")
    first, second = ingest(source, tmp_path / "d"), ingest(tmp_path / "other.parquet", tmp_path / "e")
    assert first.digest == Dataset.open(made / "d.zarr").digest != second.digest
    first.verify()
    path = tmp_path / "d" / "features" / "zarr.json"
    path.write_text(path.read_text().replace("area", "zone"))
    (found,) = Dataset.open(tmp_path / "d").problems()
    assert "names of features: the content is not what was written" in str(found)


def test_parts_and_files_of_other_names_are_refused(tmp_path: Path) -> None:
    plain, turned = h5ad(tmp_path / "a", NAMES), h5ad(tmp_path / "b", BACKWARDS)
    for options in ({"source": plain, "test_source": turned}, {"source": [plain, turned]}):
        with pytest.raises(errors.ColumnMismatch, match=r"feature 0 is 'c', and 'height' in a\.h5ad"):
            ingest(dataset=tmp_path / "d", **options)  # type: ignore[arg-type]
    with pytest.raises(errors.ColumnMismatch, match="feature 0 is 'c', and 'height'"):
        ingest(
            parquet(tmp_path / "a", NAMES, label=Y),
            tmp_path / "d",
            test_source=parquet(tmp_path / "b", BACKWARDS, label=Y),
        )
    assert not (tmp_path / "d").exists()


def test_names_that_cannot_be_read_are_said(tmp_path: Path) -> None:
    import h5py

    source = h5ad(tmp_path / "a", NAMES)
    with h5py.File(source, "a") as file:
        del file["var/_index"]
        file["var/_index"] = np.array([b"\xff"] * N_FEATURES)
    made = ingest(source, tmp_path / "d")
    assert made.feature_names is None
    assert [note.level for note in made.notes if note.code == "FeatureNamesNotRead"] == ["warning"]


@pytest.mark.parametrize("seed", range(3))
def test_every_body_takes_its_columns_in_order(seed: int) -> None:
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((9, 6)).astype(np.float32) * (rng.random((9, 6)) < 0.5)
    names, order = tuple("abcdef"), rng.permutation(6)
    for source in (from_array(x[:, order], "x"), from_sparse(scipy.sparse.csr_matrix(x[:, order]), "x")):
        source.feature_names = tuple(names[place] for place in order)
        put_in_order(source, FeatureNames.of(names))
        index = rng.permutation(9)
        for rows, wanted in ((source.slab(2, 7), x[2:7]), (source.take(index, "float32"), x[index])):
            assert isinstance(rows, Dense | Csr)
            if isinstance(rows, Csr):
                assert all(np.all(np.diff(part) > 0) for part in np.split(rows.indices, rows.indptr[1:-1]))
                rows = Dense(scipy.sparse.csr_matrix((rows.data, rows.indices, rows.indptr), wanted.shape).toarray())
            np.testing.assert_array_equal(rows.values, wanted)


def test_columns_that_are_numbered_are_put_in_order_for_any_model() -> None:
    source = from_array(ROWS[:, ::-1], "x")
    source.feature_names = tuple(str(place) for place in range(N_FEATURES))[::-1]
    put_in_order(source, None)
    np.testing.assert_array_equal(source.slab(0, 60).values, ROWS)  # type: ignore[attr-defined]


def test_names_that_are_too_many_leave_a_digest(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = FeatureNames.of(NAMES)
    assert feature_names({"features": json.loads(json.dumps(whole.told()))}) == whole
    monkeypatch.setattr(names_module, "MOST_BYTES", 10)
    told = feature_names({"features": whole.told()})
    assert told == FeatureNames(N_FEATURES, whole.digest, None)
    source = from_array(ROWS, "x")
    source.feature_names = tuple(NAMES)
    put_in_order(source, told)
    assert source.columns is None
    source.feature_names = tuple(BACKWARDS)
    with pytest.raises(errors.ColumnMismatch, match="in their order, are not those of the model's features"):
        put_in_order(source, told)


def test_names_that_come_twice_tell_no_places() -> None:
    assert places(["a", "b", "a"], ["a", "a", "b"]) is None
    source = from_array(ROWS[:, :3], "x")
    source.feature_names = ("a", "b", "a")
    with pytest.raises(errors.ColumnMismatch, match="some names are those of several columns"):
        put_in_order(source, FeatureNames.of(["a", "a", "b"]))
