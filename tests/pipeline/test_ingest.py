"""Ingest: every row arrives with its label, wherever it was in the files, whatever form they had."""

from __future__ import annotations

import errno
import gzip
import json
import os
import shutil
import subprocess
import sys
import tracemalloc

import numpy as np
import pytest
import scipy.sparse
import zarr
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pipeline.dataset import TEST, TRAIN, VALIDATION, Dataset, DatasetDamaged, DatasetFormat
from pipeline.ingest import ingest, open_source
from pipeline.ingest.errors import ColumnMismatch, DatasetExists, DeclaredTooLarge, OneClassData
from pipeline.ingest.layout import choose_block_rows
from tasks import io
from tasks.errors import ArtefactError
from tasks.files import DiskFull
from tests.shared import shared_path
from tests.strategies import block_rows, csr_matrices, dense_matrices
from tests.tasks.test_io import delete, empty, flip, garbage, truncate

quick = settings(max_examples=8, suppress_health_check=[HealthCheck.function_scoped_fixture])


def stored(dataset: Dataset):
    """Everything that a dataset holds: X, y, split, row_id, as it stands in the blocks."""
    blocks = dataset.blocks()
    rows = np.vstack([io.read_rows(block).to_array() for block in blocks])
    return rows, *(io.read_column(dataset.path, name) for name in ("y", "split", "row_id"))


def notes(dataset: Dataset) -> dict[str, str]:
    return {note.code: note.text for note in dataset.notes}


@pytest.fixture
def small():
    """40 rows of 4 features, 4 classes in sorted order (the worst one for SGD)."""
    matrix = np.random.default_rng(0).standard_normal((40, 4)).astype(np.float32)
    return matrix, np.repeat(np.arange(4), 10)


# ---- round trips -------------------------------------------------------------------------------------------------


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


# ---- forms of input ----------------------------------------------------------------------------------------------


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


SVM = "# a comment\n1 0:1.5 3:-2 # tail\n\n0 1:1e-3\n-0 qid:3 2:.5\n+1\n1.0 3:7\n"


@pytest.mark.parametrize("packed", [False, True])
def test_svmlight_text(tmp_path, packed):
    name = "x.svm.gz" if packed else "x.svm"
    (tmp_path / name).write_bytes(gzip.compress(SVM.encode()) if packed else SVM.encode())
    made = ingest(tmp_path / name, tmp_path / "d", validation=0, test=0)
    rows, y, _, row_id = stored(made)
    expected = [[1.5, 0, 0, -2], [0, 1e-3, 0, 0], [0, 0, 0.5, 0], [0, 0, 0, 0], [0, 0, 0, 7]]
    np.testing.assert_array_equal(rows[np.argsort(row_id)], np.array(expected, np.float32))
    assert y[np.argsort(row_id)].tolist() == [1, 0, 0, 1, 1]
    assert "a column 0 occurs" in notes(made)["SvmlightIndexBase"]


def test_svmlight_base_is_proven_over_all_files_together(tmp_path):
    """The training file alone cannot tell; the test file has a column 0. Both must be read alike."""
    (tmp_path / "a.svm").write_text("0 1:1 2:2\n1 2:3\n")
    (tmp_path / "b.svm").write_text("1 0:5 3:1\n")
    made = ingest(tmp_path / "a.svm", tmp_path / "d", test_source=tmp_path / "b.svm", validation=0)
    rows, _, _, row_id = stored(made)
    np.testing.assert_array_equal(rows[np.argsort(row_id)], [[0, 1, 2, 0], [0, 0, 3, 0], [5, 0, 0, 1]])


@pytest.mark.parametrize("stated", [{"index_base": 1}, {"n_features": 3}])
def test_svmlight_base_stated_or_proven_by_the_number_of_features(tmp_path, stated):
    (tmp_path / "a.svm").write_text("0 1:1 3:2\n1 2:3\n")
    rows, _, _, row_id = stored(ingest(tmp_path / "a.svm", tmp_path / "d", validation=0, test=0, **stated))
    np.testing.assert_array_equal(rows[np.argsort(row_id)], [[1, 0, 2], [0, 3, 0]])


def test_svmlight_with_other_labels(tmp_path):
    (tmp_path / "a.svm").write_text("7 0:1\n7 1:3\n")
    made = ingest(tmp_path / "a.svm", tmp_path / "d", labels=["x", "y"], validation=0, test=0)
    assert made.classes.names == ("x", "y")
    assert "LabelsReplaced" in notes(made)


