"""Mixtures of Gaussians as sums over blocks: the definition, scikit-learn, and what must not happen to them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from sklearn.mixture import GaussianMixture

from tasks.errors import ParamError
from tasks.features import mixture as module
from tasks.features.mixture import (
    LEAST_ROWS,
    ArrayOracle,
    Mixture,
    MixtureParams,
    MixtureSums,
    first_mixture,
    floors_of,
    mixture_sums,
    train_mixture,
    updated,
)
from tasks.quantize.kmeans import ArrayOracle as CodebookArrays
from tasks.quantize.kmeans import train_codebooks
from tasks.rows.base import Array
from tasks.sums import tree_sum
from tests.naive import fisher as naive

FREE = MixtureParams(tolerance=0.0, floor=1e-12)  # a floor that nothing touches


def some_values(seed: int, n_rows: int, n_clusters: int, width: int, away: float = 0.0) -> Array:
    rng = np.random.default_rng(seed)
    centres, spreads = 2 * rng.standard_normal((n_clusters, width)), 0.3 + rng.random((n_clusters, width))
    of = rng.integers(n_clusters, size=n_rows)
    return (away + centres[of] + spreads[of] * rng.standard_normal((n_rows, width))).astype(np.float32)


def some_start(values: Array, n_components: int) -> Mixture:
    values = values.astype(np.float64)
    means = values[:: len(values) // n_components][:n_components]
    return Mixture(np.full(n_components, 1 / n_components), means, np.tile(values.var(axis=0), (n_components, 1)))


@dataclass
class SplitOracle:
    values: Array
    part_rows: int

    def sums(self, mixture: Mixture) -> MixtureSums:
        starts = range(0, len(self.values), self.part_rows)
        total: MixtureSums = tree_sum([mixture_sums(self.values[i : i + self.part_rows], mixture) for i in starts])
        return total


# ---- the definition ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(3))
def test_posteriors_and_a_round_by_definition(seed: int) -> None:
    values = some_values(seed, 60, 3, 4)
    start = some_start(values, 4)
    parts = (start.weights, start.means, start.variances)
    q, logs = start.posteriors(start.powers(values))
    expected = [naive.posterior(x, *parts) for x in values]
    np.testing.assert_allclose(q, [found[0] for found in expected], rtol=1e-10, atol=1e-300)
    np.testing.assert_allclose(logs, [found[1] for found in expected], rtol=1e-12)
    moved = updated(start, mixture_sums(values, start), np.zeros(4))
    again = naive.em_round(values.astype(np.float64), *parts)
    for found, part in zip((moved.weights, moved.means, moved.variances), again, strict=True):
        np.testing.assert_allclose(found, part, rtol=1e-9, atol=1e-12)


def test_sums_over_parts_are_those_of_all(monkeypatch: pytest.MonkeyPatch) -> None:
    values = some_values(4, 101, 3, 5)
    start = some_start(values, 6)
    whole = mixture_sums(values, start)
    joined = mixture_sums(values[:37], start) + mixture_sums(values[37:37], start) + mixture_sums(values[37:], start)
    monkeypatch.setattr(module, "SLICE_BYTES", 8 * 6 * 7)
    sliced = mixture_sums(values, start)
    for sums in (joined, sliced):
        assert sums.n_rows == whole.n_rows == 101
        assert sums.log_likelihood == pytest.approx(whole.log_likelihood, rel=1e-13)
        for name in ("responsibilities", "sums", "squares"):
            np.testing.assert_allclose(getattr(sums, name), getattr(whole, name), rtol=1e-12, atol=1e-12)
    assert whole.responsibilities.sum() == pytest.approx(101, rel=1e-13)
    np.testing.assert_allclose(whole.variances, values.astype(np.float64).var(axis=0), rtol=1e-12)


@pytest.mark.parametrize("away", [0.0, 1e5])
def test_rows_far_from_zero_lose_nothing(away: float) -> None:
    """The same mixture, moved: squares of 1e10 would cost what is left of the variances."""
    values = some_values(5, 80, 3, 4).astype(np.float64)
    start = some_start(values, 3)
    moved = Mixture(start.weights, start.means + away, start.variances)
    near, far = mixture_sums(values, start), mixture_sums(values + away, moved)
    np.testing.assert_allclose(far.squares, near.squares, rtol=1e-8, atol=1e-8)
    assert far.log_likelihood == pytest.approx(near.log_likelihood, rel=1e-9)


# ---- training ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rounds", [1, 7, 40])
@pytest.mark.parametrize("seed", range(2))
def test_as_scikit_learn(seed: int, rounds: int) -> None:
    values = some_values(seed, 400, 4, 6)
    start = some_start(values, 5)
    theirs = GaussianMixture(
        5, covariance_type="diag", reg_covar=0.0, tol=0.0, max_iter=rounds,
        weights_init=start.weights, means_init=start.means, precisions_init=1 / start.variances,
    )  # fmt: skip
    with pytest.warns(match="did not converge"):
        theirs.fit(values.astype(np.float64))
    params = MixtureParams(5, rounds, 0.0, 1e-12)
    for oracle in (ArrayOracle(values), SplitOracle(values, 37)):
        found = train_mixture(oracle, start, params)
        assert len(found.likelihoods) == rounds + 1
        np.testing.assert_allclose(found.mixture.weights, theirs.weights_, rtol=1e-6)
        np.testing.assert_allclose(found.mixture.means, theirs.means_, rtol=1e-6, atol=1e-6)
        np.testing.assert_allclose(found.mixture.variances, theirs.covariances_, rtol=1e-6)
        assert found.likelihoods[-1] == pytest.approx(theirs.score(values.astype(np.float64)), rel=1e-9)


@pytest.mark.parametrize("floor", [1e-12, 1e-4, 0.2])
@pytest.mark.parametrize("seed", range(4))
def test_the_likelihood_never_falls(seed: int, floor: float) -> None:
    """Also where variances are held up, and where the rows are so few that components would shrink to one."""
    values = some_values(seed, [300, 25][seed % 2], 5, 3)
    values[:4] = values[0]
    start = some_start(values, 8)
    found = train_mixture(ArrayOracle(values), start, MixtureParams(8, 60, 0.0, floor))
    steps = np.diff(found.likelihoods)
    assert (steps[:-1] >= -1e-9).all()
    assert found.likelihoods[-1] > found.likelihoods[0]
    assert (found.mixture.variances >= floors_of(values.astype(np.float64).var(axis=0), floor) * (1 - 1e-9)).all()
    assert found.mixture.weights.sum() == pytest.approx(1, abs=1e-12)


def test_rounds_end_once_little_is_gained() -> None:
    values = some_values(1, 300, 3, 4)
    start = some_start(values, 3)
    long = train_mixture(ArrayOracle(values), start, MixtureParams(3, 200, 1e-6))
    short = train_mixture(ArrayOracle(values), start, MixtureParams(3, 200, 1e-2))
    assert len(short.likelihoods) < len(long.likelihoods) < 201
    gains = np.diff(short.likelihoods)
    assert gains[-1] < 1e-2 <= gains[:-1].min()
    none = train_mixture(ArrayOracle(values), start, MixtureParams(3, 0))
    assert none.mixture is start


def test_a_component_that_loses_all_rows_stays() -> None:
    """Far away, it keeps mean and variances, and a weight above 0; the others are what they are without it."""
    values = some_values(2, 200, 2, 3)
    start = some_start(values, 3)
    start.means[1] = 1e4
    found = train_mixture(ArrayOracle(values), start, MixtureParams(3, 10, 0.0))
    assert found.lost == 1
    np.testing.assert_array_equal(found.mixture.means[1], start.means[1])
    np.testing.assert_array_equal(found.mixture.variances[1], start.variances[1])
    assert found.mixture.weights[1] == pytest.approx(LEAST_ROWS / 200, rel=1e-2)
    two = Mixture(start.weights[[0, 2]] * 1.5, start.means[[0, 2]], start.variances[[0, 2]])
    rest = train_mixture(ArrayOracle(values), two, MixtureParams(2, 10, 0.0))
    np.testing.assert_allclose(found.mixture.means[[0, 2]], rest.mixture.means, rtol=1e-4, atol=1e-6)


def test_constant_columns_and_no_rows() -> None:
    values = np.column_stack([some_values(3, 90, 2, 2), np.full(90, 0.1, np.float32)])
    start = Mixture(np.array([0.5, 0.5]), values[:2].astype(np.float64), np.ones((2, 3)))
    found = train_mixture(ArrayOracle(values), start, MixtureParams(2, 20, 0.0)).mixture
    assert np.isfinite(found.means).all()
    assert (found.variances > 0).all()
    np.testing.assert_allclose(found.means[:, 2], np.float32(0.1), rtol=1e-6)
    nothing = train_mixture(ArrayOracle(values[:0]), start, MixtureParams(2, 3))
    np.testing.assert_array_equal(nothing.mixture.means, start.means)
    same = train_mixture(ArrayOracle(values[:1].repeat(5, axis=0)), start, MixtureParams(2, 3))
    assert (same.mixture.variances > 0).all()
    assert np.isfinite(same.likelihoods).all()


def test_the_same_bits_again() -> None:
    values = some_values(6, 150, 3, 5)
    start = some_start(values, 4)
    first, second = (train_mixture(SplitOracle(values, 40), start, FREE) for _ in range(2))
    assert first.likelihoods == second.likelihoods
    assert first.mixture.means.tobytes() == second.mixture.means.tobytes()


# ---- where it starts -----------------------------------------------------------------------------------------------


def test_a_first_mixture_of_clusters() -> None:
    values = some_values(7, 500, 4, 3)
    oracle = CodebookArrays(values)
    books = train_codebooks(oracle, 1, 4, 10, seed=1).codebooks
    sums = oracle.sums(books)
    variances = values.astype(np.float64).var(axis=0)
    first = first_mixture(books[0], sums.counts[0], sums.errors[0], variances, 1e-4)
    np.testing.assert_allclose(first.weights, sums.counts[0] / 500)
    np.testing.assert_array_equal(first.means, books[0].astype(np.float64))
    np.testing.assert_allclose(first.variances.sum(axis=1), sums.errors[0] / sums.counts[0])
    np.testing.assert_allclose(first.variances / first.variances[:, :1], np.tile(variances / variances[0], (4, 1)))
    found = train_mixture(ArrayOracle(values), first, MixtureParams(4, 50))
    assert found.likelihoods[-1] > found.likelihoods[0]


def test_clusters_without_rows_or_spread() -> None:
    first = first_mixture(
        np.zeros((3, 2), np.float32), np.array([4, 0, 1]), np.array([8.0, 0.0, 0.0]), np.array([2.0, 0.0]), 1e-2
    )
    assert first.weights.sum() == pytest.approx(1)
    assert (first.weights > 0).all()
    np.testing.assert_allclose(first.variances[:, 0], [2.0, 2.0, 0.02])
    assert (first.variances[:, 1] > 0).all()
    assert floors_of(np.zeros(2), 0.5).tolist() == [0.5, 0.5]


@pytest.mark.parametrize(
    "settings",
    [{"components": 0}, {"iterations": -1}, {"tolerance": -1.0}, {"tolerance": float("nan")}, {"floor": 0.0}],
)
def test_parameters_out_of_range(settings: dict[str, float]) -> None:
    with pytest.raises(ParamError, match=f"mixture.{next(iter(settings))}"):
        MixtureParams(**settings)  # type: ignore[arg-type]
