"""Files that are missing, cut short, damaged, of another kind than they say, or no sparse matrix."""

from __future__ import annotations

import zipfile
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse

from pipeline.ingest import errors
from tests.pipeline.ingest.samples import X, save, text


def test_files_that_are_not_there(assert_refused):
    assert_refused(errors.SourceMissing, "nothing.npy", source="nothing.npy")
    assert_refused(errors.SourceMissing, "shards/*.npy", source="shards/*.npy")
    assert_refused(errors.SourceMissing, "nothing.npy", labels="nothing.npy")
    assert_refused(errors.ClassTableFormat, "nothing.json", classes="nothing.json")
    assert_refused(errors.TaxonomyFormat, "nothing.tsv", taxonomy="nothing.tsv")
    assert_refused(errors.SplitFormat, "nothing.npy", split="nothing.npy")
    Path("empty").mkdir()
    assert_refused(errors.SourceMissing, "no .npy, .parquet, .tar files", source="empty")


def test_files_of_unknown_kinds(assert_refused):
    text("x.doc", "hello")
    for option in ("source", "labels", "classes"):
        assert_refused(errors.UnknownInput, "'.doc'", **{option: "x.doc"})
    assert_refused(errors.SplitFormat, "'.doc'", split="x.doc")
    assert_refused(errors.UnknownInput, "'poem'", source=save("x.npy", X), fmt="poem")
    text("x.svm", "1 0:1\n")
    assert_refused(errors.UnknownInput, "several formats", source=["x.npy", "x.svm"])


@pytest.mark.parametrize("length", [0, 5, 60, 127, 128, 200])
def test_npy_files_cut_short(assert_refused, length):
    save("whole.npy", X)
    Path("x.npy").write_bytes(Path("whole.npy").read_bytes()[:length])
    assert_refused(errors.DamagedInput, "x.npy", source="x.npy")


def test_a_header_that_claims_terabytes(assert_refused):
    with open("x.npy", "wb") as file:
        np.lib.format.write_array_header_1_0(file, {"descr": "<f4", "fortran_order": False, "shape": (2**40, 1)})
    assert_refused(errors.DamagedInput, "4,398,046,511,104 bytes", source="x.npy")
    with zipfile.ZipFile("x.npz", "w") as archive:
        archive.write("x.npy", "x.npy")
    assert_refused(errors.DamagedInput, "member x.npy", source="x.npz")


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04", b"hello", b"\x93NUMPY"])
def test_npz_files_that_are_none(assert_refused, content):
    Path("x.npz").write_bytes(content)
    assert_refused(errors.DamagedInput, "x.npz", source="x.npz")


def test_an_npz_with_a_flipped_bit(assert_refused):
    scipy.sparse.save_npz("x.npz", scipy.sparse.csr_matrix(X), compressed=False)
    content = bytearray(Path("x.npz").read_bytes())
    content[content.index(X[3, 1].tobytes())] ^= 1
    Path("x.npz").write_bytes(bytes(content))
    assert_refused(errors.DamagedInput, "x.npz", source="x.npz")


def test_an_npz_of_several_matrices(assert_refused):
    np.savez("x.npz", a=X, b=X)
    assert_refused(errors.UnknownInput, "'a', 'b'", source="x.npz")
    np.savez("y.npz", format=b"dia", data=X)
    assert_refused(errors.UnknownInput, "'dia'", source="y.npz")


GOOD = {"data": [1.0, 2], "indices": [0, 2], "indptr": [0, 1, 2], "shape": [2, 3]}


@pytest.mark.parametrize(
    "change",
    [
        {"indices": [0, 3]},
        {"indices": [0, -1]},
        {"indptr": [0, 2, 1]},
        {"indptr": [0, 1]},
        {"indptr": [1, 1, 2]},
        {"indptr": [0, 1, 5]},
        {"indptr": [0, 2, 1, 2], "shape": [3, 3]},
        {"indices": [0.5, 2]},
        {"data": [[1.0, 2]]},
        {"shape": [2, 3, 4]},
        {"shape": [-2, 3]},
        {"data": None},
    ],
    ids=str,
)
def test_sparse_arrays_that_describe_no_matrix(assert_refused, change):
    arrays = {name: np.array(value) for name, value in (GOOD | change).items() if value is not None}
    np.savez("x.npz", format=b"csr", **arrays)
    assert_refused(errors.CsrStructure, "x.npz", source="x.npz", labels=[0, 1])
