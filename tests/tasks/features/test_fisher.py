"""Fisher vectors against loops in double precision, and against derivatives of the likelihood itself."""

from __future__ import annotations

import numpy as np
import pytest

from tasks.errors import ParamError
from tasks.features.fisher import FisherParams, derivatives, normalized
from tasks.features.fisher_encoder import FisherEncoder
from tasks.features.mixture import Mixture, mixture_sums
from tasks.rows.base import Array
from tests.naive import fisher as naive
from tests.naive import pca as naive_pca
from tests.tasks.features.descriptor_samples import by_image, some_descriptors

LENGTHS = [0, 1, 60, 7]


def mixture_of(values: Array, n_components: int) -> Mixture:
    """Around some of the values, with uneven weights; components overlap, so that posteriors are shared."""
    values = values.astype(np.float64)
    means = values[np.linspace(0, len(values) - 1, n_components).astype(int)]
    weights = np.arange(1, n_components + 1) / (n_components * (n_components + 1) / 2)
    scales = 0.5 + np.arange(n_components) / n_components
    return Mixture(weights, means, scales[:, None] * np.maximum(values.var(axis=0), 1e-3 * values.var(axis=0).max()))


def likelihood(values: Array, weights: Array, means: Array, variances: Array) -> float:
    return float(np.mean([naive.posterior(x, weights, means, variances)[1] for x in values]))


@pytest.mark.parametrize("n_components", [4, 16])
@pytest.mark.parametrize("width", [None, 20])
@pytest.mark.parametrize(("power", "room"), [(0.5, 1e-7), (1.0, 1e-7), (0.3, 1e-5)])  # 1e-16 ^ 0.3 is 1.6e-5
def test_rows_are_those_of_the_definition(n_components: int, width: int | None, power: float, room: float) -> None:
    rows = some_descriptors(n_components, LENGTHS)
    images, params = by_image(rows), FisherParams(power)
    sample = some_descriptors(99, [300]).numbers().astype(np.float64)
    if width is None:
        encoder = FisherEncoder.plain(params, mixture_of(sample, n_components))
    else:
        mean = naive_pca.mean(sample).astype(np.float32)
        directions = np.ascontiguousarray(naive_pca.components(sample, width)[0], np.float32)
        images = [
            naive_pca.encoded(numbers.astype(np.float64), mean, directions.astype(np.float64)) for numbers in images
        ]
        encoder = FisherEncoder(params, mixture_of((sample - mean) @ directions, n_components), mean, directions)
    known = encoder.mixture
    expected = [naive.fisher_vector(x, known.weights, known.means, known.variances, power, norm=True) for x in images]
    found = encoder.encode(rows)
    assert found.values.dtype == np.float32
    assert found.shape == (4, 2 * n_components * (width or 128)) == (4, encoder.n_columns)
    np.testing.assert_allclose(found.values, expected, rtol=1e-6, atol=room)
    assert not found.values[0].any()
    np.testing.assert_allclose(found.squared_norms(), [0, 1, 1, 1], atol=1e-6)


def test_derivatives_are_those_of_the_likelihood() -> None:
    """By differences: to m_k in units of s_k / sqrt(w_k), to s_k in units of s_k / sqrt(2 w_k)."""
    rng = np.random.default_rng(3)
    values = rng.standard_normal((12, 3))
    weights, means, variances = np.array([0.3, 0.7]), rng.standard_normal((2, 3)), 0.5 + rng.random((2, 3))
    mixture = Mixture(weights, means, variances)
    found = derivatives(mixture_sums(values, mixture), mixture).reshape(2, 2, 3)
    for k in range(2):
        for d in range(3):
            step = np.zeros((2, 3))
            step[k, d] = 1e-5
            up, down = (likelihood(values, weights, means + sign * step, variances) for sign in (1, -1))
            slope = (up - down) / 2e-5 * np.sqrt(variances[k, d] / weights[k])
            assert found[0, k, d] == pytest.approx(slope, abs=1e-7)
            up, down = (likelihood(values, weights, means, (np.sqrt(variances) + sign * step) ** 2) for sign in (1, -1))
            slope = (up - down) / 2e-5 * np.sqrt(variances[k, d] / (2 * weights[k]))
            assert found[1, k, d] == pytest.approx(slope, abs=1e-7)


def test_the_fitted_mixture_has_no_derivatives() -> None:
    """The moments of one component are its maximum."""
    values = np.random.default_rng(4).standard_normal((50, 6)) * 3 + 100
    mixture = Mixture(np.ones(1), values.mean(axis=0)[None], values.var(axis=0)[None])
    assert np.abs(derivatives(mixture_sums(values, mixture), mixture)).max() < 1e-12


@pytest.mark.parametrize("power", [0.5, 1.0, 0.25])
def test_power_and_norm(power: float) -> None:
    vector = np.array([4.0, -9.0, 0.0, 1e-12])
    plain = normalized(vector, FisherParams(power, normalize=False))
    np.testing.assert_allclose(plain, np.sign(vector) * np.abs(vector) ** power, rtol=1e-14)
    found = normalized(vector, FisherParams(power))
    assert np.linalg.norm(found) == pytest.approx(1)
    np.testing.assert_allclose(found * np.linalg.norm(plain), plain)
    assert not normalized(np.zeros(4), FisherParams(power)).any()


@pytest.mark.parametrize("power", [0.0, -1.0, 1.5, float("nan")])
def test_powers_out_of_range(power: float) -> None:
    with pytest.raises(ParamError, match=r"fisher\.power"):
        FisherParams(power)
