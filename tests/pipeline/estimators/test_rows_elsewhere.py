"""Rows of Dask and zarr arrays, and sparse ones: the model of the same rows in memory, and predictions of each kind."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
import scipy.sparse
import zarr
from dask_ml.wrappers import ParallelPostFit

from pipeline import AveragedSGDClassifier, KMeansTreeClassifier, ProductQuantizer, WTAHasher
from pipeline.estimators import BadRows
from tests.pipeline.estimators.small import problem

QUICK: dict[str, Any] = {"rounds": 1, "least_rows": 500}


def stored(folder: Path, values: Any, chunks: tuple[int, ...], rows: int | None = None) -> Any:
    """A zarr array of values, of which only the first rows are written."""
    config = {"write_empty_chunks": True}
    array = zarr.create_array(str(folder), shape=values.shape, chunks=chunks, dtype=values.dtype, config=config)
    array[:rows] = values[:rows]
    return array


def test_zarr_and_dask_give_the_same_model(tmp_path: Path) -> None:
    rows, labels = problem()
    numbers = np.unique(labels, return_inverse=True)[1]
    here = KMeansTreeClassifier(**QUICK).fit(rows, numbers)
    there = stored(tmp_path / "x", rows, (50, 3))
    of_zarr = KMeansTreeClassifier(**QUICK).fit(there, stored(tmp_path / "y", numbers, (70,)))
    lazy = da.from_zarr(there)
    of_dask = KMeansTreeClassifier(**QUICK).fit(lazy, da.from_array(numbers, chunks=77))
    assert here.digest_ == of_zarr.digest_ == of_dask.digest_
    assert here.model_.digest == of_zarr.model_.digest == of_dask.model_.digest
    expected = here.predict(rows)
    np.testing.assert_array_equal(of_zarr.predict(there), expected)
    predicted, told = of_dask.predict(lazy), of_dask.predict_proba(lazy)
    assert isinstance(predicted, da.Array)
    np.testing.assert_array_equal(predicted.compute(), expected)
    np.testing.assert_allclose(told.compute(), here.predict_proba(rows))
    np.testing.assert_array_equal(ParallelPostFit(here).predict(lazy).compute(), expected)


def test_blocks_of_unknown_length() -> None:
    rows, labels = problem()
    lazy = da.from_array(rows, chunks=(60, 4))
    some = lazy[da.from_array(labels, chunks=60) != "oak"]
    assert np.isnan(some.shape[0])
    known = labels != "oak"
    model = AveragedSGDClassifier(**QUICK).fit(some, labels[known])
    assert model.model_.digest == AveragedSGDClassifier(**QUICK).fit(rows[known], labels[known]).model_.digest
    with pytest.raises(ValueError, match="LengthMismatch"):
        AveragedSGDClassifier(**QUICK).fit(some, labels[known][:-1])


@pytest.mark.parametrize("kind", ["csr", "csc", "coo"])
def test_sparse_rows(kind: str) -> None:
    _, labels = problem()
    rows = scipy.sparse.random(240, 40, 0.1, kind, np.float32, np.random.default_rng(1))
    here = AveragedSGDClassifier(**QUICK).fit(rows, labels)
    lazy = da.from_array(rows.toarray(), chunks=(70, 40)).map_blocks(scipy.sparse.csr_matrix)
    there = AveragedSGDClassifier(**QUICK).fit(lazy, labels)
    assert here.digest_ == there.digest_
    np.testing.assert_array_equal(there.predict(lazy).compute(), here.predict(rows))


def test_transformers_of_dask_arrays() -> None:
    rows, _ = problem()
    lazy = da.from_array(rows, chunks=(70, 8))
    for encoder in (ProductQuantizer(4, bits=3), WTAHasher(20, window=2, output="codes")):
        here = encoder.fit(rows).transform(rows)
        np.testing.assert_array_equal(encoder.fit(lazy).transform(lazy).compute(), here)
    hasher = WTAHasher(20, window=2).fit(rows)
    assert (hasher.transform(lazy).compute() != hasher.transform(rows)).nnz == 0


def test_absent_chunks_are_refused(tmp_path: Path) -> None:
    rows, labels = problem()
    there = stored(tmp_path / "x", rows, (60, 8), 100)
    with pytest.raises(BadRows, match="2 of 4 chunks of the zarr array were never written"):
        KMeansTreeClassifier(**QUICK).fit(there, labels)
    with pytest.raises(BadRows, match="never written"):
        KMeansTreeClassifier(**QUICK).fit(rows, labels).predict(there)


def test_rows_that_do_not_fit_are_refused() -> None:
    rows, labels = problem()
    lazy = da.from_array(rows, chunks=(70, 8))
    model = AveragedSGDClassifier(**QUICK).fit(rows, labels)
    with pytest.raises(ValueError, match="X has 5 features, but AveragedSGDClassifier is expecting 8"):
        model.predict(lazy[:, :5])
    with pytest.raises(ValueError, match="240 rows and y 7"):
        model.fit(lazy, labels[:7])
    with pytest.raises(ValueError, match="NonFiniteFeature"):
        model.fit(da.where(lazy > 5, np.nan, lazy), labels)
    with pytest.raises(ValueError, match="too large for dtype"):
        model.predict(da.from_array(rows.astype(np.float64) * 1e200, chunks=(70, 8))).compute()


def test_columns_of_a_dask_frame_are_known_by_their_names(tmp_path: Path) -> None:
    """As those of pandas: the same words, and the same model."""
    rows, labels = problem()
    here = pd.DataFrame(rows, columns=list("abcdefgh"))
    there = dd.from_pandas(here, npartitions=3)
    model = AveragedSGDClassifier(**QUICK).fit(there, labels)
    assert model.feature_names_in_.tolist() == list("abcdefgh")
    assert model.model_.digest == AveragedSGDClassifier(**QUICK).fit(here, labels).model_.digest
    expected = model.predict(here)
    model.save(tmp_path / "m")
    for known in (model, AveragedSGDClassifier.load(tmp_path / "m")):
        np.testing.assert_array_equal(known.predict(there).compute(), expected)
        for turned, said in ((list("bacdefgh"), "must be in the same order"), (list("abcdefgx"), "unseen .*\n- x")):
            for given in (
                here.set_axis(turned, axis=1),
                there.rename(columns=dict(zip("abcdefgh", turned, strict=True))),
            ):
                with pytest.raises(ValueError, match=f"feature names should match(.|\n)*{said}"):
                    known.predict(given)
    with pytest.warns(UserWarning, match="X does not have valid feature names"):
        np.testing.assert_array_equal(model.predict(there.to_dask_array(lengths=True)).compute(), expected)
    with pytest.raises(ValueError, match="X has 7 features, but AveragedSGDClassifier is expecting 8"):
        model.predict(there[list("abcdefg")])
    nameless = model.fit(there.to_dask_array(lengths=True), labels)
    assert not hasattr(nameless, "feature_names_in_")
    for given in (here, there):  # in scikit-learn's words, of both
        with pytest.warns(UserWarning, match="X has feature names, but .* was fitted without feature names"):
            np.testing.assert_array_equal(np.asarray(nameless.predict(given)), expected)
    assert ProductQuantizer(4, bits=3).fit(there).feature_names_in_.tolist() == list("abcdefgh")


@pytest.mark.slow
def test_a_cluster_gives_the_same_model() -> None:
    rows, labels = problem()
    there = KMeansTreeClassifier(**QUICK, scheduler="local:2").fit(rows, labels)
    assert there.model_.digest == KMeansTreeClassifier(**QUICK).fit(rows, labels).model_.digest
