"""Is a dataset still what ingest wrote? Digests taken block by block by tasks, compared here."""

from __future__ import annotations

from collections.abc import Sequence

from pipeline.dataset import AGAIN, Dataset, DatasetDamaged
from pipeline.pool import Pool
from tasks import io
from tasks.verify import dataset_block_digests


def check_data(dataset: Dataset, pool: Pool) -> None:
    """Read every block once. Raises MissingChunk, DamagedChunk, DatasetDamaged with the array, block and rows."""
    for problem in dataset.codebook_problems():
        raise problem
    blocks = dataset.blocks()
    compare_blocks(dataset, blocks, pool.map(dataset_block_digests, blocks, dataset.path, name="check_data"))


def compare_blocks(dataset: Dataset, blocks: Sequence[io.Block], found: Sequence[dict[str, str]]) -> None:
    stored = io.read_attrs(f"{dataset.path}/digests")
    for block, digests in zip(blocks, found, strict=True):
        for name, digest in digests.items():
            if stored[name][block.index] != digest:
                where = f"{dataset.path}/{name}, block {block.index}, rows {block.start}..{block.stop - 1}"
                raise DatasetDamaged(f"{name}: the content is not what was written", where, AGAIN)
