"""Rows of which there are only codes, as a source; kernels are loaded when rows are taken."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from pipeline.ingest.scan import Scan
from pipeline.ingest.source import Source
from tasks.rows.base import Array, Rows


class CodedSource(Source):
    """Rows that are codes already; dense to all who ask what kind of rows they are.

    codes  (n_rows, n_subquantizers) uint8, which may be mapped
    sums   squared error and squared norm of all rows
    found  what was seen of the numbers when they went by
    """

    body: ClassVar[str] = "dense"

    def __init__(self, name: str, codes: Array, codebooks: Array, sums: tuple[float, float], found: Scan) -> None:
        super().__init__(name, (len(codes), codebooks.shape[0] * codebooks.shape[2]), np.dtype(np.float32))
        self.codes, self.codebooks, self.sums, self.found = codes, codebooks, sums, found

    @property
    def row_bytes(self) -> int:
        return int(self.codebooks.shape[0])

    def take(self, index: Array, dtype: str) -> Rows:
        from tasks.rows import PqCodes

        del dtype
        return PqCodes(self.codes[index], self.codebooks)

    def slab(self, start: int, stop: int, dtype: str | None = None) -> Rows:
        return self.take(np.arange(start, stop), dtype or "")
