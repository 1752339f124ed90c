"""Kernel values in bands: the kernel's own bits, made once, read in any selection."""

from __future__ import annotations

import errno
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tasks.errors import ParamError
from tasks.files import DiskFull
from tasks.rows import Dense, Rows
from tasks.rows.base import Array
from tasks.svm import gram
from tasks.svm.gram import GramDamaged, GramStore, band_bytes, gram_bytes, read_columns, read_square, write_band
from tasks.svm.kernels import Kernel
from tests.bodies import csr_of
from tests.damage import DAMAGES, delete, empty, garbage, truncate

CHI2 = Kernel("chi2", 0.4)


class Source:
    """Rows in memory, that remembers what was read."""

    def __init__(self, rows: Rows) -> None:
        self.rows, self.n_rows = rows, rows.n_rows
        self.reads: list[tuple[int, int]] = []

    def take(self, start: int, stop: int) -> Rows:
        self.reads.append((start, stop))
        return self.rows.part(start, stop)


def values_of(n_rows: int, seed: int = 0) -> Array:
    rng = np.random.default_rng(seed)
    return rng.random((n_rows, 5)) * (rng.random((n_rows, 5)) < 0.6)


def written(
    folder: Path, n_rows: int, band_rows: int, body: Callable[[Array], Rows] = Dense
) -> tuple[GramStore, Array]:
    """A whole store, and the kernel values that it should hold."""
    rows = body(values_of(n_rows))
    folder.mkdir(exist_ok=True)
    store = GramStore(str(folder), n_rows, band_rows)
    made = [write_band(band, store, Source(rows), CHI2) for band in range(store.n_bands)]
    assert sum(made) == n_rows * n_rows
    return store, CHI2.block(rows, rows)


@pytest.fixture(scope="module")
def of_12(tmp_path_factory: pytest.TempPathFactory) -> tuple[GramStore, Array]:
    return written(tmp_path_factory.mktemp("gram"), 12, 5)


@pytest.mark.parametrize("body", [Dense, csr_of])
@pytest.mark.parametrize(("n_rows", "band_rows"), [(12, 5), (12, 4), (12, 12), (12, 100), (7, 1), (1, 3)])
def test_bands_hold_the_kernel_bit_for_bit(
    body: Any, n_rows: int, band_rows: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gram, "COLUMNS_AT_ONCE", 3)
    store, expected = written(tmp_path, n_rows, band_rows, body)
    whole = np.concatenate([store.open(band) for band in range(store.n_bands)])
    np.testing.assert_array_equal(whole, expected)
    np.testing.assert_array_equal(whole, whole.T)
    assert [store.span(band) for band in range(store.n_bands)][-1][1] == n_rows
    sizes = sorted(path.name for path in tmp_path.glob("*.npy"))
    assert sizes == [f"band-{band:05d}.npy" for band in range(-(-n_rows // band_rows))]


@given(seed=st.integers(0, 2**32 - 1))
@settings(max_examples=40, deadline=None)
def test_any_rows_and_columns_can_be_read(seed: int, of_12: tuple[GramStore, Array]) -> None:
    store, expected = of_12
    rng = np.random.default_rng(seed)
    rows, columns = rng.integers(0, 12, rng.integers(0, 20)), rng.integers(0, 12, rng.integers(0, 20))
    found = read_columns(store, rows, columns)
    assert found.dtype == np.float32
    np.testing.assert_array_equal(found, expected[rows][:, columns])
    index = np.flatnonzero(rng.random(12) < rng.random())
    square = read_square(store, index)
    assert square.dtype == np.float64
    assert square.flags.c_contiguous
    np.testing.assert_array_equal(square, expected[np.ix_(index, index)].astype(np.float64))


def test_only_the_bands_of_the_rows_asked_for_are_opened(tmp_path: Path) -> None:
    store, expected = written(tmp_path, 12, 5)
    store.path(1).unlink()
    index = np.array([0, 3, 11])
    np.testing.assert_array_equal(read_square(store, index), expected[np.ix_(index, index)])
    with pytest.raises(GramDamaged, match="band 1"):
        read_square(store, np.array([0, 5]))


def test_a_band_that_is_there_is_not_made_again(tmp_path: Path) -> None:
    store, _ = written(tmp_path, 12, 5)
    source = Source(Dense(values_of(12)))
    assert [write_band(band, store, source, CHI2) for band in range(3)] == [0, 0, 0]
    assert source.reads == []
    store.path(2).unlink()
    assert write_band(2, store, source, CHI2) == 2 * 12
    assert source.reads[0] == (10, 12)


@pytest.mark.parametrize("damage", [delete, truncate, empty, garbage])
def test_a_band_that_is_not_whole_is_named_and_made_again(damage: Callable[[Path], None], tmp_path: Path) -> None:
    assert damage in DAMAGES
    store, expected = written(tmp_path, 12, 5)
    damage(store.path(1))
    assert not store.has(1)
    with pytest.raises(GramDamaged, match="band 1") as caught:
        read_columns(store, np.array([7]), np.array([0]))
    assert caught.value.exit_code == 4
    assert write_band(1, store, Source(Dense(values_of(12))), CHI2) == 5 * 12
    np.testing.assert_array_equal(store.open(1), expected[5:10])


@pytest.mark.parametrize("values", [np.zeros((5, 11), np.float32), np.zeros((4, 12), np.float32), np.zeros((5, 12))])
def test_a_band_of_another_shape_is_none(values: Array, tmp_path: Path) -> None:
    store, _ = written(tmp_path, 12, 5)
    np.save(store.path(1), values)
    assert not store.has(1)
    with pytest.raises(GramDamaged, match="shape"):
        store.open(1)


def test_an_unpickled_object_is_no_band(tmp_path: Path) -> None:
    store, _ = written(tmp_path, 12, 5)
    np.save(store.path(0), np.array([{"a": 1}]), allow_pickle=True)
    assert not store.has(0)


def test_a_full_disk_is_named_and_leaves_no_band(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "no space left on device")

    shutil.rmtree(tmp_path / "gram", ignore_errors=True)
    (tmp_path / "gram").mkdir()
    store = GramStore(str(tmp_path / "gram"), 12, 5)
    monkeypatch.setattr(np.lib.format, "write_array_header_1_0", full)
    with pytest.raises(DiskFull, match="240 bytes"):
        write_band(0, store, Source(Dense(values_of(12))), CHI2)
    assert not store.has(0)


def test_bytes_are_those_of_the_values(tmp_path: Path) -> None:
    store, _ = written(tmp_path, 12, 5)
    arrays = sum(store.open(band).nbytes for band in range(store.n_bands))
    assert arrays == gram_bytes(12) == 4 * 144
    assert band_bytes(12, 5, 7) == 4 * (5 * 12 + 5 * 7 + 12 * 7 + 5 * 12)


def test_bands_have_rows() -> None:
    with pytest.raises(ParamError, match="band_rows"):
        GramStore("x", 3, 0)
    assert GramStore("x", 0, 4).n_bands == 0
