"""Rows of which there are only codes, as a source; kernels are loaded when rows are encoded or taken."""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from pipeline.ingest.errors import guarded
from pipeline.ingest.scan import Scan
from pipeline.ingest.source import Source
from tasks.rows.base import Array, Rows

if TYPE_CHECKING:
    from pipeline.ingest.coder import Coder
    from pipeline.ingest.stream import Chain, Job


class CodedSource(Source):
    """Rows that come from first to last and are kept as codes; dense to all who ask what kind of rows they are.

    They go by in `encode`, which may take hours: before it their number may be unknown, and what else was asked for is
    looked at. After it:

    codes  (n_rows, n_subquantizers) uint8, which may be mapped
    sums   squared error and squared norm of all rows
    found  what was seen of the numbers when they went by
    """

    body: ClassVar[str] = "dense"
    codes: Array
    sums: tuple[float, float]
    found: Scan

    def __init__(self, chain: Chain, job: Job, coder: Coder) -> None:
        super().__init__(chain.name, (chain.n_rows or 0, chain.n_features), np.dtype(np.float32))
        self.chain, self.job, self.coder = chain, job, coder
        self.where = ""  # files whose errors are named by them

    def encode(self) -> None:
        """Raises DiskFull and whatever the rows do."""
        from pipeline.ingest.coded_stream import encode_source  # which is built on this

        with guarded(self.where) if self.where else nullcontext():
            encode_source(self)

    @property
    def known_rows(self) -> int | None:
        return self.chain.n_rows

    @property
    def brings_labels(self) -> bool:
        """Whether labels come with the rows, or may come."""
        return self.chain.carries_labels or self.chain.rides

    @property
    def row_bytes(self) -> int:
        return int(self.coder.codebooks.shape[0])

    def place(self, row: int) -> str:
        """Of files that are being read, too: those that are still to come have no length yet."""
        return self.chain.pieces().place(row)

    def take(self, index: Array, dtype: str) -> Rows:
        from tasks.rows import PqCodes

        del dtype
        return PqCodes(self.codes[index], self.coder.codebooks)

    def slab(self, start: int, stop: int, dtype: str | None = None) -> Rows:
        return self.take(np.arange(start, stop), dtype or "")
