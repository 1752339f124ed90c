"""Encoding stages: rows made from rows, block by block, each block written by one task."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Self

import numpy as np

from pipeline.config import OWN_ROWS, PqEncoding
from pipeline.pool import Pool
from pipeline.stage import CARD_BYTES, FILE_BYTES, ROWS_STORE, Estimate, Facts, Made, Work
from pipeline.stages.encoding import EncodeStage, marks_folder
from pipeline.stages.train import MEGABYTE
from tasks.digest import combine, digest_arrays
from tasks.errors import ArtefactError
from tasks.fit.checkpoint import keep, load_kept
from tasks.io import Block, create_codes, facts_of, read_codebooks
from tasks.quantize.blocks import (
    SLICE_BYTES,
    EncodeReport,
    codebook_sums_blocks,
    count_eligible,
    least_rows,
    parted,
    plan_sample,
    sample_block,
)
from tasks.quantize.kmeans import CodebookSums, train_codebooks
from tasks.quantize.pq import PqParams, PQShape
from tasks.quantize.resume import encode_block_once
from tasks.rows import Csr
from tasks.rows.base import Array
from tasks.sums import FAN_IN

FIRST_ROWS = 8  # rows per centroid among which the first centroids are chosen


SPARSE = 'the rows are sparse: leave this encoding out, and let learners take them as they are (rows = "x")'


@dataclass(frozen=True)
class PqStage(EncodeStage):
    """Codebooks on a seeded sample of the training rows, then one byte per sub-vector of every row."""

    encoding: PqEncoding
    params: PqParams
    n_features: int  # of the rows that are encoded
    version: ClassVar[int] = 4

    @classmethod
    def of(cls, encoding: PqEncoding, facts: Facts) -> Self:
        """Raises PQShape and PQTooFewRows with the values that would do."""
        given = {key: getattr(encoding, key) for key in PqParams.__dataclass_fields__}
        params, n_features = PqParams(**given), facts.rows[encoding.rows].n_features
        try:
            params.resolve(n_features)
        except PQShape as error:
            if facts.dataset.body == Csr.body and encoding.rows == OWN_ROWS:
                raise PQShape(error.what, error.where, SPARSE) from None
            raise
        params.check_rows(facts.dataset.split_counts["train"])
        return cls(encoding, params, n_features)

    def estimate(self, facts: Facts) -> Estimate:
        dataset = facts.dataset
        books = 4 * self.n_features * self.params.n_centroids
        codes = dataset.block_rows * self.params.resolve(self.n_features)
        task = 2 * facts.rows[self.encoding.rows].block_bytes + 6 * SLICE_BYTES + 8 * books + 2 * codes + 32 * MEGABYTE
        first = 3 * 4 * self.n_features * FIRST_ROWS * self.params.n_centroids
        blocks = len(dataset.blocks())
        disk = blocks * (codes + FILE_BYTES) + books + CARD_BYTES
        spare = 2 * books + blocks * FILE_BYTES + CARD_BYTES  # kept codebooks, published ones, a mark a block
        sampled = min(self.params.sample, dataset.split_counts["train"])
        runs = min(blocks, sampled // least_rows(self.n_features, self.params.n_centroids) + 1)
        tasks = 3 * blocks + runs * self.params.iterations  # counted, drawn from, encoded
        return Estimate(max(task + first, 2 * FAN_IN * books), disk, tasks, spare)

    def run(self, work: Work) -> Made:
        started = time.perf_counter()
        marks = marks_folder(work)
        sources = work.blocks(self.encoding.rows)
        codebooks = self._codebooks(work, marks.parent)
        store = str(work.folder / ROWS_STORE)
        n_rows, block_rows = work.dataset.n_rows, work.dataset.block_rows
        if not begun(store, n_rows, codebooks):
            create_codes(store, n_rows, codebooks.shape[0], block_rows, codebooks)
        report: EncodeReport = work.pool.sum(encode_block_once, sources, codebooks, store, str(marks), name=self.name)
        seconds = time.perf_counter() - started
        results = {
            "rows": report.rows,
            "bytes_per_row": int(codebooks.shape[0]),
            "relative_error": report.relative_error,
        }
        digest = combine([digest_arrays(codebooks), *report.digests])
        return Made(digest, results, {"rows_per_second": report.rows / max(seconds, 1e-9), "seconds": seconds})

    def _codebooks(self, work: Work, progress: Path) -> Array:
        """Trained codebooks (n_subquantizers, n_centroids, width) float32, kept for an attempt that is interrupted."""
        path = progress / "codebooks.npz"
        kept = load_kept(path)
        if kept is not None:
            return kept["codebooks"]
        oracle = PoolCodebooks(work.pool, work.train_blocks(self.encoding.rows), self, work)
        n_subquantizers = self.params.resolve(self.n_features)
        trained = train_codebooks(oracle, n_subquantizers, self.params.n_centroids, self.params.iterations, work.seed)
        keep(path, {"codebooks": trained.codebooks})
        return trained.codebooks


def begun(store: str, n_rows: int, codebooks: Array) -> bool:
    """Whether an interrupted attempt has made this very store, as a whole: its codebooks and room for its codes."""
    try:
        return facts_of(store).n_rows == n_rows and bool(np.array_equal(read_codebooks(store), codebooks))
    except ArtefactError:
        return False


class PoolCodebooks:
    """The k-means oracle over a seeded sample of the training rows, added up over the pool."""

    def __init__(self, pool: Pool, blocks: Sequence[Block], stage: PqStage, work: Work) -> None:
        self.pool, self.name, self.dataset = pool, stage.encoding.name, work.dataset.path
        self.seed = work.seed
        eligible = pool.map(count_eligible, blocks, self.dataset, name=f"count_{self.name}")
        sample, n_centroids = stage.params.sample, stage.params.n_centroids
        self.runs = parted(plan_sample(blocks, eligible, sample, self.seed), stage.n_features, n_centroids)
        self.first = plan_sample(blocks, eligible, min(FIRST_ROWS * n_centroids, sample), self.seed)

    def initial_sample(self) -> Array:
        parts = self.pool.map(sample_block, self.first, self.dataset, self.seed, name=f"sample_{self.name}")
        return np.concatenate(parts)

    def sums(self, codebooks: Array) -> CodebookSums:
        total: CodebookSums = self.pool.sum(
            codebook_sums_blocks, self.runs, codebooks, self.dataset, self.seed, name=f"kmeans_{self.name}"
        )
        return total
