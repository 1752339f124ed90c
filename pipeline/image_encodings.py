"""Encodings of images: descriptors of their patches, and rows made of descriptors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from pydantic import Field

from pipeline.section import Encoding

if TYPE_CHECKING:
    from tasks.features.sift import SiftParams

SAMPLE, FOR_EACH_WORD = 160_000, 40  # descriptors


class SiftEncoding(Encoding):
    """Dense SIFT of images: descriptors, which `bow`, `llc` and `fisher` read; made anew each time, never stored."""

    takes: ClassVar[str] = "images"
    gives: ClassVar[str] = "descriptors"

    kind: Literal["sift"]
    step: int = Field(6, ge=1, description="pixels between patches")
    patches: tuple[Annotated[int, Field(ge=4)], ...] = Field((16, 24), description="their sides in pixels: the scales")
    contrast: float = Field(
        4.0, ge=0, le=128, description="patches with a smaller standard deviation of grey levels are left out"
    )
    max_side: int = Field(300, ge=16, le=4096, description="images with a longer side are shrunk to it, pixels")
    root: bool = Field(False, description="RootSIFT: square roots of the shares")

    @property
    def params(self) -> SiftParams:
        """Raises ParamError."""
        from tasks.features.sift import SiftParams  # with its kernels, which most commands do not need

        return SiftParams(self.step, self.patches, self.contrast, self.max_side, self.root)


class LocalEncoding(Encoding):
    """What every encoding of descriptors is told."""

    takes: ClassVar[str] = "descriptors"

    rows: str = Field(description="an encoding of kind sift")
    sample: int | None = Field(
        None,
        ge=1,
        description="descriptors that are learnt from, of training images; default: 160,000, or 40 for each word",
    )
    iterations: int = Field(15, ge=1, description="rounds of k-means")

    @property
    def sampled(self) -> int:
        """Descriptors that are wanted."""
        return SAMPLE if self.sample is None else self.sample


class WordsEncoding(LocalEncoding):
    """What is made of a vocabulary; sections with the same rows, words, sample and iterations share one."""

    words: int = Field(1000, ge=2, le=100_000, description="of the vocabulary: k-means centroids of descriptors")

    @property
    def sampled(self) -> int:
        return max(SAMPLE, FOR_EACH_WORD * self.words) if self.sample is None else self.sample


class BowEncoding(WordsEncoding):
    """Bag of visual words: how often each word is nearest to a descriptor; sparse counts."""

    kind: Literal["bow"]


class LlcEncoding(WordsEncoding):
    """Locality-constrained linear coding (Wang et al., CVPR 2010), the largest code of a word in each cell; sparse."""

    kind: Literal["llc"]
    neighbours: int = Field(5, ge=1, le=32, description="nearest words that a descriptor is written with")
    beta: float = Field(1e-4, gt=0, le=1, description="weight of small codes, in units of the squared distances")
    pyramid: tuple[Annotated[int, Field(ge=1, le=16)], ...] = Field(
        (1, 2, 4), description="cells on a side, level by level: 1x1 + 2x2 + 4x4"
    )

    @property
    def cells(self) -> int:
        return sum(side * side for side in self.pyramid)


class FisherEncoding(LocalEncoding):
    """Fisher vectors (Perronnin et al., ECCV 2010): how descriptors would move a mixture of Gaussians; dense."""

    no_histograms: ClassVar[str] = "derivatives are negative as often as not"
    other_kernel: ClassVar[str] = "linear"

    kind: Literal["fisher"]
    gaussians: int = Field(16, ge=1, le=4096, description="of the mixture, with diagonal covariances")
    components: int = Field(
        64, ge=0, le=128, description="principal components of descriptors that are kept; 0: descriptors as they are"
    )
    em_rounds: int = Field(30, ge=1, description="of expectation-maximisation at most, after k-means")
    power: float = Field(0.5, gt=0, le=1, description="exponent of the size of each number, before the norm is made 1")

    @property
    def width(self) -> int:
        """Numbers of a row."""
        return 2 * self.gaussians * (self.components or 128)
