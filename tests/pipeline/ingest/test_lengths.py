"""As many labels as rows, in every file and every part; and labels that were never written are none."""

from __future__ import annotations

from pathlib import Path

import anndata
import h5py
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zarr

from pipeline.ingest import errors, ingest
from pipeline.ingest.build import open_source
from pipeline.ingest.labels import Labels, check_length
from tests.pipeline.ingest import formats
from tests.pipeline.ingest.samples import X, Y, notes

LONGER = np.concatenate([Y, Y[:5]])


def h5(name: str, **arrays) -> str:
    with h5py.File(name, "w") as file:
        for path, values in arrays.items():
            file[path] = values
    return name


def in_zarr(name: str, **arrays) -> str:
    group = zarr.open_group(name, mode="w")
    for path, values in arrays.items():
        group.create_array(path, data=np.asarray(values))
    return name


def npz(name: str, **arrays) -> str:
    np.savez(name, **arrays)
    return name


@pytest.mark.parametrize("made", [(h5, "x.h5"), (in_zarr, "x.zarr"), (npz, "x.npz")], ids=["hdf5", "zarr", "npz"])
@pytest.mark.parametrize("labels", [LONGER, Y[:7]], ids=["longer", "shorter"])
def test_labels_of_another_number_than_rows(assert_refused, made, labels):
    write, name = made
    source = write(name, x=X, y=labels)
    words = f"{labels.size} labels for 12 rows", name
    assert_refused(errors.LengthMismatch, *words, source=source, labels=None, labels_at="y")


def test_labels_of_rows_to_predict(tmp_path):
    """Asked for they are refused; only sought they are left out, and a note says why."""
    source = h5(str(tmp_path / "x.h5"), x=X, y=LONGER)
    with pytest.raises(errors.LengthMismatch, match="17 labels for 12 rows"):
        open_source(source, tmp_path / "spool", labels_at="y")
    with h5py.File(source, "a") as file:
        del file["y"]
        file.create_dataset("y", (12,), "i8", chunks=(5,))
    opened = open_source(source, tmp_path / "spool")
    assert opened.labels is None
    assert "fill value is no label" in {note.code: note.text for note in opened.notes}["LabelsNotRead"]


def test_a_column_of_an_anndata_that_is_too_long(assert_refused):
    obs = pd.DataFrame({"cell": pd.Categorical(np.array(list("abc"))[Y])}, index=[str(i) for i in range(12)])
    anndata.AnnData(X=X, obs=obs).write_h5ad("x.h5ad")
    with h5py.File("x.h5ad", "a") as file:
        codes = file["obs/cell/codes"][:]
        del file["obs/cell/codes"]
        file["obs/cell/codes"] = np.concatenate([codes, codes[:4]])
    assert_refused(errors.LengthMismatch, "16 labels for 12 rows", "obs/cell", source="x.h5ad", labels=None)


def test_lengths_that_are_right_only_in_sum(assert_refused):
    """The second file has too many by as many as the first has too few."""
    files = [h5("a.h5", x=X, y=Y[:8]), h5("b.h5", x=X, y=np.concatenate([Y, Y[:4]]))]
    assert_refused(errors.LengthMismatch, "8 labels for 12 rows", "a.h5", source=files, labels=None, labels_at="y")


def test_lengths_that_are_right_only_over_all_parts(assert_refused):
    h5("a.h5", x=X, y=np.concatenate([Y, Y[:4]]))
    h5("b.h5", x=X, y=Y[:8])
    more = {"labels": None, "labels_at": "y", "test_source": "b.h5"}
    assert_refused(errors.LengthMismatch, "16 labels for 12 rows", "a.h5", source="a.h5", **more)


def test_the_guard_over_all_sources():
    check_length(Labels("y", Y), 12, "x")
    with pytest.raises(errors.LengthMismatch, match="12 labels for 13 rows"):
        check_length(Labels("y", Y), 13, "x")


def test_declared_rows_are_compared_before_anything_is_copied(assert_refused):
    with h5py.File("x.h5", "w") as file:
        file.create_dataset("x", (10**12, 3), "f4", chunks=(1000, 3))
        file["y"] = Y
    assert_refused(errors.LengthMismatch, "1,000,000,000,000 rows", source="x.h5", labels=None, labels_at="y")


@pytest.mark.parametrize("container", ["zarr", "hdf5", "never"])
def test_labels_that_are_not_there_are_no_class_0(assert_refused, container):
    if container == "zarr":
        group = zarr.open_group("x", mode="w")
        group["x"] = X
        group.create_array("y", data=Y + 1, chunks=(5,))
        Path("x/y/c/1").unlink()
        words = ("1 of 3 chunks", "x, y")
    else:
        with h5py.File("x", "w") as file:
            file["x"] = X
            options = {"chunks": (5,)} if container == "hdf5" else {}
            file.create_dataset("y", (12,), "i8", **options)
        words = ("chunks of the labels are not there", "x, y")
    fmt = "zarr" if container == "zarr" else "hdf5"
    assert_refused(errors.DamagedInput, *words, source="x", labels=None, fmt=fmt)


@pytest.mark.parametrize("name", [".DS_Store", "c/1/0.bak", "c/9/0", "c/01/0", "c/1/0/0"])
def test_only_keys_of_the_grid_are_chunks(tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    zarr.create_array("x.zarr", data=X, chunks=(5, 3))
    Path("x.zarr/c/1/0").unlink()
    other = Path("x.zarr", name)
    other.parent.mkdir(parents=True, exist_ok=True)
    other.write_bytes(b"other")
    assert "1 of 3 chunks" in notes(ingest("x.zarr", tmp_path / "d", labels=Y))["AbsentChunks"]


def table(name: str, **columns) -> str:
    pq.write_table(pa.table(columns), name)
    return name


@pytest.mark.parametrize(("vectors", "labels"), [("w", "y"), ("v", "z")])
def test_files_of_one_source_have_one_name_for_rows_and_labels(assert_refused, vectors, labels):
    files = [table("a.parquet", v=X.tolist(), y=Y), table("b.parquet", **{vectors: X.tolist(), labels: Y})]
    assert_refused(errors.ColumnMismatch, "in this one", "b.parquet", source=files, labels=None)
    h5_files = [h5("a.h5", v=X, y=Y), h5("b.h5", **{vectors: X, labels: Y})]
    assert_refused(errors.ColumnMismatch, "in this one", "b.h5", source=h5_files, labels=None)


def test_an_empty_tar_beside_labels_that_are_integers(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    formats.write_tar(Path("a-0.tar"), formats.samples(X, Y))
    formats.write_tar(Path("a-1.tar"), [])
    made = ingest(["a-0.tar", "a-1.tar"], tmp_path / "d")
    assert made.digest == ingest("a-0.tar", tmp_path / "e").digest
