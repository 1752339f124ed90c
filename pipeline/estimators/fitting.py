"""A fit: rows and labels into a dataset of temporary files, the stages of `labelgrove run` over it, the model back."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse
from threadpoolctl import threadpool_limits

from pipeline.config import RunConfig
from pipeline.connection.profile import load_profile
from pipeline.dataset import Dataset
from pipeline.estimators.errors import BadParameter, os_errors, raise_in_python
from pipeline.estimators.labels import Labelled
from pipeline.estimators.rows import described, is_far, spooled
from pipeline.estimators.temporary import owned_folder
from pipeline.ingest import ingest
from pipeline.stages.predict import beam_of
from pipeline.training_only import Trained, pool_of, train_only
from tasks.cache import ROWS
from tasks.errors import LabelgroveError
from tasks.held import holding
from tasks.models.folder import SavedModel, load_model

MEMORY_FILES = Path("/dev/shm")  # on Linux: files that no disk has to hold
SMALL_BYTES = 32 << 20  # of rows whose dataset may lie there
DATASET = "dataset.zarr"
PLACE_HINT = "folder=... names a folder for temporary files, else TMPDIR of the environment: one that can be written"


@dataclass(frozen=True)
class Fit:
    """What is fitted, and where.

    config     of one learner, or of encodings alone; its section's name is in messages
    labels     of the rows; taxonomy: over their classes, as ingest takes it
    validation share of the rows by which a learner chooses
    scheduler  as `labelgrove run --scheduler` takes it; folder: for temporary files, seen by all workers
    """

    config: RunConfig
    labels: Labelled
    taxonomy: Mapping[str, Any] | None = None
    validation: float = 0.0
    scheduler: str = "serial"
    folder: str | None = None
    section: str = field(default="")


@dataclass(frozen=True)
class Fitted:
    """A fitted model in memory, and what its step said of it.

    digest  of the dataset that it was fitted on; n_validation: its rows by which the learner chose
    """

    saved: SavedModel
    results: dict[str, Any]
    dataset: str
    n_validation: int


def fit_model(asked: Fit, rows: Any) -> Fitted:
    """Fit the one learner of a config.

    rows  a NumPy array, a SciPy matrix, or a zarr or Dask array
    Raises BadParameter and BadRows, which are ValueErrors, and the errors of clusters and memory as they are, those of
    the disk as FileAccess and DiskFull.
    """
    with fitted(asked, rows) as (trained, dataset):
        learner = asked.config.train[0]
        # As a run publishes it: no step of training knows the beam.
        saved = load_model(trained.model(learner.name)).searching(beam_of(learner))
        told = {**saved.header["provenance"], "dataset_name": described(rows, dataset.n_rows)}  # not a temporary file's
        saved = replace(saved, folder="", header={**saved.header, "provenance": told})
        return Fitted(saved, trained.results(learner.name), dataset.digest, dataset.split_counts["validation"])


@contextmanager
def fitted(asked: Fit, rows: Any) -> Iterator[tuple[Trained, Dataset]]:
    """What the stages have made, in temporary files that are gone after the block."""
    # One BLAS thread, as workers have: products differ in their last bits with the number of threads.
    with _named_errors(asked), temporary(asked, rows) as place, threadpool_limits(1):
        profile = load_profile(None, scheduler=asked.scheduler)
        near = asked.scheduler == "serial" and not is_far(rows)  # this process has the rows and does the work
        try:
            source = spooled(rows, place) if is_far(rows) else rows
            with _place(place / DATASET, near) as there:
                dataset = _dataset(asked, source, there)
                with pool_of(profile, place, dataset) as pool:
                    yield train_only(asked.config, dataset, pool, place), dataset
        finally:
            ROWS.clear()


@contextmanager
def _named_errors(asked: Fit) -> Iterator[None]:
    with os_errors(asked.folder or "temporary files", PLACE_HINT):
        try:
            yield
        except LabelgroveError as error:
            raise_in_python(error, asked.section)


@contextmanager
def _place(place: Path, near: bool) -> Iterator[Path]:
    """Where the dataset is: in files, or held by this process, where these rows stay as they are."""
    if not near:
        yield place
        return
    place.mkdir()  # for what else belongs to it
    with holding(str(place)):
        yield place


def _dataset(asked: Fit, source: Any, place: Path) -> Dataset:
    """The dataset that `labelgrove ingest` makes of the same rows, labels and seed."""
    classes = [{"id": c, "name": name} for c, name in enumerate(asked.labels.names)]
    taxonomy = None if asked.taxonomy is None else dict(asked.taxonomy)
    return ingest(
        source,
        place,
        labels=asked.labels.codes,
        classes=classes,
        taxonomy=taxonomy,
        validation=asked.validation,
        test=0.0,
        seed=asked.config.seed,
    )


@contextmanager
def temporary(asked: Fit, rows: Any) -> Iterator[Path]:
    """A folder for the files of a fit: in memory where they are few, unless another folder is asked for.

    What fits that were killed have left in these places is removed first.
    """
    base = asked.folder
    if base is not None and not (isinstance(base, str | os.PathLike) and os.path.isdir(base)):
        raise BadParameter(f"folder = {base!r}: there is no such folder", "folder", "make it, or leave folder away")
    if base is None and _is_small(rows, len(asked.labels.classes)) and asked.scheduler == "serial" and _has_room():
        base = str(MEMORY_FILES)
    with owned_folder(os.fspath(base or tempfile.gettempdir()), [str(MEMORY_FILES), *_usual()]) as folder:
        yield folder


def _usual() -> list[str]:
    """The system's folder of temporary files, if it has one that can be written."""
    try:
        return [tempfile.gettempdir()]
    except OSError:
        return []


def _is_small(rows: Any, n_classes: int) -> bool:
    """Whether rows and a model of them take little room."""
    if is_far(rows):
        return False
    nbytes = rows.data.nbytes + rows.indices.nbytes if scipy.sparse.issparse(rows) else rows.nbytes
    return bool(nbytes <= SMALL_BYTES and 4 * rows.shape[1] * n_classes <= SMALL_BYTES)


def _has_room() -> bool:
    try:
        return shutil.disk_usage(MEMORY_FILES).free > 64 * SMALL_BYTES
    except OSError:
        return False


def unlabelled(n_rows: int) -> Labelled:
    """Labels for a dataset of which only rows are wanted: a dataset has classes."""
    return Labelled(np.array(["0", "1"]), np.arange(n_rows, dtype=np.int64) % 2)


def sections(learner: Mapping[str, Any], encodings: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The learner's section, reading the last of the encodings."""
    return {**learner, "rows": encodings[-1]["name"]} if encodings else dict(learner)
