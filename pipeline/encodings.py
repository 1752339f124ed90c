"""Encodings: rows made from rows."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from pipeline.image_encodings import BowEncoding, FisherEncoding, LlcEncoding, SiftEncoding
from pipeline.section import Encoding

MOST_COMPONENTS = 64  # unless a number is given


class PqEncoding(Encoding):
    """Product quantisation: one byte per sub-vector (Harchaoui et al., section 4)."""

    keeps_columns: ClassVar[bool] = True

    kind: Literal["pq"]
    subquantizers: int | None = Field(None, ge=1, description="codes per row; default: one per 8 features or so")
    bits: int = Field(8, ge=1, le=8, description="2^bits centroids per codebook")
    iterations: int = Field(15, ge=1, description="Lloyd rounds")
    sample: int = Field(16384, ge=2, description="rows on which the codebooks are trained")


class PcaEncoding(Encoding):
    """Principal components of the training rows: dense rows of fewer columns."""

    no_histograms: ClassVar[str] = "components are negative as often as not"
    other_kernel: ClassVar[str] = "rbf"

    kind: Literal["pca"]
    components: int | None = Field(
        None, ge=1, description="columns that are left; default: 64, or as many as there are features or training rows"
    )

    def kept(self, n_features: int, n_rows: int) -> int:
        """Components of rows of so many features, learnt from so many rows."""
        return self.components or max(1, min(MOST_COMPONENTS, n_features, n_rows))


class CodesEncoding(Encoding):
    """Keys of winner-take-all codes (Chen & Shrivastava): small whole numbers, to learners one-hot rows."""

    no_histograms: ClassVar[str] = "of rows of 0 and 1 it is the inner product: learn from the codes themselves"

    hashes: int = Field(1000, ge=1, description="codes per row")
    window: int = Field(4, ge=1, description="features that a hash compares (K)")
    seed: int | None = Field(None, ge=0, description="of the permutations; default: the run's")


class Wta(CodesEncoding):
    """Winner-take-all hashing: which of K features is largest."""

    kind: Literal["wta"]
    empty: Literal["none", "first"] = Field(
        "none", description='a sample of zeros has no code, or code 0 as in the paper ("first")'
    )


class Dwta(CodesEncoding):
    """Densified winner-take-all hashing: an empty sample borrows the code of the next one that is not."""

    kind: Literal["dwta"]
    shift: int | None = Field(
        None, ge=1, description="a borrowed code grows by this for each step (C); default: `window`"
    )
    range: int | None = Field(
        None, ge=0, description="codes are taken modulo this (R); default: 16 times `window`; 0: they are not"
    )

    @property
    def modulus(self) -> int | None:
        """R, or None for codes that are kept whole."""
        return 16 * self.window if self.range is None else self.range or None


class AdditiveMap(Encoding):
    """Feature map of an additive kernel, chi2 or histogram intersection (Vedaldi & Zisserman): 2n + 1 columns each."""

    no_histograms: ClassVar[str] = "mapped rows hold negative values"
    other_kernel: ClassVar[str] = "linear"

    kind: Literal["chi2-map", "hi-map"]
    samples: int = Field(1, ge=1, le=100, description="frequencies (n): a column becomes 2n + 1")
    period: float | None = Field(
        None, gt=0, le=1000, description="of the approximated kernel along log y - log x; default: the paper's for n"
    )


class Normalize(Encoding):
    """Rows divided by their norm, raised to a power, or with columns of mean 0 and variance 1."""

    kind: Literal["normalize"]
    norm: Literal["l2", "l1", "power", "standard"] = Field(
        "l2",
        description="each row by its length; its sum of magnitudes; signed powers of its values; columns of mean 0 and "
        "variance 1 on training rows (sparse rows keep their mean)",
    )
    exponent: float = Field(0.5, gt=0, le=10, description="of power; 0.5: signed roots")

    @property
    def why_no_histograms(self) -> str:
        return "" if self.keeps_signs else "standard rows are negative as often as not"

    @property
    def kernel_of_negatives(self) -> str:
        return "" if self.keeps_signs else "rbf"

    @property
    def keeps_signs(self) -> bool:
        return self.norm != "standard"


AnyEncoding = Annotated[
    PqEncoding
    | PcaEncoding
    | Wta
    | Dwta
    | AdditiveMap
    | Normalize
    | SiftEncoding
    | BowEncoding
    | LlcEncoding
    | FisherEncoding,
    Field(discriminator="kind"),
]