def test_svmlight_agrees_with_scikit_learn(tmp_path):
    from sklearn.datasets import dump_svmlight_file

    rng = np.random.default_rng(5)
    matrix = scipy.sparse.random(50, 30, 0.2, "csr", np.float64, rng)
    labels = rng.integers(0, 4, 50)
    dump_svmlight_file(matrix, labels, str(tmp_path / "x.libsvm"), zero_based=False)
    made = ingest(tmp_path / "x.libsvm", tmp_path / "d", index_base=1, n_features=30)
    rows, y, _, row_id = stored(made)
    np.testing.assert_array_equal(rows, matrix.toarray()[row_id].astype(np.float32))
    np.testing.assert_array_equal(y, labels[row_id])


# ---- splits ------------------------------------------------------------------------------------------------------


@quick
@given(
    counts=st.lists(st.integers(1, 30), min_size=2, max_size=12),
    validation=st.sampled_from([0, 0.1, 0.25]),
    test=st.sampled_from([0, 0.2, 0.5]),
    seed=st.integers(0, 99),
)
def test_drawn_parts_hold_their_share_of_every_class(counts, validation, test, seed):
    from pipeline.ingest.splits import draw_split

    labels = np.repeat(np.arange(len(counts)), counts)
    split = draw_split(labels, validation, test, seed)
    np.testing.assert_array_equal(split, draw_split(labels, validation, test, seed))
    for c, count in enumerate(counts):
        parts = np.bincount(split[labels == c], minlength=3)
        assert parts[TRAIN] >= 1
        for part, share in ((VALIDATION, validation), (TEST, test)):
            assert parts[part] <= np.ceil(share * count)
            assert parts[part] >= np.floor(share * count) or parts[TRAIN] == 1
    if min(counts) > 3:  # else a class of one row keeps it for training
        assert abs((split == TEST).sum() - test * sum(counts)) <= 0.5


def test_small_classes_give_their_share_to_validation():
    """A tenth of 4 rows rounds to none; over 1,000 such classes 400 rows must come together."""
    from pipeline.ingest.splits import draw_split

    split = draw_split(np.repeat(np.arange(1000), 4), 0.1, 0.0, 0)
    assert (split == VALIDATION).sum() == 400


@pytest.mark.parametrize("form", ["npy", "words", "txt", "rows.npy", "rows.json", "parts.json", "shares"])
def test_forms_of_a_split(tmp_path, small, form):
    matrix, labels = small
    split = np.tile([0, 0, 1, 0, 2], 8)
    validation, test = np.flatnonzero(split == 1), np.flatnonzero(split == 2)
    path = tmp_path / f"split.{form.rsplit('.', 1)[-1]}"
    if form == "npy":
        np.save(path, split)
    elif form == "words":
        path = np.array(["train", "validation", "test"])[split].tolist()
    elif form == "txt":
        path.write_text("".join(f"{word}\n" for word in np.array(["train", "val", "TEST"])[split]))
    elif form == "rows.npy":
        np.save(path, validation)
    elif form == "rows.json":
        path.write_text(json.dumps(validation.tolist()))
    elif form == "parts.json":
        path.write_text(json.dumps({"validation": validation.tolist(), "test": test.tolist()}))
    else:
        path = "0.6,0.2,0.2"
    made = ingest(matrix, tmp_path / "d", labels=labels, split=path)
    _, _, found, row_id = stored(made)
    if form == "shares":
        assert made.split_counts == {"train": 24, "validation": 8, "test": 8}
        return
    expected = np.where(split == 2, 0, split) if form.startswith("rows") else split
    np.testing.assert_array_equal(found, expected[row_id])
    assert ("EmptySplit" in notes(made)) == form.startswith("rows")


def test_shares_count_only_for_parts_that_are_drawn(tmp_path, small):
    """Most rows as validation, with test rows that come apart: the default share of test rows plays no part."""
    matrix, labels = small
    made = ingest(matrix, tmp_path / "d", labels=labels, test_source=matrix, test_labels=labels, validation=0.9)
    assert made.split_counts == {"train": 4, "validation": 36, "test": 40}


def test_what_is_drawn_is_said(tmp_path, small):
    matrix, labels = small
    made = ingest(matrix, tmp_path / "d", labels=labels, test_source=matrix, test_labels=labels, seed=9)
    assert made.split_counts == {"train": 36, "validation": 4, "test": 40}
    assert "0.1 as validation" in notes(made)["SplitDrawn"]
    assert "seed 9" in notes(made)["SplitDrawn"]
    assert "test" not in notes(made)["SplitDrawn"].split(":")[1]


# ---- rows that are left out --------------------------------------------------------------------------------------


