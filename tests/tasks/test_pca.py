"""Principal components against their definition and scikit-learn: sums on every body, both ways to decompose them."""

from __future__ import annotations

import pickle
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
import pytest
import scipy.linalg
from hypothesis import given
from hypothesis import strategies as st
from sklearn.decomposition import PCA

from tasks.errors import ParamError, UsageError
from tasks.features import pca, statistics
from tasks.features.pca import Components, PcaParams, RowsOracle, column_slices, fit_components
from tasks.features.pca_encoder import PcaEncoder
from tasks.features.statistics import Moments, add_product, add_scatter, moments
from tasks.models.errors import ColumnMismatch, ModelFormat
from tasks.rows import Dense, OneHot, Rows
from tasks.rows.base import Array
from tasks.sums import tree_sum
from tests.bodies import BODIES, csr_of, each_body
from tests.naive import pca as naive

each_way = pytest.mark.parametrize("exact_features", [0, 2048], ids=["subspace", "exact"])


@dataclass
class SplitOracle:
    """The same rows in parts, as blocks would hold them."""

    rows: Rows
    part_rows: int
    widths: list[int] = field(default_factory=list)  # of the slices that were asked for

    @property
    def parts(self) -> list[RowsOracle]:
        starts = [*range(0, self.rows.n_rows, self.part_rows), self.rows.n_rows]
        return [RowsOracle(self.rows.part(start, stop)) for start, stop in pairwise(starts)]

    def moments(self) -> Moments:
        found: Moments = tree_sum([part.moments() for part in self.parts])
        return found

    def scatter(self, mean: Array) -> Array:
        found: Array = tree_sum([part.scatter(mean) for part in self.parts])
        return found

    def product(self, mean: Array, basis: Array) -> Array:
        self.widths.append(basis.shape[1])
        found: Array = tree_sum([part.product(mean, basis) for part in self.parts])
        return found


def correlated(seed: int, n_rows: int, n_features: int, centre: float = 3.0) -> Array:
    """Rows with variances that fall by a third from direction to direction, off the origin, float32."""
    rng = np.random.default_rng(seed)
    turned = np.linalg.qr(rng.standard_normal((n_features, n_features)))[0]
    spread = (2 / 3) ** np.arange(n_features)
    values = (rng.standard_normal((n_rows, n_features)) * spread) @ turned + centre * rng.standard_normal(n_features)
    narrow: Array = values.astype(np.float32)
    return narrow


def assert_same_span(one: Array, other: Array, angle: float) -> None:
    """The columns span the same subspace, up to `angle` radians."""
    assert float(scipy.linalg.subspace_angles(one, other).max()) < angle


@each_body
@given(seed=st.integers(0, 10**6), n_rows=st.integers(1, 9), n_features=st.sampled_from([1, 2, 6]))
def test_sums_are_those_of_the_full_matrix(make, seed: int, n_rows: int, n_features: int) -> None:  # type: ignore[no-untyped-def]
    rows = make(seed, n_rows, n_features)
    values = rows.to_array(np.float64)
    found = moments(rows)
    assert found.n_rows == n_rows
    np.testing.assert_allclose(found.mean, naive.mean(values), atol=1e-12)
    expected = naive.scatter(values, naive.mean(values))
    scatter = np.ones_like(expected)
    add_scatter(rows, found.mean, scatter)
    np.testing.assert_allclose(scatter - 1, expected, atol=1e-9)
    assert found.scatter_trace == pytest.approx(np.trace(expected), abs=1e-5)  # squared norms of codes are float32
    basis = np.random.default_rng(seed).standard_normal((n_features, 3))
    product = np.ones_like(basis)
    add_product(rows, found.mean, basis, product)
    np.testing.assert_allclose(product - 1, expected @ basis, atol=1e-9)


@each_body
def test_slices_change_no_more_than_rounding(make, monkeypatch: pytest.MonkeyPatch) -> None:  # type: ignore[no-untyped-def]
    rows = make(4, 23, 6)
    whole = RowsOracle(rows)
    mean, basis = whole.moments().mean, np.random.default_rng(0).standard_normal((6, 2))
    expected = whole.moments().sums, whole.scatter(mean), whole.product(mean, basis)
    monkeypatch.setattr(statistics, "SLICE_BYTES", 100)
    found = whole.moments().sums, whole.scatter(mean), whole.product(mean, basis)
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-10)


