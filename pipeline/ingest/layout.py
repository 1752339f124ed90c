"""The order of rows in a dataset, and how many of them make a block."""

from __future__ import annotations

import numpy as np

from pipeline.dataset import TEST, TRAIN, VALIDATION
from tasks.rows.base import Array
from tasks.seeds import stream

BLOCK_BYTES = 8 * 2**20
DECODED_BYTES = 512 * 2**20
MIN_BLOCKS = 16  # so that several workers find something to do
MIN_BLOCK_ROWS = 256


def order_rows(split: Array, kept: Array, seed: int) -> Array:
    """Source rows (n_kept,) int64 in the order in which they are stored: train, validation, test.

    Training rows are shuffled, so that each block is a random sample of them: rows sorted by class are common, and
    stochastic gradient descent and averaging over blocks need blocks that look alike. The others keep their order.

    split   (n_rows,) uint8 part of each source row;  kept  (n_rows,) bool
    """
    train = np.flatnonzero(kept & (split == TRAIN))
    shuffled = stream(seed, "ingest", "shuffle").permutation(train)
    others = [np.flatnonzero(kept & (split == part)) for part in (VALIDATION, TEST)]
    return np.concatenate([shuffled, *others]).astype(np.int64)


def choose_block_rows(n_rows: int, row_bytes: int, decoded_bytes: int = 0) -> int:
    """A power of two: blocks of at most 8 MB, and at least 16 blocks unless they would be smaller than 256 rows.

    decoded_bytes  of a row of codes, once it is numbers: a block of them is at most 512 MB
    """
    by_bytes = _power_of_two(min(BLOCK_BYTES // max(1, row_bytes), DECODED_BYTES // max(1, decoded_bytes)))
    by_count = _power_of_two(n_rows // MIN_BLOCKS)
    return min(by_bytes, max(MIN_BLOCK_ROWS, by_count))


def _power_of_two(bound: int) -> int:
    """The largest power of two up to `bound`, at least 1."""
    return 1 << (max(1, bound).bit_length() - 1)
