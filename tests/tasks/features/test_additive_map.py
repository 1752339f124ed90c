"""Feature maps of additive kernels against the kernels, the definition of the map, and scikit-learn."""

from __future__ import annotations

import math
import pickle
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from sklearn.kernel_approximation import AdditiveChi2Sampler

from tasks.errors import InputError, ParamError
from tasks.features import additive_encoder
from tasks.features.additive_encoder import AdditiveEncoder
from tasks.features.additive_map import KERNELS, RUN, MapParams, map_values, spectrum
from tasks.features.errors import NegativeFeature, numbered
from tasks.models.encoder_folder import load_encoder, save_encoder
from tasks.models.errors import ColumnMismatch, ModelFormat
from tasks.rows import Csr, Dense, OneHot, PqCodes, Rows
from tasks.rows.base import Array
from tests.bodies import csr_of
from tests.naive import additive_map as naive

ERRORS = {  # of the kernel of two values, as a share of the larger one: the kernels are homogeneous, so for all values
    ("chi2-map", 1): 0.0345,
    ("chi2-map", 2): 0.01292,
    ("chi2-map", 3): 0.00583,
    ("hi-map", 1): 0.1580,
    ("hi-map", 2): 0.1216,
    ("hi-map", 3): 0.0996,
}
ULP = 2.0**-24  # of float32, rounded to nearest
each_map = pytest.mark.parametrize(("kind", "samples"), ERRORS)
HISTOGRAMS = hnp.arrays(
    np.float32, (4, 5), elements=st.one_of(st.just(0.0), st.floats(2.0**-13, 1, width=32)), fill=st.nothing()
)
ANY_VALUE = st.one_of(
    st.just(0.0), st.floats(0, 2.0**127, width=32), st.integers(0, 300).map(float), st.just(1.401298464324817e-45)
)


def mapped(values: Array, params: MapParams) -> Array:
    """(m,) -> (m, 2n + 1) float32."""
    out = np.empty((values.size, params.width), np.float32)
    assert map_values(values, params.amplitudes, params.step, out) == -1
    return out


def encoded(values: Array, params: MapParams) -> Array:
    return AdditiveEncoder.of(params, values.shape[1]).encode(Dense(values)).to_array(np.float64)