@each_way
@pytest.mark.parametrize("body", ["dense", "csr"])
def test_as_scikit_learn(body: str, exact_features: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pca, "EXACT_FEATURES", exact_features)
    values = correlated(1, 300, 20)
    rows = Dense(values) if body == "dense" else csr_of(values)
    found = fit_components(RowsOracle(rows), PcaParams(5), seed=3)
    reference = PCA(5, svd_solver="full").fit(values.astype(np.float64))
    np.testing.assert_allclose(found.mean, reference.mean_, atol=1e-6)
    np.testing.assert_allclose(found.variances, reference.explained_variance_, rtol=1e-6)
    np.testing.assert_allclose(found.ratios, reference.explained_variance_ratio_, rtol=1e-6)
    np.testing.assert_allclose(found.components.T @ found.components, np.eye(5), atol=1e-9)
    np.testing.assert_allclose(np.abs(np.sum(found.components * reference.components_.T, axis=0)), 1, atol=1e-6)
    assert_same_span(found.components, reference.components_.T, 1e-5)
    expected, variances = naive.components(values.astype(np.float64), 5)
    np.testing.assert_allclose(found.components, expected, atol=1e-5)  # the signs, too
    np.testing.assert_allclose(found.variances, variances, rtol=1e-6)


@each_way
@pytest.mark.parametrize("whiten", [False, True])
def test_encoded_rows_are_uncorrelated(whiten: bool, exact_features: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pca, "EXACT_FEATURES", exact_features)
    values = correlated(2, 400, 12)
    found = fit_components(RowsOracle(Dense(values)), PcaParams(4), seed=0)
    encoder = PcaEncoder.of(found, whiten)
    encoded = encoder.encode(Dense(values)).to_array(np.float64)
    assert encoded.shape == (400, 4)
    np.testing.assert_allclose(encoded.mean(axis=0), 0, atol=1e-5)
    expected = np.eye(4) if whiten else np.diag(found.variances)
    np.testing.assert_allclose(np.cov(encoded.T), expected, atol=1e-5)
    reference = PCA(4, svd_solver="full", whiten=whiten).fit(values.astype(np.float64))
    other = reference.transform(values.astype(np.float64))
    signs = np.sign(np.sum(other * encoded, axis=0))
    np.testing.assert_allclose(encoded, other * signs, atol=1e-4)


@each_body
@given(seed=st.integers(0, 10**6), n_rows=st.integers(0, 5), n_features=st.sampled_from([1, 6]))
def test_encoding_by_definition(make, seed: int, n_rows: int, n_features: int) -> None:  # type: ignore[no-untyped-def]
    rows = make(seed, n_rows, n_features)
    rng = np.random.default_rng(seed)
    centre, directions = (rng.standard_normal(shape).astype(np.float32) for shape in (n_features, (n_features, 2)))
    encoded = PcaEncoder(centre, directions).encode(rows)
    assert encoded.body == "dense"
    assert encoded.to_array().dtype == np.float32
    expected = naive.encoded(rows.to_array(np.float64), centre.astype(np.float64), directions.astype(np.float64))
    np.testing.assert_allclose(encoded.to_array(np.float64), expected, atol=1e-4)


@each_way
def test_equal_parts_give_the_same_bits_and_other_parts_almost(
    exact_features: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pca, "EXACT_FEATURES", exact_features)
    rows, params = Dense(correlated(3, 100, 9)), PcaParams(3)
    first = fit_components(SplitOracle(rows, 16), params, seed=5)
    again = fit_components(SplitOracle(rows, 16), params, seed=5)
    for name in ("mean", "components", "variances"):
        np.testing.assert_array_equal(getattr(first, name), getattr(again, name))
    other = fit_components(SplitOracle(rows, 100), params, seed=6)
    np.testing.assert_allclose(first.components, other.components, atol=1e-7)


