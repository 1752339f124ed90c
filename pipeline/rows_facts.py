"""What the rows of every encoding will be like, before any of them is made."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from pipeline.config import (
    OWN_ROWS,
    AdditiveMap,
    AnyEncoding,
    CodesEncoding,
    Dwta,
    Normalize,
    PcaEncoding,
    PqEncoding,
    RunConfig,
    Wta,
)
from pipeline.dataset import Dataset
from pipeline.image_encodings import BowEncoding, FisherEncoding, LlcEncoding, SiftEncoding
from tasks.hashing.wta import dtype_of
from tasks.io import longest_side_of, nonzeros_of
from tasks.rows.descriptors import SIFT_NUMBERS

FLOAT_BYTES, DOUBLE_BYTES = 4, 8


@dataclass(frozen=True, slots=True)
class RowsFacts:
    """Rows as they are stored and read.

    body           "dense", "csr", "pq" or "onehot"; "images" or "descriptors", which no learner reads
    n_features     columns that a learner sees
    block_bytes    of the largest block, once read
    row_floats     numbers that a row decodes to, for batches; of images and descriptors the most patches of one
    encoder_bytes  of the numbers that make these rows from those that they are made from
    """

    body: str
    n_features: int
    block_bytes: int
    row_floats: int
    encoder_bytes: int = 0


def rows_facts(run: RunConfig, dataset: Dataset) -> dict[str, RowsFacts]:
    """Of the dataset's own rows and of every encoding; parameters that the data do not allow are found elsewhere."""
    facts = {OWN_ROWS: _own(dataset)}
    for encoding in run.encode:
        facts[encoding.name] = _encoded(encoding, facts[encoding.rows], dataset)
    return facts


def _own(dataset: Dataset) -> RowsFacts:
    width = dataset.n_features
    if dataset.body == "images":
        return RowsFacts("images", 0, max(nonzeros_of(dataset.rows_store), default=0), 0)
    codebooks = dataset.codebooks
    if codebooks is not None:
        return RowsFacts("pq", width, dataset.block_rows * len(codebooks), width, codebooks.nbytes)
    if dataset.body != "csr":
        nbytes = np.dtype(dataset.dtype).itemsize * width * dataset.block_rows
        return RowsFacts(dataset.body, width, nbytes, width)
    most = max(nonzeros_of(dataset.rows_store), default=0)
    nbytes = 2 * FLOAT_BYTES * most + 8 * dataset.block_rows
    return RowsFacts("csr", width, nbytes, math.ceil(most / max(1, dataset.block_rows)))


def _encoded(encoding: AnyEncoding, source: RowsFacts, dataset: Dataset) -> RowsFacts:
    block_rows = dataset.block_rows
    if isinstance(encoding, PqEncoding):
        width = source.n_features
        books = FLOAT_BYTES * width << encoding.bits
        return RowsFacts("pq", width, block_rows * (encoding.subquantizers or width), width, books)
    if isinstance(encoding, PcaEncoding):
        kept = encoding.kept(source.n_features, dataset.split_counts["train"])
        encoder = FLOAT_BYTES * source.n_features * (kept + 1)
        return RowsFacts("dense", kept, FLOAT_BYTES * kept * block_rows, kept, encoder)
    if isinstance(encoding, AdditiveMap):
        return _mapped(2 * encoding.samples + 1, source, block_rows)
    if isinstance(encoding, Normalize):
        fitted = 2 * DOUBLE_BYTES * source.n_features if encoding.norm == "standard" else 0
        return replace(_mapped(1, _sparse(source, block_rows), block_rows), encoder_bytes=fitted)
    if isinstance(encoding, SiftEncoding):
        return _described(encoding, dataset)
    if isinstance(encoding, BowEncoding | LlcEncoding | FisherEncoding):
        return _of_descriptors(encoding, source, block_rows)
    n_codes = code_count(encoding)
    block_bytes = dtype_of(n_codes).itemsize * encoding.hashes * block_rows
    windows = FLOAT_BYTES * encoding.hashes * encoding.window
    return RowsFacts("onehot", encoding.hashes * n_codes, block_bytes, 2 * encoding.hashes, windows)


def _mapped(width: int, source: RowsFacts, block_rows: int) -> RowsFacts:
    """Every number of the source as `width` numbers: sparse rows of sparse ones, dense rows of all others."""
    columns = width * source.n_features
    if source.body == "csr":
        pointers = 8 * block_rows
        nbytes = width * max(0, source.block_bytes - pointers) + pointers
        return RowsFacts("csr", columns, nbytes, width * source.row_floats)
    return RowsFacts("dense", columns, FLOAT_BYTES * columns * block_rows, columns)


def _described(encoding: SiftEncoding, dataset: Dataset) -> RowsFacts:
    """Descriptors of the images that are held at once."""
    from tasks.features.image_blocks import IMAGES_AT_ONCE

    side = min(encoding.max_side, longest_side_of(dataset.rows_store)) if dataset.body == "images" else 0
    most = sum((1 + (side - patch) // encoding.step) ** 2 for patch in encoding.patches if patch <= side)
    return RowsFacts("descriptors", SIFT_NUMBERS, IMAGES_AT_ONCE * most * (SIFT_NUMBERS + 2 * FLOAT_BYTES), most)


def _of_descriptors(
    encoding: BowEncoding | LlcEncoding | FisherEncoding, source: RowsFacts, block_rows: int
) -> RowsFacts:
    if isinstance(encoding, FisherEncoding):
        kept = encoding.components or SIFT_NUMBERS
        learnt = DOUBLE_BYTES * (SIFT_NUMBERS * (kept + 1) + encoding.gaussians * (2 * kept + 1))
        return RowsFacts("dense", encoding.width, FLOAT_BYTES * encoding.width * block_rows, encoding.width, learnt)
    columns, most = encoding.words, source.row_floats
    if isinstance(encoding, LlcEncoding):
        columns, most = encoding.words * encoding.cells, most * encoding.neighbours * len(encoding.pyramid)
    most = max(1, min(columns, most))
    learnt = FLOAT_BYTES * SIFT_NUMBERS * encoding.words
    return RowsFacts("csr", columns, (2 * FLOAT_BYTES * most + 8) * block_rows, most, learnt)


def _sparse(source: RowsFacts, block_rows: int) -> RowsFacts:
    """One-hot codes as the sparse rows that they stand for; other rows as they are."""
    if source.body != "onehot":
        return source
    nbytes = FLOAT_BYTES * source.row_floats * block_rows + 8 * block_rows
    return RowsFacts("csr", source.n_features, nbytes, source.row_floats)


def code_count(encoding: Wta | Dwta) -> int:
    """Codes that a hash can give, also of parameters that are refused elsewhere (`CodeParams.n_codes`)."""
    if isinstance(encoding, Wta):
        return encoding.window
    unbounded = encoding.window + (encoding.shift or encoding.window) * (encoding.hashes - 1)
    return unbounded if encoding.modulus is None else min(encoding.modulus, unbounded)


def learnt_bytes(run: RunConfig, facts: Mapping[str, RowsFacts], rows: str) -> int:
    """Bytes that the encoders between the dataset's rows and `rows` have learnt; hashes are drawn, not learnt."""
    made_by = {encoding.name: encoding for encoding in run.encode}
    total = 0
    while rows in made_by:
        encoding = made_by[rows]
        total += 0 if isinstance(encoding, CodesEncoding) else facts[rows].encoder_bytes
        rows = encoding.rows
    return total + facts[rows].encoder_bytes  # of a dataset that holds codes, its codebooks
