"""Features of images over blocks: what travels to a worker, and the sums that come back.

Descriptors are made of a few images at a time and never stored, but for a seeded sample of some training images, from
which words and mixtures are learnt.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from tasks.features.sift import SiftParams
from tasks.features.sift_encoder import SiftEncoder
from tasks.io import Block, read_rows, read_split, write_csr, write_dense
from tasks.models.encoder import Encoder
from tasks.models.registry import ENCODERS, class_of
from tasks.places import at
from tasks.quantize.blocks import SamplePart
from tasks.resume import array_once, once
from tasks.rows import Csr, Dense
from tasks.rows.base import Array, Rows
from tasks.rows.stack import stacked
from tasks.seeds import stream
from tasks.sums import FieldSums

TRAIN = 0  # of the column `split`
IMAGES_AT_ONCE = 16  # whose descriptors are held


@dataclass(frozen=True, slots=True)
class DescribedRows(FieldSums):
    """What encoding blocks of images gave: adds up in block order.

    descriptors   of all images; blank: images without any
    nbytes        that the rows are held in
    sift_seconds  of `seconds`: decoding and describing
    digests       of each block's rows
    """

    rows: int
    descriptors: int
    blank: int
    nbytes: int
    sift_seconds: float
    seconds: float
    digests: tuple[str, ...]

    @classmethod
    def of_plain(cls, values: dict[str, Any]) -> Self:
        """From what `dataclasses.asdict` gave and JSON kept."""
        return cls(**{**values, "digests": tuple(values["digests"])})


def encode_images_block(
    block: Block, sift: SiftParams, header: dict[str, Any], tensors: dict[str, Array], target: str, marks: str
) -> DescribedRows:
    """Encode a block of images into the same block of the store `target`, unless an earlier attempt has.

    header, tensors  of the encoder of descriptors: bag of words, LLC or Fisher vectors
    marks            folder of the reports, one file a block, written after the rows and by rename
    """
    written = Block(target, block.index, block.start, block.stop)

    def encode() -> DescribedRows:
        encoder: Encoder = class_of(header["kind"], ENCODERS, "an encoding's settings").load(header, tensors)
        return _encode(block, written, SiftEncoder(sift), encoder)

    return once(written, marks, encode, DescribedRows.of_plain)


def _encode(block: Block, written: Block, sift: SiftEncoder, encoder: Encoder) -> DescribedRows:
    begun = time.perf_counter()
    images = read_rows(block)
    parts, described, blank, sift_seconds = [], 0, 0, 0.0
    for start in range(0, images.n_rows, IMAGES_AT_ONCE):
        before = time.perf_counter()
        found = sift.encode(images.part(start, min(start + IMAGES_AT_ONCE, images.n_rows)))
        sift_seconds += time.perf_counter() - before
        described += found.n_descriptors
        blank += int(np.count_nonzero(np.diff(found.offsets) == 0))
        parts.append(encoder.encode(found))
    rows = stacked(parts)
    seconds = time.perf_counter() - begun
    return DescribedRows(rows.n_rows, described, blank, rows.nbytes, sift_seconds, seconds, (_write(written, rows),))


def _write(written: Block, rows: Rows) -> str:
    if isinstance(rows, Csr):
        return write_csr(written, rows.data, rows.indices, rows.indptr)
    assert isinstance(rows, Dense)
    return write_dense(written, rows.values)


# ---- the sample --------------------------------------------------------------------------------------------------


def sample_descriptors(
    part: SamplePart, sift: SiftParams, each: int, dataset: str, seed: int, folder: str
) -> tuple[str, int, str]:
    """Write `each` descriptors (all, of images with fewer) of `part.rows` training images of a block, drawn by seed.

    returns  (name of the file, (n, 128) uint8, in `folder`; n; digest); a file that is there as it was written is
             not made again
    """
    path = at(folder) / f"{part.block.index:05d}.npy"
    found, digest = array_once(path, lambda: _drawn(part, SiftEncoder(sift), each, dataset, seed))
    return path.name, len(found), digest


def _drawn(part: SamplePart, sift: SiftEncoder, each: int, dataset: str, seed: int) -> Array:
    block = part.block
    candidates = np.flatnonzero(read_split(dataset, block.start, block.stop) == TRAIN)
    rng = stream(seed, "sample-images", block.index)
    chosen = np.sort(rng.choice(candidates, min(part.rows, candidates.size), replace=False))
    images, drawn = read_rows(block), []
    for image in chosen:
        found = sift.encode(images.take(np.array([image])))
        picked = np.sort(rng.permutation(found.n_descriptors)[:each])
        drawn.append(found.values[picked])
    return np.concatenate(drawn)