def test_non_finite_rows_can_be_left_out(tmp_path, small):
    matrix, labels = small[0].copy(), small[1]
    matrix[7, 2], matrix[9, 0] = np.nan, np.inf
    other = small[0].copy()
    other[3] = -np.inf
    made = ingest(matrix, tmp_path / "d", labels=labels, test_source=other, test_labels=labels, on_nonfinite="drop-row")
    rows, y, _, row_id = stored(made)
    assert sorted(set(range(80)) - set(row_id.tolist())) == [7, 9, 43]
    np.testing.assert_array_equal(rows, np.vstack([matrix, other])[row_id])
    np.testing.assert_array_equal(y, np.concatenate([labels, labels])[row_id])
    assert notes(made)["NonFiniteFeature"].startswith("3 rows were left out")
    assert made.split_counts == {"train": 34, "validation": 4, "test": 39}


def test_dropping_every_row_of_all_classes_but_one_is_refused(tmp_path, small):
    matrix = small[0].copy()
    matrix[10:] = np.nan
    with pytest.raises(OneClassData, match="only of class '0'"):
        ingest(matrix, tmp_path / "d", labels=small[1], on_nonfinite="drop-row")


def test_rows_of_zeros_are_counted(tmp_path, small):
    matrix = small[0].copy()
    matrix[[3, 5]] = 0
    assert notes(ingest(matrix, tmp_path / "d", labels=small[1]))["ZeroRows"].startswith("2 rows")


# ---- blocks and memory -------------------------------------------------------------------------------------------


@given(n_rows=st.integers(1, 10**8), row_bytes=st.integers(1, 10**8))
def test_block_rows_follow_their_rule(n_rows, row_bytes):
    rows = choose_block_rows(n_rows, row_bytes)
    assert rows & (rows - 1) == 0
    assert rows == 1 or rows * row_bytes <= 8 * 2**20
    larger = 2 * rows
    assert larger * row_bytes > 8 * 2**20 or larger > max(256, n_rows / 16)


@pytest.mark.parametrize("order", ["C", "F"])
def test_memory_is_bounded_by_a_few_blocks(tmp_path, order):
    """A 48 MB matrix in blocks of 1 MB: what NumPy and Python allocate stays far below the matrix."""
    n_rows, n_features = 24_000, 500
    matrix = np.lib.format.open_memmap(
        tmp_path / "x.npy", "w+", np.float32, (n_rows, n_features), fortran_order=order == "F"
    )
    matrix[:] = np.arange(n_features, dtype=np.float32)
    matrix.flush()
    del matrix
    labels = np.arange(n_rows) % 7
    tracemalloc.start()
    made = ingest(tmp_path / "x.npy", tmp_path / "d", labels=labels, block_rows=512)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert made.n_rows == n_rows
    assert peak < 25e6


def test_a_bomb_is_refused_before_it_is_inflated(tmp_path):
    np.savez_compressed(tmp_path / "x.npz", x=np.zeros((4000, 1000), np.float32))
    assert (tmp_path / "x.npz").stat().st_size < 100_000
    tracemalloc.start()
    with pytest.raises(DeclaredTooLarge, match="16,000,128 bytes") as caught:
        ingest(tmp_path / "x.npz", tmp_path / "d", labels=np.arange(4000) % 2, max_bytes=20_000_000)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert caught.value.exit_code == 5
    assert peak < 4e6


def test_progress_goes_up_to_all_rows(tmp_path, small):
    seen = []
    ingest(
        small[0], tmp_path / "d", labels=small[1], block_rows=8, progress=lambda done, total: seen.append((done, total))
    )
    assert seen == sorted(seen)
    assert {total for _, total in seen} == {40}
    assert seen[-1] == (40, 40)


# ---- the place ---------------------------------------------------------------------------------------------------


def test_an_existing_dataset_is_replaced_only_by_force(tmp_path, small):
    matrix, labels = small
    first = ingest(matrix, tmp_path / "d", labels=labels)
    with pytest.raises(DatasetExists) as caught:
        ingest(matrix[:, :2], tmp_path / "d", labels=labels)
    assert caught.value.exit_code == 2
    assert Dataset.open(tmp_path / "d") == first
    assert ingest(matrix[:, :2], tmp_path / "d", labels=labels, force=True).n_features == 2
    assert [path.name for path in tmp_path.iterdir()] == ["d"]


def test_of_two_processes_the_faster_one_wins(tmp_path, small):
    """The dataset appears while another ingest is at work: it stays, and the slower one says so."""
    other = ingest(small[0][:, :2], tmp_path / "other", labels=small[1])

    def appear(done, total):
        if done == total and not (tmp_path / "d").exists():
            shutil.copytree(tmp_path / "other", tmp_path / "d")

    with pytest.raises(DatasetExists, match="meanwhile"):
        ingest(small[0], tmp_path / "d", labels=small[1], progress=appear)
    assert Dataset.open(tmp_path / "d").digest == other.digest
    assert sorted(path.name for path in tmp_path.iterdir()) == ["d", "other"]


