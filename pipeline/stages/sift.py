"""Dense SIFT: nothing is learnt and nothing stored but what describes images; its readers make descriptors anew."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from pipeline.image_encodings import SiftEncoding
from pipeline.stage import CARD_BYTES, ENCODER, Estimate, Facts, Made, Work, encode_step
from pipeline.stages.encoding import EncodeStage
from pipeline.stages.train import MEGABYTE
from tasks.digest import digest_text
from tasks.features.sift import SiftParams
from tasks.features.sift_encoder import SiftEncoder
from tasks.models.encoder_folder import load_encoder, save_encoder


@dataclass(frozen=True)
class SiftStage(EncodeStage):
    """Keeps the settings where models find what turns their rows into descriptors."""

    encoding: SiftEncoding
    n_features: int = 0

    @classmethod
    def of(cls, encoding: SiftEncoding, facts: Facts) -> Self:
        """Raises ParamError for settings that do not fit together."""
        del facts
        SiftEncoder(encoding.params)
        return cls(encoding)

    @property
    def reads_rows(self) -> bool:
        return False

    def estimate(self, facts: Facts) -> Estimate:
        del facts
        return Estimate(MEGABYTE, CARD_BYTES, 0)

    def run(self, work: Work) -> Made:
        encoder = SiftEncoder(self.encoding.params)
        save_encoder(work.folder / ENCODER, encoder)
        return Made(digest_text(repr(encoder.params)), {}, {"seconds": 0.0})


def sift_of(work: Work, rows: str) -> SiftParams:
    """The settings of the sift encoding `rows`, from its finished step."""
    encoder = load_encoder(work.folders[encode_step(rows)] / ENCODER)
    assert isinstance(encoder, SiftEncoder)
    return encoder.params