def test_slices_of_the_basis_are_turned_as_the_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pca, "EXACT_FEATURES", 0)
    rows, params = Dense(correlated(4, 60, 10)), PcaParams(3, oversample=2)
    whole = fit_components(SplitOracle(rows, 60), params, seed=1)
    monkeypatch.setattr(pca, "SUM_BYTES", 8 * 10 * 2)
    sliced = SplitOracle(rows, 60)
    found = fit_components(sliced, params, seed=1)
    assert sliced.widths == [2, 2, 1] * (params.power_rounds + 1)
    np.testing.assert_allclose(found.components, whole.components, atol=1e-9)
    assert [(s.start, s.stop) for s in column_slices(10**9, 2)] == [(0, 1), (1, 2)]  # one column at least


def test_a_flat_spectrum_is_captured_almost_as_well_as_by_the_best_subspace(monkeypatch: pytest.MonkeyPatch) -> None:
    """The hard case of randomized methods: no gap, sparse rows of many more features than rows."""
    rng = np.random.default_rng(8)
    values = rng.standard_normal((80, 300)) * (rng.random((80, 300)) < 0.05)
    best = PCA(10, svd_solver="full").fit(values)
    monkeypatch.setattr(pca, "EXACT_FEATURES", 0)
    found = fit_components(RowsOracle(csr_of(values)), PcaParams(10), seed=0)
    assert found.ratios.sum() > 0.98 * best.explained_variance_ratio_.sum()
    assert (found.variances <= best.explained_variance_ * (1 + 1e-9)).all()  # Rayleigh-Ritz never claims too much
    assert found.total == pytest.approx(best.explained_variance_[0] / best.explained_variance_ratio_[0])


@dataclass
class Memory:
    """A checkpoint that remembers; `broken_after` products it is as if the program were killed."""

    broken_after: int
    kept: tuple[int, Array] | None = None

    def load(self) -> tuple[int, Array] | None:
        return self.kept

    def save(self, done: int, basis: Array) -> None:
        self.kept = (done, basis.copy())
        if done == self.broken_after:
            raise KeyboardInterrupt


def test_an_interrupted_iteration_goes_on_to_the_same_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pca, "EXACT_FEATURES", 0)
    oracle = RowsOracle(Dense(correlated(6, 50, 8)))
    params = PcaParams(3, power_rounds=4)
    expected = fit_components(oracle, params, seed=2)
    memory = Memory(broken_after=2)
    with pytest.raises(KeyboardInterrupt):
        fit_components(oracle, params, seed=2, checkpoint=memory)
    counted = SplitOracle(oracle.rows, 50)
    memory.broken_after = -1
    found = fit_components(counted, params, seed=2, checkpoint=memory)
    assert len(counted.widths) == 3  # two rounds left of four, and the last product
    np.testing.assert_array_equal(found.components, expected.components)
    np.testing.assert_array_equal(found.variances, expected.variances)


@each_way
@pytest.mark.parametrize("values", [np.ones((1, 3)), np.full((5, 3), 2.5), np.zeros((4, 3))])
def test_rows_that_do_not_vary(values: Array, exact_features: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pca, "EXACT_FEATURES", exact_features)
    found = fit_components(RowsOracle(Dense(values)), PcaParams(1), seed=0)
    assert found.variances.tolist() == [0.0]
    assert found.ratios.tolist() == [0.0]
    for whiten in (False, True):
        assert PcaEncoder.of(found, whiten).encode(Dense(values)).to_array().max() == 0


@each_way
def test_fewer_directions_than_components_whiten_to_zero(exact_features: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pca, "EXACT_FEATURES", exact_features)
    values = np.outer(np.arange(6.0), [1.0, -2.0, 2.0])
    found = fit_components(RowsOracle(Dense(values)), PcaParams(3), seed=0)
    assert found.ratios == pytest.approx([1, 0, 0], abs=1e-12)
    np.testing.assert_allclose(found.components[:, 0] * 3, [-1, 2, -2], atol=1e-9)  # the first of equals is positive
    np.testing.assert_allclose(found.components.T @ found.components, np.eye(3), atol=1e-9)
    assert not found.projection(whiten=True)[:, 1:].any()


