"""Rows that are no numbers, blocks that cannot be had, places that cannot be written; a failed fit changes nothing."""

from __future__ import annotations

import os
import resource
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from decimal import Decimal
from pathlib import Path
from typing import Any

import dask.array as da
import numpy as np
import pandas as pd
import pytest
import scipy.sparse
import zarr
from sklearn.base import clone

from pipeline import AveragedSGDClassifier, KMeansTreeClassifier, ProductQuantizer, TrainedClassifier, WTAHasher
from pipeline.errors import RunLocked
from pipeline.estimators import BadRows, NoNumbers, fitting, gradual
from pipeline.last_resort import FileAccess
from tasks.errors import LabelgroveError
from tasks.files import DiskFull
from tests.pipeline.estimators.small import name_of, problem

QUICK: dict[str, Any] = {"rounds": 1, "least_rows": 500}
ROWS, LABELS = problem(40, 4)


@pytest.fixture(scope="module")
def fitted() -> Any:
    return AveragedSGDClassifier(**QUICK).fit(ROWS, LABELS)


def frame(column: Any) -> Any:
    return pd.DataFrame({"a": np.arange(40.0), "b": column})


def with_one(value: Any) -> Any:
    rows = ROWS.astype(object)
    rows[3, 2] = value
    return rows


NO_NUMBERS: dict[str, tuple[Any, str]] = {
    "text": (ROWS.astype(str), r"X holds text \(dtype <U\d+\), where numbers are expected \[X, row 0, column 0\]"),
    "bytes": (ROWS.astype("S"), "X holds bytes"),
    "dates": (np.zeros((40, 8), "M8[s]"), "X holds dates"),
    "spans": (np.zeros((40, 8), "m8[s]"), "X holds time spans"),
    "lists-of-text": ([["1", "2"]] * 40, "X holds text"),
    "lists-with-text": ([[1, "2"]] * 40, "X holds text"),
    "complex": (ROWS + 1j, r"Complex data not supported: X is of dtype complex64 \[X\]"),
    "frame-complex": (frame([1j] * 40), r"Complex data not supported: .*\[X, column 1\]"),
    "sparse-complex": (scipy.sparse.csr_matrix(ROWS + 1j), "Complex data not supported"),
    "object-text": (with_one("1.5"), r"X holds text, '1.5', .*\[X, row 3, column 2\]"),
    "object-dict": (with_one({}), r"float\(\) argument must be a string or a real number, not 'dict' \[X, row 3, colu"),
    "object-date": (with_one(np.datetime64("2020-01-01")), r"not 'datetime64' \[X, row 3, column 2\]"),
    "object-span": (with_one(np.timedelta64(1, "D")), "not 'timedelta64'"),
    "object-none": (with_one(None), "not 'NoneType'"),
    "object-huge": (with_one(10**400), r"a int in X cannot be converted: int too large.*\[X, row 3, column 2\]"),
    "frame-text": (frame(["1.5"] * 40), r"X holds text, '1.5', .*\[X, row 0, column 1\]"),
    "frame-dates": (frame(pd.to_datetime(["2020-01-01"] * 40)), r"X holds dates .*\[X, row 0, column 1\]"),
    "frame-category": (frame(pd.Categorical(["1", "2"] * 20)), r"X holds text.*\[X, row 0, column 1\]"),
}


@pytest.mark.parametrize("kind", NO_NUMBERS)
def test_rows_that_are_no_numbers(kind: str, fitted: Any) -> None:
    rows, said = NO_NUMBERS[kind]
    for work in (
        lambda: clone(fitted).fit(rows, LABELS),
        lambda: clone(fitted).partial_fit(rows, LABELS, np.unique(LABELS)),
        lambda: fitted.predict(rows),
        lambda: ProductQuantizer(bits=2).fit(rows),
        lambda: WTAHasher(8, window=2).fit(rows),
    ):
        with pytest.raises(NoNumbers, match=said) as found:
            work()
        assert isinstance(found.value, BadRows)
        assert isinstance(found.value, TypeError)


FORMS: dict[str, Callable[[Any], Any]] = {
    "array": np.asarray,
    "float16": np.float16,
    "object": lambda rows: rows.astype(object),
    "lists": lambda rows: rows.tolist(),
    "frame": pd.DataFrame,
    "csr": scipy.sparse.csr_matrix,
    "csc": scipy.sparse.csc_matrix,
}


@pytest.mark.parametrize(("value", "word"), [(np.nan, "NaN"), (-np.inf, "infinity")], ids=["nan", "inf"])
@pytest.mark.parametrize("form", FORMS)
def test_rows_that_are_not_finite(form: str, value: float, word: str, fitted: Any) -> None:
    rows = ROWS.copy()
    rows[[5, 7, 5], [6, 0, 3]] = value
    for work in (fitted.predict, lambda given: clone(fitted).fit(given, LABELS)):
        with pytest.raises(BadRows, match=rf"Input X contains {word}.*\[X, row 5, column 3\]"):
            work(FORMS[form](rows))


