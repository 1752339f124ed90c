"""Codes of blocks of rows: what travels to a worker, and the small sums that come back."""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import lru_cache
from typing import Any, Self

import numpy as np

from tasks.hashing.code_rows import CodeHash
from tasks.hashing.wta import CodeParams
from tasks.io import Block, read_rows, write_codes
from tasks.resume import once
from tasks.rows import Csr, Rows
from tasks.rows.base import Array
from tasks.sums import FieldSums

HASHES_KEPT = 2  # by a process that encodes blocks
VALUES_AT_ONCE = 1 << 22  # dense values looked at together


@dataclass(frozen=True, slots=True)
class CodeReport(FieldSums):
    """What coding blocks gave: adds up in block order.

    zeros           values that are 0, of `cells` (the sparsity (1) of the paper is their share)
    empty           empty samples, of `hashes`
    expected_empty  how many to expect for rows with so many zeros, over all draws of the windows
    all_zero_rows   rows of which nothing is known but that
    digests         content digest of each block's codes
    """

    rows: int
    zeros: int
    cells: int
    empty: int
    hashes: int
    expected_empty: float
    all_zero_rows: int
    digests: tuple[str, ...]

    @property
    def sparsity(self) -> float:
        """Share of zeros, eq. (1)."""
        return self.zeros / max(1, self.cells)

    @property
    def empty_ratio(self) -> float:
        """Share of empty samples."""
        return self.empty / max(1, self.hashes)

    @property
    def expected_empty_ratio(self) -> float:
        return self.expected_empty / max(1, self.hashes)

    @classmethod
    def of_plain(cls, values: dict[str, Any]) -> Self:
        """From what `dataclasses.asdict` gave and JSON kept."""
        known = {field.name: values[field.name] for field in fields(cls)}
        return cls(**{**known, "digests": tuple(known["digests"])})


def encode_codes_block(block: Block, params: CodeParams, target: str) -> CodeReport:
    """Code a block and write it as the same block of the store `target` (`tasks.io.create_onehot`).

    Raises ParamError for a window that is wider than the rows.
    """
    rows = read_rows(block)
    codes, empty = hash_of(params, rows.n_features).codes(rows)
    zeros = count_zeros(rows)
    digest = write_codes(Block(target, block.index, block.start, block.stop), codes)
    return CodeReport(
        rows=rows.n_rows,
        zeros=int(zeros.sum()),
        cells=rows.n_rows * rows.n_features,
        empty=empty,
        hashes=codes.size,
        expected_empty=params.hashes * float(empty_chance(zeros, rows.n_features, params.window).sum()),
        all_zero_rows=int(np.count_nonzero(zeros == rows.n_features)),
        digests=(digest,),
    )


def encode_codes_block_once(block: Block, params: CodeParams, target: str, marks: str) -> CodeReport:
    """`encode_codes_block`, unless an earlier attempt has written this block and its report still fits what is there.

    marks  folder of the reports, one file a block, written after the codes and by rename
    """
    written = Block(target, block.index, block.start, block.stop)
    return once(written, marks, lambda: encode_codes_block(block, params, target), CodeReport.of_plain)


@lru_cache(HASHES_KEPT)
def hash_of(params: CodeParams, n_features: int) -> CodeHash:
    """The hashes of a run: drawn once per process, the same in all."""
    return CodeHash.drawn(params, n_features)


def count_zeros(rows: Rows) -> Array:
    """(n_rows,) int64: values of each row that are 0, stored or not."""
    if isinstance(rows, Csr):
        owner = np.repeat(np.arange(rows.n_rows), np.diff(rows.indptr))
        return rows.n_features - np.bincount(owner[rows.data != 0], minlength=rows.n_rows)
    zeros = np.empty(rows.n_rows, np.int64)
    size = max(1, VALUES_AT_ONCE // max(1, rows.n_features))
    for start in range(0, rows.n_rows, size):
        part = rows.part(start, min(start + size, rows.n_rows)).decoded()
        if isinstance(part, Csr):
            zeros[start : start + size] = count_zeros(part)
        else:
            zeros[start : start + size] = np.count_nonzero(part.to_array() == 0, axis=1)
    return zeros


def empty_chance(zeros: Array, n_features: int, window: int) -> Array:
    """(n_rows,) float64: C(z, K) / C(d, K), the chance that K different features of a row with z zeros are all 0."""
    chance = np.ones(zeros.size)
    for k in range(window):
        chance *= np.maximum(zeros - k, 0) / (n_features - k)
    return chance
