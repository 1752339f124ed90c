"""Matrices of all types, orders and layouts arrive as the same rows."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse

from pipeline.ingest import ingest, open_source
from pipeline.ingest.errors import ColumnMismatch
from tasks.errors import ParamError
from tests.pipeline.ingest.samples import notes, stored


@pytest.mark.parametrize(
    ("dtype", "order", "said"),
    [
        ("<f4", "C", None),
        ("<f2", "C", None),
        (">f4", "C", "big-endian"),
        ("<f8", "C", "float64 values are stored as float32"),
        (">f8", "F", "Fortran order"),
        ("<i2", "C", "int16"),
        ("|u1", "F", "uint8"),
        ("|b1", "C", "bool"),
    ],
)
def test_types_and_orders_of_npy(tmp_path, small, dtype, order, said):
    labels = small[1]
    matrix = np.random.default_rng(1).integers(0, 2, (40, 4)).astype(dtype)
    np.save(tmp_path / "x.npy", np.asarray(matrix, order=order))
    made = ingest(tmp_path / "x.npy", tmp_path / "d", labels=labels)
    rows, _, _, row_id = stored(made)
    np.testing.assert_array_equal(rows, matrix[row_id].astype(np.float32))
    assert made.dtype == ("float16" if dtype == "<f2" else "float32")
    assert said in notes(made)["Converted"] if said else "Converted" not in notes(made)


def test_half_the_bytes_on_request(tmp_path, small):
    made = ingest(small[0], tmp_path / "d", labels=small[1], dtype="float16")
    rows, _, _, row_id = stored(made)
    np.testing.assert_array_equal(rows, small[0].astype(np.float16)[row_id].astype(np.float32))
    assert made.dtype == "float16"


def test_empty_shards_change_nothing(tmp_path, small):
    matrix, labels = small
    for name, piece in {"a": matrix[:0], "b": matrix[:15], "c": matrix[:0], "d": matrix[15:]}.items():
        np.save(tmp_path / f"{name}.npy", piece)
    made = ingest(str(tmp_path / "*.npy"), tmp_path / "d.zarr", labels=labels)
    assert made.digest == ingest(matrix, tmp_path / "e.zarr", labels=labels).digest
    assert "EmptyShard" in notes(made)


@pytest.mark.parametrize("layout", ["csr", "csc", "coo"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int16])
def test_sparse_layouts_and_types(tmp_path, small, layout, dtype):
    dense = np.random.default_rng(2).integers(0, 3, (40, 6)).astype(dtype)
    scipy.sparse.save_npz(tmp_path / "x.npz", scipy.sparse.csr_matrix(dense).asformat(layout))
    rows, _, _, row_id = stored(ingest(tmp_path / "x.npz", tmp_path / "d", labels=small[1]))
    np.testing.assert_array_equal(rows, dense[row_id].astype(np.float32))


def test_columns_out_of_order_or_repeated_are_put_right(tmp_path):
    """scipy allows both; the rows' contract is ascending columns, each once."""
    data, indices, indptr = np.array([1, 2, 4, 8], np.float32), np.array([3, 0, 3, 1]), np.array([0, 3, 4])
    np.savez(tmp_path / "x.npz", data=data, indices=indices, indptr=indptr, shape=[2, 5], format=b"csr")
    made = ingest(tmp_path / "x.npz", tmp_path / "d", labels=[0, 1], validation=0, test=0)
    rows, _, _, row_id = stored(made)
    np.testing.assert_array_equal(rows[np.argsort(row_id)], [[2, 0, 0, 5, 0], [0, 8, 0, 0, 0]])
    assert "1 repeated entries" in notes(made)["Converted"]


def test_a_dense_matrix_alone_in_an_npz(tmp_path, small):
    np.savez_compressed(tmp_path / "x.npz", features=small[0])
    made = ingest(tmp_path / "x.npz", tmp_path / "d", labels=small[1])
    assert made.digest == ingest(small[0], tmp_path / "e", labels=small[1]).digest


def test_rows_alone_for_prediction(tmp_path, small):
    np.save(tmp_path / "x.npy", small[0].astype(">f8"))
    source = open_source(tmp_path / "x.npy", tmp_path / "spool", n_features=4)
    pieces = [rows.values for _, rows in source.slabs()]
    assert {piece.dtype for piece in pieces} == {np.dtype(np.float32)}
    np.testing.assert_array_equal(np.vstack(pieces), small[0])
    with pytest.raises(ColumnMismatch, match="4 columns where 5"):
        open_source(tmp_path / "x.npy", tmp_path / "spool", n_features=5)


def test_rows_that_vanish_in_the_type_they_are_stored_in_are_counted(tmp_path):
    values = np.ones((40, 3))
    values[:5] *= 1e-80
    made = ingest(values, tmp_path / "d.zarr", labels=np.arange(40) % 4)
    assert [note.text for note in made.notes if note.code == "ZeroRows"] == ["5 rows hold only zeros"]


def test_a_stated_number_of_columns_is_checked_and_an_idle_base_refused(tmp_path):
    np.save(tmp_path / "x.npy", np.ones((40, 3)))
    with pytest.raises(ColumnMismatch, match="3 columns where 99 are expected"):
        ingest(tmp_path / "x.npy", tmp_path / "d.zarr", labels=np.arange(40) % 4, n_features=99)
    with pytest.raises(ParamError, match="index_base"):
        ingest(tmp_path / "x.npy", tmp_path / "d.zarr", labels=np.arange(40) % 4, index_base=1)
    assert ingest(tmp_path / "x.npy", tmp_path / "d.zarr", labels=np.arange(40) % 4, n_features=3).n_features == 3
