"""Encoding stages: rows made from rows, block by block, each block written by one task."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tasks.quantize.pq import PqParams

from pipeline.config import OWN_ROWS, PqEncoding
from pipeline.stage import Stage, encode_step


@dataclass(frozen=True)
class PqStage(Stage):
    """Codebooks on a seeded sample of the training rows, then one byte per sub-vector of every row."""

    encoding: PqEncoding
    params: PqParams

    @property
    def name(self) -> str:
        return encode_step(self.encoding.name)

    def settings(self) -> dict[str, Any]:
        return self.encoding.model_dump(mode="json")

    @property
    def inputs(self) -> tuple[str, ...]:
        return () if self.encoding.rows == OWN_ROWS else (encode_step(self.encoding.rows),)