@pytest.mark.parametrize("kind", ["folder", "file", "store"])
def test_force_replaces_nothing_but_datasets(tmp_path, small, kind):
    place = tmp_path / "precious"
    if kind == "file":
        place.write_text("thesis")
    elif kind == "folder":
        place.mkdir()
        (place / "thesis.txt").write_text("thesis")
    else:
        io.create_group(str(place), {"labelgrove": "pq"})
    with pytest.raises(DatasetExists, match="no dataset"):
        ingest(small[0], place, labels=small[1], force=True)
    assert place.exists()


def test_a_failed_replacement_leaves_the_old_dataset(tmp_path, small):
    first = ingest(small[0], tmp_path / "d", labels=small[1])
    with pytest.raises(ColumnMismatch):
        ingest(small[0], tmp_path / "d", labels=small[1], test_source=small[0][:, :2], test_labels=small[1], force=True)
    first.verify()
    assert [path.name for path in tmp_path.iterdir()] == ["d"]


def test_leftovers_of_dead_processes_are_swept_and_those_of_living_ones_kept(tmp_path, small):
    dead = subprocess.run([sys.executable, "-c", "import os; print(os.getpid())"], capture_output=True, text=True)
    gone, alive = tmp_path / f"d.partial-{int(dead.stdout)}", tmp_path / f"d.partial-{os.getppid()}"
    elsewhere = tmp_path / f"d.partial-{int(dead.stdout) + 1}"
    for folder in (gone, alive, elsewhere, tmp_path / "d.partial-notes"):
        folder.mkdir()
    (elsewhere / "owner.partial").write_text("another machine")
    ingest(small[0], tmp_path / "d", labels=small[1])
    assert not gone.exists()
    assert alive.exists()
    assert elsewhere.exists()
    assert (tmp_path / "d.partial-notes").exists()


def test_a_dataset_moved_aside_by_a_killed_replacement_comes_back(tmp_path, small):
    made = ingest(small[0], tmp_path / "d", labels=small[1])
    dead = subprocess.run([sys.executable, "-c", "import os; print(os.getpid())"], capture_output=True, text=True)
    os.rename(tmp_path / "d", tmp_path / f"d.partial-{int(dead.stdout)}-old")
    with pytest.raises(DatasetExists):
        ingest(small[0], tmp_path / "d", labels=small[1])
    assert Dataset.open(tmp_path / "d") == made


def test_a_killed_ingest_leaves_nothing_visible_and_the_next_one_nothing_at_all(tmp_path, small):
    """SIGKILL after the third block: no dataset; then the same command makes the same dataset."""
    np.save(tmp_path / "x.npy", small[0])
    np.save(tmp_path / "y.npy", small[1])
    script = """
import os, signal
from pipeline.ingest import ingest
def die(done, total):
    if done > total * 0.7:
        os.kill(os.getpid(), signal.SIGKILL)
ingest("x.npy", "d", labels="y.npy", block_rows=4, progress=die)
"""
    assert subprocess.run([sys.executable, "-c", script], cwd=tmp_path).returncode == -9
    assert not (tmp_path / "d").exists()
    assert len(list(tmp_path.glob("d.partial-*"))) == 1
    made = ingest(tmp_path / "x.npy", tmp_path / "d", labels=tmp_path / "y.npy", block_rows=4)
    assert made.digest == ingest(small[0], tmp_path / "e", labels=small[1], block_rows=4).digest
    assert not list(tmp_path.glob("*partial*"))


# ---- the dataset afterwards --------------------------------------------------------------------------------------


@pytest.mark.parametrize("damage", [delete, truncate, empty, flip, garbage], ids=lambda damage: damage.__name__)
@pytest.mark.parametrize("body", ["dense", "csr"])
def test_verify_finds_every_damaged_file(tmp_path, small, body, damage):
    matrix = scipy.sparse.csr_matrix(small[0]) if body == "csr" else small[0]
    taxonomy = {"root": {"a": ["0", "1"], "b": ["2", "3"]}}
    made = ingest(matrix, tmp_path / "d", labels=small[1], block_rows=16, taxonomy=taxonomy)
    made.verify()
    for path in sorted(path for path in (tmp_path / "d").rglob("*") if path.is_file() and "c" in path.parts):
        content = path.read_bytes()
        damage(path)
        problems = list(Dataset.open(tmp_path / "d").problems())
        assert len(problems) == 1, path
        assert problems[0].exit_code == 4
        path.write_bytes(content)
    made.verify()


