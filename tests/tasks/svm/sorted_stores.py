"""Small datasets of every body whose training rows are sorted by class, for tests of what learns from them."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from tasks.calls import write_array
from tasks.io import (
    Block,
    blocks_of,
    create_codes,
    create_csr,
    create_dense,
    create_group,
    create_onehot,
    load_rows,
    write_codes,
    write_csr,
    write_dense,
)
from tasks.relaxed.ground import STARTS
from tasks.rows import OneHot
from tasks.svm import class_rows
from tasks.svm.class_rows import ClassRows, shelves_of, sort_shelf
from tests.bodies import csr_of
from tests.stores import store_columns

BODIES = ("float32", "float16", "csr", "pq", "onehot")
HASHES = 3  # one-hot rows have so many codes, of four values each


def write_rows(store: str, body: str, values: np.ndarray, block_rows: int) -> list[Block]:
    """A store of rows (n, d): of codes the values rounded, of which there are four."""
    n, d = values.shape
    levels = np.clip(np.round(np.abs(values)), 0, 3).astype(np.uint8)
    if body == "csr":
        blocks = create_csr(store, n, d, block_rows)
    elif body == "pq":
        blocks = create_codes(
            store, n, d, block_rows, np.tile(np.arange(4, dtype=np.float32)[None, :, None], (d, 1, 1))
        )
    elif body == "onehot":
        blocks = create_onehot(store, n, HASHES, block_rows, "uint8", 4)
    else:
        blocks = create_dense(store, n, d, block_rows, body)
    for block in blocks:
        part = slice(block.start, block.stop)
        if body == "csr":
            rows = csr_of(values[part].astype(np.float32))
            write_csr(block, rows.data, rows.indices, rows.indptr)
        elif body in ("pq", "onehot"):
            write_codes(block, levels[part] if body == "pq" else levels[part, :HASHES])
        else:
            write_dense(block, values[part].astype(body))
    return blocks


def write_dataset(
    folder: Path, values: np.ndarray, labels: np.ndarray, split: np.ndarray, body: str = "float32", block_rows: int = 7
) -> str:
    """The path of a dataset; its row ids are ten times the place of a row, and one."""
    dataset = str(folder / "data.zarr")
    create_group(dataset, {})
    ids = (10 * np.arange(len(labels)) + 1).astype(np.int64)
    store_columns(dataset, block_rows, y=labels.astype(np.int32), split=split.astype(np.uint8), row_id=ids)
    write_rows(f"{dataset}/X", body, values, block_rows)
    return dataset


def class_counts(labels: np.ndarray, split: np.ndarray, n_classes: int) -> np.ndarray:
    return np.bincount(labels[(split == 0) & (labels >= 0)], minlength=n_classes)


def sorted_store(folder: Path, dataset: str, counts: np.ndarray, most_rows: float = np.inf) -> ClassRows:
    """The training rows of a dataset, sorted into shelves of about so many rows."""
    folder.mkdir(parents=True, exist_ok=True)
    write_array(folder / STARTS, np.concatenate([[0], np.cumsum(counts)]).astype(np.int64))
    row_bytes = 0.0 if np.isinf(most_rows) else class_rows.SHELF_BYTES / most_rows
    rows = ClassRows(str(folder), f"{dataset}/X", dataset, shelves_of(counts, row_bytes))
    for shelf in rows.shelves:
        if shelf.n_rows:
            sort_shelf(shelf, rows)
    return rows


def whole(store: str) -> np.ndarray:
    """All rows of a store, decoded, (n, d) float32."""
    parts = [load_rows(block) for block in blocks_of(store)]
    full = [part.decoded() if isinstance(part, OneHot) else part for part in parts]
    return np.concatenate([part.to_array() for part in full]).astype(np.float32)
