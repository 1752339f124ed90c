"""Files of every format that cannot be trusted: refused by name and place, before anything is held or run."""

from __future__ import annotations

import json
import pickle
import shutil
import zlib
from pathlib import Path

import h5py
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.sparse
import zarr
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pipeline.ingest import errors, ingest
from tasks.errors import LabelgroveError
from tasks.files import DiskFull
from tests.pipeline.ingest import formats
from tests.pipeline.ingest.samples import Trap, X, Y, notes

W = X.shape[1]


def parquet(name: str, vectors: list, kind=None, **columns) -> str:
    kind = kind or pa.list_(pa.float32())
    pq.write_table(pa.table({"v": pa.array(vectors, kind), **columns}), name, row_group_size=5)
    return name


def vectors(row: int, value) -> list:
    """Twelve vectors, one of them `value`."""
    return [value if i == row else x for i, x in enumerate(X.tolist())]


# ---- Parquet -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("row", [0, 7])
@pytest.mark.parametrize(
    ("kind", "value", "word"),
    [
        ("list", None, "null"),
        ("large", None, "null"),
        ("fixed", None, "null"),
        ("list", [1.0, None, 2.0], "column 1"),
        ("fixed", [1.0, None, 2.0], "column 1"),
    ],
)
def test_rows_without_a_whole_vector(assert_refused, row, kind, value, word):
    """flatten() leaves null rows out, so every later row would get its neighbour's label."""
    kinds = {"list": pa.list_(pa.float32()), "large": pa.large_list(pa.float32()), "fixed": pa.list_(pa.float32(), W)}
    source = parquet("x.parquet", vectors(row, value), kinds[kind])
    assert_refused(errors.RaggedEmbedding, f"x.parquet, row {row}, column 'v'", word, source=source)


def test_vectors_of_other_lengths(assert_refused):
    source = parquet("x.parquet", vectors(7, [1.0, 2.0]))
    assert_refused(errors.RaggedEmbedding, "x.parquet, row 7", "2 values where the first row has 3", source=source)
    parquet("a.parquet", X.tolist())
    parquet("b.parquet", X[:, :2].tolist())
    assert_refused(errors.ColumnMismatch, "b.parquet", "has 2", source=["a.parquet", "b.parquet"])
    parquet("c.parquet", vectors(11, [1.0]))
    assert_refused(errors.RaggedEmbedding, "c.parquet, row 11", source=["a.parquet", "c.parquet"], labels=[*Y, *Y])
    assert_refused(errors.FeatureShape, "empty", source=parquet("d.parquet", vectors(0, [])))


def test_columns_of_parquet_that_hold_no_rows(assert_refused):
    source = parquet("x.parquet", [["a"]] * 12, pa.list_(pa.string()))
    assert_refused(errors.FeatureDtype, "x.parquet, column 'v'", "string", source=source)
    pq.write_table(pa.table({"a": Y}), "y.parquet")
    assert_refused(errors.UnknownInput, "y.parquet", "no place of rows", source="y.parquet")
    parquet("z.parquet", X.tolist(), w=pa.array(X.tolist()))
    assert_refused(errors.UnknownInput, "which of 'v', 'w'", "--rows-at v", source="z.parquet")
    assert_refused(errors.UnknownInput, "'u' is no place of rows", "'v', 'w'", source="z.parquet", rows_at="u")
    assert_refused(errors.FeatureShape, "no rows", source=parquet("e.parquet", [], None), labels=[])


def test_labels_of_parquet(assert_refused):
    labels = pa.array([None if i == 4 else f"n{y}" for i, y in enumerate(Y)])
    parquet("x.parquet", X.tolist(), y=labels, z=labels.dictionary_encode())
    for column in ("y", "z"):
        where = f"x.parquet:{column}, row 4"
        assert_refused(errors.LabelOutOfRange, "null", where, source="x.parquet", labels=None, labels_at=column)
        assert_refused(errors.LabelOutOfRange, "null", where, labels=f"x.parquet:{column}")
    parquet("y.parquet", X.tolist())
    assert_refused(errors.LabelsMissing, "--labels", source="y.parquet", labels=None)
    assert_refused(errors.LabelsMissing, "'v'", source="y.parquet", labels=None, labels_at="v")


def test_a_row_group_beyond_the_limit(assert_refused):
    formats.write_parquet(Path("x.parquet"), X, Y)
    words = ("x.parquet, row group 0", "the limit is 50")
    assert_refused(errors.DeclaredTooLarge, *words, source="x.parquet", max_bytes=50, exit_code=5)


