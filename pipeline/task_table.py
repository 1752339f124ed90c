"""tasks.parquet: one row per task that a run has done, over all its attempts."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tasks.calls import Receipt
from tasks.models.parquet import CHECKED
from tasks.places import is_remote, whole_path

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
    with whole_path(path) as spare:
        pq.write_table(pa.concat_tables(tables), spare, write_page_checksum=True)


def receipts_hold(path: Path) -> bool:
    """Whether the table can be read, every page of it."""
    return bool(earlier(path))


def earlier(path: Path) -> list[Any]:
    """[the table], or [] when there is none that can be read."""
    if path.is_dir():  # pyarrow would read its files as one table
        return []
    try:
        source = pa.BufferReader(path.read_bytes()) if is_remote(path) else path
        return [pq.read_table(source, schema=SCHEMA, **CHECKED)]
    except (OSError, pa.ArrowInvalid, FileNotFoundError):
        return []
