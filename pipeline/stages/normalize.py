"""Encoding stage of normalised rows: of "standard" the training rows tell mean and deviation first."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from pipeline.config import Normalize
from pipeline.stage import CARD_BYTES, ENCODER, FILE_BYTES, ROWS_STORE, Estimate, Facts, Made, Work
from pipeline.stages.additive import begun
from pipeline.stages.encoding import EncodeStage, marks_folder
from pipeline.stages.train import MEGABYTE
from tasks.digest import combine, digest_arrays
from tasks.features.additive_blocks import MappedRows
from tasks.features.blocks import make_spans
from tasks.features.column_moments import ColumnMoments
from tasks.features.normalize import STANDARD, NormalizeParams
from tasks.features.normalize_blocks import column_moments_span, normalize_block
from tasks.features.normalize_encoder import SLICE_BYTES, NormalizeEncoder
from tasks.fit.checkpoint import keep, load_kept
from tasks.io import create_csr, create_dense
from tasks.models.encoder_folder import save_encoder
from tasks.sums import FAN_IN

COPIES = 4  # of a block while it is written: as made, as stored, compressed, and room


@dataclass(frozen=True)
class NormalizeStage(EncodeStage):
    """Every row normalised; sparse rows stay sparse, all others become dense."""

    encoding: Normalize
    n_features: int  # of the rows that are encoded
    body: str  # of the normalised rows

    @classmethod
    def of(cls, encoding: Normalize, facts: Facts) -> Self:
        return cls(encoding, facts.rows[encoding.rows].n_features, facts.rows[encoding.name].body)

    @property
    def params(self) -> NormalizeParams:
        return NormalizeParams(self.encoding.norm, self.encoding.exponent)

    def estimate(self, facts: Facts) -> Estimate:
        made = facts.rows[self.encoding.name]
        source = facts.rows[self.encoding.rows].block_bytes
        task = 2 * source + 6 * SLICE_BYTES + COPIES * made.block_bytes + made.encoder_bytes + 32 * MEGABYTE
        task = max(task, (FAN_IN + 2) * made.encoder_bytes)
        blocks = len(facts.dataset.blocks())
        disk = blocks * (made.block_bytes + 4 * FILE_BYTES) + made.encoder_bytes + CARD_BYTES
        return Estimate(task, disk, 2 * blocks, blocks * FILE_BYTES + 2 * made.encoder_bytes)

    def run(self, work: Work) -> Made:
        started = time.perf_counter()
        marks = marks_folder(work)
        encoder = self._encoder(work, marks.parent / "learnt.npz")
        tensors = encoder.tensors()
        store, n_rows = str(work.folder / ROWS_STORE), work.dataset.n_rows
        if not begun(store, self.body, n_rows, self.n_features):
            create = create_csr if self.body == "csr" else create_dense
            create(store, n_rows, self.n_features, work.dataset.block_rows)
        shared = tensors, encoder.header(), store, str(marks)
        report: MappedRows = work.pool.sum(normalize_block, work.blocks(self.encoding.rows), *shared, name=self.name)
        save_encoder(work.folder / ENCODER, encoder)
        seconds = time.perf_counter() - started
        results = {"rows": report.rows, "columns": self.n_features, "bytes_per_row": report.nbytes / report.rows}
        if self.params.norm == STANDARD:
            results["columns_without_variance"] = int((encoder.deviation == 0).sum())
        digest = combine([*(digest_arrays(tensors[name]) for name in sorted(tensors)), *report.digests])
        return Made(digest, results, {"rows_per_second": report.rows / max(seconds, 1e-9), "seconds": seconds})

    def _encoder(self, work: Work, path: Path) -> NormalizeEncoder:
        """What is fitted is kept for an attempt that is interrupted. Sparse rows are scaled alone, to stay sparse."""
        if self.params.norm != STANDARD:
            return NormalizeEncoder.plain(self.params, self.n_features)
        centred, kept = self.body == "dense", load_kept(path)
        if kept is not None:
            return NormalizeEncoder(self.params, self.n_features, kept["mean"], kept["deviation"], centred)
        spans = make_spans(work.train_blocks(self.encoding.rows), 1)
        name = f"moments_{self.encoding.name}"
        found: ColumnMoments = work.pool.sum(column_moments_span, spans, work.dataset.path, name=name)
        encoder = NormalizeEncoder.fitted(self.params, found, centred)
        keep(path, encoder.tensors())
        return encoder
