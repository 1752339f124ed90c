"""What is learnt from a sample of descriptors on disk: sums over its files, for words, components and mixtures."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tasks.features.fisher import projected
from tasks.features.mixture import Mixture, MixtureSums, mixture_sums
from tasks.features.statistics import Moments, add_scatter, moments
from tasks.features.words import Words, word_sums
from tasks.places import at, read_array
from tasks.quantize.kmeans import CodebookSums
from tasks.rows import Dense
from tasks.rows.base import Array
from tasks.rows.descriptors import normalized

Projection = dict[str, Array]  # mean (128,) and directions (128, n) float32; {}: descriptors as they are


@dataclass(frozen=True, slots=True)
class SampleFile:
    """A part of the sample: a file (n, 128) uint8.

    rows  descriptors in it; root: whether they are learnt from as RootSIFT
    """

    path: str
    rows: int
    root: bool

    def values(self) -> Array:
        """(rows, 128) float32 of norm 1."""
        return normalized(read_array(at(self.path)), self.root)


def first_descriptors(part: SampleFile, share: float, projection: Projection) -> Array:
    """A share of the descriptors of a part, evenly spaced: among them first centroids are chosen."""
    values = _projected(part, projection)
    wanted = min(len(values), max(1, round(share * len(values))))
    return values[np.linspace(0, len(values) - 1, wanted).astype(np.int64)] if len(values) else values


def words_part(part: SampleFile, codebooks: Array, projection: Projection) -> CodebookSums:
    """One round of k-means on a part of the sample. codebooks (1, n_words, width) float32."""
    return word_sums(_projected(part, projection), Words.of(codebooks[0]))


def moments_part(part: SampleFile) -> Moments:
    """Their moments, for principal components."""
    return moments(Dense(part.values()))


def scatter_part(part: SampleFile, mean: Array) -> Array:
    """Their scatter (128, 128) float64 about `mean`."""
    out = np.zeros((mean.size, mean.size))
    add_scatter(Dense(part.values()), mean, out)
    return out


def mixture_part(part: SampleFile, mixture: dict[str, Array], projection: Projection) -> MixtureSums:
    """One round of EM on a part of the sample."""
    return mixture_sums(_projected(part, projection), Mixture(**mixture))


def _projected(part: SampleFile, projection: Projection) -> Array:
    values = part.values()
    return projected(values, projection["mean"], projection["directions"]) if projection else values
