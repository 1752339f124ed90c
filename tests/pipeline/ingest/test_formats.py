"""The same matrix in every format is the same dataset, bit for bit; labels in the file are those of a file."""

from __future__ import annotations

import json
from pathlib import Path

import h5py
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.sparse
import zarr

from pipeline.ingest import ingest, open_source
from pipeline.ingest.errors import UnknownInput
from pipeline.ingest.scan import notes_of, scan
from tasks.errors import ParamError
from tests.pipeline.cli_caller import labelgrove, succeeds
from tests.pipeline.ingest import formats
from tests.pipeline.ingest.samples import notes, stored

N_ROWS, N_FEATURES, N_CLASSES = 300, 7, 5
X = np.random.default_rng(3).standard_normal((N_ROWS, N_FEATURES)).astype(np.float32)
Y = np.arange(N_ROWS) % N_CLASSES
DENSE_DTYPES = [
    (name, dtype)
    for name in formats.DENSE
    for dtype in ("float32", "float16", "float64")
    if dtype == "float32" or name not in formats.ONE_TYPE
]


def sparse(dtype: str = "float32") -> scipy.sparse.csr_matrix:
    values = X.astype(dtype)
    values[np.abs(X) < 0.8] = 0
    values[5] = 0  # a row without values
    return scipy.sparse.csr_matrix(values)


@pytest.fixture(scope="module")
def digests(tmp_path_factory) -> dict[str, str]:
    """Of the matrices from arrays in memory; .npy and .npz are compared with them, too."""
    found = {}
    for dtype in ("float32", "float16", "float64"):
        folder = tmp_path_factory.mktemp(dtype)
        found[dtype] = ingest(X.astype(dtype), folder / "d.zarr", labels=Y).digest
    found["sparse"] = ingest(sparse(), tmp_path_factory.mktemp("csr") / "d.zarr", labels=Y).digest
    return found


@pytest.mark.parametrize(("name", "dtype"), DENSE_DTYPES)
def test_dense_rows_of_every_format_are_one_dataset(tmp_path, digests, name, dtype):
    source, options = formats.DENSE[name](tmp_path, X.astype(dtype), Y)
    labels = {k: v for k, v in options.items() if k != "labels_at"}
    assert ingest(source, tmp_path / "d.zarr", labels=Y, **labels).digest == digests[dtype]


@pytest.mark.parametrize("name", sorted(formats.LABELLED))
def test_labels_in_the_file_are_those_of_a_file(tmp_path, digests, name):
    source, options = formats.DENSE[name](tmp_path, X, Y)
    assert ingest(source, tmp_path / "d.zarr", **options).digest == digests["float32"]


@pytest.mark.parametrize("name", formats.SPARSE)
def test_sparse_rows_of_every_format_are_one_dataset(tmp_path, digests, name):
    source, options = formats.SPARSE[name](tmp_path, sparse(), Y)
    assert ingest(source, tmp_path / "d.zarr", labels=Y, **options).digest == digests["sparse"]
    if name != "npz":
        assert ingest(source, tmp_path / "e.zarr", **options).digest == digests["sparse"]


@pytest.mark.parametrize("name", ["hdf5 group", "h5ad"])
def test_slabs_of_any_size_give_the_same_sparse_rows(tmp_path, digests, name, monkeypatch):
    monkeypatch.setattr("pipeline.ingest.containers.SLAB_BYTES", 500)
    monkeypatch.setattr("pipeline.ingest.containers.LABEL_ROWS", 7)
    source, options = formats.SPARSE[name](tmp_path, sparse(), Y)
    assert ingest(source, tmp_path / "d.zarr", **options).digest == digests["sparse"]


@pytest.mark.parametrize("name", ["parquet list", "hdf5 chunks", "zarr v3", "tar"])
def test_slabs_of_any_size_give_the_same_rows(tmp_path, digests, name, monkeypatch):
    for module in ("parquet", "containers", "webdataset"):
        monkeypatch.setattr(f"pipeline.ingest.{module}.SLAB_BYTES", 300)
    source, _ = formats.DENSE[name](tmp_path, X, Y)
    assert ingest(source, tmp_path / "d.zarr", labels=Y).digest == digests["float32"]