@pytest.mark.parametrize("length", [0, 4, 100, -1])
def test_parquet_files_cut_short(assert_refused, length):
    formats.write_parquet(Path("x.parquet"), X, Y)
    Path("x.parquet").write_bytes(Path("x.parquet").read_bytes()[:length])
    assert_refused(errors.DamagedInput, "x.parquet", source="x.parquet")


def test_a_parquet_page_with_a_flipped_bit(assert_refused):
    pages = pa.table({"v": pa.FixedSizeListArray.from_arrays(pa.array(X.reshape(-1)), W)})
    pq.write_table(pages, "x.parquet", write_page_checksum=True, compression="none", use_dictionary=False)
    content = bytearray(Path("x.parquet").read_bytes())
    content[content.index(X[3].tobytes())] ^= 1
    Path("x.parquet").write_bytes(bytes(content))
    assert_refused(errors.DamagedInput, "x.parquet, row group 0", source="x.parquet")


# ---- HDF5 --------------------------------------------------------------------------------------------------------


def h5(name: str, **arrays) -> str:
    with h5py.File(name, "w") as file:
        for path, values in arrays.items():
            file[path] = values
    return name


def test_arrays_of_hdf5_that_are_no_matrix(assert_refused):
    h5("x.h5", a=X, b=X, s=[b"t"] * 12, c=X.astype(complex), d=X[:, 0], e=X[None])
    assert_refused(errors.UnknownInput, "which of 'a', 'b'", source="x.h5")
    assert_refused(errors.UnknownInput, "'z' is no place of rows", "'a', 'b'", source="x.h5", rows_at="z")
    assert_refused(errors.UnknownInput, "no name within a file", source="x.h5", rows_at="../a")
    assert_refused(errors.FeatureDtype, "x.h5, c", "complex", source="x.h5", rows_at="c")
    assert_refused(errors.FeatureShape, "x.h5, d", "(12,)", source="x.h5", rows_at="d")
    assert_refused(errors.FeatureShape, "x.h5, e", "(1, 12, 3)", source="x.h5", rows_at="e")
    assert_refused(errors.FeatureDtype, "x.h5, s", source="x.h5", rows_at="s")


def test_values_that_stand_in_other_files(assert_refused):
    h5("other.h5", x=X)
    with h5py.File("x.h5", "w") as file:
        file["link"] = h5py.ExternalLink("other.h5", "x")
        layout = h5py.VirtualLayout(X.shape, "f4")
        layout[:] = h5py.VirtualSource("other.h5", "x", X.shape)
        file.create_virtual_dataset("virtual", layout)
        file.create_dataset("raw", X.shape, "f4", external=[("secret.bin", 0, h5py.h5f.UNLIMITED)])
        file["soft"] = h5py.SoftLink("/link")
    Path("secret.bin").write_bytes(X.tobytes())
    for name in ("link", "virtual", "raw", "soft"):
        assert_refused(errors.UnknownInput, "x.h5", "other file", source="x.h5", rows_at=name)


@pytest.mark.parametrize("length", [0, 8, 100, -1])
def test_hdf5_files_cut_short(assert_refused, length):
    h5("x.h5", x=np.zeros((12, 400), np.float32))
    Path("x.h5").write_bytes(Path("x.h5").read_bytes()[:length])
    assert_refused(errors.DamagedInput, "x.h5", source="x.h5")


def test_a_chunk_of_gigabytes_is_refused_before_it_is_read(assert_refused):
    with h5py.File("x.h5", "w") as file:
        file.create_dataset("x", (2**20, 1000), "f4", chunks=(2**20, 1000), compression="gzip")
    assert Path("x.h5").stat().st_size < 10_000
    words = ("4,194,304,000 bytes", "x.h5, x")
    assert_refused(errors.DeclaredTooLarge, *words, source="x.h5", labels=None, max_bytes=10**9, exit_code=5)


def test_a_flipped_bit_under_a_checksum(assert_refused):
    with h5py.File("x.h5", "w") as file:
        file.create_dataset("x", data=X, chunks=X.shape, fletcher32=True)
    content = bytearray(Path("x.h5").read_bytes())
    content[content.index(X[3].tobytes())] ^= 1
    Path("x.h5").write_bytes(bytes(content))
    assert_refused(errors.DamagedInput, "x.h5, x, rows 0 to 11", source="x.h5")


GOOD = {"data": [1.0, 2], "indices": [0, 2], "indptr": [0, 1, 2]}


