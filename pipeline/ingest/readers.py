"""The reader of each format: from files to a source of rows.

Labels that stand in the same file are read with them, where they are wanted. Each reader is a function of the files of
one source and of how they are to be read.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from pipeline.ingest.errors import UnknownInput
from pipeline.ingest.npy import open_npy
from pipeline.ingest.npz import open_npz
from pipeline.ingest.raw import open_raw
from pipeline.ingest.source import Source
from pipeline.ingest.stream import Job

Reader = Callable[[Sequence[Path], Job], Source]


def _parquet(paths: Sequence[Path], job: Job) -> Source:
    from pipeline.ingest.parquet import open_parquet  # libraries that take long to load come in when they are needed

    return open_parquet(paths, job)


def _hdf5(paths: Sequence[Path], job: Job) -> Source:
    from pipeline.ingest.hdf5 import open_hdf5

    return open_hdf5(paths, job)


def _zarr(paths: Sequence[Path], job: Job) -> Source:
    from pipeline.ingest.zarr_folder import open_zarr

    return open_zarr(paths, job)


def _webdataset(paths: Sequence[Path], job: Job) -> Source:
    from pipeline.ingest.webdataset import open_webdataset

    return open_webdataset(paths, job)


def _anndata(paths: Sequence[Path], job: Job) -> Source:
    return (_zarr if paths[0].is_dir() else _hdf5)(paths, job)


def _images(paths: Sequence[Path], job: Job) -> Source:
    from pipeline.ingest.images import named_images, open_images

    del job
    if len(paths) == 1 and paths[0].is_dir():
        return open_images(paths[0])
    folders = [path for path in paths if path.is_dir()]
    if folders:
        hint = "give one folder, with a sub-folder for each class, or the images themselves"
        raise UnknownInput("images are read from one folder", str(folders[-1]), hint)
    return named_images(paths)


READERS: dict[str, Reader] = {
    "images": _images,
    "npy": lambda paths, job: open_npy(paths, job.folder),
    "npz": open_npz,
    "parquet": _parquet,
    "hdf5": _hdf5,
    "zarr": _zarr,
    "anndata": _anndata,
    "webdataset": _webdataset,
    "raw": open_raw,
}
LOCATED = {"npz", "parquet", "hdf5", "zarr", "anndata", "webdataset"}  # formats in which rows and labels have places
SHAPED = {"raw"}  # formats that do not say their shape
