"""Every row arrives with its label, wherever it was in the files."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given
from hypothesis import strategies as st

from pipeline.dataset import TEST, TRAIN, VALIDATION, Dataset
from pipeline.ingest import ingest
from tasks import io
from tests.pipeline.ingest.samples import quick, stored
from tests.shared import shared_path
from tests.strategies import block_rows, csr_matrices, dense_matrices


@quick
@given(values=dense_matrices(min_rows=3), size=block_rows, seed=st.integers(0, 50), data=st.data())
def test_every_dense_row_arrives_once_with_its_label(tmp_path, values, size, seed, data):
    labels = np.arange(len(values)) % 3
    made = ingest(
        values, tmp_path / "d.zarr", labels=labels, block_rows=size, seed=seed, force=True,
        validation=data.draw(st.sampled_from([0, 0.3])), test=data.draw(st.sampled_from([0, 0.3])),
    )  # fmt: skip
    rows, y, split, row_id = stored(made)
    np.testing.assert_array_equal(np.sort(row_id), np.arange(len(values)))
    np.testing.assert_array_equal(rows, values[row_id])
    np.testing.assert_array_equal(y, labels[row_id])
    assert (np.diff(split.astype(int)) >= 0).all()
    assert all((np.diff(row_id[split == part]) > 0).all() for part in (VALIDATION, TEST))
    assert {block.n_rows for block in made.blocks()[:-1]} <= {size}
    made.verify()


@quick
@given(matrix=csr_matrices(min_rows=3), size=st.integers(4, 9), apart=csr_matrices())
def test_every_sparse_row_arrives_once_with_its_label(tmp_path, matrix, size, apart):
    apart = scipy.sparse.csr_matrix(apart.toarray()[:, :1] * np.ones((1, matrix.shape[1]), np.float32))
    scipy.sparse.save_npz(tmp_path / "train.npz", matrix)
    labels, test_labels = np.arange(matrix.shape[0]) % 3, np.arange(apart.shape[0]) % 2
    made = ingest(
        tmp_path / "train.npz", tmp_path / "d.zarr", labels=labels, test_source=apart, test_labels=test_labels,
        block_rows=size, validation=0, force=True,
    )  # fmt: skip
    rows, y, split, row_id = stored(made)
    whole = np.vstack([matrix.toarray(), apart.toarray()])
    np.testing.assert_array_equal(np.sort(row_id), np.arange(len(whole)))
    np.testing.assert_array_equal(rows, whole[row_id])
    np.testing.assert_array_equal(y, np.concatenate([labels, test_labels])[row_id])
    np.testing.assert_array_equal(split == TEST, row_id >= matrix.shape[0])
    assert made.body == "csr"
    made.verify()


def test_same_input_and_seed_give_the_same_files(tmp_path, small):
    matrix, labels = small

    def files(name, seed):
        ingest(matrix, tmp_path / name, labels=labels, block_rows=8, seed=seed)
        root = tmp_path / name
        return {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}

    assert files("a", 5) == files("b", 5)
    first, other = Dataset.open(tmp_path / "a"), ingest(matrix, tmp_path / "c", labels=labels, block_rows=8, seed=6)
    assert first.digest == Dataset.open(tmp_path / "b").digest != other.digest


def test_training_rows_are_shuffled_and_the_rest_keeps_its_order(tmp_path, small):
    matrix, labels = small
    made = ingest(matrix, tmp_path / "d", labels=labels, test_source=matrix, test_labels=labels, validation=0)
    _, y, split, row_id = stored(made)
    assert not (np.diff(row_id[split == TRAIN]) > 0).all()
    assert len(set(y[:10].tolist())) > 1  # sorted by class in the source
    np.testing.assert_array_equal(row_id[split == TEST], np.arange(40, 80))


@pytest.mark.parametrize("parts", [1, 3])
def test_all_official_parts(tmp_path, small, parts):
    """row_id counts through training, validation and test sources; shards of a folder are read in name order."""
    matrix, labels = small
    for name in ("train", "validation", "test"):
        (tmp_path / name).mkdir()
        for i, piece in enumerate(np.array_split(matrix, parts)):
            np.save(tmp_path / name / f"{i:02d}.npy", piece)
        np.save(tmp_path / f"{name}_labels.npy", labels)
    made = ingest(
        tmp_path / "train", tmp_path / "d", labels=tmp_path / "train_labels.npy",
        validation_source=str(tmp_path / "validation" / "*.npy"), validation_labels=tmp_path / "validation_labels.npy",
        test_source=sorted((tmp_path / "test").iterdir()), test_labels=tmp_path / "test_labels.npy",
    )  # fmt: skip
    rows, _, split, row_id = stored(made)
    assert made.split_counts == {"train": 40, "validation": 40, "test": 40}
    np.testing.assert_array_equal(split, np.repeat([0, 1, 2], 40))
    np.testing.assert_array_equal(row_id // 40, split)
    np.testing.assert_array_equal(rows, matrix[row_id % 40])


def test_clinc150_arrives_whole(tmp_path):
    folder = shared_path("data/clinc150")
    made = ingest(
        folder / "X_train.npz", tmp_path / "d", labels=folder / "y_train.npy", classes=folder / "classes.json",
        taxonomy=folder / "taxonomy.json", split=folder / "val_rows_in_train.npy",
        test_source=folder / "X_test.npz", test_labels=folder / "y_test.npy",
    )  # fmt: skip
    assert made.split_counts == {"train": 15000, "validation": 3000, "test": 4500}
    assert made.taxonomy is not None
    assert (made.n_classes, made.taxonomy.n_nodes, made.taxonomy.n_levels) == (150, 161, 3)
    matrix = scipy.sparse.load_npz(folder / "X_train.npz")
    block = made.blocks()[3]
    row_id = io.read_row_ids(made.path, block.start, block.stop)
    expected, rows = matrix[row_id], io.read_rows(block)
    for name in ("data", "indices", "indptr"):
        np.testing.assert_array_equal(getattr(rows, name), getattr(expected, name))
    np.testing.assert_array_equal(
        io.read_labels(made.path, block.start, block.stop), np.load(folder / "y_train.npy")[row_id]
    )