@pytest.mark.parametrize("layout", ["h5", "zarr"])
@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"indices": [0, 3]}, "row 1"),
        ({"indices": [-1, 2]}, "row 0"),
        ({"indptr": [0, 2, 1]}, "row 1"),
        ({"indptr": [0, 1]}, "2 row pointers"),
        ({"indptr": [1, 1, 2]}, "start at 1"),
        ({"indptr": [0, 1, 5]}, "from 0 to 5"),
        ({"indptr": [0, 1, 1]}, "end at 1"),
        ({"indices": [0.5, 2]}, "integers"),
        ({"indices": [0, 1, 2]}, "3 columns"),
    ],
    ids=str,
)
def test_sparse_groups_that_describe_no_matrix(assert_refused, layout, change, word):
    arrays = {name: np.array(values) for name, values in (GOOD | change).items()}
    if layout == "h5":
        with h5py.File("x.h5", "w") as file:
            file.attrs["shape"] = (2, 3)
            for name, values in arrays.items():
                file[name] = values
    else:
        group = zarr.open_group("x.zarr", mode="w", attributes={"shape": [2, 3]})
        for name, values in arrays.items():
            group.create_array(name, data=values)
    assert_refused(errors.CsrStructure, f"x.{layout}", word, source=f"x.{layout}", labels=[0, 1])


def test_sparse_groups_without_a_shape_or_by_column(assert_refused):
    h5("x.h5", **{f"m/{name}": values for name, values in GOOD.items()})
    assert_refused(errors.CsrStructure, "how many columns", "--features", source="x.h5", labels=[0, 1])
    h5("y.h5", **{f"m/{name}": values for name, values in GOOD.items()}, **{"m/shape": [5, 2]})
    assert_refused(errors.UnknownInput, "sorted by column", "tocsr", source="y.h5", labels=[0, 1])