def test_as_many_components_as_features_only_turn_the_rows() -> None:
    values = correlated(7, 40, 5)
    encoded = PcaEncoder.of(fit_components(RowsOracle(Dense(values)), PcaParams(5), 0), False).encode(Dense(values))
    turned, centred = encoded.to_array(np.float64), values - values.mean(axis=0)
    np.testing.assert_allclose(turned @ turned.T, centred @ centred.T, atol=1e-3)


def test_a_large_offset_does_not_drown_the_spread() -> None:
    values = correlated(9, 200, 6, centre=0.0).astype(np.float64) + 1e6
    found = fit_components(RowsOracle(Dense(values)), PcaParams(3), seed=0)
    reference = PCA(3, svd_solver="full").fit(values - 1e6)
    np.testing.assert_allclose(found.variances, reference.explained_variance_, rtol=1e-6)


@pytest.mark.parametrize("wrong", [{"components": 0}, {"power_rounds": -1}, {"oversample": -1}])
def test_parameters_out_of_range_are_refused(wrong: dict[str, int]) -> None:
    with pytest.raises(ParamError, match=f"pca.{next(iter(wrong))}"):
        PcaParams(**wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize(("shape", "most"), [((5, 9), 5), ((9, 5), 5)])
def test_more_components_than_there_are_name_the_most(shape: tuple[int, int], most: int) -> None:
    oracle = RowsOracle(Dense(np.random.default_rng(0).standard_normal(shape)))
    with pytest.raises(ParamError, match=f"expected 1 to {most}") as caught:
        fit_components(oracle, PcaParams(6), seed=0)
    assert isinstance(pickle.loads(pickle.dumps(caught.value)), UsageError)
    assert fit_components(oracle, PcaParams(most), seed=0).components.shape == (shape[1], most)


def test_the_encoder_comes_back_from_header_and_tensors() -> None:
    found = Components(np.arange(3.0), np.eye(3)[:, :2], np.array([4.0, 1.0]), 5.0)
    encoder = PcaEncoder.of(found, whiten=True)
    assert encoder.components.tolist() == [[0.5, 0], [0, 1], [0, 0]]
    again = PcaEncoder.load(encoder.header(), encoder.tensors())
    np.testing.assert_array_equal(again.components, encoder.components)
    np.testing.assert_array_equal(again.mean, encoder.mean)
    assert again.header() == encoder.header()
    with pytest.raises(ColumnMismatch):
        encoder.encode(Dense(np.ones((1, 4), np.float32)))


@pytest.mark.parametrize(
    ("header", "tensors"),
    [
        ({"components": 3}, {}),
        ({"n_features": 2}, {}),
        ({}, {"mean": np.zeros(2, np.float32)}),
        ({}, {"components": np.zeros((3, 2))}),
        ({}, {"mean": None}),
    ],
)
def test_an_encoder_that_does_not_fit_its_header_is_refused(
    header: dict[str, int], tensors: dict[str, Array | None]
) -> None:
    good = PcaEncoder(np.zeros(3, np.float32), np.zeros((3, 2), np.float32))
    given = {name: values for name, values in {**good.tensors(), **tensors}.items() if values is not None}
    with pytest.raises(ModelFormat, match="pca encoder"):
        PcaEncoder.load({**good.header(), **header}, given)


def test_one_hot_rows_are_taken_as_the_sparse_rows_they_stand_for(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = OneHot(np.random.default_rng(0).integers(0, 3, (30, 5)).astype(np.uint8), 3)
    for exact_features in (0, 2048):
        monkeypatch.setattr(pca, "EXACT_FEATURES", exact_features)
        found = fit_components(RowsOracle(rows), PcaParams(3), seed=1)
        expected = fit_components(RowsOracle(rows.decoded()), PcaParams(3), seed=1)
        np.testing.assert_allclose(found.components, expected.components, atol=1e-9)
        encoder = PcaEncoder.of(found, whiten=False)
        plain = encoder.encode(Dense(rows.to_array())).to_array()
        np.testing.assert_allclose(encoder.encode(rows).to_array(), plain, atol=1e-5)


def test_bodies_are_all_covered() -> None:
    assert set(BODIES) >= {"float16", "float32", "csr", "pq"}