def test_chunks_taller_than_memory_are_read_more_than_once(tmp_path, digests, monkeypatch):
    monkeypatch.setattr("pipeline.ingest.containers.TALL_BYTES", 50 * N_FEATURES * 4)
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file.create_dataset("x", data=X, chunks=(N_ROWS, 1))
    made = ingest(tmp_path / "x.h5", tmp_path / "d.zarr", labels=Y)
    assert made.digest == digests["float32"]
    assert "each is read 6 times" in notes(made)["TallChunks"]


@pytest.mark.parametrize("dtype", [">f4", "int16", "bool"])
def test_other_types_arrive_as_they_do_from_npy(tmp_path, dtype):
    values = (X > 0).astype(dtype) if dtype == "bool" else np.round(10 * X).astype(dtype)
    expected = ingest(values, tmp_path / "d.zarr", labels=Y).digest
    for name in ("hdf5 contiguous", "hdf5 chunks", "zarr v2"):
        (tmp_path / name).mkdir()
        source, _ = formats.DENSE[name](tmp_path / name, values, Y)
        assert ingest(source, tmp_path / "e.zarr", labels=Y, force=True).digest == expected, name


def test_whole_numbers_that_are_rounded_are_told(tmp_path):
    """Of every format by the one scan; a dataset keeps what is told."""
    values, y = np.arange(1, 13).reshape(6, 2), Y[:6]
    values[1, 0] = 2**24 + 2  # is held
    values[3, 1] = values[4, 0] = values[4, 1] = -(2**24 + 1)
    cases = [(formats.DENSE[name], values) for name in ("npy", "raw", "parquet fixed", "hdf5 chunks", "zarr v3", "tar")]
    cases += [(formats.SPARSE[name], scipy.sparse.csr_matrix(values)) for name in ("npz", "svmlight", "h5ad")]
    for number, (write, rows) in enumerate(cases):
        folder = tmp_path / str(number)
        folder.mkdir()
        source, options = write(folder, rows, y)
        opened = open_source(source, folder / "spool", **options)
        (said,) = notes_of([scan(opened, "float32")])
        assert (said.code, said.level) == ("RoundedNumbers", "warning")
        assert said.text.startswith("3 whole numbers in 2 rows are rounded: float32 holds all of them up to 16,777,216")
        assert "-16,777,217, which becomes -16,777,216 [" in said.text
        assert ", row 3" in said.text
        assert ", column 1]" in said.text
    assert "RoundedNumbers" in notes(ingest(values, tmp_path / "d.zarr", labels=y))
    pq.write_table(pa.table({"a": [0.5] * 6, "b": values[:, 1], "label": y}), tmp_path / "x.parquet")
    made = ingest(tmp_path / "x.parquet", tmp_path / "e.zarr", rows_at="a..b", labels_at="label")
    assert "[x.parquet, row 3, column 1 ('b')]" in notes(made)["RoundedNumbers"]


def test_several_files_of_arrays_are_one_source(tmp_path, digests):
    for i, (rows, labels) in enumerate(zip(np.array_split(X, 3), np.array_split(Y, 3), strict=True)):
        with h5py.File(tmp_path / f"x{i}.h5", "w") as file:
            file["rows"], file["y"] = rows, labels
    made = ingest(str(tmp_path / "x*.h5"), tmp_path / "d.zarr")
    assert made.digest == digests["float32"]


# ---- where rows and labels are -----------------------------------------------------------------------------------


def test_places_that_are_named(tmp_path, digests):
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file["a/rows"], file["a/other"], file["y"], file["z"] = X, X + 1, Y, Y[::-1]
    made = ingest(tmp_path / "x.h5", tmp_path / "d.zarr", rows_at="/a/rows", labels_at="y")
    assert made.digest == digests["float32"]
    np.savez(tmp_path / "x.npz", a=X, b=X + 1, y=Y, z=Y[::-1])
    made = ingest(tmp_path / "x.npz", tmp_path / "e.zarr", rows_at="a", labels_at="y")
    assert made.digest == digests["float32"]
    group = zarr.open_group(tmp_path / "g.zarr", mode="w")
    for name, values in {"a": X, "b": X + 1, "y": Y}.items():
        group.create_array(name, data=values)
    made = ingest(tmp_path / "g.zarr", tmp_path / "f.zarr", rows_at="a")
    assert made.digest == digests["float32"]