def test_rows_and_labels_are_never_written_into_a_message(fitted: Any) -> None:
    large = ROWS.astype(np.float64)
    large[3, 1] = 1e300
    with pytest.raises(BadRows, match=r"too large .*\[X, row 3, column 1 of these 40 rows\]"):
        fitted.predict(large)
    with pytest.raises(BadRows, match=r"Expected 2D array, got 1D array instead.*\n.*Reshape your data"):
        fitted.predict(ROWS[0])
    with pytest.raises(BadRows, match=r"Complex data not supported: y is of dtype complex128 \[y\]"):
        clone(fitted).fit(ROWS, np.arange(40) + 1j)
    with pytest.raises(BadRows, match=r"Input y contains infinity.*\[y, row 2\]"):
        clone(fitted).fit(ROWS, [0, 1, np.inf, 3] * 10)


@pytest.mark.parametrize("kind", ["object", "decimal", "bool", "uint8", "frame", "frame-Int64"])
def test_rows_that_are_numbers(kind: str) -> None:
    whole = np.round(ROWS)
    rows = {
        "object": lambda: whole.astype(object),
        "decimal": lambda: np.array([[Decimal(int(value)) for value in row] for row in whole]),
        "bool": lambda: ROWS > 0,
        "uint8": lambda: np.abs(whole).astype(np.uint8),
        "frame": lambda: pd.DataFrame(whole),
        "frame-Int64": lambda: pd.DataFrame(whole).astype({0: "Int64", 1: bool, 2: "category"}),
    }[kind]()
    expected = AveragedSGDClassifier(**QUICK).fit(np.asarray(rows).astype(np.float32), LABELS)
    assert AveragedSGDClassifier(**QUICK).fit(rows, LABELS).model_.digest == expected.model_.digest


def test_masked_rows(fitted: Any) -> None:
    masked = np.ma.array(ROWS, mask=np.zeros(ROWS.shape, bool))
    assert clone(fitted).fit(masked, LABELS).model_.digest == fitted.model_.digest
    masked[35, 6] = masked[36, 0] = np.ma.masked
    lazy = da.from_array(masked, chunks=(10, 8), asarray=False)
    said = r"2 values of the masked array X are masked \[X, row 35, column 6\]"
    for work in (fitted.predict, ProductQuantizer(bits=2).fit, lambda rows: clone(fitted).fit(rows, LABELS)):
        with pytest.raises(BadRows, match=said):
            work(masked)
    with pytest.raises(BadRows, match=said):
        clone(fitted).fit(lazy, LABELS)
    with pytest.raises(BadRows, match="2 values of the masked array X"):
        fitted.predict(lazy).compute()


# ---- blocks that cannot be had -----------------------------------------------------------------------------------


def failing(error: Exception) -> Any:
    """Rows of Dask whose third block raises."""

    def work(block: Any, block_info: Any = None) -> Any:
        if block_info and block_info[0]["chunk-location"][0] == 2:
            raise error
        return block

    return da.from_array(ROWS, chunks=(15, 8)).map_blocks(work, meta=ROWS[:0])


def test_a_block_that_raises_is_named(fitted: Any) -> None:
    said = r"block 2 of 3 of the Dask array \(rows 30 to 39\) cannot be computed \(OSError: no such sector\)"
    with pytest.raises(BadRows, match=said) as found:
        clone(fitted).fit(failing(OSError("no such sector")), LABELS)
    assert isinstance(found.value.__cause__, OSError)
    with pytest.raises(BadRows, match=said):
        ProductQuantizer(bits=2).fit(failing(OSError("no such sector")))
    unknown = failing(ValueError("a\x1b\nb"))[da.ones(40, chunks=15) > 0]
    said = r"block 2 of 3 .*\(from row 30 on\) cannot be computed \(ValueError: a\uFFFD\) \[X\]"
    with pytest.raises(BadRows, match=said):
        clone(fitted).fit(unknown, LABELS)
    with pytest.raises(RunLocked):  # a named error stays what it is
        clone(fitted).fit(failing(RunLocked("who", "where", "what")), LABELS)
    with pytest.raises(MemoryError):
        clone(fitted).fit(failing(MemoryError()), LABELS)


