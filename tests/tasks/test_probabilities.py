"""Probabilities: softmax over all classes, in ranking, in model folders and in predictions files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from tasks.models import slices as slices_module
from tasks.models.base import Ranking
from tasks.models.certificate import TRACE_NORM
from tasks.models.errors import ColumnMismatch, ModelFormat, PredictionsDamaged
from tasks.models.flat import FlatModel, is_probabilistic, rank_flat
from tasks.models.folder import load_model, save_model
from tasks.models.hashed import HashedModel
from tasks.models.linear import LinearModel
from tasks.models.predictions import LABEL_LOG, PROBABILITIES, join_parts, read_part, write_part
from tasks.models.probabilities import softmax_parts
from tasks.models.selection import Selected
from tasks.rows import Dense
from tests.naive import probabilities as naive
from tests.tasks.model_samples import (
    certificate,
    change_header,
    class_table,
    factored,
    hashed,
    linear,
    model_rows,
    small_rows,
)

OLD_COLUMNS = ["row", "label", "classes", "scores", "evaluations"]


def flat_model(kind: str, seed: int = 0) -> FlatModel:
    """One of each class of models, on rows of six columns, its scores log-odds."""
    if kind == "factored":
        return factored(seed)
    if kind == "hashed":
        whole = hashed("flat-hash")
        return HashedModel(whole.scorer, whole.table, whole.kind, True)
    plain = linear(seed)
    return LinearModel(plain.weights, plain.bias, "ovr", True)


KINDS = ("linear", "hashed", "factored")


# ---- the kernel --------------------------------------------------------------------------------------------------

SCORES = st.floats(-100, 100, width=32)


@given(st.data())
def test_softmax_matches_its_definition(data: st.DataObject) -> None:
    shape = hnp.array_shapes(min_dims=2, max_dims=2, min_side=1, max_side=6)
    scores = data.draw(hnp.arrays(np.float32, shape, elements=SCORES))
    n, k = scores.shape
    classes = data.draw(hnp.arrays(np.int32, (n, 3), elements=st.integers(-1, k - 1)))
    labels = data.draw(hnp.arrays(np.int32, n, elements=st.integers(-1, k - 1)))
    named, own = np.empty((n, 3), np.float32), np.empty(n, np.float32)
    softmax_parts(scores, classes, labels, named, own)
    for i, row in enumerate(scores):
        expected = naive.softmax(row.tolist())
        np.testing.assert_allclose(
            named[i], [expected[c] if c >= 0 else np.nan for c in classes[i]], rtol=2e-6, atol=1e-37
        )
        log = naive.log_probability(row.tolist(), labels[i]) if labels[i] >= 0 else np.nan
        np.testing.assert_allclose(own[i], log, rtol=1e-6, atol=1e-6)


def test_scores_that_would_overflow_do_not() -> None:
    scores = np.array([[3e38, 3e38, 0.0], [-3e38, -3e38, -3e38], [1e30, -1e30, 0.0], [800.0, 700.0, 0.0]], np.float32)
    classes, labels = np.tile(np.arange(3, dtype=np.int32), (4, 1)), np.array([0, 2, 0, 1], np.int32)
    named, own = np.empty((4, 3), np.float32), np.empty(4, np.float32)
    softmax_parts(scores, classes, labels, named, own)
    third = 1 / np.float32(3)
    np.testing.assert_allclose(
        named, [[0.5, 0.5, 0], [third] * 3, [1, 0, 0], [1, np.exp(-100), 0]], rtol=1e-6, atol=1e-37
    )
    np.testing.assert_allclose(own, [np.log(0.5), np.log(1 / 3), 0, -100], rtol=1e-6)


def test_one_class_is_certain() -> None:
    named, own = np.empty((2, 1), np.float32), np.empty(2, np.float32)
    softmax_parts(np.array([[5.0], [-7.0]], np.float32), np.zeros((2, 1), np.int32), np.zeros(2, np.int32), named, own)
    assert named.tolist() == [[1.0], [1.0]]
    assert own.tolist() == [0.0, 0.0]


# ---- ranking -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("body", ["dense", "half", "csr", "pq", "onehot"])
@pytest.mark.parametrize("kind", KINDS)
def test_ranking_with_labels_holds_the_softmax_of_all_scores(kind: str, body: str) -> None:
    model, rows = flat_model(kind), model_rows(3)[body]
    n, k = rows.n_rows, model.n_classes
    labels = np.array([i % (k + 1) - 1 for i in range(n)], np.int32)
    everything = model.rank(rows, k)
    ranking = rank_flat(model, rows, 2, labels)
    found = ranking.probabilities
    assert found is not None
    np.testing.assert_array_equal(ranking.classes, everything.classes[:, :2])
    np.testing.assert_array_equal(ranking.scores, everything.scores[:, :2])
    np.testing.assert_array_equal(ranking.evaluations, everything.evaluations)
    for i in range(n):
        scores = everything.scores[i][np.argsort(everything.classes[i])].tolist()
        expected = naive.softmax(scores)
        np.testing.assert_allclose(found.named[i], [expected[c] for c in ranking.classes[i]], rtol=2e-6)
        log = naive.log_probability(scores, labels[i]) if labels[i] >= 0 else np.nan
        np.testing.assert_allclose(found.label_log[i], log, rtol=2e-6, atol=2e-6)


@pytest.mark.parametrize("kind", KINDS)
def test_slices_change_nothing(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model, rows, labels = flat_model(kind), Dense(small_rows(1, n=23)), np.zeros(23, np.int32)
    whole = rank_flat(model, rows, 3, labels)
    monkeypatch.setattr(slices_module, "SLICE_ROWS", 4)
    sliced = rank_flat(model, rows, 3, labels)
    assert whole.probabilities is not None
    assert sliced.probabilities is not None
    np.testing.assert_array_equal(sliced.probabilities.named, whole.probabilities.named)
    np.testing.assert_array_equal(sliced.probabilities.label_log, whole.probabilities.label_log)


def test_no_rows_and_wrong_rows() -> None:
    empty = rank_flat(flat_model("linear"), Dense(np.zeros((0, 6), np.float32)), 2, np.zeros(0, np.int32))
    assert empty.probabilities is not None
    assert empty.probabilities.named.shape == (0, 2)
    with pytest.raises(ColumnMismatch):
        rank_flat(flat_model("linear"), Dense(np.zeros((1, 5), np.float32)), 2, np.zeros(1, np.int32))


# ---- model folders -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_a_model_that_is_probabilistic_says_so_in_its_folder(tmp_path: Path, kind: str) -> None:
    model = flat_model(kind)
    save_model(tmp_path / "m", model, class_table(model.n_classes))
    loaded = load_model(tmp_path / "m")
    assert loaded.probabilistic
    assert loaded.header["probabilistic"] is True
    assert "predict --proba" in (tmp_path / "m" / "README.md").read_text()
    labels = np.zeros(7, np.int32)
    found, expected = (
        loaded.rank(Dense(small_rows(1)), 2, labels=labels),
        rank_flat(model, Dense(small_rows(1)), 2, labels),
    )
    assert found.probabilities is not None
    assert expected.probabilities is not None
    np.testing.assert_array_equal(found.probabilities.named, expected.probabilities.named)
    assert loaded.rank(Dense(small_rows(1)), 2).probabilities is None  # nobody asked


@pytest.mark.parametrize("kind", ["linear", "hashed"])
def test_models_of_old_folders_have_margins(tmp_path: Path, kind: str) -> None:
    model = linear(0) if kind == "linear" else hashed("flat-hash")
    save_model(tmp_path / "m", model, class_table(model.n_classes))
    loaded = load_model(tmp_path / "m")
    assert "probabilistic" not in loaded.header  # so that its digest is what it was
    assert not loaded.probabilistic
    assert loaded.rank(Dense(small_rows(1)), 2, labels=np.zeros(7, np.int32)).probabilities is None
    assert "--proba" not in (tmp_path / "m" / "README.md").read_text()


@pytest.mark.parametrize("value", [1, "true", None, []])
@pytest.mark.parametrize("kind", ["linear", "hashed"])
def test_a_field_that_is_no_truth_value_is_refused(tmp_path: Path, kind: str, value: Any) -> None:
    model = flat_model(kind)
    save_model(tmp_path / "m", model, class_table(model.n_classes))
    change_header(tmp_path / "m", probabilistic=value)
    with pytest.raises(ModelFormat, match="expected true or false"):
        load_model(tmp_path / "m")


def test_a_model_that_is_no_flat_one_has_margins() -> None:
    class Other:
        kind = "label-tree"

    assert not is_probabilistic(Other())  # type: ignore[arg-type]


def test_the_card_of_a_trace_norm_model_has_its_certificate_in_a_line(tmp_path: Path) -> None:
    save_model(tmp_path / "m", factored(0), class_table(5))
    (line,) = [x for x in (tmp_path / "m" / "README.md").read_text().splitlines() if x.startswith("Certificate: ")]
    assert "rank 2, duality gap 1.5" in line.replace("\\", "")
    assert certificate()["gap"] == 1.5
    assert f"A {TRACE_NORM} classifier of 5 classes" in (tmp_path / "m" / "README.md").read_text().replace("\\", "")


# ---- predictions -------------------------------------------------------------------------------------------------


def selected(n: int, first: int = 0) -> Selected:
    labels = np.array([i % 6 - 1 for i in range(n)], np.int32)
    return Selected(np.arange(n), np.arange(first, first + n), labels)


def ranked(kind: str, which: Selected, probabilistic: bool = True) -> Ranking:
    rows = Dense(small_rows(int(which.row_ids[0]) if which.row_ids.size else 0, n=which.index.size))
    return rank_flat(flat_model(kind), rows, 3, which.labels if probabilistic else None)


@pytest.mark.parametrize("n", [0, 1, 9])
def test_a_part_with_probabilities_reads_back(tmp_path: Path, n: int) -> None:
    which = selected(n)
    ranking = ranked("linear", which)
    digest = write_part(tmp_path / "p.parquet", which, ranking)
    found = read_part(tmp_path / "p.parquet")
    assert found.digest() == digest
    assert ranking.probabilities is not None
    assert found.ranking.probabilities is not None
    np.testing.assert_array_equal(found.ranking.probabilities.named, ranking.probabilities.named)
    np.testing.assert_array_equal(found.ranking.probabilities.label_log, ranking.probabilities.label_log)
    table = pq.read_table(tmp_path / "p.parquet")
    assert table.column_names == [*OLD_COLUMNS[:4], PROBABILITIES, LABEL_LOG, "evaluations"]
    assert table[LABEL_LOG].is_null().to_pylist() == (which.labels < 0).tolist()
    kept = found.where(which.labels >= 0)
    assert kept.ranking.probabilities is not None
    assert not np.isnan(kept.ranking.probabilities.label_log).any()


def test_probabilities_are_content(tmp_path: Path) -> None:
    which = selected(5)
    with_them, without = ranked("linear", which), ranked("linear", which, probabilistic=False)
    digests = {write_part(tmp_path / "p.parquet", which, ranking) for ranking in (with_them, without)}
    assert len(digests) == 2
    assert with_them.probabilities is not None
    with_them.probabilities.label_log[2] += 1
    assert write_part(tmp_path / "p.parquet", which, with_them) not in digests


def test_margins_keep_the_columns_and_the_digest_they_had(tmp_path: Path) -> None:
    which = selected(5)
    digest = write_part(tmp_path / "p.parquet", which, ranked("linear", which, probabilistic=False))
    assert pq.read_table(tmp_path / "p.parquet").column_names == OLD_COLUMNS
    assert digest == DIGEST_BEFORE


DIGEST_BEFORE = "9689d15af061f611d14f2826e955146e"  # as computed before there were probabilities


@pytest.mark.parametrize("drop", [(), (PROBABILITIES, LABEL_LOG)])
def test_probabilities_are_joined_or_left_out(tmp_path: Path, drop: tuple[str, ...]) -> None:
    digests = []
    for i, n in enumerate((4, 0, 3)):
        which = selected(n, first=10 * i)
        digests.append(write_part(tmp_path / f"{i}.parquet", which, ranked("factored", which)))
    parts = [tmp_path / f"{i}.parquet" for i in range(3)]
    joined = join_parts(parts, tmp_path / "all.parquet", None, digests, drop)
    assert joined.rows == 7
    found = read_part(tmp_path / "all.parquet")
    assert (found.ranking.probabilities is None) is bool(drop)
    assert pq.read_table(tmp_path / "all.parquet").column_names == [
        name for name in [*OLD_COLUMNS[:4], PROBABILITIES, LABEL_LOG, "evaluations"] if name not in drop
    ]
    np.testing.assert_array_equal(found.ranking.classes[4:], read_part(parts[2]).ranking.classes)


def test_half_of_the_columns_of_probabilities_is_damage(tmp_path: Path) -> None:
    which = selected(4)
    write_part(tmp_path / "p.parquet", which, ranked("linear", which))
    for name in (PROBABILITIES, LABEL_LOG):
        pq.write_table(pq.read_table(tmp_path / "p.parquet").drop_columns([name]), tmp_path / "q.parquet")
        with pytest.raises(PredictionsDamaged, match="columns are others"):
            read_part(tmp_path / "q.parquet")
