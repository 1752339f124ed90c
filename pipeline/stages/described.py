"""Encoding stages of images: sparse rows of words, block by block, from descriptors that are made on the way."""

from __future__ import annotations

import time
from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, Self

from pipeline.image_encodings import BowEncoding, LlcEncoding, LocalEncoding
from pipeline.section import OWN_ROWS
from pipeline.stage import CARD_BYTES, ENCODER, FILE_BYTES, ROWS_STORE, Estimate, Facts, Made, Work
from pipeline.stages.additive import begun
from pipeline.stages.encoding import EncodeStage, marks_folder
from pipeline.stages.sample import sample_step
from pipeline.stages.sift import sift_of
from pipeline.stages.train import MEGABYTE
from pipeline.stages.words import words_of, words_step
from tasks.digest import combine, digest_arrays
from tasks.errors import ParamError
from tasks.features.bow import BowEncoder
from tasks.features.image_blocks import DescribedRows, encode_images_block
from tasks.features.llc import LlcParams
from tasks.features.llc_encoder import LlcEncoder
from tasks.io import MAX_CHUNK_BYTES, create_csr, create_dense
from tasks.models.encoder import Encoder
from tasks.models.encoder_folder import save_encoder
from tasks.rows.descriptors import SIFT_NUMBERS

COPIES = 4  # of an encoded block while it is written: pieces, stacked, as stored, compressed


class DescribedStage(EncodeStage):
    """What every encoding of descriptors does once its encoder is learnt."""

    encoding: LocalEncoding
    n_features: int

    @abstractmethod
    def _learnt(self, work: Work) -> tuple[Encoder, dict[str, Any]]:
        """The encoder, and results that the report shows."""

    def estimate(self, facts: Facts) -> Estimate:
        own, described = facts.rows[self.encoding.name], facts.rows[self.encoding.rows]
        task = 2 * facts.rows[OWN_ROWS].block_bytes + 8 * described.block_bytes + COPIES * own.block_bytes
        blocks = len(facts.dataset.blocks())
        disk = blocks * (own.block_bytes + 4 * FILE_BYTES) + own.encoder_bytes + CARD_BYTES
        return Estimate(task + 4 * own.encoder_bytes + 64 * MEGABYTE, disk, blocks, blocks * FILE_BYTES)

    def run(self, work: Work) -> Made:
        started = time.perf_counter()
        marks = marks_folder(work)
        encoder, found = self._learnt(work)
        body, columns = self._shape()
        store, n_rows = str(work.folder / ROWS_STORE), work.dataset.n_rows
        if not begun(store, body, n_rows, columns):
            create = create_csr if body == "csr" else create_dense
            create(store, n_rows, columns, work.dataset.block_rows)
        shared = sift_of(work, self.encoding.rows), encoder.header(), encoder.tensors(), store, str(marks)
        report: DescribedRows = work.pool.sum(encode_images_block, work.blocks(OWN_ROWS), *shared, name=self.name)
        save_encoder(work.folder / ENCODER, encoder)
        tensors = encoder.tensors()
        digest = combine([*(digest_arrays(tensors[name]) for name in sorted(tensors)), *report.digests])
        return Made(digest, results_of(report, columns) | found, measured_of(report, time.perf_counter() - started))

    @abstractmethod
    def _shape(self) -> tuple[str, int]:
        """Body and columns of its rows."""


def results_of(report: DescribedRows, columns: int) -> dict[str, Any]:
    """What the report shows of the rows."""
    rows = max(1, report.rows)
    return {
        "rows": report.rows,
        "columns": columns,
        "bytes_per_row": report.nbytes / rows,
        "descriptors_per_image": report.descriptors / rows,
        "images_without_descriptors": report.blank,
    }


def measured_of(report: DescribedRows, seconds: float) -> dict[str, Any]:
    """Images a second of one core, and what part of it is decoding and describing."""
    busy = max(report.seconds, 1e-9)
    return {
        "seconds": seconds,
        "rows_per_second": report.rows / max(seconds, 1e-9),
        "images_per_core_second": report.rows / busy,
        "sift_share": report.sift_seconds / busy,
    }


def check_chunk(encoding: LocalEncoding, facts: Facts, key: str, columns: int) -> None:
    """Raises ParamError when a block of such rows would be too large to be written."""
    nbytes = facts.rows[encoding.name].block_bytes
    if nbytes > MAX_CHUNK_BYTES:
        why = f"a block would have {nbytes:,} bytes (ingest with fewer rows a block makes it smaller)"
        raise ParamError(f"{encoding.name}.{key}", columns, f"blocks up to {MAX_CHUNK_BYTES:,} bytes", why)


def llc_params(encoding: LlcEncoding) -> LlcParams:
    """The parameters of a section. Raises ParamError."""
    return LlcParams(encoding.neighbours, encoding.beta, encoding.pyramid)


@dataclass(frozen=True)
class WordRowsStage(DescribedStage):
    """Counts of words, or their codes in the cells of a pyramid."""

    encoding: BowEncoding | LlcEncoding
    n_features: int = SIFT_NUMBERS

    @classmethod
    def of(cls, encoding: BowEncoding | LlcEncoding, facts: Facts) -> Self:
        """Raises ParamError."""
        if isinstance(encoding, LlcEncoding):
            llc_params(encoding).columns(encoding.words)
        check_chunk(encoding, facts, "words", encoding.words)
        return cls(encoding)

    @property
    def inputs(self) -> tuple[str, ...]:
        return (*super().inputs, sample_step(self.encoding), words_step(self.encoding))

    def _shape(self) -> tuple[str, int]:
        cells = self.encoding.cells if isinstance(self.encoding, LlcEncoding) else 1
        return "csr", self.encoding.words * cells

    def _learnt(self, work: Work) -> tuple[Encoder, dict[str, Any]]:
        words, encoding = words_of(work, self.encoding), self.encoding
        if isinstance(encoding, LlcEncoding):
            encoder: Encoder = LlcEncoder.of(llc_params(encoding), words)
        else:
            encoder = BowEncoder(words)
        settled = work.inputs[words_step(encoding)].results
        return encoder, {"words": encoding.words, "vocabulary_error": settled["errors"][-1]}
