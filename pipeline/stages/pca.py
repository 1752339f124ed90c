"""Encoding stage of principal components: learnt on the training rows, then dense rows of fewer columns."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np

from pipeline.config import PcaEncoding
from pipeline.pool import Pool
from pipeline.stage import CARD_BYTES, ENCODER, FILE_BYTES, ROWS_STORE, Estimate, Facts, Made, Work
from pipeline.stages.encoding import EncodeStage, marks_folder
from pipeline.stages.train import MEGABYTE
from tasks.digest import combine, digest_arrays
from tasks.errors import ArtefactError
from tasks.features.blocks import EncodedRows, encode_block, make_spans, moments_span, product_span, scatter_span
from tasks.features.pca import EXACT_FEATURES, SUM_BYTES, PcaParams, fit_components
from tasks.features.pca_encoder import PcaEncoder
from tasks.features.statistics import SLICE_BYTES, Moments
from tasks.fit.checkpoint import keep, load_kept
from tasks.io import Block, create_dense, facts_of
from tasks.models.encoder_folder import save_encoder
from tasks.rows.base import Array
from tasks.sums import FAN_IN

FLOAT, DOUBLE = 4, 8  # bytes
KEPT_BYTES = 2**29  # largest basis that is written between products


def pca_params(encoding: PcaEncoding, n_features: int, n_rows: int) -> PcaParams:
    """The parameters that the section names, the others as they are by default."""
    known = PcaParams.__dataclass_fields__
    given = {key: value for key, value in encoding.model_dump().items() if key in known}
    return PcaParams(**{**given, "components": encoding.kept(n_features, n_rows)})


@dataclass(frozen=True)
class PcaStage(EncodeStage):
    """Mean and components of the training rows, then every row centred and projected."""

    encoding: PcaEncoding
    params: PcaParams
    n_features: int  # of the rows that are encoded

    @classmethod
    def of(cls, encoding: PcaEncoding, facts: Facts) -> Self:
        """Raises ParamError for parameters out of range, and for more components than features or training rows."""
        n_features, n_rows = facts.rows[encoding.rows].n_features, facts.dataset.split_counts["train"]
        params = pca_params(encoding, n_features, n_rows)
        params.check(n_features, n_rows)
        return cls(encoding, params, n_features)

    def estimate(self, facts: Facts) -> Estimate:
        dataset, width = facts.dataset, self.params.components
        encoder = FLOAT * self.n_features * (width + 1)
        rows = FLOAT * width * dataset.block_rows
        summed, held = self._sum_bytes(dataset.split_counts["train"])
        row = DOUBLE * self.n_features
        task = 2 * facts.rows[self.encoding.rows].block_bytes + 3 * max(SLICE_BYTES, row) + 32 * MEGABYTE
        peak = max(task + 3 * summed, task + encoder + 2 * rows, (FAN_IN + 2) * summed) + held
        blocks = len(dataset.blocks())
        disk = blocks * (rows + FILE_BYTES) + encoder + CARD_BYTES
        spare = held + 2 * encoder + summed + blocks * FILE_BYTES + CARD_BYTES
        return Estimate(peak, disk, 4 * blocks, spare)

    def _sum_bytes(self, n_rows: int) -> tuple[int, int]:
        """Bytes of the largest sum that travels, and of what this process holds between sums."""
        if self.n_features <= EXACT_FEATURES:
            scatter = DOUBLE * self.n_features**2
            return scatter, 3 * scatter
        width = min(self.params.components + self.params.oversample, self.n_features, n_rows)
        basis = DOUBLE * self.n_features * width
        return min(basis, max(SUM_BYTES, DOUBLE * self.n_features)), 3 * basis

    def run(self, work: Work) -> Made:
        started = time.perf_counter()
        marks = marks_folder(work)
        encoder, ratios = self._learnt(work, marks.parent)
        tensors = encoder.tensors()
        store, sources = str(work.folder / ROWS_STORE), work.blocks(self.encoding.rows)
        n_rows, width = work.dataset.n_rows, self.params.components
        if not begun(store, n_rows, width):
            create_dense(store, n_rows, width, work.dataset.block_rows)
        report: EncodedRows = work.pool.sum(encode_block, sources, tensors, store, str(marks), name=self.name)
        save_encoder(work.folder / ENCODER, encoder)
        seconds = time.perf_counter() - started
        digest = combine([*(digest_arrays(tensors[name]) for name in sorted(tensors)), *report.digests])
        measured = {"rows_per_second": report.rows / max(seconds, 1e-9), "seconds": seconds}
        return Made(digest, results_of(ratios, report), measured)

    def _learnt(self, work: Work, progress: Path) -> tuple[PcaEncoder, list[float]]:
        """The encoder, and the share of the variance of each component; kept for an attempt that is interrupted."""
        path = progress / "learnt.npz"
        kept = load_kept(path)
        if kept is not None:
            return PcaEncoder(kept["mean"], kept["components"], self.params.whiten), kept["ratios"].tolist()
        oracle = PoolRows(work.pool, work.train_blocks(self.encoding.rows), self.encoding.name, work.dataset.path)
        found = fit_components(oracle, self.params, work.seed, BasisFile(progress / "basis.npz"))
        encoder = PcaEncoder.of(found, self.params.whiten)
        keep(path, {**encoder.tensors(), "ratios": found.ratios})
        return encoder, found.ratios.tolist()


def results_of(ratios: list[float], report: EncodedRows) -> dict[str, Any]:
    """What the report shows: how much of the training rows' variance is left, in all and by component."""
    return {
        "rows": report.rows,
        "bytes_per_row": FLOAT * len(ratios),
        "explained_variance": sum(ratios),
        "explained_variance_ratio": ratios,
    }


def begun(store: str, n_rows: int, width: int) -> bool:
    """Whether an interrupted attempt has made this very store."""
    try:
        facts = facts_of(store)
    except ArtefactError:
        return False
    return (facts.body, facts.n_rows, facts.n_features) == ("dense", n_rows, width)


class PoolRows:
    """The training rows of a dataset, summed over the pool; `name` is what the dashboard shows."""

    def __init__(self, pool: Pool, blocks: Sequence[Block], name: str, dataset: str) -> None:
        self.pool, self.blocks, self.name, self.dataset = pool, list(blocks), name, dataset

    def moments(self) -> Moments:
        spans = make_spans(self.blocks, 1)
        found: Moments = self.pool.sum(moments_span, spans, self.dataset, name=f"mean_{self.name}")
        return found

    def scatter(self, mean: Array) -> Array:
        spans = make_spans(self.blocks, mean.size)
        found: Array = self.pool.sum(scatter_span, spans, mean, self.dataset, name=f"scatter_{self.name}")
        return found

    def product(self, mean: Array, basis: Array) -> Array:
        spans = make_spans(self.blocks, basis.shape[1])
        found: Array = self.pool.sum(product_span, spans, mean, basis, self.dataset, name=f"turn_{self.name}")
        return found


class BasisFile:
    """The basis after the last product, one file that is there whole or not at all; a very large one is not kept."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def load(self) -> tuple[int, Array] | None:
        kept = load_kept(self.path)
        return None if kept is None else (int(kept["done"]), kept["basis"])

    def save(self, done: int, basis: Array) -> None:
        if basis.nbytes <= KEPT_BYTES:
            keep(self.path, {"done": np.array(done), "basis": basis})
