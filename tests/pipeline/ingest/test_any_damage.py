"""Whatever a library says about a file that cannot be read has a name of ours, with the file."""

from __future__ import annotations

import gzip
import io
import zipfile
from pathlib import Path

import anndata
import h5py
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipeline.ingest import errors, ingest
from pipeline.ingest.remote import shown
from tasks.errors import ParamError
from tests.pipeline.ingest import formats
from tests.pipeline.ingest.samples import X, Y, notes


def header(text: str) -> bytes:
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text.encode()


def shaped(shape: str) -> bytes:
    return header(f"{{'descr':'<f4','fortran_order':False,'shape':{shape}}}\n") + X.tobytes()


HEADERS = {
    "nested": header("(" * 9000),
    "minus": header("-" * 9000 + "1"),
    "negative": shaped("(-4, -9)"),
    "bool": shaped("(True, 3)"),
    "far": shaped("(0, 10000000000000000000000)"),
    "floats": shaped("(4.0, 3)"),
}


@pytest.mark.parametrize("content", HEADERS.values(), ids=HEADERS)
def test_npy_headers(assert_refused, content):
    Path("x.npy").write_bytes(content)
    assert_refused(errors.DamagedInput, "this is no .npy file", "x.npy", source="x.npy")
    formats.write_tar(Path("x.tar"), [*formats.samples(X, Y), ("zz.npy", content), ("zz.cls", b"1")])
    assert_refused(errors.DamagedInput, "x.tar, key 'zz'", source="x.tar", labels=None)


@pytest.mark.parametrize("packing", [zipfile.ZIP_LZMA, zipfile.ZIP_BZIP2, zipfile.ZIP_DEFLATED])
def test_npz_whose_packing_is_damaged(assert_refused, packing):
    file = io.BytesIO()
    np.save(file, np.random.default_rng(0).random((400, 3)))
    with zipfile.ZipFile("x.npz", "w", packing) as archive:
        archive.writestr("x.npy", file.getvalue())
    content = bytearray(Path("x.npz").read_bytes())
    for place in range(300, len(content) - 200, 7):
        content[place] ^= 0x5A
    Path("x.npz").write_bytes(content)
    assert_refused(errors.DamagedInput, "x.npz", source="x.npz", labels=[0, 1] * 200)


COO = {"format": "coo", "shape": [4, 5], "data": np.ones(3), "row": np.arange(3), "col": np.arange(3)}


@pytest.mark.parametrize(
    ("change", "error", "word"),
    [
        ({"shape": [np.inf, 5]}, errors.CsrStructure, "infinity"),
        ({"shape": [-4, 5]}, errors.CsrStructure, "shape (-4, 5)"),
        ({"row": np.array([0, 1.5, 2])}, errors.CsrStructure, "must be integers"),
        ({"shape": [10**12, 5]}, errors.DeclaredTooLarge, "1,000,000,000,000 rows"),
    ],
)
def test_sparse_npz(assert_refused, change, error, word):
    np.savez("x.npz", **{**COO, **change})
    code = 5 if error is errors.DeclaredTooLarge else 3
    assert_refused(error, word, source="x.npz", labels=[0, 1, 0, 1], exit_code=code)


def test_an_array_that_is_called_format_is_no_layout(tmp_path):
    np.savez(tmp_path / "x.npz", x=X, format=np.arange(3))
    assert ingest(tmp_path / "x.npz", tmp_path / "d", labels=Y).digest == ingest(X, tmp_path / "e", labels=Y).digest


