"""The parts of a fit that travel: they read blocks of rows, one at a time, and return small sums."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tasks.fit.average import ModelSum
from tasks.fit.local_pass import Chunk, local_passes
from tasks.fit.problem import SgdProblem, StepTrial
from tasks.fit.scorer import Parameters
from tasks.fit.step_trial import affordable_rows, try_steps
from tasks.fit.targets import Targets
from tasks.io import Block, read_rows

SAMPLE_BYTES = 64 << 20  # wide rows are sampled more sparingly
COUNTED = 32  # blocks whose labels are read to estimate how many rows take part


@dataclass(frozen=True, slots=True)
class Partition:
    """The blocks from which one of the averaged models learns in a round."""

    index: int
    blocks: tuple[Block, ...]


def make_partitions(blocks: Sequence[Block], n: int) -> list[Partition]:
    """At most `n` partitions of consecutive blocks, nearly equal in rows: a function of blocks and config alone."""
    ends = np.cumsum([block.n_rows for block in blocks])
    n = max(1, min(n, len(blocks)))
    cuts = (
        [int(np.searchsorted(ends, ends[-1] * part / n, side="left")) + 1 for part in range(1, n)]
        if len(blocks)
        else []
    )
    bounds = [0, *cuts, len(blocks)]
    for i in range(1, n):  # every partition keeps a block
        bounds[i] = min(max(bounds[i], bounds[i - 1] + 1), len(blocks) - (n - i))
    return [Partition(i, tuple(blocks[bounds[i] : bounds[i + 1]])) for i in range(n) if bounds[i] < bounds[i + 1]]


class BlockFeed:
    """Chunks of a partition, one block each."""

    def __init__(self, blocks: Sequence[Block], problem: SgdProblem) -> None:
        self.blocks, self.problem = blocks, problem

    def __len__(self) -> int:
        return len(self.blocks)

    def __getitem__(self, position: int, /) -> Chunk:
        return load(self.blocks[position], self.problem)


def load(block: Block, problem: SgdProblem) -> Chunk:
    """The rows of a block that take part."""
    index, labels = targets_of(problem).of(block)
    return Chunk(read_rows(block), index, labels)


def targets_of(problem: SgdProblem) -> Targets:
    """Raises ValueError for a problem whose rows are in memory."""
    if problem.targets is None:
        raise ValueError(f"{problem.name} has no targets: its rows are in memory")
    return problem.targets


def sgd_partition(partition: Partition, parameters: Parameters, problem: SgdProblem, round_index: int) -> ModelSum:
    """The model that one partition comes to in a round, starting from `parameters` (read only)."""
    return local_passes(BlockFeed(partition.blocks, problem), parameters, problem, round_index, partition.index)


def choose_step(blocks: Sequence[Block], problem: SgdProblem) -> StepTrial:
    """The step chosen on at most `params.trial_rows` rows, taken from the first blocks that have any."""
    return try_steps(sample(blocks, problem), problem, rows_about(blocks, problem))


def rows_about(blocks: Sequence[Block], problem: SgdProblem) -> int:
    """How many rows take part, estimated from the labels of COUNTED evenly spaced blocks; exact for fewer blocks."""
    places = np.unique(np.linspace(0, len(blocks) - 1, min(COUNTED, len(blocks))).astype(np.int64))
    counted = [blocks[int(place)] for place in places]
    taking_part = sum(targets_of(problem).of(block)[0].size for block in counted)
    held = sum(block.n_rows for block in counted)
    return round(taking_part / max(held, 1) * sum(block.n_rows for block in blocks))


def sample(blocks: Sequence[Block], problem: SgdProblem) -> list[Chunk]:
    """The first `params.trial_rows` rows that take part, or SAMPLE_BYTES of them; a chunk for each block with some.

    Fewer where a fit of so many takes long (`affordable_rows`, by the first block that has some).
    """
    chunks: list[Chunk] = []
    missing = problem.params.trial_rows
    for block in blocks:
        if missing == 0 or sum(chunk.rows.nbytes for chunk in chunks) >= SAMPLE_BYTES:
            break
        chunk = load(block, problem)
        if not chunks and chunk.index.size:
            missing = min(missing, affordable_rows(chunk.rows, problem))
        index = chunk.index[:missing]
        if index.size:
            chunks.append(Chunk(chunk.rows.take(index), np.arange(index.size), chunk.labels[: index.size]))
        missing -= index.size
    return chunks
