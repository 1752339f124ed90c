"""Principal components over blocks of rows: what travels to a worker, and the sums that come back.

Sums are over spans of consecutive blocks, long enough that a sum takes no more bytes than the float64 rows behind it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from tasks.errors import ArtefactError
from tasks.features.pca_encoder import PcaEncoder
from tasks.features.statistics import Moments, add_product, add_scatter, moments
from tasks.files import beside, disk_room
from tasks.fit.blocks import Partition, make_partitions
from tasks.io import Block, load_rows, read_rows, read_split, rows_digest, write_dense
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


def encode_block(block: Block, tensors: dict[str, Array], target: str, marks: str) -> EncodedRows:
    """Encode a block into the same block of the dense store `target`, unless an earlier attempt has.

    tensors  "mean" and "components" of the encoder
    marks    folder of the reports, one file a block, written after the rows and by rename
    """
    path = Path(marks) / f"{block.index:05d}.json"
    written = Block(target, block.index, block.start, block.stop)
    kept = _kept(path, written)
    if kept is not None:
        return kept
    encoded = PcaEncoder(tensors["mean"], tensors["components"]).encode(read_rows(block))
    report = EncodedRows(encoded.n_rows, (write_dense(written, encoded.to_array()),))
    spare = beside(path)
    text = json.dumps(asdict(report))
    with disk_room(str(path), len(text)):
        spare.write_text(text)
        os.replace(spare, path)
    return report


def _kept(path: Path, written: Block) -> EncodedRows | None:
    """The report of an earlier attempt, when it still fits what is in the store."""
    try:
        values = json.loads(path.read_text())
        report = EncodedRows(int(values["rows"]), tuple(values["digests"]))
        return report if report.digests == (rows_digest(load_rows(written)),) else None
    except (OSError, ValueError, KeyError, TypeError, ArtefactError):
        return None
