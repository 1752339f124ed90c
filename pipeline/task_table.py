"""tasks.parquet: one row per task that a run has done, over all its attempts."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tasks.calls import Receipt
from tasks.later import later
from tasks.models.parquet import CHECKED
from tasks.places import is_remote, whole_path

pa, pq = later("pyarrow"), later("pyarrow.parquet")

TASKS = "tasks.parquet"
COLUMNS = {
    "step": "string",
    "fingerprint": "string",
    "task": "string",
    "item": "string",
    "start": "double",
    "seconds": "double",
    "cpu_seconds": "double",
    "resident_before": "int64",
    "peak": "int64",
    "process": "int64",
}


def schema() -> Any:
    """Of the table."""
    return pa.schema([(name, pa.type_for_alias(kind)) for name, kind in COLUMNS.items()])


def append_receipts(path: Path, step: str, fingerprint: str, receipts: Sequence[Receipt]) -> None:
    """Add the receipts of a step's attempt; a table that cannot be read any more is begun anew."""
    rows = [
        {
            "step": step,
            "fingerprint": fingerprint,
            "task": receipt.name,
            **{name: getattr(receipt, name) for name in [*COLUMNS][3:]},
        }
        for receipt in receipts
    ]
    tables = [*earlier(path), pa.Table.from_pylist(rows, schema())]
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
        return [pq.read_table(source, schema=schema(), **CHECKED)]
    except (OSError, pa.ArrowInvalid, FileNotFoundError):
        return []
