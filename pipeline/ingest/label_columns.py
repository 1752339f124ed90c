"""Labels in a column of a Parquet file, or in an array or column of an HDF5, AnnData or zarr file."""

from __future__ import annotations

from pathlib import Path

from pipeline.ingest.files import refuse_unsafe
from pipeline.ingest.labels import Labels

ENDINGS = (".parquet", ".pq", ".h5", ".hdf5", ".h5ad")


def holds_columns(path: Path) -> bool:
    return path.suffix.lower() in ENDINGS or path.is_dir()


def labels_in(path: Path, name: str | None) -> Labels:
    """The labels called `name`; it may be left out of a Parquet file with one column that can be labels."""
    from pipeline.ingest.hdf5 import H5File  # libraries that take long to load come in when they are needed
    from pipeline.ingest.named_arrays import named_labels
    from pipeline.ingest.parquet import parquet_labels
    from pipeline.ingest.zarr_folder import ZarrFolder

    if not path.is_dir():
        refuse_unsafe(path)
    if path.suffix.lower() in (".parquet", ".pq"):
        return parquet_labels(path, name)
    with (ZarrFolder if path.is_dir() else H5File)(path) as container:
        return named_labels(container, name)