def test_layers_and_embeddings_of_anndata(tmp_path, digests):
    made = formats.adata(X * 0, Y)
    made.layers["raw"], made.obsm["X_pca"] = X, X
    made.obs["batch"] = pd.Categorical(["b"] * N_ROWS)
    made.write_h5ad(tmp_path / "x.h5ad")
    for place in ("layers/raw", "obsm/X_pca"):
        found = ingest(tmp_path / "x.h5ad", tmp_path / "d.zarr", rows_at=place, labels_at="label", force=True)
        assert found.digest == digests["float32"]
    with pytest.raises(UnknownInput, match="'obs/label', 'obs/batch'") as caught:
        ingest(tmp_path / "x.h5ad", tmp_path / "e.zarr", rows_at="layers/raw")
    assert caught.value.hint.startswith("name it: --labels-at obs/label (obs/label: ")
    assert "obs/batch: 1 names" in caught.value.hint
    made.obs = made.obs.rename(columns={"label": "lot"})
    made.write_h5ad(tmp_path / "y.h5ad")
    with pytest.raises(UnknownInput) as caught:  # neither is called as labels are
        ingest(tmp_path / "y.h5ad", tmp_path / "e.zarr", rows_at="layers/raw")
    assert caught.value.hint.startswith("name it: --labels-at NAME; ")


@pytest.mark.parametrize("column", ["text", "categorical", "numbers"])
def test_columns_of_obs_that_are_labels(tmp_path, column):
    names = np.array(["tree", "herb", "ünd", "a/b", "shrub"])[Y]
    values = {"text": names, "categorical": pd.Categorical(names), "numbers": Y}[column]
    made = formats.adata(X, Y)
    made.obs["kind"] = values
    made.strings_to_categoricals = lambda *_: None  # else text becomes a category when it is written
    made.write_h5ad(tmp_path / "x.h5ad")
    expected = ingest(X, tmp_path / "d.zarr", labels=list(map(str, names)) if column != "numbers" else Y)
    assert ingest(tmp_path / "x.h5ad", tmp_path / "e.zarr", labels_at="kind").digest == expected.digest
    assert ingest(X, tmp_path / "f.zarr", labels=f"{tmp_path / 'x.h5ad'}:kind").digest == expected.digest


@pytest.mark.parametrize("kind", ["text", "dictionary", "integers"])
def test_columns_of_parquet_that_are_labels(tmp_path, kind):
    names = [f"n{label}" for label in Y]
    column = {"text": pa.array(names), "dictionary": pa.array(names).dictionary_encode(), "integers": pa.array(Y)}[kind]
    vectors = pa.FixedSizeListArray.from_arrays(pa.array(X.reshape(-1)), N_FEATURES)
    pq.write_table(pa.table({"id": names, "v": vectors, "kind": column}), tmp_path / "x.parquet", row_group_size=80)
    expected = ingest(X, tmp_path / "d.zarr", labels=Y if kind == "integers" else names)
    assert ingest(tmp_path / "x.parquet", tmp_path / "e.zarr", labels_at="kind").digest == expected.digest
    assert ingest(X, tmp_path / "f.zarr", labels=f"{tmp_path / 'x.parquet'}:kind").digest == expected.digest
    with pytest.raises(UnknownInput, match="'kind', 'id'"):
        ingest(tmp_path / "x.parquet", tmp_path / "g.zarr")


def test_tensors_of_fixed_shape_in_parquet(tmp_path, digests):
    flat = pa.FixedSizeListArray.from_arrays(pa.array(X.reshape(-1)), N_FEATURES)
    kind = pa.fixed_shape_tensor(pa.float32(), (N_FEATURES,))
    pq.write_table(pa.table({"v": pa.ExtensionArray.from_storage(kind, flat), "y": Y}), tmp_path / "x.parquet")
    assert ingest(tmp_path / "x.parquet", tmp_path / "d.zarr").digest == digests["float32"]


@pytest.mark.parametrize("place", ["cls", ".cls", "txt", "json:label", "label"])
def test_labels_in_a_tar(tmp_path, place):
    members = []
    for key, (row, label) in enumerate(zip(X, Y, strict=True)):
        content = {"npy": formats.npy_bytes(row), "cls": b"n%d\n" % label, "txt": b"n%d" % label}
        content["json"] = json.dumps({"label": f"n{label}", "other": None}).encode()
        members += [(f"./{key}.{ending}", content[ending]) for ending in content]
    formats.write_tar(tmp_path / "x.tar", members)
    expected = ingest(X, tmp_path / "d.zarr", labels=[f"n{label}" for label in Y])
    assert ingest(tmp_path / "x.tar", tmp_path / "e.zarr", labels_at=place).digest == expected.digest


