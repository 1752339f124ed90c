"""Product quantisation over blocks of rows: what travels to a worker, and the small sums that come back."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from tasks.io import Block, read_rows, read_split, take_rows, write_codes
from tasks.quantize.assign import nearest_and_squares
from tasks.quantize.kmeans import CodebookSums, assign_and_sum
from tasks.quantize.products import Array
from tasks.rows import Dense, Rows
from tasks.seeds import stream
from tasks.sums import FieldSums

FEWEST_BLOCKS = 32  # blocks that a sample is drawn from, where there are so many
LEAST_WORK = 2**31  # multiply-adds of a task of k-means: a tenth of a second, ten times what handing it out costs
FEWEST_ROWS = 2048  # of such a task: its sums, of 256 centroids, are as large as 512 rows, and are handed back
SLICE_BYTES = 2**25  # rows decoded or widened to float32 at a time
TRAIN = 0  # of the column `split`


@dataclass(frozen=True, slots=True)
class SamplePart:
    """`rows` rows drawn from one block: drawing again gives the same rows, so they are never stored."""

    block: Block
    rows: int


@dataclass(frozen=True, slots=True)
class EncodeReport(FieldSums):
    """What encoding blocks gave: adds up in block order.

    squared_error  sum over the rows of the squared distance to what their codes stand for
    squared_norm   sum over the rows of their squared norm
    digests        content digest of each block's codes
    """

    rows: int
    squared_error: float
    squared_norm: float
    digests: tuple[str, ...]

    @property
    def relative_error(self) -> float:
        """Squared error as a share of the squared norm; 0 for rows of zeros."""
        return self.squared_error / self.squared_norm if self.squared_norm > 0 else 0.0


def _eligible(block: Block, dataset: str) -> Array:
    """Rows of the block (int64, ascending) that may be learnt from: the dataset's training split; all for ""."""
    if not dataset:
        return np.arange(block.n_rows)
    return np.flatnonzero(read_split(dataset, block.start, block.stop) == TRAIN)


def count_eligible(block: Block, dataset: str) -> int:
    """How many rows of the block codebooks may be learnt from."""
    return int(_eligible(block, dataset).size)


def plan_sample(blocks: Sequence[Block], eligible: Sequence[int], wanted: int, seed: int) -> list[SamplePart]:
    """Parts of a sample of `wanted` rows (all, where there are fewer), from a seeded choice of blocks, in block order.

    eligible   rows of each block that may be drawn. Few blocks are read in every round of k-means: FEWEST_BLOCKS, or as
               many as hold `wanted` rows; each gives its share.
    """
    order = [int(i) for i in stream(seed, "sample-blocks").permutation(len(blocks)) if eligible[i] > 0]
    held = np.cumsum([eligible[i] for i in order])
    enough = int(np.searchsorted(held, wanted)) + 1
    chosen = sorted(order[: max(enough, FEWEST_BLOCKS)])
    ends = np.cumsum([0, *(eligible[i] for i in chosen)], dtype=object)
    total = int(ends[-1])
    shares = [int(end) * min(wanted, total) // max(1, total) for end in ends]
    parts = [SamplePart(blocks[i], shares[n + 1] - shares[n]) for n, i in enumerate(chosen)]
    return [part for part in parts if part.rows > 0]


def sample_block(part: SamplePart, dataset: str, seed: int) -> Array:
    """The rows of a part (part.rows, n_features) float32, or float16 as at rest, in their order in the block.

    dataset   path of the dataset whose training split may be drawn; "" for all rows
    """
    candidates = _eligible(part.block, dataset)
    rng = stream(seed, "sample-rows", part.block.index)
    index = np.sort(rng.choice(candidates, min(part.rows, candidates.size), replace=False))
    return take_rows(part.block, index)


def least_rows(n_features: int, n_centroids: int) -> int:
    """Rows of a task of k-means: LEAST_WORK multiply-adds in a round, and FEWEST_ROWS."""
    return max(FEWEST_ROWS, LEAST_WORK // max(1, n_features * n_centroids) + 1)


def parted(parts: Sequence[SamplePart], n_features: int, n_centroids: int) -> list[tuple[SamplePart, ...]]:
    """Parts in runs, one a task, of `least_rows` each, as nearly as blocks allow."""
    least = least_rows(n_features, n_centroids)
    runs: list[list[SamplePart]] = []
    for part in parts:
        if not runs or sum(one.rows for one in runs[-1]) + part.rows / 2 > least:
            runs.append([])
        runs[-1].append(part)
    return [tuple(run) for run in runs]


def codebook_sums_blocks(parts: tuple[SamplePart, ...], codebooks: Array, dataset: str, seed: int) -> CodebookSums:
    """One round of k-means on a run of parts of the sample, added in their order."""
    first, *more = (sample_block(part, dataset, seed) for part in parts)
    return assign_and_sum(first, codebooks, *more)


def encode_block(block: Block, codebooks: Array, target: str) -> EncodeReport:
    """Encode a block and write its codes as the same block of the store `target` (`tasks.io.create_codes`)."""
    rows = read_rows(block)
    codes = np.empty((rows.n_rows, codebooks.shape[0]), np.uint8)
    error = norm = 0.0
    for where, values in _slices(rows):
        codes[where], away, size = nearest_and_squares(values, codebooks)
        error, norm = error + away, norm + size
    digest = write_codes(Block(target, block.index, block.start, block.stop), codes)
    return EncodeReport(rows.n_rows, error, norm, (digest,))


def _slices(rows: Rows) -> Iterator[tuple[slice, Array]]:
    """Dense rows whole, as they are; runs of others as dense float32, each of at most SLICE_BYTES (or one row)."""
    if isinstance(rows, Dense):
        yield slice(None), rows.values
        return
    size = max(1, SLICE_BYTES // (4 * max(1, rows.n_features)))
    for start in range(0, rows.n_rows, size):
        stop = min(start + size, rows.n_rows)
        yield slice(start, stop), rows.part(start, stop).to_array()
