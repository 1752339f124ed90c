"""Trace-norm models: weights kept as their factors or dense, with a certificate."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tasks.models.certificate import NUMBERS, SENSE, SOLVER, SPECTRUM, certificate_line, checked_certificate
from tasks.models.errors import ColumnMismatch, ModelFormat
from tasks.models.factored import FactoredModel, trace_norm_model
from tasks.models.flat import is_probabilistic
from tasks.models.folder import load_model, publish_model, save_model, verify_model
from tasks.models.linear import LinearModel
from tasks.rows import Csr, Dense, PqCodes
from tests.naive import models as naive
from tests.naive import probabilities as twin
from tests.tasks.model_samples import certificate, change_header, class_table, factored, factors, model_rows, small_rows

# ---- scores ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("body", ["dense", "half", "csr", "pq", "onehot"])
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("seed", range(3))
def test_ranking_matches_the_weights_entry_by_entry(body: str, bias: bool, seed: int) -> None:
    model, rows = factored(seed, bias=bias), model_rows(seed)[body]
    ranking = model.rank(rows, 4)
    for i, row in enumerate(rows.to_array()):
        scores = twin.factored_scores(row, model.u, model.theta, model.v, model.bias)
        classes, best = naive.top_classes(np.array(scores), 4)
        assert ranking.classes[i].tolist() == classes
        np.testing.assert_array_equal(ranking.scores[i], np.array(best, np.float32))
    assert ranking.evaluations.tolist() == [4] * rows.n_rows  # 2 x (6 + 5) multiplications, 6 a dot product
    assert ranking.path is None
    assert ranking.probabilities is None


def test_many_codes_are_scored_by_tables_and_come_to_the_same() -> None:
    """So many rows that Algorithm 1 pays, over more than one slice of rows."""
    random = np.random.default_rng(0)
    books = random.integers(-2, 3, (3, 16, 2)).astype(np.float32)
    rows = PqCodes(random.integers(0, 16, (1500, 3)).astype(np.uint8), books)
    codes, decoded = factored(1).rank(rows, 5), factored(1).rank(rows.decoded(), 5)
    np.testing.assert_array_equal(codes.classes, decoded.classes)
    np.testing.assert_array_equal(codes.scores, decoded.scores)


@pytest.mark.parametrize(
    ("d", "k", "rank", "operations"), [(6, 5, 2, 4), (10, 10, 5, 10), (512, 200, 1, 2), (3, 9, 0, 0)]
)
def test_cost_is_rank_times_d_plus_k_in_dot_products_of_d(d: int, k: int, rank: int, operations: int) -> None:
    assert factored(0, d=d, k=k, rank=rank).operations == operations


@pytest.mark.parametrize("body", ["dense", "csr", "pq", "onehot"])
def test_rank_zero_scores_the_bias_alone(body: str) -> None:
    u, theta, v, _ = factors(0, rank=0)
    rows = model_rows(0)[body]
    biased = FactoredModel(u, theta, v, np.array([0, 2, 1, 2, -1], np.float32), certificate())
    assert biased.rank(rows, 3).classes.tolist() == [[1, 3, 2]] * 7  # ties to the lower class
    ranking = FactoredModel(u, theta, v, None, certificate()).rank(rows, 5)
    assert ranking.classes.tolist() == [[0, 1, 2, 3, 4]] * 7
    assert not ranking.scores.any()
    assert not ranking.evaluations.any()


def test_rows_of_another_width_and_no_rows() -> None:
    with pytest.raises(ColumnMismatch, match="5 columns, the trace-norm model was trained on 6"):
        factored(0).rank(Dense(np.zeros((2, 5), np.float32)), 1)
    assert factored(0).rank(Dense(np.zeros((0, 6), np.float32)), 3).classes.shape == (0, 3)


# ---- which form --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("d", "k", "rank", "kept"),
    [
        (6, 5, 2, FactoredModel),
        (6, 5, 3, LinearModel),
        (2, 3, 1, LinearModel),
        (20, 21, 10, LinearModel),
        (3, 2, 0, FactoredModel),
    ],
)
def test_the_smaller_form_is_kept(d: int, k: int, rank: int, kept: type) -> None:
    """2 x 12 < 30; 3 x 12 > 30; 1 x 6 = 6: dense; 10 x 42 = 420: dense; nothing < 6."""
    u, theta, v, bias = factors(4, d=d, k=k, rank=rank)
    model = trace_norm_model(u, theta, v, bias, certificate())
    assert type(model) is kept
    assert (model.kind, model.n_features, model.n_classes) == ("trace-norm", d, k)
    assert model.certificate == certificate()
    assert is_probabilistic(model)
    values = small_rows(5, n_features=d)
    expected = [naive.top_classes(np.array(twin.factored_scores(row, u, theta, v, bias)), k)[0] for row in values]
    assert model.rank(Dense(values), k).classes.tolist() == expected


def test_numbers_of_numpy_and_float64_factors_are_taken(tmp_path: Path) -> None:
    u, theta, v, bias = (values.astype(np.float64) for values in factors(2))
    numbers = certificate(gap=np.float32(0.5), rank=np.int64(2), spectrum=np.array([2.0, 0.5]))
    model = trace_norm_model(np.asfortranarray(u), theta, v, bias, numbers)
    assert {values.dtype for values in model.tensors().values()} == {np.dtype(np.float32)}
    assert model.certificate == certificate(gap=0.5)
    save_model(tmp_path / "m", model, class_table(5))
    assert load_model(tmp_path / "m").header["certificate"] == certificate(gap=0.5)


# ---- folders -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rank", [0, 2, 4])
@pytest.mark.parametrize("bias", [True, False])
def test_either_form_comes_back_with_its_certificate(tmp_path: Path, rank: int, bias: bool) -> None:
    model = trace_norm_model(*factors(3, rank=rank, bias=bias), certificate())
    digest = save_model(tmp_path / "m", model, class_table(5))
    loaded = load_model(tmp_path / "m")
    assert type(loaded.model) is (FactoredModel if rank < 4 else LinearModel)
    assert isinstance(loaded.model, FactoredModel | LinearModel)
    assert loaded.model.certificate == certificate()
    assert is_probabilistic(loaded.model)
    rows = Dense(small_rows(1))
    np.testing.assert_array_equal(loaded.rank(rows, 5).scores, model.rank(rows, 5).scores)
    assert digest == verify_model(tmp_path / "m") == publish_model(tmp_path / "m", tmp_path / "n", {"top1": 0.5})
    assert (loaded.model.bias is None) is not bias


def test_the_certificate_is_content(tmp_path: Path) -> None:
    u, theta, v, bias = factors(3)
    first, other = (trace_norm_model(u, theta, v, bias, certificate(gap=gap)) for gap in (0.0, 1.0))
    assert save_model(tmp_path / "a", first, class_table(5)) != save_model(tmp_path / "b", other, class_table(5))


def saved(folder: Path, rank: int = 2) -> Path:
    save_model(folder, trace_norm_model(*factors(3, rank=rank), certificate()), class_table(5))
    return folder


def without(name: str) -> dict[str, Any]:
    return {key: value for key, value in certificate().items() if key != name}


@pytest.mark.parametrize("rank", [2, 4], ids=["factored", "dense"])
@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"certificate": None}, "needs a certificate"),
        ({"certificate": []}, "needs a certificate"),
        ({"certificate": {}}, "lacks objective, risk"),
        ({"certificate": without("gap")}, "lacks gap"),
        ({"certificate": without(SPECTRUM)}, "lacks spectrum"),
        ({"certificate": certificate(gap="0")}, "no proper value of gap"),
        ({"certificate": certificate(gap=float("nan"))}, "no proper value of gap"),
        ({"certificate": certificate(c1=float("inf"), c2=True)}, "no proper value of c1, c2"),
        ({"certificate": certificate(spectrum=[1.0, -1.0])}, "no proper value of spectrum"),
        ({"certificate": certificate(spectrum=1.0)}, "no proper value of spectrum"),
        ({"certificate": certificate(solver=3)}, "no proper value of solver"),
        ({"certificate": certificate(more={})}, "no proper value of more"),
        ({"probabilistic": False}, "must be true"),
        ({"bias": False}, "bias"),
        ({"n_classes": 6}, "6 rows"),
        ({"n_features": 7}, "n_features and n_classes"),
        ({"kind": "heshing"}, "another hash"),
    ],
)
def test_headers_that_lie_are_refused(tmp_path: Path, rank: int, changes: dict[str, Any], message: str) -> None:
    place = saved(tmp_path / "m", rank)
    change_header(place, **changes)
    with pytest.raises(Exception, match=message) as caught:
        load_model(place)
    assert type(caught.value).__name__ in ("ModelFormat", "HashMismatch")
    assert str(place) in str(caught.value)


def test_factors_of_another_kind_are_refused(tmp_path: Path) -> None:
    place = saved(tmp_path / "m")
    change_header(place, kind="ovr")
    with pytest.raises(ModelFormat, match="needs weights"):
        load_model(place)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda u, theta, v, bias: (u[:, :1], theta, v, bias), "needs u"),
        (lambda u, theta, v, bias: (u, theta[:1], v, bias), "needs u"),
        (lambda u, theta, v, bias: (u, theta, v[:, :1], bias), "needs u"),
        (lambda u, theta, v, bias: (u, theta, v, bias[:-1]), "needs u"),
        (lambda u, theta, v, bias: (u, theta[:, None], v, bias), "needs u"),
        (lambda u, theta, v, bias: (u.astype(np.float64), theta, v, bias), "all float32"),
        (lambda u, theta, v, bias: (u, -theta, v, bias), "negative"),
        (lambda u, theta, v, bias: (u, theta * np.float32(np.nan), v, bias), "negative"),
    ],
)
def test_factors_that_do_not_fit_are_refused(change: Any, message: str) -> None:
    with pytest.raises(ModelFormat, match=message):
        FactoredModel(*change(*factors(0)), certificate())


@pytest.mark.parametrize("missing", ["u", "theta", "v", "bias"])
def test_missing_tensors_are_named(missing: str) -> None:
    model = factored(0)
    tensors = {name: values for name, values in model.tensors().items() if name != missing}
    with pytest.raises(ModelFormat, match="bias" if missing == "bias" else "needs u"):
        FactoredModel.load(model.header(), tensors)


# ---- words -------------------------------------------------------------------------------------------------------


def test_every_number_of_a_certificate_is_explained() -> None:
    assert list(SENSE) == [*NUMBERS, SPECTRUM, SOLVER]
    assert json.loads(json.dumps(checked_certificate(certificate()))) == certificate()


def test_the_line_of_the_card_says_the_gap_and_the_rank() -> None:
    line = certificate_line(certificate(gap=0.001234, relative_gap=1e-3, rank=17))
    assert "rank 17" in line
    assert "duality gap 0.00123 (0.001 of the objective" in line


def test_scores_of_csr_rows_take_no_dense_copy() -> None:
    """Rows far too wide to be written out: only the products with the thin factor are made."""
    u = np.zeros((1 << 20, 1), np.float32)
    u[7] = 2.0
    model = FactoredModel(u, np.ones(1, np.float32), np.array([[1.0], [-1.0]], np.float32), None, certificate())
    rows = Csr(np.ones(2, np.float32), np.array([7, 9], np.int32), np.array([0, 1, 2], np.int64), 1 << 20)
    assert model.rank(rows, 2).scores.tolist() == [[2.0, -2.0], [0.0, 0.0]]