def test_labels_of_dask_that_raise_are_named(fitted: Any) -> None:
    numbers = da.from_array(np.arange(40) % 4, chunks=15).map_blocks(lambda block: block // 0 if len(block) else block)
    with (
        np.errstate(divide="raise"),
        pytest.raises(BadRows, match=r"labels of Dask cannot be computed \(FloatingPoint"),
    ):
        clone(fitted).fit(ROWS, numbers)


def test_a_chunk_of_zarr_that_cannot_be_read_is_named(fitted: Any, tmp_path: Path) -> None:
    array = zarr.create_array(str(tmp_path / "x"), shape=ROWS.shape, chunks=(20, 8), dtype=ROWS.dtype)
    array[:] = ROWS
    (tmp_path / "x" / "c" / "1" / "0").write_bytes(b"damaged")
    for work in (lambda: clone(fitted).fit(array, LABELS), lambda: fitted.predict(array)):
        with pytest.raises(BadRows, match=r"the zarr array \(rows 0 to 39\) cannot be read \(.*\[.*x\]") as found:
            work()
        assert found.value.__cause__ is not None


# ---- a failed fit changes nothing --------------------------------------------------------------------------------


def state(estimator: Any) -> dict[str, Any]:
    return {key: id(value) for key, value in vars(estimator).items()}


@pytest.mark.parametrize(
    "estimator",
    [AveragedSGDClassifier(**QUICK), KMeansTreeClassifier(**QUICK), ProductQuantizer(bits=2), WTAHasher(8, window=2)],
    ids=name_of,
)
def test_a_failed_fit_changes_nothing(estimator: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    named = pd.DataFrame(ROWS, columns=list("abcdefgh"))
    one = clone(estimator).fit(named, LABELS)
    before = state(one)
    wide = np.repeat(ROWS, 2, axis=1)

    def refits() -> Iterator[Callable[[], Any]]:
        yield lambda: one.fit(wide[:0], LABELS[:0])
        yield lambda: one.fit(np.where(wide > 5, np.nan, wide), LABELS)
        if not isinstance(one, WTAHasher):  # which reads no values
            yield lambda: one.fit(failing(ValueError("x")), LABELS)
            yield lambda: one.set_params(folder="nowhere").fit(wide, LABELS)

    for refit in refits():
        with pytest.raises((ValueError, LabelgroveError)):
            refit()
        one.set_params(**estimator.get_params())
        assert state(one) == before
    if not isinstance(one, WTAHasher):
        monkeypatch.setattr(fitting, "train_only", interrupted)
        with pytest.raises(KeyboardInterrupt):
            one.fit(wide, LABELS)
        assert state(one) == before
    new = clone(estimator)
    with pytest.raises(ValueError, match="NaN"):
        new.fit(np.full((40, 8), np.nan), LABELS)
    assert state(new).keys() == estimator.get_params().keys()


def interrupted(*_: Any) -> Any:
    raise KeyboardInterrupt


def test_a_failed_partial_fit_changes_nothing(fitted: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    one = clone(fitted).partial_fit(ROWS, LABELS, np.unique(LABELS))
    before, weights = state(one), one.model_.model.weights.copy()
    with pytest.raises(ValueError, match="features"):
        one.partial_fit(ROWS[:, :3], LABELS)
    monkeypatch.setattr(gradual, "class_table", interrupted)  # when the round is done
    with pytest.raises(KeyboardInterrupt):
        one.partial_fit(ROWS, LABELS)
    assert state(one) == before
    np.testing.assert_array_equal(one.model_.model.weights, weights)


# ---- places that cannot be written -------------------------------------------------------------------------------


LONG = "x" * 300


@pytest.mark.parametrize("place", ["file/model", LONG, "a\0b", "/proc/model", "/dev/null/model"])
def test_places_of_models_that_cannot_be(place: str, fitted: Any, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    folder = tmp_path / place
    with pytest.raises(FileAccess) as found:
        fitted.save(folder)
    assert repr(place)[1:-1].partition("/model")[0] in str(found.value)
    for load in (AveragedSGDClassifier.load, TrainedClassifier.load):
        with pytest.raises(LabelgroveError):
            load(folder)
    assert (tmp_path / "file").read_text() == "mine"
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


@contextmanager
def largest_file(nbytes: int) -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (nbytes, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.mark.parametrize("kind", ["memory", "dask", "save"])
def test_no_room_is_named(kind: str, fitted: Any, tmp_path: Path) -> None:
    rows = np.random.default_rng(0).normal(size=(40, 2000)).astype(np.float32)
    given = da.from_array(rows, chunks=(10, 2000)) if kind == "dask" else rows
    asked = clone(fitted).set_params(folder=str(tmp_path))
    if kind == "save":
        asked.fit(rows, LABELS)
    with pytest.raises(DiskFull) as found, largest_file(4096):
        asked.save(tmp_path / "m") if kind == "save" else asked.fit(given, LABELS)
    assert str(tmp_path) in found.value.where
    assert found.value.hint == "free some space and call fit again"
    assert list(tmp_path.iterdir()) == []


def test_no_folder_for_temporary_files(fitted: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(fitting, "MEMORY_FILES", tmp_path / "absent")
    monkeypatch.setattr(tempfile, "tempdir", None)
    for name in ("TMPDIR", "TEMP", "TMP"):
        monkeypatch.setenv(name, "/proc")
    monkeypatch.setattr(tempfile, "_candidate_tempdir_list", lambda: ["/proc"])
    with pytest.raises(FileAccess, match=r"No usable temporary directory.*\n.*TMPDIR"):
        clone(fitted).fit(ROWS, LABELS)
    with pytest.raises(FileAccess, match=r"\[/proc/labelgrove-fit-"):
        clone(fitted).set_params(folder="/proc").fit(ROWS, LABELS)
    monkeypatch.setattr(tempfile, "tempdir", os.devnull)
    with pytest.raises(FileAccess, match=r"Not a directory \[/dev/null"):
        clone(fitted).fit(ROWS, LABELS)
