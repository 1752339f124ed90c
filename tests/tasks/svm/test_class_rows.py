"""Training rows sorted by class: the dataset's own rows in any shelves, and fair samples of them."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.features.errors import NegativeFeature
from tasks.io import blocks_of
from tasks.rows import Csr, Dense
from tasks.svm import class_rows
from tasks.svm.class_rows import ClassRows, NodeRows, RowRuns, check_block, quotas, shelves_of, sort_shelf, stacked
from tasks.svm.kernels import Kernel
from tests.bodies import csr_of, sparse_values
from tests.damage import DAMAGES, delete, empty, garbage, truncate
from tests.naive.relaxed import by_class, dealt
from tests.strategies import seeds
from tests.tasks.svm.sorted_stores import BODIES, class_counts, sorted_store, whole, write_dataset

N, D, K = 150, 8, 7
counts_of_classes = st.lists(st.integers(0, 30), min_size=1, max_size=9)


def drawn(seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rows, labels and splits: of classes none, one and many training rows, and rows without a class."""
    rng = np.random.default_rng(seed)
    labels = rng.choice([-1, 0, 1, 3, 4, 6], N)
    split = rng.integers(0, 3, N)
    labels[:4], split[:4] = [2, 5, 5, 0], [0, 1, 2, 0]  # class 5 has no training rows, class 2 has one
    order = rng.permutation(N)
    return 2 * sparse_values(seed, N, D), labels[order], split[order]


@pytest.mark.parametrize("body", BODIES)
@pytest.mark.parametrize("seed", [0, 1])
def test_sorted_rows_are_those_of_the_dataset_in_any_shelves(tmp_path: Path, body: str, seed: int) -> None:
    values, labels, split = drawn(seed)
    dataset = write_dataset(tmp_path, values, labels, split, body)
    counts = class_counts(labels, split, K)
    order = by_class(labels, split, K)
    expected = whole(f"{dataset}/X")[order]
    assert (counts[5], counts[2]) == (0, 1)
    sizes = []
    for most in (1, 20, np.inf):
        rows = sorted_store(tmp_path / f"sorted-{most}", dataset, counts, most)
        assert rows.n_rows == len(order)
        found = rows.take(np.arange(rows.n_rows))
        assert isinstance(found, Csr if body in ("csr", "onehot") else Dense)
        array = found.to_array()
        assert array.dtype == np.float32
        np.testing.assert_array_equal(array, expected)
        sizes.append(len(rows.shelves))
    assert sizes[0] > sizes[1] > sizes[2] == 1


@pytest.mark.parametrize("body", ["float16", "csr", "pq"])
def test_any_numbers_are_taken_from_any_shelves(tmp_path: Path, body: str) -> None:
    values, labels, split = drawn(3)
    dataset = write_dataset(tmp_path, values, labels, split, body)
    expected = whole(f"{dataset}/X")[by_class(labels, split, K)]
    rows = sorted_store(tmp_path / "sorted", dataset, class_counts(labels, split, K), 10)
    rng = np.random.default_rng(3)
    some = [np.sort(rng.choice(rows.n_rows, n, replace=False)) for n in (1, 2, 5, 13, rows.n_rows)]
    for numbers in [*some, np.zeros(0, np.int64), np.array([rows.n_rows - 1]), np.array([0])]:
        found = rows.take(numbers)
        assert found.shape == (numbers.size, D)
        np.testing.assert_array_equal(found.to_array(), expected[numbers])
    runs = RowRuns(rows)
    assert runs.n_rows == rows.n_rows
    np.testing.assert_array_equal(runs.take(4, 17).to_array(), expected[4:17])


def test_nothing_is_taken_where_the_first_classes_have_no_rows(tmp_path: Path) -> None:
    labels, split = np.array([2, 2, 3, 3]), np.zeros(4)
    dataset = write_dataset(tmp_path, np.ones((4, 2)), labels, split)
    rows = sorted_store(tmp_path / "sorted", dataset, class_counts(labels, split, 5), 1)
    assert rows.shelves[0].n_rows == 0
    assert rows.take(np.zeros(0, np.int64)).shape == (0, 2)
    assert rows.take(np.arange(4)).shape == (4, 2)


@pytest.mark.parametrize("damage", [delete, truncate, empty, garbage])
def test_a_shelf_that_was_interrupted_is_made_again(tmp_path: Path, damage: object) -> None:
    values, labels, split = drawn(4)
    dataset = write_dataset(tmp_path, values, labels, split, "csr")
    rows = sorted_store(tmp_path / "sorted", dataset, class_counts(labels, split, K), 10)
    shelf = next(shelf for shelf in rows.shelves if shelf.n_rows)
    files = {path.name: path.read_bytes() for path in Path(rows.folder).iterdir()}
    assert damage in DAMAGES
    for path in sorted(Path(rows.folder).glob(f"shelf-{shelf.index:05d}-*.npy"))[:2]:
        damage(path)  # type: ignore[operator]
    (Path(rows.folder) / f"shelf-{shelf.index:05d}.done").unlink()
    assert sort_shelf(shelf, rows) == shelf.n_rows
    assert {path.name: path.read_bytes() for path in Path(rows.folder).iterdir()} == files


