"""Coding blocks: the report adds up, an interrupted attempt goes on; the encoder that a model carries."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tasks import io
from tasks.errors import ParamError
from tasks.hashing import code_blocks
from tasks.hashing.code_blocks import (
    CodeReport,
    count_zeros,
    empty_chance,
    encode_codes_block,
    encode_codes_block_once,
)
from tasks.hashing.code_rows import CodeHash
from tasks.hashing.wta import CodeParams
from tasks.models.code_encoder import CodeEncoder
from tasks.models.errors import ColumnMismatch, ModelFormat
from tasks.models.registry import ENCODERS, class_of
from tasks.quantize.products import decode
from tasks.rows import Dense, OneHot, PqCodes
from tests.bodies import csr_of
from tests.naive import wta as naive
from tests.tasks.test_wta import matrix_of

PARAMS = CodeParams("dwta", 30, 3, seed=5)


def stored(path: Path, values: np.ndarray, size: int, kind: str) -> list[io.Block]:
    if kind == "dense":
        blocks = io.create_dense(str(path), *values.shape, size)
        for block in blocks:
            io.write_dense(block, values[block.start : block.stop])
        return blocks
    blocks = io.create_csr(str(path), *values.shape, size)
    for block in blocks:
        part = csr_of(values[block.start : block.stop])
        io.write_csr(block, part.data, part.indices, part.indptr)
    return blocks


def coded(folder: Path, values: np.ndarray, kind: str = "dense") -> tuple[list[io.Block], str]:
    """Rows in blocks of 4, and an empty store for their codes."""
    blocks = stored(folder / "X", values, 4, kind)
    target = str(folder / "codes")
    io.create_onehot(target, len(values), PARAMS.hashes, 4, str(PARAMS.dtype), PARAMS.n_codes)
    return blocks, target


@pytest.mark.parametrize("kind", ["dense", "csr"])
def test_reports_add_up(tmp_path: Path, kind: str) -> None:
    values = matrix_of(7, 10, 12)
    blocks, target = coded(tmp_path, values, kind)
    parts = [encode_codes_block(block, PARAMS, target) for block in blocks]
    report = parts[0] + parts[1] + parts[2]
    hashes = CodeHash.drawn(PARAMS, 12)
    zeros = (values == 0).sum()
    samples = [[row[j] for j in window] for row in values for window in hashes.windows]
    assert (report.rows, report.cells, report.hashes) == (10, 120, 300)
    assert (report.zeros, report.all_zero_rows) == (zeros, (values == 0).all(axis=1).sum())
    assert report.empty == sum(map(naive.is_empty, samples))
    assert report.expected_empty == pytest.approx(30 * sum(naive.empty_chance(row, 3) for row in values))
    assert report.digests == tuple(io.rows_digest(io.read_rows(block)) for block in io.blocks_of(target))
    assert report.sparsity == zeros / 120
    assert (report.empty_ratio, report.expected_empty_ratio) == (report.empty / 300, report.expected_empty / 300)
    codes = np.concatenate([read.codes for read in map(io.read_rows, io.blocks_of(target)) if isinstance(read, OneHot)])
    np.testing.assert_array_equal(codes, hashes.codes(Dense(values))[0])


def test_the_expected_empty_ratio_is_that_of_many_draws() -> None:
    values = np.array([[0, 0, 1, 0, 2, 0, 0, 3]], np.float32)
    found = [CodeHash.drawn(CodeParams("wta", 100, 2, seed=seed), 8).codes(Dense(values))[1] for seed in range(40)]
    error = float(np.std(found, ddof=1)) / 40**0.5
    assert np.mean(found) == pytest.approx(100 * empty_chance(count_zeros(Dense(values)), 8, 2)[0], abs=4 * error)


@pytest.mark.parametrize(
    ("zeros", "n_features", "window"), [(0, 5, 2), (1, 5, 2), (5, 5, 5), (900, 1000, 4), (3, 9, 3)]
)
def test_empty_chance(zeros: int, n_features: int, window: int) -> None:
    row = np.arange(n_features) >= zeros
    assert empty_chance(np.array([zeros]), n_features, window)[0] == pytest.approx(naive.empty_chance(row, window))


def test_empty_chance_of_very_wide_rows_is_a_number() -> None:
    zeros = np.array([0, 99_000_000, 10**8])
    np.testing.assert_allclose(empty_chance(zeros, 10**8, 50), [0, 0.99**50, 1], rtol=1e-6)


def test_zeros_are_counted_in_every_body(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(code_blocks, "VALUES_AT_ONCE", 1)
    values = matrix_of(4, 9, 6)
    expected = (values == 0).sum(axis=1)
    sparse = csr_of(values)
    sparse.data[:1] = 0
    one_hot = OneHot(np.array([[0, 255], [1, 1]], np.uint8), 2)
    codes = PqCodes(np.array([[0, 1]], np.uint8), np.array([[[0, 1], [2, 3]], [[0, 1], [0, 3]]], np.float32))
    for rows in (Dense(values), Dense(values.astype(np.float16)), csr_of(values)):
        np.testing.assert_array_equal(count_zeros(rows), expected)
    np.testing.assert_array_equal(count_zeros(sparse), (sparse.to_array() == 0).sum(axis=1))
    assert count_zeros(one_hot).tolist() == [3, 2]
    assert count_zeros(codes).tolist() == (decode(codes.codes, codes.codebooks, np.float32) == 0).sum(axis=1).tolist()


# ---- going on after a kill ---------------------------------------------------------------------------------------


def test_a_block_is_coded_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (block, *_), target = coded(tmp_path, matrix_of(1, 10, 12))
    marks = str(tmp_path)
    report = encode_codes_block_once(block, PARAMS, target, marks)
    monkeypatch.setattr(code_blocks, "encode_codes_block", lambda *_: pytest.fail("coded again"))
    assert encode_codes_block_once(block, PARAMS, target, marks) == report
    assert CodeReport.of_plain(json.loads(json.dumps(asdict(report)))) == report


@pytest.mark.parametrize("spoil", ["mark", "fields", "list", "codes", "other codes"])
def test_a_report_that_does_not_fit_is_not_believed(tmp_path: Path, spoil: str) -> None:
    (block, *_), target = coded(tmp_path, matrix_of(1, 10, 12))
    report = encode_codes_block_once(block, PARAMS, target, str(tmp_path))
    mark, chunk = tmp_path / "00000.json", tmp_path / "codes" / "codes" / "c" / "0" / "0"
    if spoil == "codes":
        chunk.unlink()
    elif spoil == "other codes":
        io.write_codes(replace(block, store=target), np.zeros((4, 30), np.uint8))
    else:
        mark.write_text({"mark": "{", "fields": '{"rows": 4}', "list": "[1]"}[spoil])
    assert encode_codes_block_once(block, PARAMS, target, str(tmp_path)) == report
    assert io.rows_digest(io.load_rows(replace(block, store=target))) == report.digests[0]
    assert json.loads(mark.read_text())["rows"] == 4


# ---- the encoder -------------------------------------------------------------------------------------------------

KINDS = [PARAMS, replace(PARAMS, shift=7, range=21), CodeParams("wta", 30, 3), CodeParams("wta", 30, 3, empty="none")]


def described(encoder: CodeEncoder) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Header and tensors as a model folder gives them back."""
    return json.loads(json.dumps(encoder.header())), encoder.tensors()


