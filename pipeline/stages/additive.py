"""Encoding stage of additive kernels' feature maps: nothing is learnt, every row is mapped, block by block."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Self

from pipeline.config import AdditiveMap
from pipeline.stage import CARD_BYTES, ENCODER, FILE_BYTES, ROWS_STORE, Estimate, Facts, Made, Work
from pipeline.stages.encoding import EncodeStage, marks_folder
from pipeline.stages.train import MEGABYTE
from tasks.digest import combine, digest_arrays
from tasks.errors import ArtefactError, ParamError
from tasks.features.additive_blocks import MappedRows, map_block
from tasks.features.additive_encoder import SLICE_BYTES, AdditiveEncoder
from tasks.features.additive_map import MapParams
from tasks.io import MAX_CHUNK_BYTES, create_csr, create_dense, facts_of
from tasks.models.encoder_folder import save_encoder

COPIES = 4  # of a mapped block while it is written: as made, as stored, compressed, and room


def map_params(encoding: AdditiveMap) -> MapParams:
    """The parameters of a section. Raises ParamError."""
    return MapParams(encoding.kind, encoding.samples, encoding.period)


@dataclass(frozen=True)
class AdditiveStage(EncodeStage):
    """Every value becomes 2 samples + 1; sparse rows stay sparse, all others become dense."""

    encoding: AdditiveMap
    n_features: int  # of the rows that are mapped
    body: str  # of the mapped rows

    @classmethod
    def of(cls, encoding: AdditiveMap, facts: Facts) -> Self:
        """Raises ParamError for parameters out of range, and for more columns than can be numbered."""
        n_features = facts.rows[encoding.rows].n_features
        AdditiveEncoder.of(map_params(encoding), n_features)
        mapped = facts.rows[encoding.name]
        nbytes = mapped.block_bytes // (2 if mapped.body == "csr" else 1)  # of values alone
        if nbytes > MAX_CHUNK_BYTES:
            why = (
                f"a block would have {nbytes:,} bytes of values (ingest with fewer rows a block, too, makes it smaller)"
            )
            raise ParamError(
                f"{encoding.kind}.samples", encoding.samples, f"blocks up to {MAX_CHUNK_BYTES:,} bytes", why
            )
        return cls(encoding, n_features, mapped.body)

    def estimate(self, facts: Facts) -> Estimate:
        mapped = facts.rows[self.encoding.name].block_bytes
        task = 2 * facts.rows[self.encoding.rows].block_bytes + 2 * SLICE_BYTES + COPIES * mapped + 32 * MEGABYTE
        blocks = len(facts.dataset.blocks())
        disk = blocks * (mapped + 4 * FILE_BYTES) + CARD_BYTES
        return Estimate(task, disk, blocks, blocks * FILE_BYTES)

    def run(self, work: Work) -> Made:
        started = time.perf_counter()
        params = map_params(self.encoding)
        encoder = AdditiveEncoder.of(params, self.n_features)
        marks = marks_folder(work)
        store, n_rows, columns = str(work.folder / ROWS_STORE), work.dataset.n_rows, self.n_features * params.width
        if not begun(store, self.body, n_rows, columns):
            create = create_csr if self.body == "csr" else create_dense
            create(store, n_rows, columns, work.dataset.block_rows)
        shared = params, store, str(marks), work.dataset.path
        report: MappedRows = work.pool.sum(map_block, work.blocks(self.encoding.rows), *shared, name=self.name)
        save_encoder(work.folder / ENCODER, encoder)
        seconds = time.perf_counter() - started
        results = {"rows": report.rows, "columns": columns, "bytes_per_row": report.nbytes / max(1, report.rows)}
        digest = combine([digest_arrays(encoder.amplitudes), *report.digests])
        return Made(digest, results, {"rows_per_second": report.rows / max(seconds, 1e-9), "seconds": seconds})


def begun(store: str, body: str, n_rows: int, columns: int) -> bool:
    """Whether an interrupted attempt has made this very store."""
    try:
        facts = facts_of(store)
    except ArtefactError:
        return False
    return (facts.body, facts.n_rows, facts.n_features) == (body, n_rows, columns)
