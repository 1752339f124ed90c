"""Normalisation over blocks of rows: what travels to a worker, and the sums that come back."""

from __future__ import annotations

from typing import Any

from tasks.features.additive_blocks import MappedRows
from tasks.features.blocks import training_rows
from tasks.features.column_moments import ColumnMoments, column_moments
from tasks.features.normalize_encoder import NormalizeEncoder
from tasks.fit.blocks import Partition
from tasks.io import Block, read_rows, write_csr, write_dense
from tasks.resume import once
from tasks.rows import Csr
from tasks.rows.base import Array
from tasks.sums import add_up


def column_moments_span(span: Partition, dataset: str) -> ColumnMoments:
    """Mean and variance of every column of the span's training rows; of all its rows for ""."""
    found: ColumnMoments = add_up([column_moments(rows) for rows in training_rows(span, dataset)])
    return found


def normalize_block(
    block: Block, tensors: dict[str, Array], header: dict[str, Any], target: str, marks: str
) -> MappedRows:
    """Normalise a block into the same block of the store `target`, unless an earlier attempt has.

    tensors, header  of the encoder
    target   of the body that the encoder gives
    marks    folder of the reports, one file a block, written after the rows and by rename
    """
    written = Block(target, block.index, block.start, block.stop)

    def encode() -> MappedRows:
        rows = NormalizeEncoder.load(header, tensors).encode(read_rows(block))
        if isinstance(rows, Csr):
            digest = write_csr(written, rows.data, rows.indices, rows.indptr)
        else:
            digest = write_dense(written, rows.values)
        return MappedRows(rows.n_rows, rows.nbytes, (digest,))

    return once(written, marks, encode, MappedRows.of_plain)