@pytest.mark.parametrize("params", KINDS, ids=str)
def test_an_encoder_comes_back(params: CodeParams) -> None:
    encoder = CodeEncoder(CodeHash.drawn(params, 12))
    header, tensors = described(encoder)
    loaded = class_of(header["kind"], ENCODERS, "").load(header, tensors)
    assert loaded.hash.params == params
    assert (loaded.kind, loaded.n_features) == (params.kind, 12)
    rows = Dense(matrix_of(2, 6, 12))
    coded = loaded.encode(rows)
    assert coded.n_codes == params.n_codes
    np.testing.assert_array_equal(coded.codes, encoder.hash.codes(rows)[0])


def test_the_header_says_what_the_codes_mean() -> None:
    meanings = [CodeEncoder(CodeHash.drawn(params, 12)).header()["definition"] for params in KINDS]
    assert meanings[0] == meanings[1]
    assert len(set(meanings)) == 3


def test_rows_of_another_width_are_refused() -> None:
    with pytest.raises(ColumnMismatch, match="11 columns"):
        CodeEncoder(CodeHash.drawn(PARAMS, 12)).encode(Dense(np.zeros((2, 11), np.float32)))


@pytest.mark.parametrize(
    "change",
    [
        {"kind": "wat"},
        {"kind": "wta"},
        {"hashes": 29},
        {"hashes": "30"},
        {"window": 4},
        {"shift": 1},
        {"range": 1},
        {"range": 40},
        {"seed": None},
        {"empty": "last"},
        {"codes": 5},
        {"n_features": 11},
        {"n_features": "wide"},
        {"hashes": None},
    ],
    ids=str,
)
def test_settings_that_do_not_fit_are_refused(change: dict[str, Any]) -> None:
    header, tensors = described(CodeEncoder(CodeHash.drawn(replace(PARAMS, shift=6, range=20), 12)))
    tensors["windows"][0, 0] = 11  # so that fewer features do not do
    tensors["windows"][0, 1:] = [0, 1]
    assert CodeEncoder.load(header, tensors).n_features == 12
    with pytest.raises(ModelFormat):
        CodeEncoder.load({**header, **change}, tensors)


@pytest.mark.parametrize("key", ["hashes", "window", "shift", "range", "seed", "empty", "n_features", "kind"])
def test_settings_that_are_missing_are_refused(key: str) -> None:
    header, tensors = described(CodeEncoder(CodeHash.drawn(PARAMS, 12)))
    del header[key]
    with pytest.raises(ModelFormat):
        CodeEncoder.load(header, tensors)


@pytest.mark.parametrize("spoil", ["gone", "shape", "dtype", "negative", "beyond", "twice"])
def test_windows_that_do_not_fit_are_refused(spoil: str) -> None:
    header, tensors = described(CodeEncoder(CodeHash.drawn(PARAMS, 12)))
    windows = tensors["windows"].copy()
    if spoil in ("negative", "beyond"):
        windows[3, 1] = -1 if spoil == "negative" else 12
    elif spoil == "twice":
        windows[3, 1] = windows[3, 2]
    changed = {"shape": windows[1:], "dtype": windows.astype(np.int64)}.get(spoil, windows)
    with pytest.raises(ModelFormat):
        CodeEncoder.load(header, {} if spoil == "gone" else {"windows": changed})


def test_a_window_wider_than_the_rows_stops_the_block(tmp_path: Path) -> None:
    blocks, target = coded(tmp_path, matrix_of(1, 10, 2))
    with pytest.raises(ParamError, match="window"):
        encode_codes_block(blocks[0], PARAMS, target)
