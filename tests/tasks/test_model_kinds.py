"""Models that carry an encoder, and hashed models: what their folders add to those of any model."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from tasks.models.encoder import PqEncoder
from tasks.models.errors import (
    ColumnMismatch,
    HashMismatch,
    ModelFormat,
)
from tasks.models.folder import load_model, save_model, verify_model
from tasks.rows import Dense, PqCodes
from tests.naive import models as naive
from tests.tasks.model_samples import change_header, class_table, hashed, linear, small_rows


def test_a_model_with_an_encoder_ranks_raw_rows_as_it_ranks_their_codes(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    books = random.normal(size=(3, 4, 2)).astype(np.float32)
    encoder = PqEncoder(books)
    save_model(tmp_path / "m", linear(3), class_table(9), rows="pq", test_rows="pq", encoders=[encoder])
    loaded = load_model(tmp_path / "m")
    raw = Dense(random.normal(size=(20, 6)).astype(np.float32))
    codes = encoder.encode(raw)
    assert isinstance(codes, PqCodes)
    np.testing.assert_array_equal(loaded.rank(raw, 4).scores, linear(3).rank(codes, 4).scores)
    np.testing.assert_array_equal(loaded.rank(codes, 4).classes, linear(3).rank(codes, 4).classes)
    assert loaded.header["encoders"][0]["subquantizers"] == 3
    assert verify_model(tmp_path / "m") == loaded.digest
    with pytest.raises(ColumnMismatch):
        loaded.rank(Dense(np.zeros((1, 7), np.float32)), 1)


# ---- hashed models -----------------------------------------------------------------------------------------------


def test_a_hashed_model_comes_back_and_says_its_hash(tmp_path: Path) -> None:
    model = hashed("heshing")
    save_model(tmp_path / "m", model, class_table(3))
    loaded, values = load_model(tmp_path / "m"), small_rows(4)
    header = loaded.header
    assert header["hash"]["function"] == "MurmurHash3_x86_32"
    assert (header["n_buckets"], header["n_levels"], header["kind"]) == (16, 3, "heshing")
    first, again = model.rank(Dense(values), 3), loaded.rank(Dense(values), 3)
    np.testing.assert_array_equal(again.scores, first.scores)
    np.testing.assert_array_equal(again.classes, first.classes)
    assert set(first.evaluations.tolist()) == {5}
    scores = model.scorer.scores({"table": model.table}, Dense(values))
    assert first.classes.tolist() == [naive.top_classes(row, 3)[0] for row in scores]


@pytest.mark.parametrize("scale", ["", "nan", "2", True, None, 0, -1.0, float("nan"), float("inf"), 10**400, [1.0]])
def test_a_scale_that_is_no_number_above_zero_is_refused(tmp_path: Path, scale: object) -> None:
    place = tmp_path / "m"
    save_model(place, hashed("heshing"), class_table(3))
    change_header(place, scale=scale)
    with pytest.raises(ModelFormat):
        load_model(place)


def test_another_hash_or_a_broken_taxonomy_is_refused(tmp_path: Path) -> None:
    place = tmp_path / "m"
    save_model(place, hashed("heshing"), class_table(3))
    header = json.loads((place / "model.json").read_text())
    change_header(place, hash={**header["hash"], "sign": "none"})
    with pytest.raises(HashMismatch):
        load_model(place)
    change_header(place, hash=header["hash"], n_buckets=1 << 20)
    with pytest.raises(ModelFormat, match="fit the table"):
        load_model(place)
    broken = hashed("heshing")
    broken.scorer.parent[3] = 99
    save_model(place, broken, class_table(3))
    with pytest.raises(ModelFormat, match="no taxonomy"):
        load_model(place)
