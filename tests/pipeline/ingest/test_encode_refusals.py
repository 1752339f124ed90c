"""What `ingest --encode pq` refuses before it encodes, and what it says to natural mistakes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.sparse

from pipeline.commands import inspect
from pipeline.dataset import COLUMNS
from pipeline.ingest import MadeRows, coded_stream, ingest
from pipeline.ingest.coder import Coder
from pipeline.ingest.errors import (
    ColumnMismatch,
    FeatureDtype,
    FeatureRange,
    FeatureShape,
    LabelOutOfRange,
    LabelsMissing,
    LengthMismatch,
    SourceMissing,
    SplitFormat,
    TaxonomyFormat,
    TaxonomyMissingClass,
    UnknownInput,
)
from pipeline.ingest.threads import in_order
from tasks import io
from tasks.errors import ParamError
from tasks.quantize.pq import PqParams, PQShape, PQTooFewRows
from tasks.seeds import stream

N_ROWS, N_FEATURES, MADE = 240, 12, 20
ENCODE: dict[str, Any] = {"encode": "pq", "subquantizers": 4, "bits": 4, "iterations": 1, "block_rows": 64}
ROWS = np.random.default_rng(3).standard_normal((N_ROWS, N_FEATURES)).astype(np.float32)
LABELS = np.arange(N_ROWS) % 3


class Counted:
    """Makes blocks, and counts them."""

    def __init__(self, labelled: bool, rows: np.ndarray = ROWS) -> None:
        self.labelled, self.rows, self.made = labelled, rows, 0

    def __call__(self, number: int) -> Any:
        self.made += 1
        where = slice(number * MADE, (number + 1) * MADE)
        return (self.rows[where], LABELS[where]) if self.labelled else self.rows[where]


def made(make: Callable[[int], Any], **changes: Any) -> MadeRows:
    return MadeRows(**{"make": make, "n_rows": N_ROWS, "n_features": N_FEATURES, "block_rows": MADE} | changes)


def write_parquet(path: Path, rows: np.ndarray, label: str | None = "label") -> Path:
    columns = {f"f{i}": rows[:, i] for i in range(rows.shape[1])}
    pq.write_table(pa.table(columns | ({label: LABELS} if label else {})), path, row_group_size=MADE)
    return path


# ---- before rows are encoded -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("error", "labelled", "options"),
    [
        (LabelsMissing, False, {}),
        (SourceMissing, False, {"labels": "nowhere.txt"}),
        (LengthMismatch, False, {"labels": LABELS[1:]}),
        (TaxonomyFormat, True, {"taxonomy": {"nodes": 5}}),
        (TaxonomyMissingClass, False, {"labels": LABELS, "taxonomy": {"a": ["0", "1"]}}),
        (LengthMismatch, True, {"split": ["train"] * 9}),
        (SplitFormat, True, {"split": "nowhere.txt"}),
        (ColumnMismatch, True, {"n_features": 17}),
        (ParamError, True, {"block_rows": 2**40}),
        (ColumnMismatch, True, {"test_source": ROWS[:, :3], "test_labels": LABELS}),
        (ColumnMismatch, True, {"test_source": iter([(ROWS[:, :3], LABELS)])}),
        (LabelsMissing, True, {"test_source": iter([ROWS])}),
        (ParamError, True, {"labels": LABELS}),
    ],
)
def test_what_can_be_known_is_refused_before(tmp_path: Path, error: Any, labelled: bool, options: Any) -> None:
    """One block is made, to see what rows are like."""
    make = Counted(labelled)
    with pytest.raises(error):
        ingest(made(make, about=1), tmp_path / "d", **ENCODE | options)
    assert make.made == 1
    assert not list(tmp_path.iterdir())


def test_files_are_asked_before_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(coded_stream, "sample_of", None)
    rows, other = write_parquet(tmp_path / "x.parquet", ROWS), write_parquet(tmp_path / "t.parquet", ROWS[:, :6])
    bare = write_parquet(tmp_path / "bare.parquet", ROWS, None)
    for error, source, options in (
        (ColumnMismatch, rows, {"test_source": other}),
        (LabelsMissing, bare, {}),
        (LengthMismatch, bare, {"labels": LABELS[:-1]}),
        (TaxonomyMissingClass, rows, {"taxonomy": {"a": ["0", "1"]}}),
    ):
        with pytest.raises(error):
            ingest(source, tmp_path / "d", **ENCODE | options)


def test_of_an_iterator_files_are_looked_at_before(tmp_path: Path) -> None:
    given: list[int] = []

    def rows() -> Any:
        for number in range(N_ROWS // MADE):
            given.append(number)
            yield ROWS[number * MADE : (number + 1) * MADE]

    for error, options in (
        (SourceMissing, {"labels": "nowhere.txt"}),
        (SplitFormat, {"labels": LABELS, "split": "nowhere.txt"}),
        (TaxonomyFormat, {"labels": LABELS, "taxonomy": {"nodes": 5}}),
    ):
        given.clear()
        with pytest.raises(error):
            ingest(rows(), tmp_path / "d", **ENCODE | options)
        assert given == [0]


def test_room_is_asked_for_all_that_will_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Codes twice, of the copy and of the dataset; labels beside the copy; the dataset's columns."""
    asked: list[int] = []
    monkeypatch.setattr(coded_stream.Spool, "need", lambda _self, nbytes: asked.append(nbytes))
    dataset = ingest(made(Counted(True)), tmp_path / "d", **ENCODE)
    columns = sum(io.read_column(dataset.path, name).itemsize for name in COLUMNS)
    assert asked == [N_ROWS * (4 + 8 + 4 + columns)]