def some_histograms(seed: int, n_rows: int, n_features: int, empty: float = 0.6) -> Array:
    """Counts and shares, most of them zero; one row is."""
    rng = np.random.default_rng(seed)
    values = np.where(rng.random((n_rows, 1)) < 0.5, rng.integers(0, 30, (n_rows, n_features)), 1.0)
    values = values * rng.random((n_rows, n_features)) * (rng.random((n_rows, n_features)) > empty)
    values[n_rows // 2] = 0
    narrow: Array = values.astype(np.float32)
    return narrow


# ---- the map -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KERNELS)
@given(
    values=hnp.arrays(np.float32, st.integers(1, 12), elements=ANY_VALUE),
    samples=st.integers(1, 4),
    period=st.one_of(st.none(), st.floats(1.0, 40.0)),
)
def test_matches_the_definition(kind: str, values: np.ndarray, samples: int, period: float | None) -> None:
    params = MapParams(kind, samples, period)
    expected = naive.mapped(values[:, None], kind, samples, params.known_period)
    roots = np.sqrt(values.astype(np.float64))[:, None]
    for rows in (values, values.astype(np.float64)):
        assert (np.abs(mapped(rows, params) - expected) <= ULP * np.abs(expected) + 1e-12 * roots).all()


@pytest.mark.parametrize("kind", KERNELS)
def test_long_rows_are_mapped_as_their_values_are_one_by_one(kind: str) -> None:
    values = some_histograms(3, 1, 2 * RUN + 37, 0.2).reshape(-1) + np.float32(0.25)
    values[::5] = 0
    params = MapParams(kind, 2)
    found = mapped(values, params)
    alone = np.concatenate([mapped(values[i : i + 1], params) for i in range(0, values.size, 11)])
    np.testing.assert_array_equal(found[::11], alone)
    again = mapped(values[5:], params)  # another place in the run
    np.testing.assert_array_equal(found[5:], again)


def test_zeros_stay_zeros_of_no_sign() -> None:
    found = mapped(np.array([0.0, -0.0, 1.0], np.float32), MapParams("chi2-map", 3))
    assert not found[:2].any()
    assert not np.signbit(found[:2]).any()
    assert (found[2] != 0).tolist() == [True, True, False, True, False, True, False]  # log 1 = 0: no sines


@pytest.mark.parametrize("kind", KERNELS)
def test_the_spectrum_is_that_of_the_kernel(kind: str) -> None:
    frequencies = np.linspace(-400, 400, 800_001)
    density = np.array([spectrum(kind, f) for f in frequencies[::8]])
    for ratio in (0.0, 0.7, 3.0):
        transform = np.trapezoid(density * np.cos(ratio * frequencies[::8]), frequencies[::8])
        assert transform == pytest.approx(naive.signature(kind, ratio), abs=1e-3)
    assert spectrum(kind, 1e4) == pytest.approx(0, abs=1e-8)  # and does not overflow


@pytest.mark.parametrize("kind", KERNELS)
@given(x=st.floats(1e-4, 1), y=st.floats(1e-4, 1))
def test_kernels_are_signatures_of_ratios(kind: str, x: float, y: float) -> None:
    found = math.sqrt(x * y) * naive.signature(kind, math.log(y / x))
    assert found == pytest.approx(naive.kernel(kind, x, y), rel=1e-9)


# ---- how close -----------------------------------------------------------------------------------------------------


@each_map
def test_error_of_pairs_of_values(kind: str, samples: int) -> None:
    """Measured over x and y in [1e-4, 1], and by homogeneity (log-ratios up to 9.2) what it is anywhere."""
    values = np.geomspace(1e-4, 1, 301)
    found = mapped(values, MapParams(kind, samples)).astype(np.float64)
    x, y = values[:, None], values[None, :]
    exact = np.minimum(x, y) if kind == "hi-map" else 2 * x * y / (x + y)
    worst = float((np.abs(found @ found.T - exact) / np.maximum(x, y)).max())
    bound = ERRORS[kind, samples]
    assert 0.97 * bound < worst <= bound


@each_map
@given(values=HISTOGRAMS)
def test_inner_products_of_rows_are_as_close(kind: str, samples: int, values: np.ndarray) -> None:
    found = encoded(values, MapParams(kind, samples))
    exact = naive.kernel_of_rows(kind, values.astype(np.float64), values.astype(np.float64))
    reach = np.array([[np.maximum(a, b).sum() for b in values] for a in values])
    assert (np.abs(found @ found.T - exact) <= (ERRORS[kind, samples] + 1e-6) * reach + 1e-12).all()


@pytest.mark.parametrize("kind", KERNELS)
def test_more_samples_come_closer(kind: str) -> None:
    values = some_histograms(5, 9, 40)
    exact = naive.kernel_of_rows(kind, values, values)
    errors = []
    for samples in (1, 2, 4, 8, 16):
        found = encoded(values, MapParams(kind, samples))
        errors.append(float(np.abs(found @ found.T - exact).max()))
    assert errors == sorted(errors, reverse=True)
    assert errors[-1] < errors[0] / 3


@each_map
@given(values=HISTOGRAMS, factor=st.floats(1e-3, 1e3))
def test_inner_products_scale_with_the_rows(kind: str, samples: int, values: np.ndarray, factor: float) -> None:
    scaled = (values.astype(np.float64) * factor).astype(np.float32)
    params = MapParams(kind, samples)
    first, second = encoded(values, params), encoded(scaled, params)
    room = 1e-5 * factor * np.outer(*2 * [np.linalg.norm(first, axis=1)]) + 1e-12
    assert (np.abs(second @ second.T - factor * (first @ first.T)) <= room).all()


@pytest.mark.parametrize("samples", [1, 2, 3])
def test_chi2_as_scikit_learn(samples: int) -> None:
    values = some_histograms(samples, 12, 30)
    for step in (0.8, 0.5):
        theirs = AdditiveChi2Sampler(sample_steps=samples + 1, sample_interval=step).fit_transform(values)
        ours = encoded(values, MapParams("chi2-map", samples, 2 * math.pi / step))
        np.testing.assert_allclose(ours @ ours.T, theirs @ theirs.T, rtol=2e-6, atol=1e-6)


def test_periods_are_the_paper_s() -> None:
    found = [round(MapParams(kind, n).known_period, 2) for kind in KERNELS for n in (1, 2, 3)]
    assert found == [9.51, 11.94, 13.8, 7.0, 8.05, 8.78]


# ---- bodies --------------------------------------------------------------------------------------------------------


@each_map
def test_sparse_and_dense_rows_are_equal_bit_for_bit(kind: str, samples: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(additive_encoder, "SLICE_BYTES", 4 * 33 * 5)
    values = some_histograms(samples, 23, 33)
    encoder = AdditiveEncoder.of(MapParams(kind, samples), 33)
    dense, sparse = encoder.encode(Dense(values)), encoder.encode(csr_of(values))
    assert isinstance(dense, Dense)
    assert isinstance(sparse, Csr)
    assert dense.shape == sparse.shape == (23, 33 * (2 * samples + 1))
    assert (dense.values.dtype, sparse.data.dtype, sparse.indices.dtype, sparse.indptr.dtype) == (
        np.dtype(np.float32),
        np.dtype(np.float32),
        np.dtype(np.int32),
        np.dtype(np.int64),
    )
    assert sparse.data.size == np.count_nonzero(values) * (2 * samples + 1)
    assert (np.diff(sparse.indices)[np.diff(np.repeat(np.arange(23), np.diff(sparse.indptr))) == 0] > 0).all()
    assert dense.values.tobytes() == sparse.to_array().tobytes()


def test_other_bodies_are_mapped_as_what_they_stand_for() -> None:
    rng = np.random.default_rng(1)
    books, codes = rng.random((3, 4, 2)).astype(np.float32), rng.integers(0, 4, (7, 3)).astype(np.uint8)
    half = some_histograms(2, 7, 6).astype(np.float16)
    encoder = AdditiveEncoder.of(MapParams("chi2-map", 1), 6)
    for rows in (PqCodes(codes, books), Dense(half), OneHot(codes[:, :2] % 3, 3)):
        plain: Rows = Dense(rows.to_array())
        assert encoder.encode(rows).to_array().tobytes() == encoder.encode(plain).to_array().tobytes()


def test_rows_without_rows_or_values() -> None:
    encoder = AdditiveEncoder.of(MapParams("hi-map", 2), 4)
    assert encoder.encode(Dense(np.empty((0, 4), np.float32))).shape == (0, 20)
    empty = encoder.encode(csr_of(np.zeros((3, 4))))
    assert empty.shape == (3, 20)
    assert not empty.to_array().any()


# ---- refusals ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("make", [Dense, csr_of])
def test_values_below_zero_are_refused_with_their_place(make, monkeypatch: pytest.MonkeyPatch) -> None:  # type: ignore[no-untyped-def]
    monkeypatch.setattr(additive_encoder, "SLICE_BYTES", 4 * 400 * 2)
    values = some_histograms(0, 9, 400, 0.1)
    values[7, 390], values[8, 1] = -0.5, -1
    encoder = AdditiveEncoder.of(MapParams("chi2-map", 1), 400)
    with pytest.raises(NegativeFeature, match=r"-0\.5 is below 0: chi2-map .*\[row 7, column 390\]") as caught:
        encoder.encode(make(values))
    assert isinstance(caught.value, InputError)
    assert "what to do" in str(caught.value)
    with pytest.raises(NegativeFeature, match=r"\[row 107, column 390\]") as renumbered:  # noqa: SIM117
        with numbered(lambda: np.arange(100, 109)):
            encoder.encode(make(values))
    carried = pickle.loads(pickle.dumps(renumbered.value))
    assert (str(carried), carried.place) == (str(renumbered.value), (107, 390, -0.5, "chi2-map"))
    with pytest.raises(NegativeFeature, match="elsewhere"), numbered(list):
        raise NegativeFeature("a value is below 0", "elsewhere")


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"kernel": "js-map"}, "chi2-map or hi-map"),
        ({"samples": 0}, "1 to 100"),
        ({"samples": 101}, "1 to 100"),
        ({"period": 0.0}, "above 0"),
        ({"period": math.inf}, "above 0"),
        ({"period": math.nan}, "above 0"),
    ],
)
def test_parameters_out_of_range(settings: dict[str, object], said: str) -> None:
    with pytest.raises(ParamError, match=said):
        MapParams(**settings)  # type: ignore[arg-type]