def test_verify_finds_chunks_swapped_and_names_changed(tmp_path, small):
    """Right checksums, wrong content: only the digests can tell."""
    made = ingest(small[0], tmp_path / "d", labels=small[1], block_rows=16)
    chunks = tmp_path / "d" / "X" / "c"
    first, second = (chunks / "0" / "0").read_bytes(), (chunks / "1" / "0").read_bytes()
    (chunks / "0" / "0").write_bytes(second)
    with pytest.raises(DatasetDamaged, match=r"block 0, rows 0\.\.15"):
        made.verify()
    (chunks / "0" / "0").write_bytes(first)
    classes = tmp_path / "d" / "classes" / "zarr.json"
    classes.write_text(classes.read_text().replace('"3"', '"4"'))
    with pytest.raises(DatasetDamaged, match="class table"):
        Dataset.open(tmp_path / "d").verify()


def test_newer_and_foreign_datasets_are_refused_by_name(tmp_path, small):
    ingest(small[0], tmp_path / "d", labels=small[1])
    io.write_attrs(str(tmp_path / "d"), {"version": 2})
    with pytest.raises(DatasetFormat, match="version 2 is newer"):
        Dataset.open(tmp_path / "d")
    io.write_attrs(str(tmp_path / "d"), {"version": 1, "format": "poem"})
    with pytest.raises(DatasetFormat, match="no labelgrove dataset"):
        Dataset.open(tmp_path / "d")
    with pytest.raises(io.StoreMetadata):
        Dataset.open(tmp_path / "nothing")


@pytest.mark.parametrize("damage", [delete, truncate, empty, flip, garbage], ids=lambda damage: damage.__name__)
def test_damaged_metadata_is_found_or_means_the_same(tmp_path, small, damage):
    """Every zarr.json in turn; a flipped bit in one may leave its meaning as it was."""
    made = ingest(small[0], tmp_path / "d", labels=small[1], taxonomy={"root": {"a": ["0", "1"], "b": ["2", "3"]}})
    expected = stored(made)
    found = 0
    for path in sorted((tmp_path / "d").rglob("zarr.json")):
        content = path.read_bytes()
        damage(path)
        try:
            opened = Dataset.open(tmp_path / "d")
            opened.verify()
            for again, before in zip(stored(opened), expected, strict=True):
                np.testing.assert_array_equal(again, before)
            assert (opened.classes, opened.taxonomy.names) == (made.classes, made.taxonomy.names)
        except ArtefactError:
            found += 1
        path.write_bytes(content)
    assert found >= 4 if damage is flip else found == 10
    made.verify()


def test_a_disk_that_fills_up_at_any_write(tmp_path, small, monkeypatch):
    """For every n: the n-th chunk finds no space; the error names the place, and nothing is left but what was there."""
    real = zarr.Array.__setitem__
    for n in range(100):
        room = iter(range(n))

        def write(array, place, values, room=room):
            if next(room, None) is None:
                raise OSError(errno.ENOSPC, "No space left on device")
            real(array, place, values)

        monkeypatch.setattr(zarr.Array, "__setitem__", write)
        try:
            ingest(small[0], tmp_path / "d", labels=small[1], block_rows=16)
        except DiskFull:
            assert list(tmp_path.iterdir()) == []
        else:
            break
    assert n == 3 * 4


@pytest.mark.parametrize("change", [{"n_rows": 41}, {"n_features": 2**60}, {"body": "csr"}, {"notes": [{"poem": 1}]}])
def test_attributes_that_do_not_fit_are_refused(tmp_path, small, change):
    ingest(small[0], tmp_path / "d", labels=small[1])
    io.write_attrs(str(tmp_path / "d"), change)
    with pytest.raises(DatasetDamaged):
        Dataset.open(tmp_path / "d")


def test_rows_alone_for_prediction(tmp_path, small):
    np.save(tmp_path / "x.npy", small[0].astype(">f8"))
    source = open_source(tmp_path / "x.npy", tmp_path / "spool", n_features=4)
    pieces = [rows.values for _, rows in source.slabs()]
    assert {piece.dtype for piece in pieces} == {np.dtype(np.float32)}
    np.testing.assert_array_equal(np.vstack(pieces), small[0])
    with pytest.raises(ColumnMismatch, match="4 columns where 5"):
        open_source(tmp_path / "x.npy", tmp_path / "spool", n_features=5)


# ---- real data ---------------------------------------------------------------------------------------------------


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