# ---- samples larger than all rows ------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", ["made", "parquet"])
def test_a_sample_takes_no_more_room_than_there_are_rows(tmp_path: Path, form: str) -> None:
    source: Any = made(Counted(True)) if form == "made" else write_parquet(tmp_path / "x.parquet", ROWS)
    found = ingest(source, tmp_path / "d", max_bytes=2**45, sample=10**9, **ENCODE)
    few = ingest(source, tmp_path / "e", sample=N_ROWS, **ENCODE)
    np.testing.assert_array_equal(found.codebooks, few.codebooks)


def test_of_an_iterator_a_sample_grows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(coded_stream, "FEWEST", 3)
    coder = Coder(PqParams(4, 4, sample=10**9), 0, True, 2**50)
    chain = coded_stream.Chain([coded_stream.IteratorStream(iter([ROWS[:100], ROWS[100:]]))])
    np.testing.assert_array_equal(coded_stream.sample_of(chain, coder), ROWS)


# ---- natural mistakes ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("error", "words", "make"),
    [
        (FeatureShape, ("list", "tuple"), lambda _: [ROWS[:MADE], LABELS[:MADE]]),
        (FeatureDtype, ("sparse", "toarray"), lambda _: scipy.sparse.csr_matrix(ROWS[:MADE])),
        (FeatureDtype, ("Python objects",), lambda _: {"rows": 3}),
        (LabelOutOfRange, ("names no class", "row 0"), lambda _: (ROWS[:MADE], np.full(MADE, 2**63, np.uint64))),
        (ColumnMismatch, ("7 columns", "block 0"), lambda _: (ROWS[:MADE, :7], LABELS[:MADE])),
    ],
)
def test_what_functions_give_by_mistake(assert_refused: Any, error: Any, words: Any, make: Any) -> None:
    assert_refused(error, *words, source=made(make), labels=None, **ENCODE)
    if error is not ColumnMismatch:
        assert_refused(error, *(words[:1]), source=map(make, range(3)), labels=None, **ENCODE)


def test_rows_in_a_list(assert_refused: Any) -> None:
    for source in ([made(Counted(True))], [made(Counted(True), about=1)], [(ROWS, LABELS)], [ROWS]):
        assert_refused(UnknownInput, "a list of", source=source, labels=None, **ENCODE)
    assert_refused(ParamError, "bits = '4'", "whole number", exit_code=2, encode="pq", bits="4")
    assert_refused(ParamError, "seed = 1.5", "whole number", exit_code=2, seed=1.5)
    with pytest.raises(ParamError, match=r"n_rows = 1200.0: expected a whole number"):
        made(Counted(True), n_rows=1200.0)


def test_whole_numbers_of_numpy(tmp_path: Path) -> None:
    plain = ingest(made(Counted(True)), tmp_path / "d", seed=3, **ENCODE)
    words = {name: np.int64(value) for name, value in ENCODE.items() if isinstance(value, int)}
    source = made(Counted(True), n_rows=np.int64(N_ROWS), block_rows=np.int32(MADE))
    assert ingest(source, tmp_path / "e", seed=np.int64(3), encode="pq", **words).digest == plain.digest
    assert ingest(ROWS, tmp_path / "f", labels=LABELS, seed=np.int64(3)).n_rows == N_ROWS


def test_errors_have_the_words_of_ingest(assert_refused: Any) -> None:
    said = assert_refused(
        PQShape, "--subquantizers", exit_code=2, source=ROWS, labels=LABELS, encode="pq", subquantizers=5
    )
    assert "pca" not in str(said)
    assert_refused(PQTooFewRows, "--bits", source=made(Counted(True)), labels=None, encode="pq")


def test_columns_have_their_names(tmp_path: Path) -> None:
    rows = ROWS.astype(np.float64)
    rows[30, 3] = 3e25
    source = write_parquet(tmp_path / "x.parquet", rows)
    with pytest.raises(FeatureRange, match=r"row 30, column 3 \('f3'\)"):
        ingest(source, tmp_path / "d", **ENCODE)


@pytest.mark.parametrize("form", ["made", "array"])
def test_values_whose_squared_distances_overflow(tmp_path: Path, form: str) -> None:
    """As many as have room are encoded well: parts of 3 features, each of whose squares may be 4 times as large."""
    most = np.sqrt(np.finfo(np.float32).max / 12)
    for peak in (0.99 * most, 1.01 * most):
        rows = (ROWS / np.abs(ROWS).max() * peak).astype(np.float32)
        source, options = (made(Counted(True, rows)), {}) if form == "made" else (rows, {"labels": LABELS})
        if peak > most:
            with pytest.raises(FeatureRange, match=r"up to 5.33e\+18"):
                ingest(source, tmp_path / "e", **ENCODE | options)
        else:
            assert 0 < (ingest(source, tmp_path / "d", **ENCODE | options).encoding or {})["relative_error"] < 0.5


# ---- what is kept ----------------------------------------------------------------------------------------------------


def test_what_rows_say_of_themselves_is_kept(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ingest(made(Counted(True), about={"seed": 7}), tmp_path / "d", **ENCODE)
    inspect(tmp_path / "d")
    assert '"about": {"seed": 7}' in capsys.readouterr().out


def test_errors_of_items_come_in_their_turn() -> None:
    def items() -> Any:
        yield from range(5)
        raise ValueError("the sixth")

    for threads in (1, 3):
        results = in_order(lambda one: one, items(), threads)
        assert [next(results) for _ in range(5)] == list(range(5))
        with pytest.raises(ValueError, match="the sixth"):
            next(results)


def test_keys_are_the_same_however_they_are_drawn() -> None:
    whole, parts = stream(1, "ingest", "sample").random(100), stream(1, "ingest", "sample")
    np.testing.assert_array_equal(whole, np.concatenate([parts.random(n) for n in (1, 30, 69)]))
