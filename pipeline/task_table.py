"""tasks.parquet: one row per task that a run has done, over all its attempts."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tasks.calls import Receipt
from tasks.files import beside

TASKS = "tasks.parquet"
SCHEMA = pa.schema(
    [
        ("step", pa.string()),
        ("fingerprint", pa.string()),
        ("task", pa.string()),
        ("item", pa.string()),
        ("start", pa.float64()),
        ("seconds", pa.float64()),
        ("cpu_seconds", pa.float64()),
        ("resident_before", pa.int64()),
        ("peak", pa.int64()),
        ("process", pa.int64()),
    ]
)


def append_receipts(path: Path, step: str, fingerprint: str, receipts: Sequence[Receipt]) -> None:
    """Add the receipts of a step's attempt; a table that cannot be read any more is begun anew."""
    rows = [
        {
            "step": step,
            "fingerprint": fingerprint,
            "task": receipt.name,
            **{name: getattr(receipt, name) for name in SCHEMA.names[3:]},
        }
        for receipt in receipts
    ]
    tables = [*earlier(path), pa.Table.from_pylist(rows, SCHEMA)]
    spare = beside(path)
    pq.write_table(pa.concat_tables(tables), spare, write_page_checksum=True)
    os.replace(spare, path)


def receipts_hold(path: Path) -> bool:
    """Whether the table can be read, every page of it."""
    return bool(earlier(path))


def earlier(path: Path) -> list[Any]:
    """[the table], or [] when there is none that can be read."""
    try:
        return [pq.read_table(path, schema=SCHEMA, page_checksum_verification=True)]
    except (OSError, pa.ArrowInvalid, FileNotFoundError):
        return []