def test_a_folder_of_tars_or_of_parquet_files(tmp_path, digests):
    (tmp_path / "t").mkdir()
    formats.tar(tmp_path / "t", X, Y)
    assert ingest(tmp_path / "t", tmp_path / "d.zarr").digest == digests["float32"]
    formats.write_parquet(tmp_path / "t" / "x.parquet", X, Y)
    with pytest.raises(UnknownInput, match=r"several formats: \.parquet, \.tar"):
        ingest(tmp_path / "t", tmp_path / "e.zarr")


def test_parts_of_different_formats(tmp_path):
    """Rows in Parquet for training, in HDF5 for testing; each brings its labels."""
    rows, _ = formats.parquet(tmp_path, X, Y)
    with h5py.File(tmp_path / "t.h5", "w") as file:
        file["rows"], file["label"] = X[:50] + 1, Y[:50]
    made = ingest(rows, tmp_path / "d.zarr", test_source=tmp_path / "t.h5", labels_at="label")
    found, y, split, _ = stored(made)
    np.testing.assert_array_equal(found[split == 2], X[:50] + 1)
    np.testing.assert_array_equal(y[split == 2], Y[:50])


def test_options_without_effect_are_refused(tmp_path):
    np.save(tmp_path / "x.npy", X)
    for options in ({"rows_at": "x"}, {"labels_at": "y"}, {"raw_shape": "x7"}, {"raw_dtype": "float32"}):
        with pytest.raises(ParamError, match="none for npy"):
            ingest(tmp_path / "x.npy", tmp_path / "d.zarr", labels=Y, **options)
    source, _ = formats.parquet(tmp_path, X, Y)
    with pytest.raises(ParamError, match="none beside labels"):
        ingest(source, tmp_path / "d.zarr", labels=Y, labels_at="label")


# ---- the command line --------------------------------------------------------------------------------------------


def test_the_command_line_takes_places(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file["a"], file["b"], file["y"] = X, X + 1, Y
    said = labelgrove("ingest", tmp_path / "x.h5", tmp_path / "d.zarr")
    assert said.code == 3
    assert "which of 'a', 'b' holds the rows?" in said.err
    assert "--rows-at a" in said.err
    succeeds("ingest", tmp_path / "x.h5", tmp_path / "d.zarr", "--rows-at", "a", "--labels-at", "y")


def test_rows_alone_are_read_without_a_word_about_labels(tmp_path):
    """Two columns could be labels: nobody has to choose when no labels are wanted."""
    vectors = pa.FixedSizeListArray.from_arrays(pa.array(X.reshape(-1)), N_FEATURES)
    pq.write_table(pa.table({"v": vectors, "a": Y, "b": Y}), tmp_path / "x.parquet")
    source = open_source(tmp_path / "x.parquet", tmp_path / "spool", n_features=N_FEATURES)
    assert source.labels is None
    np.testing.assert_array_equal(np.vstack([rows.values for _, rows in source.slabs()]), X)
    source = open_source(tmp_path / "x.parquet", tmp_path / "spool", labels_at="b")
    np.testing.assert_array_equal(source.labels.values, Y)


def test_copying_is_told_row_by_row(tmp_path, monkeypatch):
    monkeypatch.setattr("pipeline.ingest.parquet.SLAB_BYTES", 100 * N_FEATURES * 4)
    source, _ = formats.parquet(tmp_path, X, Y)
    seen = []
    ingest(source, tmp_path / "d.zarr", copying=lambda done, total: seen.append((done, total)))
    assert seen[-1] == (N_ROWS, N_ROWS)
    assert seen == sorted(seen)
    assert len(seen) > 3


def test_readers_of_all_formats_are_listed():
    from pipeline.ingest.files import FORMATS
    from pipeline.ingest.readers import LOCATED, READERS, SHAPED

    assert set(FORMATS.values()) <= {*READERS, "svmlight"}
    assert set(READERS) >= LOCATED | SHAPED