def test_columns_that_cannot_be_numbered() -> None:
    assert AdditiveEncoder.of(MapParams(samples=1), (2**31 - 1) // 3).n_features == 715_827_882
    with pytest.raises(ParamError, match="more than int32"):
        AdditiveEncoder.of(MapParams(samples=1), (2**31 - 1) // 3 + 1)


# ---- as models carry it --------------------------------------------------------------------------------------------


@each_map
def test_an_encoder_is_saved_and_loaded(kind: str, samples: int, tmp_path: Path) -> None:
    values = some_histograms(1, 5, 8)
    encoder = AdditiveEncoder.of(MapParams(kind, samples), 8)
    save_encoder(tmp_path / "encoder", encoder)
    loaded = load_encoder(tmp_path / "encoder")
    assert isinstance(loaded, AdditiveEncoder)
    assert (loaded.kind, loaded.n_features, loaded.params.samples) == (kind, 8, samples)
    assert loaded.encode(Dense(values)).to_array().tobytes() == encoder.encode(Dense(values)).to_array().tobytes()
    with pytest.raises(ColumnMismatch):
        loaded.encode(Dense(values[:, 1:]))


@pytest.mark.parametrize(
    "wrong",
    [{"samples": 0}, {"samples": 2}, {"samples": None}, {"period": -1}, {"n_features": 2**31}, {"kind": "pq"}],
    ids=str,
)
def test_a_header_that_does_not_fit_is_refused(wrong: dict[str, object]) -> None:
    encoder = AdditiveEncoder.of(MapParams("hi-map", 1), 8)
    with pytest.raises(ModelFormat):
        AdditiveEncoder.load(encoder.header() | wrong, encoder.tensors())


def test_other_amplitudes_are_refused() -> None:
    encoder = AdditiveEncoder.of(MapParams("hi-map", 1), 8)
    for amplitudes in (np.ones(3), np.ones(2, np.float32)):
        with pytest.raises(ModelFormat, match="amplitudes"):
            AdditiveEncoder.load(encoder.header(), {"amplitudes": amplitudes})
    with pytest.raises(ModelFormat, match="cannot be used"):
        AdditiveEncoder.load(encoder.header(), {})
