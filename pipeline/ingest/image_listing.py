"""Which file each row of a dataset of images is: files.parquet in its folder, also of images that were left out."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from pipeline.ingest.images import ImageSource
from pipeline.ingest.scan import Scan
from pipeline.ingest.source import Source
from tasks.later import later
from tasks.models.parquet import write_table

pa = later("pyarrow")

FILES = "files.parquet"


def write_listing(folder: Path, sources: Sequence[Source], scans: Sequence[Scan]) -> None:
    """Columns row int64 (as `row_id` and predictions have it), file string (below the folder that was given, with that
    folder's name), left_out string (why; null of images that are in the dataset). Raises DiskFull.
    """
    names: list[str] = []
    reasons: list[str | None] = []
    for source, found in zip(sources, scans, strict=True):
        assert isinstance(source, ImageSource)
        wrong = dict(zip(found.damaged_rows, found.damaged_places, strict=True))
        names += [f"{source.name}/{file}" for file in source.files]
        reasons += [_reason(wrong.get(row)) for row in range(source.n_rows)]
    columns = [pa.array(range(len(names)), pa.int64()), pa.array(names, pa.string()), pa.array(reasons, pa.string())]
    write_table(folder / FILES, pa.table(columns, names=["row", "file", "left_out"]))


def _reason(place: str | None) -> str | None:
    """Without the path that stands before it."""
    return None if place is None else place.rpartition(": ")[2]