def test_columns_out_of_order_or_repeated_are_put_right(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    h5("x.h5", **{"m/data": [1.0, 2, 4, 8], "m/indices": [3, 0, 3, 1], "m/indptr": [0, 3, 4], "m/shape": [2, 5]})
    made = ingest("x.h5", tmp_path / "d", labels=[0, 1], validation=0, test=0)
    twin = scipy.sparse.csr_matrix(([2.0, 5, 8], [0, 3, 1], [0, 2, 3]), (2, 5))
    assert made.digest == ingest(twin, tmp_path / "e", labels=[0, 1], validation=0, test=0).digest
    assert "1 repeated entries" in notes(made)["Converted"]


# ---- zarr --------------------------------------------------------------------------------------------------------


def zarr_x(**options) -> str:
    array = zarr.create_array("x.zarr", shape=X.shape, dtype="f4", chunks=(5, 2), overwrite=True, **options)
    array[:] = X
    return "x.zarr"


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_chunks_that_are_not_there_are_counted(tmp_path, monkeypatch, zarr_format):
    monkeypatch.chdir(tmp_path)
    source = zarr_x(zarr_format=zarr_format)
    (Path(source) / ("1.0" if zarr_format == 2 else "c/1/0")).unlink()
    made = ingest(source, tmp_path / "d.zarr", labels=Y)
    assert "1 of 6 chunks are not there" in notes(made)["AbsentChunks"]
    filled = X.copy()
    filled[5:10, :2] = 0
    assert made.digest == ingest(filled, tmp_path / "e.zarr", labels=Y).digest


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_zarr_chunks_cut_short(assert_refused, zarr_format):
    chunk = Path(zarr_x(zarr_format=zarr_format)) / ("1.0" if zarr_format == 2 else "c/1/0")
    chunk.write_bytes(chunk.read_bytes()[:7])
    assert_refused(errors.DamagedInput, "x.zarr, /, rows 0 to", source="x.zarr")


@pytest.mark.parametrize(
    ("change", "error", "word"),
    [
        ({"shape": [2**60, 3]}, DiskFull, "bytes are to be copied"),
        ({"chunks": [2**31, 4]}, errors.DeclaredTooLarge, "34,359,738,368 bytes"),
        ({"chunks": [0, 2]}, errors.DamagedInput, "x.zarr"),
        ({"shape": [-1, 3]}, errors.DamagedInput, "x.zarr"),
        ({"dtype": "<c8", "fill_value": None}, errors.FeatureDtype, "complex"),
        ({"shape": [12], "chunks": [5]}, errors.FeatureShape, "(12,)"),
        ({"compressor": {"id": "poem"}}, errors.DamagedInput, "poem"),
        ({"filters": [{"id": "pickle", "protocol": 5}], "dtype": "|O"}, errors.UnsafeFormat, "pickles"),
    ],
    ids=str,
)
def test_absurd_metadata_of_zarr(assert_refused, change, error, word):
    path = Path(zarr_x(zarr_format=2)) / ".zarray"
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    exit_code = 5 if error in (DiskFull, errors.DeclaredTooLarge) else 3
    assert_refused(error, word, source="x.zarr", labels=None, max_bytes=2**30, exit_code=exit_code)


def test_pickles_in_zarr_are_never_tried(assert_refused, tmp_path):
    path = Path(zarr_x(zarr_format=2, compressors=None))
    for chunk in path.glob("[0-9]*"):
        chunk.write_bytes(pickle.dumps([Trap(tmp_path / "sprung")]))
    meta = json.loads((path / ".zarray").read_text()) | {
        "dtype": "|O",
        "filters": [{"id": "pickle"}],
        "fill_value": None,
    }
    (path / ".zarray").write_text(json.dumps(meta))
    assert_refused(errors.UnsafeFormat, "x.zarr", source="x.zarr")
    assert not (tmp_path / "sprung").exists()


def test_folders_that_are_no_source(assert_refused, tmp_path):
    Path("x.zarr").mkdir()
    assert_refused(errors.SourceMissing, "x.zarr", source="x.zarr", fmt="zarr")
    ingest(X, tmp_path / "made.zarr", labels=Y)
    assert_refused(errors.UnknownInput, "a dataset already", source="made.zarr")


# ---- AnnData -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("ending", ["h5ad", "zarr"])
def test_anndata_that_cannot_be_read_by_row_or_lacks_labels(assert_refused, ending):
    made = formats.adata(scipy.sparse.csc_matrix(X), Y)
    made.obs["gaps"] = pd.Categorical.from_codes([-1 if i == 4 else 0 for i in range(12)], ["a"])
    made.obs["weight"] = X[:, 0]
    made.layers["dense"] = X
    getattr(made, "write_h5ad" if ending == "h5ad" else "write_zarr")(f"x.{ending}")
    source = f"x.{ending}"
    assert_refused(errors.UnknownInput, "sorted by column", "tocsr", source=source)
    dense = {"source": source, "rows_at": "layers/dense", "labels": None}
    assert_refused(errors.LabelOutOfRange, "null", "obs/gaps, row 4", labels_at="gaps", **dense)
    assert_refused(errors.UnknownInput, "'obs/weight' is no place of labels", labels_at="weight", **dense)
    assert_refused(errors.UnknownInput, "'obs/nothing'", "'obs/label', 'obs/gaps'", labels_at="nothing", **dense)
    assert_refused(
        errors.UnknownInput, "'layers/no'", "'X', 'layers/dense', 'obsm/pca'", source=source, rows_at="layers/no"
    )


# ---- anything ----------------------------------------------------------------------------------------------------

KINDS = ["x.parquet", "x.h5", "x.h5ad", "x.tar", "x.tar.gz", "x.bin"]
STARTS = {
    "x.parquet": b"PAR1",
    "x.h5": b"\x89HDF\r\n\x1a\n",
    "x.h5ad": b"\x89HDF\r\n\x1a\n",
    "x.tar.gz": b"\x1f\x8b\x08\0",
}


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(content=st.binary(max_size=600), kind=st.sampled_from(KINDS), magic=st.booleans())
def test_any_bytes_are_refused_by_name(tmp_path, content, kind, magic):
    (tmp_path / kind).write_bytes(STARTS.get(kind, b"") * magic + content)
    raw = {"raw_shape": "x7", "raw_dtype": "float32"} if kind == "x.bin" else {}
    with pytest.raises(LabelgroveError) as caught:
        ingest(tmp_path / kind, tmp_path / "d.zarr", labels=None, **raw)
    assert caught.value.exit_code in (3, 5)
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith("d.zarr")] == []


@pytest.mark.parametrize("name", ["parquet fixed", "hdf5 chunks", "h5ad", "zarr v2", "zarr v3", "tar", "tar.gz"])
def test_flipped_bits_are_named_errors_or_other_data(tmp_path, name):
    """Whatever byte is wrong: an error with a name, or a dataset (values without a checksum are as good as any)."""
    seed = zlib.crc32(name.encode())
    rng = np.random.default_rng(seed)
    source, options = formats.DENSE[name](tmp_path, X, Y)
    paths = sorted(path for path in tmp_path.rglob("*") if path.is_file())
    ended = {True: 0, False: 0}
    for attempt in range(12):
        path = paths[attempt % len(paths)]
        content = path.read_bytes()
        broken = bytearray(content)
        broken[rng.integers(len(broken))] ^= 1 << rng.integers(8)
        path.write_bytes(bytes(broken))
        try:
            ingest(source, tmp_path / "made" / "d", labels=Y, **{k: v for k, v in options.items() if k != "labels_at"})
            ended[True] += 1
        except LabelgroveError:
            ended[False] += 1
        path.write_bytes(content)
        shutil.rmtree(tmp_path / "made", ignore_errors=True)
    assert sum(ended.values()) == 12, f"seed {seed}"