def test_svmlight(assert_refused):
    packed = bytearray(gzip.compress(b"".join(b"%d 1:%f 2:%f\n" % (i % 4, i * 0.7, i) for i in range(5000))))
    packed[len(packed) // 2] ^= 255
    packed[100] ^= 255
    Path("x.svm.gz").write_bytes(packed)
    assert_refused(errors.DamagedInput, "x.svm.gz", source="x.svm.gz", labels=None, index_base=1)
    Path("y.svm").write_text("0 1:1\n1 2:1\n" * 6)
    more = {"source": "y.svm", "labels": None, "index_base": 1}
    assert_refused(errors.FeatureShape, "2,147,483,648 features", n_features=2**31, **more)
    Path("y.svm").write_text("0 1:1\n1 2:" + "1" * 4000 + "\n")
    assert_refused(errors.DeclaredTooLarge, "line 2", max_bytes=2**16, exit_code=5, **more)


def test_labels_of_thousands_of_digits_or_of_half_a_character(assert_refused):
    samples = formats.samples(X, Y)
    formats.write_tar(Path("x.tar"), [*samples, ("zz.npy", formats.npy_bytes(X[0])), ("zz.cls", b"9" * 5000)])
    assert_refused(errors.LabelOutOfRange, "5,000 digits", "row 12", source="x.tar", labels=None)
    names = ["a", "b"] * 5 + ["c", "\ud800"]
    assert_refused(errors.LabelDtype, "no Unicode text", "row 11", labels=names)


@pytest.mark.parametrize("shape", ["x" + "1" * 5000, "9" * 30 + "x3", "x" + "9" * 30])
def test_raw_shapes_of_many_digits(assert_refused, shape):
    X.tofile("x.raw")
    assert_refused(ParamError, "raw", source="x.raw", raw_shape=shape, raw_dtype="float32", exit_code=2)


@pytest.mark.parametrize("shape", [["a", "b"], [40.0, np.inf], [True, True], b"12,3", [12, 3.5], []])
def test_sparse_shapes_that_are_no_two_numbers(assert_refused, shape):
    with h5py.File("x.h5", "w") as file:
        file["m/data"], file["m/indices"], file["m/indptr"] = np.ones(12), np.zeros(12, int), np.arange(13)
        file["m"].attrs["shape"] = shape
    assert_refused(errors.FeatureShape, "a sparse matrix of shape", "x.h5, m", source="x.h5")


@pytest.mark.parametrize("part", ["codes", "categories"])
@pytest.mark.parametrize("value", [3, [[0, 1]] * 6], ids=["scalar", "matrix"])
def test_columns_of_an_anndata_of_other_shapes(assert_refused, part, value):
    anndata.AnnData(X=X, obs=pd.DataFrame({"cell": pd.Categorical(Y.astype(str))})).write_h5ad("x.h5ad")
    with h5py.File("x.h5ad", "a") as file:
        del file[f"obs/cell/{part}"]
        file[f"obs/cell/{part}"] = value
        file["obs"].attrs["_index"] = np.arange(3)
        file.attrs["encoding-type"] = np.arange(3)
    assert_refused(errors.LabelDtype, "labels of shape", part, source="x.h5ad", labels=None, labels_at="cell")


@pytest.mark.parametrize("kind", ["precision", "bias"])
def test_numbers_that_hdf5_must_convert_are_not_mapped(tmp_path, kind):
    """First and last row are zeros: in these all layouts are alike."""
    values = np.zeros((12, 3), "i2" if kind == "precision" else "f4")
    values[1:-1] = np.arange(30).reshape(10, 3)
    if kind == "precision":
        stored = h5py.h5t.STD_I16LE.copy()
        stored.set_precision(8)
        stored.set_offset(4)
    else:
        stored = h5py.h5t.IEEE_F32LE.copy()
        stored.set_ebias(100)
    with h5py.File(tmp_path / "x.h5", "w") as file:
        dataset = h5py.h5d.create(file.id, b"x", stored, h5py.h5s.create_simple(values.shape))
        dataset.write(h5py.h5s.ALL, h5py.h5s.ALL, values)
    made = ingest(tmp_path / "x.h5", tmp_path / "d", labels=Y)
    assert made.digest == ingest(values, tmp_path / "e", labels=Y).digest


def test_values_beyond_float64_are_counted(assert_refused):
    wide = X.astype(np.longdouble)
    wide[3, 1] = np.longdouble("1e4000")
    if np.isinf(wide[3, 1]):
        pytest.skip("long double is float64 here")
    assert_refused(errors.NonFiniteFeature, "1 values in 1 rows", "columns 1", source=wide)


# ---- folders and names -------------------------------------------------------------------------------------------


def test_a_folder_is_read_without_hidden_files_and_with_endings_in_any_case(tmp_path):
    folder = tmp_path / "s"
    (folder / "more").mkdir(parents=True)
    for name in ("a.parquet", "b.pq", "c.PARQUET", ".a.parquet", "_b.parquet", "more/d.parquet"):
        pq.write_table(pa.table({"v": X.tolist(), "y": Y}), folder / name)
    (folder / "._a.parquet").write_bytes(b"Mac OS X")
    made = ingest(folder, tmp_path / "d")
    assert made.n_rows == 36
    assert "sub-folders are not read: more" in notes(made)["FilesLeftOut"]


def test_a_folder_is_no_file(assert_refused):
    Path("s.npy").mkdir()
    np.save("x.npy", X)
    assert_refused(errors.UnknownInput, "this is a folder", "s.npy", source="*.npy")


def test_a_name_with_a_colon_is_no_url(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with open("a:b.parquet", "wb") as file:
        pq.write_table(pa.table({"v": X.tolist(), "y": Y}), file)
    assert ingest("a:b.parquet", tmp_path / "d").n_rows == 12


def test_few_bytes_of_long_names_stay_few(tmp_path):
    """Spelt out these labels take 2 GB."""
    names = pa.DictionaryArray.from_arrays(
        pa.array(np.arange(40_000, dtype=np.int32) % 2), pa.array(["x" * 10**5, "b"])
    )
    vectors = pa.FixedSizeListArray.from_arrays(pa.array(np.ones(80_000, np.float32)), 2)
    pq.write_table(pa.table({"v": vectors, "y": names}), tmp_path / "x.parquet", store_schema=False)
    assert ingest(tmp_path / "x.parquet", tmp_path / "d", max_bytes=2**28).n_rows == 40_000


@pytest.mark.parametrize("url", ["ftp://user:pa/ss@host/x.npy", "zip://x.npy::ftp://user:p@ss/w@host/x.zip?q=pa/ss"])
def test_a_password_with_a_slash_is_not_shown(url):
    said = shown(url)
    assert "ss" not in said
    assert "host/x" in said


def test_a_password_with_the_sign_of_a_query_is_not_shown():
    assert shown("ftp://user:pa?ss@host/x.npy") == "ftp://..."
    assert shown("http://host:80/x.npy?mail=a@b") == "http://host:80/x.npy"