def test_a_shelf_that_is_there_is_left_alone(tmp_path: Path) -> None:
    values, labels, split = drawn(5)
    dataset = write_dataset(tmp_path, values, labels, split)
    rows = sorted_store(tmp_path / "sorted", dataset, class_counts(labels, split, K))
    nowhere = ClassRows(rows.folder, rows.store, "nowhere", rows.shelves)
    assert sort_shelf(rows.shelves[0], nowhere) == rows.n_rows


@given(counts=counts_of_classes, most=st.integers(1, 60))
def test_shelves_are_runs_of_classes_of_about_that_size(counts: list[int], most: int) -> None:
    shelves = shelves_of(np.array(counts), class_rows.SHELF_BYTES / most)
    assert [shelf.index for shelf in shelves] == list(range(len(shelves)))
    assert [shelf.first for shelf in shelves] == [0, *(shelf.last for shelf in shelves[:-1])]
    assert shelves[-1].last == len(counts)
    for shelf in shelves:
        assert shelf.n_rows == sum(counts[shelf.first : shelf.last])
        assert shelf.first_row == sum(counts[: shelf.first])
        assert shelf.n_rows <= most or shelf.last - shelf.first == 1
    for shelf, after in pairwise(shelves):
        assert shelf.n_rows + counts[after.first] > most


@given(counts=counts_of_classes, most=st.integers(0, 120))
def test_rows_are_dealt_out_as_evenly_as_classes_allow(counts: list[int], most: int) -> None:
    taken = quotas(np.array(counts), most).tolist()
    assert taken == dealt(counts, most)
    assert sum(taken) <= max(most, sum(count > 0 for count in counts))


def test_quotas_by_hand() -> None:
    assert quotas(np.array([2, 50, 0, 50, 50]), 12).tolist() == [2, 3, 0, 3, 4]
    assert quotas(np.array([5, 5, 5]), 1).tolist() == [1, 1, 1]
    assert quotas(np.array([5, 5, 5]), 15).tolist() == [5, 5, 5]


@given(counts=counts_of_classes, most=st.integers(1, 120), seed=seeds)
def test_rows_of_a_node_stand_for_all_rows_of_its_classes(counts: list[int], most: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    starts = np.concatenate([[0], np.cumsum(counts)])
    classes = np.flatnonzero(rng.random(len(counts)) < 0.7)
    classes = classes if classes.size else np.array([0])
    rows = NodeRows.of(starts, classes, most)
    of_class = np.repeat(np.arange(len(counts)), counts)
    assert rows.counts.tolist() == [counts[k] for k in classes]
    np.testing.assert_array_equal(of_class[rows.numbers], classes[rows.labels])
    assert (np.diff(rows.numbers) > 0).all()
    taken = quotas(np.array([counts[k] for k in classes]), most)
    for place, k in enumerate(classes):
        assert rows.numbers[rows.labels == place].tolist() == list(range(starts[k], starts[k] + taken[place]))
    sums = np.bincount(rows.labels, rows.weights.astype(np.float64), minlength=classes.size)
    np.testing.assert_allclose(sums, rows.counts, rtol=1e-6)
    assert rows.whole == (rows.n_rows == rows.counts.sum())
    kept = rng.random(rows.n_rows) < 0.5
    part = rows.where(kept)
    assert (part.numbers.tolist(), part.labels.tolist()) == (rows.numbers[kept].tolist(), rows.labels[kept].tolist())
    assert part.weights.tolist() == rows.weights[kept].tolist()


@given(seed=seeds, cuts=st.lists(st.integers(0, 12), max_size=4), sparse=st.booleans())
def test_parts_are_stacked_to_what_they_were_cut_from(seed: int, cuts: list[int], sparse: bool) -> None:
    values = sparse_values(seed, 12, 5).astype(np.float32)
    plain = csr_of(values)
    whole_rows = Csr(plain.data.astype(np.float32), plain.indices, plain.indptr, 5) if sparse else Dense(values)
    edges = [0, *sorted(cuts), 12]
    parts = [whole_rows.take(np.arange(a, b)) for a, b in pairwise(edges)]
    found = stacked(parts)
    assert type(found) is type(whole_rows)
    np.testing.assert_array_equal(found.to_array(), values)


def test_a_kernel_of_histograms_names_the_row_that_it_cannot_take(tmp_path: Path) -> None:
    values = np.ones((20, 3))
    split = np.repeat([0, 2], [15, 5])
    dataset = write_dataset(tmp_path / "good", values, np.zeros(20), split)
    good = [check_block(block, Kernel("chi2"), dataset) for block in blocks_of(f"{dataset}/X")]
    assert sum(good) == 20
    values[12, 1] = -2
    dataset = write_dataset(tmp_path / "bad", values, np.zeros(20), split)
    blocks = blocks_of(f"{dataset}/X")
    assert check_block(blocks[0], Kernel("histogram-intersection"), dataset) == blocks[0].n_rows
    with pytest.raises(NegativeFeature, match="-2 is below 0") as caught:
        check_block(blocks[1], Kernel("histogram-intersection"), dataset)
    assert "row 121, column 1" in caught.value.where
    assert check_block(blocks[1], Kernel("rbf"), dataset) == blocks[1].n_rows
