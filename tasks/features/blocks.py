"""Principal components over blocks of rows: what travels to a worker, and the sums that come back.

Sums are over spans of consecutive blocks, long enough that a sum takes no more bytes than the float64 rows behind it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from tasks.features.pca_encoder import PcaEncoder
from tasks.features.statistics import Moments, add_product, add_scatter, moments
from tasks.fit.blocks import Partition, make_partitions
from tasks.io import Block, read_rows, read_split, write_dense
from tasks.resume import once
from tasks.rows.base import Array, Rows
from tasks.sums import FieldSums, add_up

TRAIN = 0  # of the column `split`


def make_spans(blocks: Sequence[Block], width: int) -> list[Partition]:
    """Spans of about `width` rows or more for sums of `width` numbers per feature: a function of the blocks alone."""
    n_rows = sum(block.n_rows for block in blocks)
    return make_partitions(blocks, max(1, n_rows // max(1, width)))


def training_rows(span: Partition, dataset: str) -> Iterator[Rows]:
    """The rows of a span that may be learnt from, block by block: the dataset's training split; all for ""."""
    for block in span.blocks:
        rows = read_rows(block)
        index = np.arange(block.n_rows)
        if dataset:
            index = np.flatnonzero(read_split(dataset, block.start, block.stop) == TRAIN)
        yield rows if index.size == block.n_rows else rows.take(index)


def moments_span(span: Partition, dataset: str) -> Moments:
    """The moments of the span's training rows."""
    found: Moments = add_up([moments(rows) for rows in training_rows(span, dataset)])
    return found


def scatter_span(span: Partition, mean: Array, dataset: str) -> Array:
    """The scatter (n_features, n_features) float64 of the span's training rows about `mean`."""
    out = np.zeros((mean.size, mean.size))
    for rows in training_rows(span, dataset):
        add_scatter(rows, mean, out)
    return out


def product_span(span: Partition, mean: Array, basis: Array, dataset: str) -> Array:
    """The scatter of the span's training rows times a slice of the basis, (n_features, width) float64."""
    out = np.zeros(basis.shape)
    for rows in training_rows(span, dataset):
        add_product(rows, mean, basis, out)
    return out


@dataclass(frozen=True, slots=True)
class EncodedRows(FieldSums):
    """What encoding blocks gave: adds up in block order."""

    rows: int
    digests: tuple[str, ...]

    @classmethod
    def of_plain(cls, values: dict[str, Any]) -> Self:
        """From what `dataclasses.asdict` gave and JSON kept."""
        return cls(int(values["rows"]), tuple(values["digests"]))


def encode_block(block: Block, tensors: dict[str, Array], target: str, marks: str) -> EncodedRows:
    """Encode a block into the same block of the dense store `target`, unless an earlier attempt has.

    tensors  "mean" and "components" of the encoder
    marks    folder of the reports, one file a block, written after the rows and by rename
    """
    written = Block(target, block.index, block.start, block.stop)

    def encode() -> EncodedRows:
        encoded = PcaEncoder(tensors["mean"], tensors["components"]).encode(read_rows(block))
        return EncodedRows(encoded.n_rows, (write_dense(written, encoded.to_array()),))

    return once(written, marks, encode, EncodedRows.of_plain)
