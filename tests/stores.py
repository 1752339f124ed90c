"""Stores of small data, written block by block as their writers do."""

from __future__ import annotations

import numpy as np

from tasks.io import Block, create_column, create_dense, write_column, write_dense


def store_columns(dataset: str, block_rows: int, **columns: np.ndarray) -> None:
    """Columns of a dataset by name (y, split, row_id), each (n_rows,) in the type that it is stored in."""
    for name, values in columns.items():
        create_column(dataset, name, len(values), block_rows, values.dtype.name)
        for start in range(0, len(values), block_rows):
            write_column(dataset, name, start, values[start : start + block_rows])


def store_dense(path: str, values: np.ndarray, block_rows: int) -> list[Block]:
    """A dense store of the rows (n_rows, n_features) float32."""
    blocks = create_dense(path, *values.shape, block_rows)
    for block in blocks:
        write_dense(block, values[block.start : block.stop])
    return blocks
