"""Normalisation against its definition and scikit-learn; bodies, blocks, fitted values, and the encoder's file."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from sklearn.preprocessing import Normalizer, StandardScaler

from tasks.errors import ParamError
from tasks.features import normalize_encoder
from tasks.features.column_moments import ColumnMoments, column_moments
from tasks.features.normalize import NORMS, NormalizeParams
from tasks.features.normalize_encoder import NormalizeEncoder
from tasks.models.encoder_folder import load_encoder, save_encoder
from tasks.models.errors import ColumnMismatch, ModelFormat
from tasks.rows import Csr, Dense, OneHot, Rows
from tasks.rows.base import Array
from tasks.sums import tree_sum
from tests.bodies import csr_of, each_body, random_csr
from tests.naive import normalize as naive
from tests.strategies import seeds

BY_ROW = [("l2", 0.5), ("l1", 0.5), ("power", 0.5), ("power", 0.3), ("power", 2.0)]
each_norm = pytest.mark.parametrize(("norm", "exponent"), BY_ROW)
VALUES = hnp.arrays(np.float32, (4, 5), elements=st.floats(-(2.0**60), 2.0**60, width=32))
ULP = 2.0**-24  # of float32, rounded to nearest


def encoder_of(norm: str, rows: Rows, exponent: float = 0.5, centred: bool | None = None) -> NormalizeEncoder:
    params = NormalizeParams(norm, exponent)
    if norm != "standard":
        return NormalizeEncoder.plain(params, rows.n_features)
    centred = rows.body not in ("csr", "onehot") if centred is None else centred
    return NormalizeEncoder.fitted(params, column_moments(rows), centred)


def narrow(values: Array) -> Csr:
    """Sparse float32 rows of the non-zeros."""
    wide = csr_of(values)
    return Csr(wide.data.astype(np.float32), wide.indices, wide.indptr, wide.n_features)


# ---- rows by themselves --------------------------------------------------------------------------------------------


@each_norm
@given(values=VALUES)
def test_rows_match_the_definition(norm: str, exponent: float, values: np.ndarray) -> None:
    found = encoder_of(norm, Dense(values), exponent).encode(Dense(values)).to_array()
    assert found.dtype == np.float32
    with np.errstate(over="ignore"):
        expected = naive.normalized(values, norm, exponent).astype(np.float32)
    np.testing.assert_allclose(found, expected, rtol=2 * ULP, atol=1e-44)


@each_body
@given(seed=seeds)
def test_all_bodies_give_the_rows_of_what_they_stand_for(make, seed: int) -> None:  # type: ignore[no-untyped-def]
    rows = make(seed, 7, 6)
    plain = rows.to_array(np.float64)
    for norm, exponent in BY_ROW:
        found = encoder_of(norm, rows, exponent).encode(rows)
        assert found.body == ("csr" if rows.body == "csr" else "dense")
        np.testing.assert_allclose(found.to_array(), naive.normalized(plain, norm, exponent), rtol=1e-6, atol=1e-9)


@each_norm
def test_sparse_and_dense_rows_give_equal_bits_in_any_cut(
    norm: str, exponent: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(4)
    values = np.where(rng.random((60, 41)) < 0.4, rng.standard_normal((60, 41)), 0).astype(np.float32)
    values[7] = 0
    encoder = encoder_of(norm, Dense(values), exponent)
    whole = encoder.encode(Dense(values)).to_array()
    assert (whole[7] == 0).all()
    assert encoder.encode(narrow(values)).to_array().tobytes() == whole.tobytes()
    monkeypatch.setattr(normalize_encoder, "SLICE_BYTES", 4 * 41 * 7)
    assert encoder.encode(Dense(values)).to_array().tobytes() == whole.tobytes()
    one_by_one = [encoder.encode(Dense(values[i : i + 1])).to_array() for i in range(60)]
    assert np.concatenate(one_by_one).tobytes() == whole.tobytes()


@pytest.mark.parametrize("norm", ["l1", "l2"])
def test_as_scikit_learns_normalizer(norm: str) -> None:
    values = np.random.default_rng(1).standard_normal((50, 30)).astype(np.float32)
    values[3] = 0
    found = encoder_of(norm, Dense(values)).encode(Dense(values)).to_array()
    np.testing.assert_allclose(found, Normalizer(norm).fit_transform(values.astype(np.float64)), rtol=1e-6, atol=1e-9)


def test_the_smallest_and_largest_numbers_have_a_norm() -> None:
    tiny, huge = np.float32(1e-45), np.finfo(np.float32).max
    values = np.array([[tiny, tiny], [huge, huge], [0, -huge]], np.float32)
    found = encoder_of("l2", Dense(values)).encode(Dense(values)).to_array()
    np.testing.assert_allclose(found, [[0.5**0.5] * 2, [0.5**0.5] * 2, [0, -1]], rtol=1e-6)


def test_one_hot_codes_become_sparse_rows() -> None:
    codes = OneHot(np.array([[0, 1, 255], [2, 2, 2]], np.uint8), 3)
    found = encoder_of("l1", codes).encode(codes)
    assert isinstance(found, Csr)
    np.testing.assert_allclose(
        found.to_array(), [[0.5, 0, 0, 0, 0.5, 0, 0, 0, 0], np.tile([0, 0, 1 / 3], 3)], rtol=1e-6
    )


# ---- columns -------------------------------------------------------------------------------------------------------


@each_body
@given(seed=seeds)
def test_moments_of_columns_match_the_definition(make, seed: int) -> None:  # type: ignore[no-untyped-def]
    rows = make(seed, 23, 6)
    found, (means, deviations) = column_moments(rows), naive.moments(rows.to_array(np.float64))
    np.testing.assert_allclose(found.means, means, rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(found.deviations, deviations, rtol=1e-9, atol=1e-12)


@each_body
@given(seed=seeds, cuts=st.lists(st.integers(0, 40), max_size=9))
def test_moments_add_up(make, seed: int, cuts: list[int]) -> None:  # type: ignore[no-untyped-def]
    """Of parts of any sizes, empty ones too, whatever stands first."""
    rows = make(seed, 40, 6)
    ends = [0, *sorted(cuts), 40]
    found = tree_sum([column_moments(rows.part(a, b)) for a, b in pairwise(ends)])
    whole = column_moments(rows)
    assert found.n_rows == 40
    np.testing.assert_allclose(found.means, whole.means, rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(found.squares, whole.squares, rtol=1e-9, atol=1e-12)


def test_a_small_variance_about_a_large_mean_is_not_lost() -> None:
    rng = np.random.default_rng(0)
    values = rng.integers(0, 2, (4000, 3)) + np.array([0.0, 2.0**20, 2.0**23])
    parts = [column_moments(Dense(values[i : i + 100].astype(np.float32))) for i in range(0, 4000, 100)]
    np.testing.assert_allclose(tree_sum(parts).deviations, values.std(axis=0), rtol=1e-9)


@pytest.mark.parametrize("body", ["dense", "csr"])
def test_columns_without_variance_become_zeros(body: str) -> None:
    rng = np.random.default_rng(3)
    values = rng.standard_normal((300, 4)).astype(np.float32)
    values[:, 1], values[:, 2] = (
        0,
        np.float32(0.1),
    )  # 0.1 is no sum of powers of two: its mean must come out all the same
    rows: Rows = narrow(values) if body == "csr" else Dense(values)
    found: ColumnMoments = tree_sum([column_moments(rows.part(i, min(i + 7, 300))) for i in range(0, 300, 7)])
    assert (found.deviations == 0).tolist() == [False, True, True, False]
    encoded = NormalizeEncoder.fitted(NormalizeParams("standard"), found, body == "dense").encode(rows).to_array()
    assert not encoded[:, 1:3].any()
    np.testing.assert_allclose(encoded[:, [0, 3]].std(axis=0), 1, rtol=1e-6)


def test_as_scikit_learns_standard_scaler() -> None:
    rng = np.random.default_rng(5)
    train, test = (rng.standard_normal((80, 12)).astype(np.float32) * 3 + 1 for _ in range(2))
    train[rng.random(train.shape) < 0.5] = 0
    dense = encoder_of("standard", Dense(train))
    expected = StandardScaler().fit(train.astype(np.float64)).transform(test)
    np.testing.assert_allclose(dense.encode(Dense(test)).to_array(), expected, rtol=1e-5, atol=1e-6)
    by_hand = naive.standardized(test, *naive.moments(train))
    np.testing.assert_allclose(dense.encode(Dense(test)).to_array(), by_hand, rtol=1e-6, atol=1e-9)
    scaled = encoder_of("standard", narrow(train))
    expected = StandardScaler(with_mean=False).fit(train.astype(np.float64)).transform(test)
    np.testing.assert_allclose(scaled.encode(narrow(test)).to_array(), expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("centred", [True, False])
def test_what_was_fitted_decides_and_not_the_body_of_new_rows(centred: bool) -> None:
    rows = random_csr(2, 40, 6)
    encoder = encoder_of("standard", rows, centred=centred)
    sparse, dense = encoder.encode(rows), encoder.encode(Dense(rows.to_array()))
    assert sparse.to_array().tobytes() == dense.to_array().tobytes()
    assert sparse.body == ("dense" if centred else "csr")
    assert np.allclose(dense.to_array().mean(axis=0), 0, atol=1e-6) == centred


# ---- parameters and files ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("norm", "exponent"), [("max", 0.5), ("power", 0.0), ("power", -1.0), ("power", np.nan)])
def test_parameters_out_of_range_are_refused(norm: str, exponent: float) -> None:
    with pytest.raises(ParamError, match="normalize"):
        NormalizeParams(norm, exponent)


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("body", ["dense", "csr"])
def test_a_saved_encoder_encodes_alike(norm: str, body: str, tmp_path: Path) -> None:
    rows = random_csr(6, 30, 8)
    given_rows = rows if body == "csr" else Dense(rows.to_array())
    encoder = encoder_of(norm, given_rows, 0.25)
    save_encoder(tmp_path / "e", encoder)
    loaded = load_encoder(tmp_path / "e")
    assert loaded.header() == encoder.header()
    assert loaded.encode(given_rows).to_array().tobytes() == encoder.encode(given_rows).to_array().tobytes()
    with pytest.raises(ColumnMismatch):
        loaded.encode(Dense(rows.to_array()[:, 1:]))


@pytest.mark.parametrize("wrong", [{"norm": "max"}, {"norm": None}, {"n_features": 5}, {"centred": "yes"}], ids=str)
def test_a_header_that_does_not_fit_is_refused(wrong: dict[str, object]) -> None:
    encoder = encoder_of("standard", random_csr(0, 9, 4), centred=True)
    with pytest.raises(ModelFormat):
        NormalizeEncoder.load(encoder.header() | wrong, encoder.tensors())


def test_other_fitted_values_are_refused() -> None:
    encoder = encoder_of("standard", random_csr(0, 9, 4), centred=True)
    good = encoder.tensors()
    for wrong in (
        {},
        good | {"mean": np.zeros(3)},
        good | {"deviation": np.ones(4, np.float32)},
        good | {"deviation": -np.ones(4)},
    ):
        with pytest.raises(ModelFormat):
            NormalizeEncoder.load(encoder.header(), wrong)
