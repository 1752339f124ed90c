"""Rows that ingest keeps as codes alone: of files, functions, iterators; interrupted and bad ones; what uses them."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.sparse

from pipeline.commands import inspect
from pipeline.dataset import Dataset, DatasetDamaged
from pipeline.foreign import foreign_to_dataset
from pipeline.ingest import MadeRows, coded_stream, ingest, spool, writer
from pipeline.ingest.errors import (
    ColumnMismatch,
    EncodingUnfit,
    FeatureDtype,
    FeatureRange,
    FeatureShape,
    LabelDtype,
    LengthMismatch,
    NonFiniteFeature,
)
from pipeline.plan import make_plan
from tasks import io
from tasks.errors import ArtefactError, ParamError
from tasks.quantize.pq import PQShape, PQTooFewRows, encode
from tasks.rows import Dense
from tasks.seeds import stream
from tests.pipeline.cli_caller import assert_refused as refuses
from tests.pipeline.cli_caller import succeeds
from tests.pipeline.ingest.samples import X
from tests.systems.harness import assert_raw_rows_rank_as_in_the_run, environment, run_here

N_ROWS, N_FEATURES, MADE = 560, 12, 50
N_MADE = 12
ENCODE: dict[str, Any] = {"encode": "pq", "subquantizers": 4, "bits": 4, "iterations": 2, "block_rows": 64}
RNG = np.random.default_rng(5)
LABELS = np.sort(RNG.integers(0, 4, N_ROWS))
ROWS = (RNG.standard_normal((4, N_FEATURES))[LABELS] * 2 + RNG.standard_normal((N_ROWS, N_FEATURES))).astype(np.float32)
ROWS[7] = 0
FORMS = ["npy", "parquet", "made", "iterator"]


def block_of(number: int) -> tuple[np.ndarray, np.ndarray]:
    where = slice(number * MADE, (number + 1) * MADE)
    return ROWS[where], LABELS[where]


def made(make: Callable[[int], Any] = block_of, **changes: Any) -> MadeRows:
    return MadeRows(**{"make": make, "n_rows": N_ROWS, "n_features": N_FEATURES, "block_rows": MADE} | changes)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """rows.npy, labels.npy, rows.parquet with labels; d.zarr as encoded from rows.npy."""
    folder = tmp_path_factory.mktemp("encode")
    write(folder, ROWS)
    ingest(folder / "rows.npy", folder / "d.zarr", labels=folder / "labels.npy", **ENCODE)
    return folder


def write(folder: Path, rows: np.ndarray) -> None:
    np.save(folder / "rows.npy", rows)
    np.save(folder / "labels.npy", LABELS)
    table = pa.table({"rows": pa.array(list(rows)), "label": LABELS})
    pq.write_table(table, folder / "rows.parquet", row_group_size=90)


def encoded(form: str, folder: Path, place: Path, **options: Any) -> Dataset:
    """The same rows, in one of FORMS."""
    options = ENCODE | options
    if form == "npy":
        return ingest(folder / "rows.npy", place, labels=folder / "labels.npy", **options)
    if form == "parquet":
        return ingest(folder / "rows.parquet", place, **options)
    if form == "made":
        return ingest(made(about={"rows": 5}), place, **options)
    return ingest(map(block_of, range(N_MADE)), place, **options)


def codes_of(dataset: Dataset) -> np.ndarray:
    """In the order of the source."""
    found = np.zeros((N_ROWS, 4), np.uint8)
    for block in dataset.blocks():
        found[io.read_row_ids(dataset.path, block.start, block.stop)] = io.load_rows(block).codes
    return found


def lost(dataset: Dataset) -> float:
    assert dataset.encoding is not None
    return float(dataset.encoding["relative_error"])


# ---- what is made --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", FORMS)
def test_a_dataset_holds_the_codes_of_all_rows(files: Path, tmp_path: Path, form: str) -> None:
    dataset = encoded(form, files, tmp_path / "d.zarr")
    assert (dataset.body, dataset.dtype, dataset.n_rows, dataset.n_features) == ("pq", "uint8", N_ROWS, N_FEATURES)
    books = dataset.codebooks
    assert books is not None
    assert books.shape == (4, 16, 3)
    np.testing.assert_array_equal(codes_of(dataset), encode(ROWS, books))
    labels = np.concatenate([io.read_labels(dataset.path, block.start, block.stop) for block in dataset.blocks()])
    ids = np.concatenate([io.read_row_ids(dataset.path, block.start, block.stop) for block in dataset.blocks()])
    np.testing.assert_array_equal(labels, LABELS[ids])
    told = dataset.encoding
    assert told is not None
    assert {key: told[key] for key in ("kind", "subquantizers", "bits", "sample", "seed")} == {
        "kind": "pq", "subquantizers": 4, "bits": 4, "sample": 16384, "seed": 0
    }  # fmt: skip
    away = ROWS - books[np.arange(4), encode(ROWS, books)].reshape(N_ROWS, -1)
    assert told["relative_error"] == pytest.approx(float((away**2).sum() / (ROWS.astype(float) ** 2).sum()), rel=1e-5)
    notes = {note.code: note.text for note in dataset.notes}
    assert "4 codes" in notes["Encoded"]
    assert notes["ZeroRows"].startswith("1 rows")
    assert not list(dataset.problems())
    assert foreign_to_dataset(dataset) == []
    assert sum(path.stat().st_size for path in Path(dataset.path, "X", "codes").rglob("*")) < 4 * N_ROWS + 50_000


def test_rows_from_first_to_last_come_to_the_same_whatever_gives_them(files: Path, tmp_path: Path) -> None:
    found = {form: encoded(form, files, tmp_path / form).digest for form in FORMS[1:]}
    assert len(set(found.values())) == 1


@pytest.mark.parametrize("form", ["npy", "parquet", "made"])
def test_threads_and_sizes_of_pieces_change_nothing(
    files: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, form: str
) -> None:
    alone = encoded(form, files, tmp_path / "alone")
    for module in (writer, coded_stream):
        monkeypatch.setattr(module, "n_threads", lambda: 3)
    several = encoded(form, files, tmp_path / "several")
    assert (several.digest, several.encoding) == (alone.digest, alone.encoding)
    monkeypatch.setattr(coded_stream, "PIECE_BYTES", 4 * N_FEATURES * 17)
    pieces = encoded(form, files, tmp_path / "pieces")
    assert pieces.digest == alone.digest
    assert lost(pieces) == pytest.approx(lost(alone), rel=1e-9)


def test_the_sample_is_the_training_rows_of_files_and_the_first_rows_of_others(files: Path, tmp_path: Path) -> None:
    """Rows sorted by class: of those that come first, codebooks say little of the others, and that is told."""
    options: dict[str, Any] = {"sample": 64, "bits": 2, "subquantizers": 1}
    found = {form: encoded(form, files, tmp_path / form, **options) for form in ("npy", "parquet", "iterator")}
    for form in ("parquet", "iterator"):
        assert lost(found[form]) > 1.5 * lost(found["npy"])
    told = [form for form in found if any(note.code == "SampleUnlike" for note in found[form].notes)]
    assert told == ["parquet", "iterator"]


@pytest.mark.parametrize("size", [1, 7, 560])
def test_the_sample_is_the_rows_with_the_smallest_keys(size: int) -> None:
    """Of the first rows, those that are finite, however they are cut."""
    rows, wanted, first = ROWS.astype(np.float64), 30, 120
    rows[2], rows[50], rows[90] = np.nan, 1e300, np.inf
    keys = stream(3, "ingest", "sample").random(first)
    usable = [row for row in range(first) if row not in (2, 50, 90)]
    expected = rows[sorted(usable, key=lambda row: keys[row])[:wanted]].astype(np.float32)
    slabs = (Dense(rows[start : start + size]) for start in range(0, N_ROWS, size))
    found = coded_stream._drawn(slabs, wanted, first, 3)
    assert sorted(map(bytes, found)) == sorted(map(bytes, expected))
    few = coded_stream._drawn(iter([Dense(rows[:20])]), wanted, first, 3)
    np.testing.assert_array_equal(few, np.delete(rows[:20], 2, axis=0).astype(np.float32))


def test_halves_and_parts_that_come_apart(files: Path, tmp_path: Path) -> None:
    """A test part of another kind of source is encoded with the codebooks of the training rows."""
    halves = ROWS.astype(np.float16)
    for place, rest in (("file", files / "rows.parquet"), ("made", made())):
        dataset = ingest(halves, tmp_path / place, labels=LABELS, test_source=rest, **ENCODE)
        assert dataset.split_counts["test"] == N_ROWS
        assert dataset.codebooks is not None
        block = dataset.blocks()[-1]
        ids = io.read_row_ids(dataset.path, block.start, block.stop) - N_ROWS
        np.testing.assert_array_equal(io.load_rows(block).codes, encode(ROWS[ids], dataset.codebooks))
    first = ingest(made(), tmp_path / "first", test_source=halves, test_labels=LABELS, **ENCODE)
    block = first.blocks()[-1]
    ids = io.read_row_ids(first.path, block.start, block.stop) - N_ROWS
    np.testing.assert_array_equal(io.load_rows(block).codes, encode(halves[ids], first.codebooks))


@pytest.mark.parametrize("source", [made, lambda: map(block_of, range(N_MADE))], ids=["made", "iterator"])
def test_made_rows_are_kept_as_they_are_where_nobody_asks_for_codes(
    files: Path, tmp_path: Path, source: Callable[[], Any]
) -> None:
    plain = ingest(files / "rows.npy", tmp_path / "plain", labels=LABELS)
    assert ingest(source(), tmp_path / "d").digest == plain.digest
    without = made(lambda number: block_of(number)[0])
    assert ingest(without, tmp_path / "apart", labels=LABELS).digest == plain.digest


# ---- interrupted ---------------------------------------------------------------------------------------------------


def interrupted_at(count: int) -> Callable[..., None]:
    """A callback that is interrupted at its n-th call."""
    left = [count]

    def call(*_: int) -> None:
        left[0] -= 1
        if left[0] == 0:
            raise KeyboardInterrupt

    return call


@pytest.mark.parametrize("form", ["npy", "parquet", "made"])
def test_interrupted_at_every_moment(files: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, form: str) -> None:
    """Ctrl-C at every call of the progress lines in turn, each continued once and then interrupted again."""
    monkeypatch.setattr(spool, "MARK_BYTES", 1)
    monkeypatch.setattr(coded_stream, "PIECE_BYTES", 4 * N_FEATURES * 50)
    expected = encoded(form, files, tmp_path / "whole")
    moments = 0
    for count in range(1, 60):
        call = interrupted_at(count)
        try:
            found = encoded(form, files, tmp_path / "d", progress=call, copying=call)
            break
        except KeyboardInterrupt:
            moments += 1
            assert len(list(tmp_path.glob("d.partial-*"))) == 1
    assert moments > 7
    assert (found.digest, found.encoding) == (expected.digest, expected.encoding)
    assert not list(tmp_path.glob("d.partial-*"))


KILLED = """
import os, signal, sys
from pipeline.ingest import coded_stream, ingest, spool
from pipeline.ingest.spool import Spool
spool.MARK_BYTES, coded_stream.PIECE_BYTES = 1, 4 * 12 * 50
real, left = Spool.mark, [5]
def dying(self, whole=False):
    real(self, whole)
    left[0] -= 1
    if left[0] == 0:
        os.kill(os.getpid(), signal.SIGKILL)
