"""Content digests of what a dataset holds, block by block: compared with those written at ingest."""

from __future__ import annotations

from tasks.digest import digest_arrays
from tasks.io import LABELS, ROW_ID, SPLIT, Block, load_rows, read_column, rows_digest


def dataset_block_digests(block: Block, dataset: str) -> dict[str, str]:
    """{"X", "y", "split", "row_id"}: digests of one block, read anew. Raises MissingChunk, DamagedChunk."""
    columns = {
        name: digest_arrays(read_column(dataset, name, block.start, block.stop, cached=False))
        for name in (LABELS, SPLIT, ROW_ID)
    }
    return {"X": rows_digest(load_rows(block)), **columns}
