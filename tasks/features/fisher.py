"""Fisher vectors (Perronnin et al., ECCV 2010; Sanchez et al., IJCV 2013, equations 16 to 18 and 22).

How an image's descriptors x_t would move the means and deviations of a mixture, in units of their information: with
q_tk the posterior of component k, for T descriptors

    mu_k = 1 / (T sqrt(w_k)) sum over t of q_tk (x_t - m_k) / s_k
    sigma_k = 1 / (T sqrt(2 w_k)) sum over t of q_tk (((x_t - m_k) / s_k)^2 - 1)

so that both follow from the sums of q, q x and q x^2. Then sign(z) |z|^power, and the Euclidean norm is made 1.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tasks.errors import ParamError
from tasks.features.mixture import Mixture, MixtureSums
from tasks.later import numba
from tasks.rows.base import Array


@dataclass(frozen=True, slots=True)
class FisherParams:
    """What is done to a vector of derivatives.

    power      sign(z) |z|^power; 1 leaves it
    normalize  divide each row by its Euclidean norm
    """

    power: float = 0.5
    normalize: bool = True

    def __post_init__(self) -> None:
        if not 0 < self.power <= 1:
            raise ParamError("fisher.power", self.power, "above 0, at most 1", "it is the exponent of magnitudes")


def projected(values: Array, mean: Array, directions: Array) -> Array:
    """(values - mean) @ directions in float64, (n, D): values (n, d), mean (d,), directions (d, D), any float."""
    found: Array = (values - mean.astype(np.float64, copy=False)) @ directions.astype(np.float64, copy=False)
    return found


def derivatives(sums: MixtureSums, mixture: Mixture) -> Array:
    """[mu_1 ... mu_K, sigma_1 ... sigma_K] (2 K D,) float64 of one image's sums; zeros of no descriptors."""
    out = np.zeros((2, *mixture.means.shape))
    if sums.n_rows:
        units = mixture.standard_units
        fill_derivatives(sums.responsibilities, sums.sums, sums.squares, *units, out)
        out /= sums.n_rows
    return out.reshape(-1)


@numba.njit(cache=True, nogil=True)
def fill_derivatives(
    counts: Array, sums: Array, squares: Array, centred: Array, per_deviation: Array, scales: Array, out: Array
) -> None:
    """out (2, K, D) = T times mu and sigma.

    counts (K,), sums (K, D), squares (K, D)  of `MixtureSums`
    centred (K, D), per_deviation (K, D), scales (2, K)  `Mixture.standard_units`
    """
    for k in range(counts.size):
        count, of_mean, of_deviation = counts[k], scales[0, k], scales[1, k]
        for d in range(sums.shape[1]):
            mean, unit = centred[k, d], per_deviation[k, d]
            first, second = sums[k, d] * unit, squares[k, d] * unit * unit
            moved = first - count * mean
            out[0, k, d] = of_mean * moved
            out[1, k, d] = of_deviation * (second - mean * (first + moved) - count)


def normalized(vector: Array, params: FisherParams) -> Array:
    """A vector of derivatives (n,) float64 after power and norm; one of zeros stays zeros."""
    if params.power != 1:
        sizes = np.abs(vector)
        # the root, which is usual, is rounded correctly everywhere
        raised = np.sqrt(sizes, out=sizes) if params.power == 0.5 else sizes**params.power
        vector = np.copysign(raised, vector, out=raised)
    norm = np.sqrt(np.sum(vector * vector)) if params.normalize else 0.0
    return vector / norm if norm > 0 else vector