Spool.mark = dying
ingest(sys.argv[1], sys.argv[2], encode="pq", subquantizers=4, bits=4, iterations=2, block_rows=64)
"""


def test_a_killed_one_learns_and_encodes_nothing_twice(
    files: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    typed = [sys.executable, "-c", KILLED, str(files / "rows.parquet"), str(tmp_path / "d")]
    ended = subprocess.run(typed, env=environment(), capture_output=True, text=True, check=False)
    assert ended.returncode == -signal.SIGKILL, ended.stderr
    monkeypatch.setattr(coded_stream, "PIECE_BYTES", 4 * 12 * 50)
    rows: list[int] = []
    real = coded_stream.coded
    monkeypatch.setattr(coded_stream, "coded", lambda values, books: rows.append(len(values)) or real(values, books))
    monkeypatch.setattr(coded_stream, "sample_of", None)
    found = ingest(files / "rows.parquet", tmp_path / "d", **ENCODE)
    assert sum(rows) == N_ROWS - 5 * 50
    monkeypatch.undo()
    whole = encoded("parquet", files, tmp_path / "whole")
    assert found.digest == whole.digest
    assert lost(found) == pytest.approx(lost(whole), rel=1e-9)


def test_made_rows_that_say_nothing_of_themselves_begin_anew(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        ingest(made(), tmp_path / "d", progress=interrupted_at(1), **ENCODE)
    assert not list(tmp_path.iterdir())


def test_other_made_rows_are_not_continued(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        ingest(made(about=1), tmp_path / "d", progress=interrupted_at(1), **ENCODE)
    other = made(lambda number: (block_of(number)[0] + 1, block_of(number)[1]), about=2)
    assert ingest(other, tmp_path / "d", **ENCODE).digest == ingest(other, tmp_path / "e", **ENCODE).digest


# ---- bad input -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("error", "words", "options"),
    [
        (ParamError, ("encode = 'opq'", "pq"), {"encode": "opq"}),
        (ParamError, ("subquantizers = 3", "encode"), {"subquantizers": 3}),
        (ParamError, ("dtype = 'float16'", "none"), {"encode": "pq", "dtype": "float16"}),
        (ParamError, ("bits = 9",), {"encode": "pq", "bits": 9}),
        (ParamError, ("sample = 100", "256"), {"encode": "pq", "sample": 100}),
        (ParamError, ("sample = 12", "at most 8"), {"encode": "pq", "bits": 1, "sample": 99, "max_bytes": 100}),
        (PQShape, ("3 features", "2 equal parts"), {"encode": "pq", "subquantizers": 2, "bits": 1}),
        (PQTooFewRows, ("12 training rows", "256 centroids"), {"encode": "pq"}),
        (PQTooFewRows, ("5 training rows for 8",), {"encode": "pq", "bits": 3, "test": 0.5, "validation": 0.1}),
    ],
)
def test_what_cannot_be_is_refused(assert_refused, error, words, options) -> None:
    code = 3 if error is PQTooFewRows else 2
    assert_refused(error, *words, exit_code=code, **options)


def test_sparse_rows_and_images_are_refused(assert_refused, tmp_path: Path) -> None:
    assert_refused(EncodingUnfit, "sparse", source=scipy.sparse.csr_matrix(X), exit_code=2, encode="pq", bits=1)
    (tmp_path / "x.svm").write_text("0 1:1\n1 2:3\n")
    assert_refused(EncodingUnfit, "sparse", source="x.svm", labels=None, exit_code=2, encode="pq", bits=1)


@pytest.mark.parametrize("form", FORMS)
def test_values_that_are_not_finite(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, form: str) -> None:
    spoilt = ROWS.copy()
    spoilt[[3, 200], [5, 1]] = np.nan, -np.inf
    monkeypatch.setattr("tests.pipeline.ingest.test_encode.ROWS", spoilt)
    write(tmp_path, spoilt)
    with pytest.raises(NonFiniteFeature, match=r"row 3\b.*columns 5"):
        encoded(form, tmp_path, tmp_path / "d")
    dataset = encoded(form, tmp_path, tmp_path / "d", on_nonfinite="drop-row")
    assert dataset.n_rows == N_ROWS - 2
    kept = np.delete(np.arange(N_ROWS), [3, 200])
    np.testing.assert_array_equal(codes_of(dataset)[kept], encode(ROWS[kept], dataset.codebooks))
    assert np.isfinite((dataset.encoding or {})["relative_error"])
    assert any(note.code == "NonFiniteFeature" and "row 200" in note.text for note in dataset.notes)


def test_values_beyond_float32_are_refused(assert_refused) -> None:
    large = ROWS.astype(np.float64)
    large[400, 2] = 1e30
    given = [(large[:200], LABELS[:200]), (large[200:], LABELS[200:])]
    assert_refused(FeatureRange, "row 400", source=iter(given), labels=None, encode="pq", bits=4)


def _as(change: Callable[[np.ndarray, np.ndarray], Any], number: int = 3) -> Callable[[int], Any]:
    return lambda block: change(*block_of(block)) if block == number else block_of(block)


@pytest.mark.parametrize(
    ("error", "words", "make"),
    [
        (ColumnMismatch, ("11 columns", "block 3"), _as(lambda rows, labels: (rows[:, 1:], labels))),
        (LengthMismatch, ("49 rows where 50", "block 3"), _as(lambda rows, labels: (rows[1:], labels[1:]))),
        (LengthMismatch, ("49 labels", "block 3"), _as(lambda rows, labels: (rows, labels[1:]))),
        (LengthMismatch, ("without are mixed", "block 3"), _as(lambda rows, _: rows)),
        (FeatureDtype, ("float64", "block 3"), _as(lambda rows, labels: (rows.astype(float), labels))),
        (FeatureShape, ("shape (12,)", "block 0"), _as(lambda rows, _: rows[0], 0)),
        (LabelDtype, ("<U", "block 0"), _as(lambda rows, labels: (rows, labels.astype(str)), 0)),
    ],
)
def test_made_rows_are_checked(assert_refused, error, words, make) -> None:
    assert_refused(error, *words, source=made(make), labels=None, encode="pq", bits=4)


def test_other_ways_to_give_nothing(assert_refused) -> None:
    assert_refused(FeatureShape, "no rows", source=iter(()), labels=None)
    with pytest.raises(ParamError, match="block_rows = 0"):
        made(block_rows=0)
    with pytest.raises(ParamError, match="JSON values"):
        made(about=object())

    def broken(_: int) -> Any:
        raise RuntimeError("of the user's")

    with pytest.raises(RuntimeError, match="of the user's"):
        ingest(made(broken), "nowhere.zarr")


# ---- what uses such a dataset --------------------------------------------------------------------------------------


def test_damage_to_codes_and_codebooks_is_found(files: Path, tmp_path: Path) -> None:
    dataset = encoded("npy", files, tmp_path / "d")
    for chunk in ("codes/c/2/0", "codebooks/c/0/0/0"):
        path = Path(dataset.path, "X", chunk)
        whole = path.read_bytes()
        path.write_bytes(whole[:-5] + b"12345")
        with pytest.raises(ArtefactError, match=chunk.split("/")[0]):
            dataset.verify()
        path.write_bytes(whole)
    (other,) = [ingest(ROWS + 1, tmp_path / "e", labels=LABELS, **ENCODE)]
    Path(dataset.path, "X/codebooks/c/0/0/0").write_bytes(Path(other.path, "X/codebooks/c/0/0/0").read_bytes())
    with pytest.raises(DatasetDamaged, match="codebooks"):
        dataset.verify()


def test_typed_and_shown(files: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    place = tmp_path / "typed.zarr"
    options = ("--encode", "pq", "--subquantizers", 4, "--bits", 4, "--iterations", 2, "--block-rows", 64)
    typed = ("ingest", files / "rows.npy", place, "--labels", files / "labels.npy", *options)
    assert "Encoded" in succeeds(*typed).err
    dataset = Dataset.open(place)
    assert dataset.digest == Dataset.open(files / "d.zarr").digest
    inspect(place)
    shown = capsys.readouterr().out
    assert "pq, subquantizers 4, bits 4, sample 16384" in shown
    assert '"encode": "pq", "subquantizers": 4' in shown
    refuses(tmp_path, 2, "ParamError", "bits", by=("ingest", files / "rows.npy", tmp_path / "x", "--bits", 4))


CONFIG = """\
name = "on-codes"
[data]
path = "{data}"
[[encode]]
name = "pca"
kind = "pca"
components = 5
[[train]]
name = "means"
kind = "nearest-class-mean"
[[train]]
name = "further"
kind = "nearest-class-mean"
rows = "pca"
"""


def test_models_of_codes_take_numbers_too(files: Path, tmp_path: Path) -> None:
    """They carry the dataset's codebooks, before the encodings of their run."""
    config = tmp_path / "c.toml"
    config.write_text(CONFIG.format(data=files / "d.zarr"))
    run = run_here(config)
    for model, kinds in (("means", ["pq"]), ("further", ["pq", "pca"])):
        assert [part["kind"] for part in _header(run / "models" / model)["encoders"]] == kinds
        assert_raw_rows_rank_as_in_the_run(run, model, ROWS, tmp_path)
    plan = make_plan(_loaded(config))
    assert not plan.to_run


def _header(model: Path) -> dict[str, Any]:
    from tasks.models.folder import load_model

    return load_model(model).header


def _loaded(config: Path) -> Any:
    from pipeline.config import load_config

    return load_config(config)


MEANS = '[[train]]\nname = "means"\nkind = "nearest-class-mean"\n'


def test_images_are_not_made_of_codes(files: Path, tmp_path: Path) -> None:
    config = tmp_path / "c.toml"
    first = CONFIG.format(data=files / "d.zarr").partition("[[train]]")[0]
    config.write_text(first.replace('kind = "pca"\ncomponents = 5', 'kind = "sift"') + MEANS)
    refuses(tmp_path, 2, "RowsUnfit", "pq, not images", by=("check", config))
    assert [path.name for path in tmp_path.iterdir()] == ["c.toml"]
