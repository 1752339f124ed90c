"""Fisher vectors: components of descriptors and a mixture of Gaussians, learnt from the sample, then every image."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from pipeline.image_encodings import FisherEncoding
from pipeline.pool import Pool
from pipeline.stage import Estimate, Facts, Work
from pipeline.stages.described import DescribedStage, check_chunk
from pipeline.stages.sample import NoDescriptors, sample_files, sample_step
from pipeline.stages.words import PoolSample, train_words, words_estimate
from tasks.errors import ParamError
from tasks.features.descriptor_sample import Projection, SampleFile, mixture_part, moments_part, scatter_part
from tasks.features.fisher import FisherParams
from tasks.features.fisher_encoder import FisherEncoder
from tasks.features.mixture import Mixture, MixtureParams, MixtureSums, first_mixture, train_mixture
from tasks.features.pca import PcaParams, fit_components
from tasks.features.statistics import Moments
from tasks.fit.checkpoint import keep, load_kept
from tasks.models.encoder import Encoder
from tasks.rows.base import Array
from tasks.rows.descriptors import SIFT_NUMBERS

PARTS = ("weights", "means", "variances")  # of a mixture


@dataclass(frozen=True)
class FisherStage(DescribedStage):
    """Principal components, k-means and expectation-maximisation on the sample; then rows, block by block."""

    encoding: FisherEncoding
    n_features: int = SIFT_NUMBERS

    @classmethod
    def of(cls, encoding: FisherEncoding, facts: Facts) -> Self:
        """Raises ParamError."""
        for key in ("gaussians", "components"):
            if encoding.sampled < getattr(encoding, key):
                why = f"{getattr(encoding, key)} {key} are learnt from it"
                raise ParamError("fisher.sample", encoding.sampled, f"at least {getattr(encoding, key)}", why)
        check_chunk(encoding, facts, "gaussians", encoding.width)
        return cls(encoding)

    @property
    def inputs(self) -> tuple[str, ...]:
        return (*super().inputs, sample_step(self.encoding))

    def estimate(self, facts: Facts) -> Estimate:
        learnt = words_estimate(self.encoding.gaussians, self.encoding.sampled, SIFT_NUMBERS)
        own = super().estimate(facts)
        task = max(own.task_bytes, learnt.task_bytes)
        return Estimate(task, own.disk_bytes, own.tasks + self.encoding.iterations, own.spare_bytes)

    def _shape(self) -> tuple[str, int]:
        return "dense", self.encoding.width

    def _learnt(self, work: Work) -> tuple[Encoder, dict[str, Any]]:
        """Kept for an attempt that is interrupted."""
        path = work.folder / "progress" / "mixture.npz"
        kept = load_kept(path)
        if kept is None:
            kept = self._learn(work)
            keep(path, kept)
        curve = kept.pop("likelihoods").tolist()
        mixture = Mixture(*(kept[name] for name in PARTS))
        params = FisherParams(self.encoding.power)
        if self.encoding.components:
            encoder = FisherEncoder(params, mixture, kept["mean"], kept["directions"])
        else:
            encoder = FisherEncoder.plain(params, mixture)
        return encoder, {"gaussians": self.encoding.gaussians, "log_likelihood": curve[-1], "em_rounds": len(curve) - 1}

    def _learn(self, work: Work) -> dict[str, Array]:
        """Arrays by name: those of the mixture and of the projection, if any, and how the likelihood rose."""
        encoding, files = self.encoding, sample_files(work, self.encoding)
        projection: Projection = {}
        if encoding.components:
            known = sum(file.rows for file in files)
            if known < encoding.components:
                what = f"{known:,} descriptors with contrast were found for {encoding.components} principal components"
                hint = "fewer components, smaller patches or a lower contrast"
                raise NoDescriptors(what, f"encode {encoding.name}", hint)
            params = PcaParams(components=encoding.components)
            found = fit_components(PoolDescriptors(work.pool, files, self.name), params, work.seed)
            projection = {"mean": found.mean.astype(np.float32), "directions": found.projection(whiten=False)}
        sample = PoolSample(work.pool, files, self.name, encoding.gaussians, projection)
        centroids = train_words(sample, encoding.gaussians, encoding, work).codebooks
        oracle = PoolMixture(work.pool, files, self.name, projection)
        fitted = train_mixture(oracle, oracle.first(sample, centroids), MixtureParams(iterations=encoding.em_rounds))
        learnt = {name: getattr(fitted.mixture, name) for name in PARTS}
        return {**learnt, **projection, "likelihoods": np.array(fitted.likelihoods)}


class PoolDescriptors:
    """The sample of descriptors, summed over the pool for their components."""

    def __init__(self, pool: Pool, files: list[SampleFile], name: str) -> None:
        self.pool, self.files, self.name = pool, files, name

    def moments(self) -> Moments:
        found: Moments = self.pool.sum(moments_part, self.files, name=f"mean_{self.name}")
        return found

    def scatter(self, mean: Array) -> Array:
        found: Array = self.pool.sum(scatter_part, self.files, mean, name=f"scatter_{self.name}")
        return found

    def product(self, mean: Array, basis: Array) -> Array:
        """Not asked for: descriptors are so narrow that their whole scatter travels."""
        return self.scatter(mean) @ basis


class PoolMixture:
    """The oracle of a mixture over the files of a sample."""

    def __init__(self, pool: Pool, files: list[SampleFile], name: str, projection: Projection) -> None:
        self.pool, self.files, self.name, self.projection = pool, files, name, projection

    def first(self, sample: PoolSample, centroids: Array) -> Mixture:
        """The mixture to start from, of the clusters of k-means; centroids (1, K, D)."""
        clusters = sample.sums(centroids)
        width = centroids.shape[2]
        whole = Mixture(np.ones(1), np.zeros((1, width)), np.ones((1, width)))  # one component has all rows
        variances = self.sums(whole).variances
        return first_mixture(centroids[0], clusters.counts[0], clusters.errors[0], variances, MixtureParams().floor)

    def sums(self, mixture: Mixture) -> MixtureSums:
        shared = {name: getattr(mixture, name) for name in PARTS}, self.projection
        found: MixtureSums = self.pool.sum(mixture_part, self.files, *shared, name=f"mixture_{self.name}")
        return found
